"""NaN in a real browser: words under the pointer, in the lists and in the charts, and no bars."""

import re
import shutil

import pytest
from bad_models import PROMPT, bad_model
from playwright.sync_api import expect

from k3scope.model import save_pretrained
from k3scope.model.presets import TRAINED

PATIENT = 60_000  # ms; a first run loads the model
TEXT = PROMPT.replace(" ", "+")
TIPS = """() => {
  const inside = (root) => [...root.querySelectorAll("*")].flatMap((el) => [
    ...(/tooltip/i.test(el.className) ? [(el.shadowRoot ?? el).textContent] : []),
    ...(el.shadowRoot ? inside(el.shadowRoot) : [])])
  return inside(document).join(" ").replace(/\\s+/g, " ")
}"""


@pytest.fixture(scope="module")
def url(served, tmp_path_factory):
    """A server that has a model with NaN besides its own."""
    folder = tmp_path_factory.mktemp("broken")
    save_pretrained(bad_model("KDA query"), folder / "model")
    shutil.copy(TRAINED["k3-tiny"] / "tokenizer.json", folder / "model")
    with served(folder, "--model", f"broken={folder / 'model'}") as server:
        yield server.address


def tip_at(page, figure: int, across: float, down: float) -> str:
    """What the pointer says at a place of a figure, in parts of its width and height."""
    box = page.locator(".bk-Figure").nth(figure).bounding_box()
    for step in (0, 2):
        page.mouse.move(box["x"] + box["width"] * across + step, box["y"] + box["height"] * down)
        page.wait_for_timeout(200)
    page.wait_for_function(f"({TIPS})().includes('weight')")
    return page.evaluate(TIPS)


def test_the_pointer_says_what_a_map_has_not_read_and_where_in_a_mosaic_it_is(visit):
    page = visit(f"?with=k3-random&view=lab&lab=attention&prompt={TEXT}")
    heading = page.get_by_role("heading", name=re.compile("^Entropy of attention"))
    expect(heading).to_be_visible(timeout=PATIENT)
    page.wait_for_timeout(1500)  # until the last plot has been drawn
    mosaic = tip_at(page, 0, 0.25, 0.15)
    assert re.search(r"head: \d+ row, reads: \d .*column, is read: \d .*weight: not read", mosaic)
    assert "weight: not read" in tip_at(page, 1, 0.8, 0.2)
    assert re.search(r"weight: 0\.\d+", tip_at(page, 1, 0.3, 0.6))


def test_a_model_with_nan_has_no_number_where_there_is_none(visit):
    page = visit(f"?model=broken&with=broken&view=lab&prompt={TEXT}")
    lab = page.get_by_role("tabpanel", name="Lab")
    expect(lab.get_by_text("no token is likelier").first).to_be_visible(timeout=PATIENT)
    chips = lab.get_by_role("group", name="Tokens with their probability").get_by_role("button")
    assert chips.nth(3).inner_text().split("\n")[-1] == "not a number"
    assert "<0.1%" not in lab.inner_text()
    lab.get_by_role("tab", name="Routing").click()
    expect(lab.get_by_text("not counted").first).to_be_visible(timeout=PATIENT)
    page.goto(page.url.replace("view=lab", "select=moe_router&tab=live&layer=4"))
    live = page.get_by_role("tabpanel", name="Live")
    expect(live.get_by_text("no expert is chosen").first).to_be_visible(timeout=PATIENT)
    assert live.locator(".bar rect:not(.hit)").count() == 0
    assert live.locator(".bar title").first.text_content() == "expert 0: not a number"
    expect(page.get_by_text("no token is likelier").first).to_be_visible()
