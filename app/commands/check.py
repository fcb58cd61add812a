"""Check the descriptions of the blocks against the live model."""

from k3scope.model.presets import DRAWN


def arguments(parser) -> None:
    parser.add_argument("models", nargs="*", default=list(DRAWN), help="presets to check against")


def run(options) -> None:
    """Print one line per model; ValueError lists what does not match."""
    from k3scope.diagrams.facts import check
    from k3scope.diagrams.facts.block_facts import Facts

    for name in options.models:
        facts = Facts.of(name)
        problems = check.problems(facts)
        if problems:
            raise ValueError(f"{name}: {len(problems)} descriptions do not match\n  " + "\n  ".join(problems))
        print(f"{name}: {len(facts.blocks)} blocks match the live model")
