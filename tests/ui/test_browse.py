"""What a visitor does with the page, in a real browser."""

import re

import pytest
from panel.tests.util import wait_until
from playwright.sync_api import expect

HOSTILE = "<img src=x onerror=alert(1)>"


def box(page, title: str):
    return page.get_by_role("treeitem", name=re.compile(rf"^{re.escape(title)}\b"))


def subject(page):
    return page.get_by_test_id("subject")


def test_the_first_page_shows_the_model_and_its_size(visit):
    page = visit()
    expect(page).to_have_title("Kimi K3 · k3scope")
    size = page.get_by_label("Size of the model")
    for text in ("2.78T parameters", "104.2B active per token", "93 layers 69 KDA + 24 MLA"):
        expect(size).to_contain_text(text)
    expect(box(page, "Token embedding")).to_be_visible()
    expect(subject(page)).to_have_text("Kimi K3")
    expect(page.get_by_test_id("parameters")).to_have_text("2,779,931,837,184")


def test_the_page_is_whole_before_its_scripts_run(url, context, guard):
    context.route("**/*.js*", lambda route: route.abort())
    page = guard.watch(context.new_page())
    page.goto(f"{url}?select=kda_decay")
    expect(page.get_by_label("Size of the model")).to_contain_text("2.78T")
    expect(subject(page)).to_have_text("Decay gate")
    guard.errors.clear()  # Bokeh is missing on purpose


def test_a_click_shows_what_a_block_is_and_has(visit):
    page = visit()
    box(page, "Decay gate").click()
    expect(subject(page)).to_have_text("Decay gate")
    expect(page.get_by_test_id("parameters")).to_have_text("172,692,096")
    expect(page).to_have_url(re.compile(r"\?select=kda_decay&v=1$"))
    page.get_by_role("tab", name="Parameters").click()
    panel = page.get_by_role("tabpanel", name="Parameters")
    expect(panel).to_contain_text("2,502,784")
    expect(panel).to_contain_text("f_a_proj.")
    page.get_by_role("tab", name="Code").click()
    code = page.get_by_role("region", name=re.compile("KimiDeltaAttention"))
    expect(code).to_contain_text("class KimiDeltaAttention(nn.Module):")
    expect(code.locator(".marked").first).to_contain_text("f_a_proj")


def test_a_formula_is_drawn_without_the_network(visit):
    page = visit("?select=kda_decay")
    equation = page.get_by_role("tabpanel", name="Overview").locator(".equation")
    expect(equation.locator("svg")).to_be_visible()
    assert equation.bounding_box()["height"] > 30


def test_the_keyboard_reaches_and_selects_a_block(visit):
    page = visit()
    box(page, "Token embedding").focus()
    page.keyboard.press("Enter")
    expect(subject(page)).to_have_text("Token embedding")
    expect(page.locator("#says")).to_have_text(re.compile("Token embedding, 1,174,405,120 parameters"))


def test_arrow_keys_walk_the_tabs(visit):
    page = visit()
    page.get_by_role("tab", name="Architecture").focus()
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="Compare")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Compare")).to_be_visible()
    expect(page.get_by_role("tabpanel", name="Architecture")).to_be_hidden()


def test_back_forward_and_refresh_restore_what_was_on_show(visit):
    page = visit()
    box(page, "Decay gate").click()
    expect(page).to_have_url(re.compile("select=kda_decay"))
    box(page, "Token embedding").click()
    expect(page).to_have_url(re.compile("select=token_embedding"))
    page.go_back()
    expect(subject(page)).to_have_text("Decay gate")
    page.go_back()
    expect(subject(page)).to_have_text("Kimi K3")
    page.go_forward()
    page.go_forward()
    expect(subject(page)).to_have_text("Token embedding")
    page.get_by_role("tab", name="Code").click()
    expect(page).to_have_url(re.compile(r"\?select=token_embedding&tab=code&v=1$"))
    page.reload()
    page.wait_for_selector("html.live")
    expect(subject(page)).to_have_text("Token embedding")
    expect(page.get_by_role("tabpanel", name="Code")).to_be_visible()


