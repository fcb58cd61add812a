"""Depths, evidence, letters that light up, origins and the tour, in a real browser."""

import re

from playwright.sync_api import expect


def box(page, title: str):
    return page.get_by_role("treeitem", name=re.compile(rf"^{re.escape(title)}\b"))


def subject(page):
    return page.get_by_test_id("subject")


def card(page):
    return page.get_by_role("group", name=re.compile("^Guided tour"))


def test_the_depth_of_the_text_is_chosen_kept_by_the_keyboard_and_in_the_link(visit):
    page = visit("?select=kda_delta_rule")
    depths = page.get_by_role("group", name="Depth of the text")
    overview = page.get_by_role("tabpanel", name="Overview")
    expect(overview).to_contain_text("An online learner per head")
    depths.get_by_role("button", name="Derivation").click()
    expect(overview).to_contain_text("A step of least squares.")
    expect(overview.locator(".derivation .equation svg").first).to_be_visible()
    expect(depths.get_by_role("button", name="Derivation")).to_be_focused()
    expect(page).to_have_url(re.compile("select=kda_delta_rule&depth=derivation"))
    depths.get_by_role("button", name="In a line").click()
    expect(overview).not_to_contain_text("Evidence")
    page.reload()
    page.wait_for_selector("html.live")
    expect(depths.get_by_role("button", name="In a line")).to_have_attribute("aria-pressed", "true")


def test_a_letter_lights_its_box_or_the_closed_group_around_it(visit):
    page = visit("?select=kda_delta_rule&open=decoder_layer,kda")
    row = page.get_by_role("row", name=re.compile("log decay per key channel"))
    row.hover()
    expect(box(page, "Decay gate")).to_have_class(re.compile(r"\blit\b"))
    page.mouse.move(400, 400)
    expect(page.locator(".node.lit")).to_have_count(0)
    row.get_by_role("link", name="Decay gate").focus()
    expect(box(page, "Decay gate")).to_have_class(re.compile(r"\blit\b"))
    closed = visit("?select=moe_experts&open=decoder_layer")
    closed.get_by_role("row", name=re.compile("latent of the token")).hover()
    expect(box(closed, "LatentMoE")).to_have_class(re.compile(r"\blit\b"))


def test_a_letter_leads_to_its_lines_of_code(visit):
    page = visit("?select=kda_decay")
    page.get_by_role("row", name=re.compile("log slope per head")).get_by_role("link", name="code").click()
    expect(page.get_by_role("tabpanel", name="Code")).to_be_visible()
    lines = page.locator("#about-code .line.lit")
    expect(lines.first).to_contain_text("A_log")
    expect(lines.first).to_be_in_viewport()
    page.locator(".letters button").filter(has=page.locator('[data-tex="b"]')).click()
    expect(page.locator("#about-code .line.lit").first).to_contain_text("dt_bias")


def test_a_number_says_where_it_comes_from(visit):
    page = visit()
    size = page.get_by_label("Size of the model")
    size.get_by_text("104.2B", exact=True).click()
    expect(size.get_by_text("The LM head is counted.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(size.get_by_text("The LM head is counted.")).to_be_hidden()
    facts = page.get_by_role("group", name="Facts of the model")
    facts.get_by_text("27,648 bytes").click()
    expect(facts).to_contain_text("= 24 × (512 + 64) × 2")
    expect(facts.get_by_text("= 24 × (512 + 64) × 2")).to_be_visible()


def test_sources_are_pinned_and_say_how_sure(visit):
    page = visit("?select=mla_shared_key")
    link = page.get_by_role("link", name="modeling_kimi_linear.py 396").first
    expect(link).to_have_attribute("href", re.compile(r"/f831ab66814297da540d832a5235f8e904f29d06/.*#L396$"))
    expect(page.get_by_text("checked a second, independent way")).to_be_visible()


def test_the_tour_walks_by_button_and_arrow_keys_and_escape_leaves_it(visit):
    page = visit()
    page.get_by_role("button", name="Tour", exact=True).click()
    expect(card(page)).to_contain_text("1 of 16")
    expect(card(page)).to_be_focused()
    expect(subject(page)).to_have_text("Token embedding")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(card(page)).to_contain_text("3 of 16")
    expect(subject(page)).to_have_text("Kimi Delta Attention")
    expect(page).to_have_url(re.compile("select=kda&.*layer=1.*tour=3"))
    card(page).get_by_role("button", name="Next").click()
    expect(card(page)).to_contain_text("4 of 16")
    expect(card(page).get_by_role("button", name="Next")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(card(page)).to_contain_text("3 of 16")
    page.keyboard.press("Escape")
    expect(card(page)).to_have_count(0)
    expect(page.get_by_role("button", name="Tour", exact=True)).to_be_focused()
    expect(page).not_to_have_url(re.compile("tour="))
    expect(subject(page)).to_have_text("Kimi Delta Attention")
    expect(page).to_have_url(re.compile("layer=1"))


def test_a_link_opens_a_stop_and_its_box_is_in_sight(visit):
    page = visit("?tour=12")
    expect(card(page)).to_contain_text("91 and 92")
    expect(subject(page)).to_have_text("Gated MLA")
    expect(page.get_by_label("Where this is")).to_contain_text("layer 92")
    expect(box(page, "Gated MLA")).to_be_in_viewport()
    shown, below = box(page, "Gated MLA").bounding_box(), card(page).bounding_box()
    assert shown["y"] + 30 >= below["y"] + below["height"]


def test_back_returns_to_the_stop_before(visit):
    page = visit("?tour=5&select=kda_decay&open=decoder_layer,kda&layer=1")
    card(page).get_by_role("button", name="Next").click()
    expect(card(page)).to_contain_text("6 of 16")
    page.go_back()
    expect(card(page)).to_contain_text("5 of 16")
    expect(subject(page)).to_have_text("Decay gate")


def test_the_tour_fits_a_phone_and_keeps_the_details_away(visit, phone):
    page = visit("?tour=9", phone)
    expect(card(page)).to_be_visible()
    expect(page.get_by_role("complementary", name="Details")).to_be_hidden()
    card(page).get_by_role("button", name="Next").click()
    expect(card(page)).to_contain_text("10 of 16")
    expect(page.get_by_role("complementary", name="Details")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_after_a_run_letters_lead_to_live_values(visit):
    page = visit("?select=kda_delta_rule&prompt=ab")
    row = page.get_by_role("row", name=re.compile("log decay per key channel"))
    row.get_by_role("link", name="live").click(timeout=30_000)
    expect(subject(page)).to_have_text("Decay gate")
    expect(page.get_by_role("tabpanel", name="Live")).to_be_visible()


def test_a_model_says_what_it_is_and_its_card_opens_from_this_server(visit):
    page = visit("?model=k3-recall")
    about = page.get_by_test_id("about-model")
    expect(about).to_contain_text("held short on purpose")
    with page.expect_popup() as card:
        about.get_by_role("link", name="The card of this model").click()
    expect(card.value.get_by_role("heading", name="k3-recall")).to_be_visible()
    card.value.get_by_role("link", name="k3-tiny").click()
    expect(card.value.get_by_role("heading", name="k3-tiny")).to_be_visible()
