"""Every layer by itself, search, the step of the shapes and the camera, in a real browser."""

import re

import pytest
from playwright.sync_api import expect


def box(page, title: str):
    return page.get_by_role("treeitem", name=re.compile(rf"^{re.escape(title)}"))


def subject(page):
    return page.get_by_test_id("subject")


def place(page, title: str) -> dict:
    """Where a box stands once it no longer moves."""
    before = None
    while (now := box(page, title).bounding_box()) != before:
        before = now
        page.wait_for_timeout(80)
    return now


def test_a_layer_is_drawn_with_its_own_variants_only(visit):
    page = visit("?layer=42")
    expect(box(page, "Layer 42 · KDA + MoE")).to_be_visible()
    expect(box(page, "Kimi Delta Attention")).to_have_count(1)
    expect(box(page, "Gated MLA")).to_have_count(0)
    expect(box(page, "Dense FFN")).to_have_count(0)
    expect(box(page, "AttnRes mix, attention, softmax over 5 candidates")).to_be_visible()
    expect(subject(page)).to_have_text("Layer 42 · KDA + MoE")
    expect(page).to_have_title("layer 42 · Kimi K3 · k3scope")


def test_the_strip_is_walked_by_arrows_and_numbers_and_left_by_escape(visit):
    page = visit()
    page.get_by_role("button", name="layer 0, KDA + dense FFN").focus()
    page.keyboard.type("42")
    expect(page).to_have_url(re.compile(r"\?layer=42&v=1$"))
    expect(box(page, "Layer 42 · KDA + MoE")).to_be_visible()
    expect(page.get_by_role("button", name="layer 42, ")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(box(page, "Layer 43 · MLA + MoE")).to_be_visible()
    page.keyboard.press("End")
    expect(page).to_have_url(re.compile(r"\?layer=92&v=1$"))
    expect(page.locator("#says")).to_have_text("layer 92, MLA + MoE, AttnRes block 8 of 8")
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("layer"))
    expect(box(page, "Decoder layer")).to_be_visible()


def test_of_many_layers_in_a_row_the_last_one_is_drawn(visit):
    page = visit("?layer=0")
    page.get_by_role("button", name="layer 0, KDA + dense FFN").focus()
    for _ in range(16):
        page.keyboard.press("ArrowDown")
        page.wait_for_timeout(90)
    expect(box(page, "Layer 16 · KDA + MoE")).to_be_visible()
    expect(subject(page)).to_have_text("Layer 16 · KDA + MoE")
    expect(page).to_have_url(re.compile(r"\?layer=16&v=1$"))


def test_all_layers_come_back_with_a_button(visit):
    page = visit("?layer=92")
    page.get_by_role("button", name="All layers", exact=True).click()
    expect(box(page, "Gated MLA")).to_be_visible()
    expect(box(page, "Kimi Delta Attention")).to_be_visible()


def test_the_selection_moves_to_what_stands_in_its_place(visit):
    page = visit("?layer=42&select=kda_decay")
    expect(page.get_by_label("Where this is")).to_contain_text("layer 42")
    page.get_by_role("button", name="layer 43, ").click()
    expect(subject(page)).to_have_text("Gated MLA")
    expect(page).to_have_url(re.compile(r"\?select=mla&layer=43&v=1$"))


def test_search_finds_a_tensor_opens_its_groups_and_shows_it(visit):
    page = visit("?open=")
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Search blocks, tensors, symbols")
    expect(field).to_be_focused()
    page.keyboard.type("q_b_proj")
    hit = page.get_by_role("option", name=re.compile("^Query up-projection"))
    expect(hit).to_have_attribute("aria-selected", "true")
    expect(hit).to_contain_text("Decoder layer › Gated MLA")
    page.keyboard.press("Enter")
    expect(subject(page)).to_have_text("Query up-projection")
    expect(page.get_by_role("listbox", name="Found")).to_be_hidden()
    found, stage = place(page, "Query up-projection"), page.get_by_role("tree").bounding_box()
    assert stage["y"] <= found["y"] <= stage["y"] + stage["height"]


def test_search_says_when_nothing_is_found_and_closes(visit):
    page = visit()
    field = page.get_by_role("combobox", name="Search blocks, tensors, symbols")
    field.fill("<img src=x onerror=alert(1)>")
    expect(page.get_by_role("listbox", name="Found")).to_contain_text("Nothing of this model speaks of")
    assert page.locator("img").count() == 0
    field.press("Escape")
    expect(page.get_by_role("listbox", name="Found")).to_be_hidden()


def test_shapes_follow_the_step(visit):
    page = visit()
    tokens = page.get_by_label("T, number of tokens")
    tokens.fill("4096")
    tokens.press("Enter")
    expect(page).to_have_url(re.compile(r"\?T=4096&v=1$"))
    expect(page.get_by_text("[1, 4096, 7168]").first).to_be_attached()
    page.get_by_role("button", name="Decode").click()
    expect(page.get_by_text("[1, 1, 7168]").first).to_be_attached()
    expect(page.get_by_role("button", name="Decode")).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile(r"\?phase=decode&T=4096&v=1$"))


@pytest.mark.parametrize("wrong", ["0", "-3", "many", "1048577", ""])
def test_a_size_that_cannot_be_is_refused_with_a_sentence(visit, wrong):
    page = visit()
    tokens = page.get_by_label("T, number of tokens")
    tokens.fill(wrong)
    tokens.press("Tab")
    expect(page.locator(".problems")).to_contain_text("could not be read")
    expect(tokens).to_have_value("17")