def test_a_block_chosen_again_after_back_is_in_the_address_again(visit):
    page = visit()
    for _ in range(2):
        box(page, "Decay gate").click()
        expect(page).to_have_url(re.compile("select=kda_decay"))
        page.go_back()
        expect(subject(page)).to_have_text("Kimi K3")


def test_a_group_that_was_closed_stays_closed_in_the_link(visit):
    page = visit("?open=decoder_layer")
    expect(box(page, "Kimi Delta Attention")).to_be_visible()
    expect(box(page, "Decay gate")).to_have_count(0)


def test_the_shared_link_brings_a_colleague_to_the_same_view(visit, new_context):
    page = visit("?model=k3-random&view=ledger&select=moe_router&layer=4&tab=params")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Share").click()
    expect(page.locator("#says")).to_have_text("Link copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    colleague = visit(copied.partition("/?")[2].join(["?", ""]), new_context())
    expect(subject(colleague)).to_have_text("Router")
    expect(colleague.get_by_label("Model on show")).to_have_value("k3-random")
    expect(colleague.get_by_role("tabpanel", name="Ledger")).to_be_visible()
    expect(colleague.get_by_role("tabpanel", name="Parameters")).to_be_visible()
    expect(colleague.get_by_label("Where this is")).to_contain_text("layer 4")


def test_a_layer_can_be_chosen_and_left(visit):
    page = visit()
    page.get_by_role("button", name="layer 3, MLA + MoE, AttnRes block 1 of 8").click()
    expect(page).to_have_url(re.compile(r"\?layer=3&v=1$"))
    expect(page.get_by_label("Where this is")).to_contain_text("layer 3")
    page.get_by_role("button", name="Leave layer 3").click()
    expect(page).not_to_have_url(re.compile("layer"))


def test_the_ledger_sums_to_the_total_and_its_rows_select(visit):
    page = visit("?view=ledger")
    expect(page.get_by_test_id("ledger-sum")).to_have_text("2,779,931,837,184")
    expect(page.get_by_test_id("ledger-difference")).to_have_text("0")
    page.get_by_role("row", name=re.compile("^LM head")).click()
    expect(subject(page)).to_have_text("LM head")
    expect(page).to_have_url(re.compile("view=ledger&select=lm_head"))


def test_the_ledger_reconciles_with_the_official_index_and_finds_tensors(visit):
    page = visit("?view=ledger")
    expect(page.get_by_test_id("ledger-sum-bytes")).to_have_text("1,560,860,324,864")
    expect(page.get_by_test_id("index-difference")).to_have_text("0")
    expect(page.get_by_test_id("index-difference-bytes")).to_have_text("0")
    page.get_by_label("Tensor name").fill("layers.92.block_sparse_moe.experts.895.w2")
    row = page.get_by_role("row", name=re.compile("weight_packed"))
    expect(row).to_contain_text("3584 × 1536")
    page.get_by_label("Tensor name").fill("no such tensor")
    expect(page.get_by_text("No tensor of this model has")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert any(line.startswith('"LM head","d*vocab",1174405120,1,1174405120,2348810240') for line in lines)


def test_another_model_can_be_drawn(visit):
    page = visit("?select=moe_router")
    page.get_by_label("Model on show").select_option("k3-random")
    expect(page.get_by_label("Size of the model")).to_contain_text("9 layers")
    expect(page.get_by_role("group", name="Layers").get_by_role("button")).to_have_count(9)
    expect(page).to_have_url(re.compile("model=k3-random&select=moe_router"))


def test_the_theme_follows_the_system_and_then_the_visitor(visit, new_context):
    page = visit("", new_context(color_scheme="dark"))
    button = page.get_by_role("button", name="Dark theme")
    expect(button).to_have_attribute("aria-pressed", "true")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.reload()
    page.wait_for_selector("html.live")
    expect(page.get_by_role("button", name="Dark theme")).to_have_attribute("aria-pressed", "false")


@pytest.mark.parametrize(
    "search", ["", "?view=ledger&select=kda_decay&tab=code", "?select=kda&layer=99&view=x"]
)
def test_a_phone_never_scrolls_sideways(visit, phone, search):
    page = visit(search, phone)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_on_a_phone_the_drawing_is_used_and_details_come_up_and_close(visit, phone):
    page = visit("", phone)
    drawing = page.get_by_role("tree").bounding_box()
    assert drawing["width"] > 350
    assert drawing["height"] > 200
    details = page.get_by_role("complementary", name="Details")
    expect(details).to_be_hidden()
    box(page, "Token embedding").tap()
    expect(details).to_be_visible()
    expect(subject(page)).to_have_text("Token embedding")
    page.get_by_role("button", name="Close details").click()
    expect(details).to_be_hidden()


def test_on_a_phone_the_details_do_not_cover_what_they_are_of(visit, phone):
    page = visit("?select=kda_delta_rule", phone)
    details = page.get_by_role("complementary", name="Details")

    def clear(title: str) -> bool:
        at = box(page, title).bounding_box()
        return at["y"] + at["height"] < details.bounding_box()["y"]

    wait_until(lambda: clear("Delta rule and state"), page)
    page.get_by_role("button", name="Close details").click()
    box(page, "KDA output projection").tap()
    expect(details).to_be_visible()
    wait_until(lambda: clear("KDA output projection"), page)


def test_what_a_link_got_wrong_is_said_on_the_page(visit):
    page = visit("?select=kda_decai&layer=93&tab=code")
    problems = page.locator(".problems")
    expect(problems).to_contain_text("select=kda_decai")
    expect(problems).to_contain_text("did you mean kda_decay?")
    expect(problems).to_contain_text("layer=93")
    expect(page.get_by_role("tabpanel", name="Code")).to_be_visible()


def test_tags_in_a_link_are_text(visit):
    keys = ("select", "model", "open", "with", "layer", "run", "tab")
    page = visit("?nothing=" + HOSTILE + "".join(f"&{key}={HOSTILE}" for key in keys))
    expect(page.locator(".problems li")).to_have_count(len(keys))
    assert page.locator("img").count() == 0


def test_tags_in_a_prompt_are_text(visit):
    page = visit(f"?prompt={HOSTILE}")
    expect(page.get_by_role("textbox", name="Prompt")).to_have_value(HOSTILE)
    expect(page).to_have_url(re.compile("run="), timeout=20_000)
    assert page.locator("img").count() == 0


def test_sources_are_asked_for_only_on_a_click_and_learn_nothing(visit):
    page = visit("?select=kda_decay")
    source = page.get_by_role("link", name=re.compile("^modeling_kimi_linear.py")).first
    expect(source).to_have_attribute("rel", "noopener noreferrer")
    expect(source).to_have_attribute("target", "_blank")


def test_the_details_can_be_closed_and_come_back_with_a_selection(visit):
    page = visit()
    page.get_by_role("button", name="Close details").click()
    details = page.get_by_role("complementary", name="Details")
    expect(details).to_be_hidden()
    box(page, "Token embedding").click()
    expect(details).to_be_visible()


def test_the_border_of_the_details_moves_by_keyboard(visit):
    page = visit()
    details = page.get_by_role("complementary", name="Details")
    before = details.bounding_box()["width"]
    page.get_by_role("separator", name="Width of the details").focus()
    page.keyboard.press("ArrowLeft")
    assert details.bounding_box()["width"] == before + 16


def test_a_lost_connection_is_said(visit, context):
    sockets = []
    context.route_web_socket("**/ws*", lambda socket: (sockets.append(socket), socket.connect_to_server()))
    page = visit("?select=kda")
    sockets[0].close()
    expect(page.get_by_role("alert")).to_contain_text("Connection lost: reload to restore this view.")
    page.get_by_role("link", name="Reload").click()
    page.wait_for_selector("html.live")
    expect(subject(page)).to_have_text("Kimi Delta Attention")
