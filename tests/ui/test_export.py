"""The drawing leaves the page: as a file that is what the screen shows, and on paper."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image
from playwright.sync_api import expect

from k3scope.app.page.architecture.exported_file import MOST_PIXELS
from k3scope.diagrams.scene.diagram_file import DiagramFile
from k3scope.diagrams.spec.shapes import Step

VIEW = "?select=mla&open=decoder_layer,mla&layer=43&phase=decode&B=2"
SHOWN = DiagramFile(open=("decoder_layer", "mla"), layer=43, select="mla", step=Step(2, 17, "decode"))


def saved(page, form: str):
    page.get_by_label("Export the drawing").first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name=form).click()
    return download.value


@pytest.mark.parametrize("form", ["SVG", "PNG", "JSON"])
def test_a_file_is_the_drawing_on_the_screen(visit, form):
    page = visit(VIEW)
    file = saved(page, form)
    assert file.suggested_filename == f"kimi-k3-layer-43-mla.{form.lower()}"
    assert Path(file.path()).read_bytes() == SHOWN.encode(form.lower())
    expect(page.locator("#says")).to_have_text(f"{file.suggested_filename} saved")


def test_a_large_picture_says_that_it_is_on_its_way_and_can_be_cancelled(visit):
    page = visit("?open=everything")
    page.get_by_label("Export the drawing").first.click()
    page.get_by_role("button", name="PNG").click()
    state = page.locator("#export-state")
    expect(state).to_contain_text("The PNG is on its way")
    state.get_by_role("button", name="Cancel").click()
    expect(state).to_have_text(re.compile("Cancelled"))


def test_a_large_picture_has_fewer_pixels_and_says_so(visit):
    page = visit("?open=everything")
    file = saved(page, "PNG")
    with Image.open(file.path()) as picture:
        width, height = picture.size
    assert 0.98 * MOST_PIXELS < width * height <= 1.01 * MOST_PIXELS
    expect(page.locator("#says")).to_contain_text("instead of 2 pixels per unit")


def test_a_file_has_the_boxes_and_the_theme_of_the_screen(visit):
    page = visit(VIEW)
    page.get_by_role("button", name="Dark theme").click()
    boxes = page.get_by_role("treeitem").evaluate_all("items => items.map(item => item.dataset.id)")
    graph = json.loads(Path(saved(page, "JSON").path()).read_text(encoding="utf-8"))
    assert {node["id"] for node in graph["nodes"]} == set(boxes)
    assert (graph["theme"], graph["select"], graph["layer"]) == ("dark", "mla", 43)
    drawn = ElementTree.parse(saved(page, "SVG").path()).getroot()
    assert {group.get("data-id") for group in drawn.iter() if group.get("data-id")} == set(boxes)


def test_escape_closes_the_menu_and_keeps_the_layer(visit):
    page = visit(VIEW)
    menu = page.get_by_label("Export the drawing").first
    menu.press("Enter")
    expect(page.get_by_role("button", name="Print")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Print")).to_be_hidden()
    expect(menu).to_be_focused()
    expect(page).to_have_url(re.compile("layer=43"))


def test_on_paper_are_the_whole_drawing_and_the_details_and_nothing_else(visit):
    page = visit(VIEW)
    page.get_by_role("button", name="Dark theme").click()
    page.emulate_media(media="print")
    for gone in ("#top", "#dock", "#strip", "#controls", ".bar"):
        expect(page.locator(gone).first).to_be_hidden()
    expect(page.get_by_test_id("subject")).to_be_visible()
    tree = page.get_by_role("tree")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert "dark" not in page.locator("html").get_attribute("class").split()
    frame = tree.bounding_box()
    for title in ("Token ids", "Gated MLA", "Logits"):
        at = page.get_by_role("treeitem", name=title).first.bounding_box()
        assert frame["y"] <= at["y"]
        assert at["y"] + at["height"] <= frame["y"] + frame["height"] + 1, title
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tree.get_attribute("viewBox") is None
    assert "dark" in page.locator("html").get_attribute("class").split()
