"""Options of the commands that run a prompt with interventions."""

from k3scope.model.interventions.intervention import Intervention, loads


def arguments(parser) -> None:
    parser.add_argument(
        "--intervention",
        "--change",
        dest="interventions",
        default="",
        metavar="JSON",
        help="interventions on the pass, a JSON list",
    )
    parser.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="NAME=PROMPT",
        help='a run to patch from, by the name that interventions use: {"do": "patch", "run": NAME, ...}',
    )


def interventions(options) -> tuple[Intervention, ...]:
    return loads(options.interventions)


def sources(options) -> dict[str, str]:
    """Prompts to patch from, by name. ValueError for one without a name."""
    prompts = {}
    for text in options.source:
        name, equals, prompt = text.partition("=")
        if not name or not equals:
            raise ValueError(f"--source {text!r}: expected NAME=PROMPT")
        prompts[name] = prompt
    return prompts
