"""One file per command of `k3scope`."""
