"""The result of a run as the dock draws it: chips of the tokens, and the tokens that would come next."""

from k3scope.app.examples import example_of
from k3scope.app.model_cards import badge
from k3scope.app.page.kit.token_chip import chip
from k3scope.app.runs.run_result import RunResult

NO_NEXT = "The logits of the last token are not finite: no token is likelier than another."


def result_message(result: RunResult) -> dict:
    """chips, count (of all tokens), next, badge, and the caption of the example that the run is of.

    `no_next`: why there is no next token.
    """
    spec = result.spec
    example = example_of(spec.model, spec.prompt, spec.interventions)
    return {
        "caption": f"{example.name}: {example.caption}" if example else "",
        "chips": chips(result),
        "count": len(result.tokens),
        "next": [[*chip(token), round(probability, 6)] for token, probability in result.next],
        "no_next": "" if result.next else NO_NEXT,
        "badge": badge(spec.model),
    }


def chips(result: RunResult) -> list[list]:
    """[id, visible text, kind, first position, count of tokens, whether generated] of each chip.

    The rows of an image are one chip of many tokens: all have the placeholder's id, and thousands of chips
    alike would hide the text.
    """
    listed, position = [], 0
    image_rows = {image.start: len(image.tokens) for image in result.images}
    while position < len(result.tokens):
        token, count = result.tokens[position], image_rows.get(position, 1)
        drawn = _image_chip(token.id, count) if position in image_rows else chip(token)
        listed.append([*drawn, position, count, position >= result.first_generated])
        position += count
    return listed


def _image_chip(token_id: int, rows: int) -> list:
    return [token_id, f"image, {rows:,} row{'s' if rows > 1 else ''}", "image"]
