"""The Lab in a real browser: its views, the token in focus, files, interventions and links."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from k3scope.model.presets import TRAINED

VIEWS = {
    "Tokens": ("Probability of the next token",),
    "Routing": ("Tokens per expert", "Experts of each token, layer 1", "Margin of the cut"),
    "Memory": ("Half-life of the memory", "Size of the memory, layer 0", "Read-out of layer 0, head 0"),
    "Attention": ("Attention of layer 3, all heads", "Attention of layer 3, head 0"),
    "Depth": ("Where each mix reads", "Who made the logit", "Size of the running sum"),
}
PATIENT = 60_000  # ms; a first run loads the model


def lab(page):
    return page.get_by_role("tabpanel", name="Lab")


def shown(page, *titles: str) -> None:
    for title in titles:
        heading = lab(page).get_by_role("heading", name=re.compile("^" + re.escape(title)))
        expect(heading.first).to_be_visible(timeout=PATIENT)


def open_view(page, name: str) -> None:
    lab(page).get_by_role("tab", name=name).click()
    shown(page, *VIEWS[name])


def test_every_view_opens_and_follows_the_token_layer_and_head(visit):
    page = visit("?with=k3-random&view=lab&prompt=six%20views")
    shown(page, *VIEWS["Tokens"])
    for name in list(VIEWS)[1:]:
        open_view(page, name)
        expect(page).to_have_url(re.compile(f"lab={name.lower()}"))
    open_view(page, "Memory")
    lab(page).get_by_label("Layer", exact=True).select_option("4")
    lab(page).get_by_label("Head", exact=True).select_option("3")
    page.get_by_role("button", name="Show the tokens").click()
    page.get_by_role("group", name="Tokens of the prompt").get_by_role("button").nth(2).click()
    shown(page, "Memory of layer 4, head 3, after token 2", "Read-out of layer 4, head 3")
    expect(page).to_have_url(re.compile("lab=memory:4|lab=memory%3A4"))
    expect(page).to_have_url(re.compile("token=2&head=3"))
    expect(lab(page).get_by_text("random weights").locator("visible=true").first).to_be_visible()


@pytest.mark.parametrize("form", ["SVG", "CSV"])
def test_a_plot_is_saved_as_it_is_shown(visit, form):
    page = visit("?with=k3-random&view=lab&lab=routing&prompt=save%20me")
    shown(page, *VIEWS["Routing"])
    with page.expect_download(timeout=PATIENT) as download:
        lab(page).get_by_label("Save Tokens per expert").select_option(form)
    assert download.value.suggested_filename == f"k3-random-random-weights-tokens-per-expert.{form.lower()}"
    text = Path(download.value.path()).read_text()
    assert "<svg" in text if form == "SVG" else text.startswith("layer / expert,0,1")


def test_an_intervention_changes_the_run_and_its_link_brings_it_back(visit, browser):
    page = visit("?with=k3-random&view=lab&prompt=change%20me")
    shown(page, *VIEWS["Tokens"])
    lab(page).get_by_text("Change the pass").click()
    lab(page).get_by_label("What of the change").select_option("sublayer")
    lab(page).get_by_label("Layer of the change").select_option("3")
    lab(page).get_by_role("button", name="Add and run").click()
    report = lab(page).get_by_test_id("lab-difference")
    expect(report).to_contain_text("another likeliest next token", timeout=PATIENT)
    expect(report).to_contain_text("first layer that differs 3")
    expect(report).to_contain_text("this run less the run without changes")
    shown(page, "Probability of the next token, difference")
    expect(page).to_have_url(re.compile("do=.*against=plain"))
    context = browser.new_context()
    other = visit("?" + page.url.partition("?")[2], context)
    shown(other, "Probability of the next token, difference")
    expect(lab(other).get_by_test_id("lab-difference")).to_contain_text("first layer that differs 3")
    expect(
        lab(other).get_by_role("button", name="Remove: zero attention sublayer in layer 3")
    ).to_be_visible()
    context.close()
    lab(page).get_by_role("button", name="Undo").click()
    expect(report).to_have_count(0, timeout=PATIENT)
    expect(page).not_to_have_url(re.compile("do="))


def test_two_runs_are_compared_where_their_tokens_agree(visit):
    page = visit("?with=k3-random&view=lab&prompt=the%20first%20one")
    shown(page, *VIEWS["Tokens"])
    page.get_by_role("textbox", name="Prompt").fill("the second one")
    page.get_by_role("button", name="Run", exact=True).click()
    compare = lab(page).get_by_label("Compare with")
    expect(compare).to_contain_text("“the first one”", timeout=PATIENT)
    compare.select_option(label="“the first one”")
    expect(lab(page).get_by_test_id("lab-difference")).to_contain_text("tokens in common", timeout=PATIENT)
    shown(page, "Probability of the next token, difference")


ROOM = """(menu, text) => { // pixels that a text leaves in a menu beside the arrow
  const pen = document.createElement("canvas").getContext("2d"), style = getComputedStyle(menu)
  pen.font = style.font
  return menu.clientWidth - parseFloat(style.paddingLeft) - 22 - pen.measureText(text).width
}"""


def test_a_phone_holds_the_lab_without_scrolling_sideways(visit, phone):
    page = visit("?with=k3-random&view=lab&lab=attention&prompt=phone", phone)
    shown(page, *VIEWS["Attention"])
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    menu = page.get_by_role("combobox", name="Model that runs")
    assert all(menu.evaluate(ROOM, name) > 0 for name in TRAINED)


def test_on_a_phone_the_example_of_the_empty_lab_is_whole(visit, phone):
    page = visit("?view=lab", phone)
    box = lab(page).get_by_role("button", name="Run an example").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


BANDS = """() => Bokeh.documents.flatMap((doc) => [...doc._all_models.values()])
  .filter((model) => model.type === "BoxAnnotation" && model.visible)
  .map((band) => [band.left, band.right, band.top, band.bottom].filter(Number.isFinite))"""


def test_what_the_pointer_is_over_is_marked_in_the_other_plots_without_the_server(visit):
    page = visit("?with=k3-random&view=lab&lab=routing&prompt=linked%20hover")
    shown(page, *VIEWS["Routing"])
    page.wait_for_timeout(1500)  # until the last plot has been drawn
    sent, devtools = [], page.context.new_cdp_session(page)
    devtools.on("Network.webSocketFrameSent", lambda frame: sent.append(frame))
    devtools.send("Network.enable")
    lanes = lab(page).locator(".bk-Figure").nth(1)
    lanes.scroll_into_view_if_needed()
    box = lanes.bounding_box()
    assert page.evaluate(BANDS) == []
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 3)
    page.wait_for_function(f"({BANDS})().length >= 3")  # the expert in two plots, the token in two
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] - 40)
    page.wait_for_function(f"({BANDS})().length === 0")
    assert not sent
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 3)
    expect(page).to_have_url(re.compile("token="))
    assert sent


def test_the_run_goes_on_token_by_token_and_its_link_brings_it_back(visit, browser):
    page = visit("?with=k3-random&view=lab&prompt=go%20on")
    shown(page, *VIEWS["Tokens"])
    lab(page).get_by_role("button", name="Next token").click()
    said = lab(page).get_by_test_id("lab-added")
    expect(said).to_contain_text("1 token added", timeout=PATIENT)
    expect(said).to_contain_text("give the same logits up to")
    lab(page).get_by_role("button", name=re.compile("^Go on with")).nth(1).click()
    expect(said).to_contain_text("2 tokens added", timeout=PATIENT)
    lab(page).get_by_label("Tokens to add").fill("3")
    lab(page).get_by_label("Temperature").fill("0.8")
    lab(page).get_by_role("button", name="Generate").click()
    expect(said).to_contain_text("5 tokens added", timeout=PATIENT)
    expect(lab(page).locator(".chip.new")).to_have_count(5)
    expect(page).to_have_url(re.compile("more=[0-9]+,"))
    context = browser.new_context()
    other = visit("?" + page.url.partition("?")[2], context)
    expect(lab(other).get_by_test_id("lab-added")).to_contain_text("5 tokens added", timeout=PATIENT)
    context.close()
    lab(page).get_by_role("button", name="Take one back").click()
    expect(said).to_contain_text("4 tokens added", timeout=PATIENT)
    page.go_back()
    expect(said).to_contain_text("5 tokens added", timeout=PATIENT)


def test_the_picture_of_a_place_is_in_the_link(visit, browser):
    page = visit("?with=k3-random&view=lab&lab=routing&prompt=pictures")
    shown(page, *VIEWS["Routing"])
    lab(page).get_by_label("Picture").filter(has_text="Overlap of layers").select_option("Overlap of layers")
    shown(page, "Overlap of layers")
    expect(page).to_have_url(re.compile("plots=routing-overlap-of-layers"))
    context = browser.new_context()
    other = visit("?" + page.url.partition("?")[2], context)
    shown(other, "Overlap of layers")
    context.close()


def test_routes_are_forced_from_the_view_of_routing(visit):
    page = visit("?with=k3-random&view=lab&lab=routing&prompt=force%20123")
    shown(page, *VIEWS["Routing"])
    lab(page).get_by_text("Change the pass").click()
    expect(lab(page).get_by_label("What of the change")).to_have_value("routes")
    lab(page).get_by_label("Layer of the change").select_option("2")
    lab(page).get_by_label("3 experts of the change").fill("0, 1, 2")
    lab(page).get_by_label("Tokens of the change").fill("4")
    lab(page).get_by_role("button", name="Add and run").click()
    report = lab(page).get_by_test_id("lab-difference")
    expect(report).to_contain_text("experts that both chose", timeout=PATIENT)
    expect(lab(page).get_by_text("force routes in layer 2 at token 4 to 0, 1, 2")).to_be_visible()