def test_an_axis_lights_up_wherever_it_is_named(visit):
    page = visit("?select=kda_decay")
    name = page.get_by_role("table").locator("[data-axis=kda_heads]").first
    name.focus()
    assert page.get_by_role("complementary").locator(".axis.lit").count() >= 1
    lit = page.locator(".label .axis.lit")
    assert lit.count() > 4
    assert set(lit.all_text_contents()) >= {"kda_heads", "96"}
    name.blur()
    expect(lit).to_have_count(0)


def test_the_camera_is_in_the_link_and_comes_back(visit, new_context):
    page = visit()
    stage = page.get_by_role("tree").bounding_box()
    page.mouse.move(stage["x"] + 400, stage["y"] + 300)
    page.mouse.wheel(0, 500)
    expect(page).to_have_url(re.compile(r"\?camera=-?\d+,-?\d+,[\d.]+&v=1$"))
    there = place(page, "Kimi Delta Attention")
    again = visit(page.url.partition("/?")[2].join(["?", ""]), new_context())
    here = place(again, "Kimi Delta Attention")
    assert abs(here["x"] - there["x"]) < 4
    assert abs(here["y"] - there["y"]) < 4
    again.set_viewport_size({"width": 1440, "height": 800})
    again.wait_for_timeout(200)
    assert (
        abs(place(again, "Kimi Delta Attention")["y"] - (here["y"] - 50)) < 1
    )  # the middle stays the middle


@pytest.mark.parametrize("layer", ["", "&layer=1"])
def test_beside_the_rows_of_a_run_the_drawing_is_whole_to_its_right_end(visit, layer):
    page = visit(f"?model=k3-tiny&with=k3-tiny&prompt=abc{layer}")
    expect(page.locator("#strip .heads")).to_be_attached(timeout=60_000)
    drawing, last = page.get_by_role("tree").bounding_box(), place(page, "Block store")
    assert last["width"] > 80
    assert last["x"] + last["width"] <= drawing["x"] + drawing["width"]


def test_beside_the_rows_of_a_run_the_two_bars_below_the_drawing_stand_apart(visit):
    page = visit("?model=k3-tiny&with=k3-tiny&prompt=abc")
    expect(page.locator("#strip .heads")).to_be_attached(timeout=60_000)
    for width in (1280, 1160, 1100, 1024, 960, 820):
        page.set_viewport_size({"width": width, "height": 768})
        place(page, "Block store")
        left, right = page.locator("#controls").bounding_box(), page.locator(".k3d .bar").bounding_box()
        beside = left["x"] + left["width"] <= right["x"]
        assert beside or left["y"] + left["height"] <= right["y"], width
        assert left["x"] + left["width"] <= page.locator("#stage").bounding_box()["width"], width


def test_all_groups_open_and_close_at_once(visit):
    page = visit("?layer=3")
    page.get_by_role("button", name="Open every group").click()
    expect(box(page, "Query up-projection")).to_be_visible()
    page.get_by_role("button", name="Close every group").click()
    expect(page.get_by_role("treeitem", name=re.compile("^Layer 3 · MLA"))).to_have_attribute(
        "aria-expanded", "false"
    )
    expect(page).to_have_url(re.compile(r"\?open=&layer=3&v=1$"))


def test_on_a_phone_the_strip_the_step_and_search_are_there(visit, phone):
    page = visit("?layer=0", phone)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    expect(page.get_by_label("T, number of tokens")).to_be_visible()
    page.get_by_role("combobox", name="Search blocks, tensors, symbols").fill("router")
    expect(page.get_by_role("listbox", name="Found").get_by_role("option").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_after_a_run_the_strip_has_its_values_on_the_layers_of_the_model_that_ran(visit):
    page = visit("?model=k3-random&with=k3-random&prompt=abc")
    cell = page.get_by_role("button", name=re.compile("^layer 3, MLA"))
    expect(cell).to_have_accessible_name(re.compile(r"sum [\d.e-]+; experts [\d.]+ bits$"), timeout=60_000)
    expect(page.locator(".heads")).to_have_text("sumexpertsmemory")
    page.get_by_label("Model on show").select_option("kimi-k3")
    expect(page.locator("#layers button")).to_have_count(93)
    expect(page.locator("#layers b")).to_have_count(0)
    page.get_by_role("link", name="run: k3-random").click()
    expect(page.locator("#layers .heads")).to_be_visible()


def test_on_a_phone_the_strip_scrolls_to_the_layer_of_a_link(visit, phone):
    page = visit("?layer=80", phone)
    cell = page.get_by_role("button", name=re.compile("^layer 80,"))
    expect(cell).to_be_in_viewport(ratio=1)


def test_arrows_say_their_types_on_request(visit):
    page = visit("?layer=42")
    labels = page.locator("svg.tree text").filter(has_text=re.compile(r"\] f32"))
    expect(labels).to_have_count(0)
    page.get_by_role("button", name="dtype").click()
    expect(labels.first).to_be_visible()
    expect(page).to_have_url(re.compile(r"types=on"))
    page.get_by_role("button", name="dtype").click()
    expect(labels).to_have_count(0)
    expect(page).not_to_have_url(re.compile("types"))
