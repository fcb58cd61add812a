"""Names of the views of a run and of their further plots: what can be asked for, without loading torch."""

# view -> plots beside its own picture; `observe.VIEWS` and `run_plots.PLOTS` hold what makes them
PLOT_NAMES = {
    "routing": ("margin", "entropy", "routed", "bias", "overlap", "load"),
    "kda": (
        "kept", "write", "gate", "state", "erased", "written", "change", "cosine", "matrix", "exchange",
    ),
    "attention": ("sink", "entropy", "itself", "gate", "own", "shared"),
    "depth": ("rms", "peak", "attribution", "token"),
    "lens": ("rank",),
}  # fmt: skip
