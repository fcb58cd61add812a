"""The page without a pointer: Tab comes to everything, and out again."""

import re

from playwright.sync_api import expect

FOCUSED = """() => {
  let at = document.activeElement
  while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement
  const box = at.getBoundingClientRect()
  const said = at.getAttribute("aria-label") || at.labels?.[0]?.textContent || at.textContent || at.title
  const across = box.width > 0 && box.right > 0 && box.left < innerWidth
  const seen = across && box.bottom > 0 && box.top < innerHeight
  return { tag: at.tagName, said: said.trim().replace(/\\s+/g, " "), seen }
}"""
REACHED = (
    "Skip to the diagram", "Model on show", "2.78T parameters", "Search blocks, tensors, symbols", "Tour",
    "Share", "Dark theme", "Architecture", "Leave layer 43", "All layers", "layer 43, MLA",
    "Key-value up-projection, 512", "Zoom in", "Prefill", "dtype", "B, number of sequences",
    "Open every group", "Export the drawing", "Width of the details", "Close details", "Overview",
    "Engineer", "config.json", "Prompt", "Run",
)  # fmt: skip


def walk(page, most: int = 140) -> list[dict]:
    """Every place that Tab stops at, from the first to the browser's own."""
    stops = []
    for _ in range(most):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUSED)
        if stop["tag"] == "BODY":
            return stops
        stops.append(stop)
    raise AssertionError(f"Tab never leaves the page; last at {stops[-3:]}")


def test_tab_comes_to_everything_and_out_again(visit):
    page = visit("?layer=43&select=mla_kv_up&open=decoder_layer,mla")
    expect(page.locator(".equation svg").first).to_be_visible()
    stops = walk(page)
    said = [stop["said"] for stop in stops]
    for name in REACHED:
        assert any(text.startswith(name) for text in said), (name, said)
    assert not [stop for stop in stops if not stop["said"]]
    assert not [stop for stop in stops if not stop["seen"]]
    for name in reversed(said):
        page.keyboard.press("Shift+Tab")
        assert page.evaluate(FOCUSED)["said"] == name


def test_a_box_of_the_drawing_has_a_name_a_shape_and_a_count(visit):
    page = visit("?layer=43&open=decoder_layer,mla")
    box = page.get_by_role("treeitem", name=re.compile("^Key-value up-projection"))
    expect(box).to_have_accessible_name(
        "Key-value up-projection, 512 to 96 x (128 + 128), 12,582,912 parameters"
    )
    expect(box).to_have_attribute("aria-level", "3")


def test_a_layer_a_group_and_a_block_are_chosen_by_keys_alone(visit):
    page = visit("?open=decoder_layer")
    page.locator("#layers [tabindex='0']").focus()
    page.keyboard.type("43")
    expect(page).to_have_url(re.compile("layer=43"))
    page.get_by_role("treeitem", name=re.compile("^Gated MLA")).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("treeitem", name=re.compile("^Query down-projection"))).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("select=mla_q_down"))
