"""One file per command of `k3scope`: `arguments` says what it takes, `run` does it.

What loads torch is imported inside `run`, so that `--help` and a typo are answered at once.
"""
