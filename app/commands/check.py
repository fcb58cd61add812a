"""Check the descriptions of the blocks against the live model."""

from diagrams import check


def arguments(parser) -> None:
    parser.add_argument(
        "models", nargs="*", default=["k3-random", "kimi-k3"], help="presets to check against"
    )


def run(options) -> None:
    """Print one line per model; ValueError lists what does not match."""
    for name in options.models:
        problems = check.problems(name)
        if problems:
            raise ValueError(f"{name}: {len(problems)} descriptions do not match\n  " + "\n  ".join(problems))
        print(f"{name}: {check.blocks_checked()} blocks match the live model")
