"""Running prompts in a real browser: one visitor, two visitors, links and hostile text."""

import re
import time
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.presets import K3_TINY

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
LONG = "0123456789" * 204 + "0123"  # 2,044 tokens, one a digit


@pytest.fixture
def visit(visit):
    """k3-random runs here, unless the link names what it runs."""

    def open_(search: str = "", *context):
        if "with=" not in search and "run=" not in search:
            search = "?with=k3-random&" + search.removeprefix("?")
        return visit(search.removesuffix("&"), *context)

    return open_


def count(text: str) -> int:
    """Tokens of a prompt that k3-random runs."""
    return len(tokenizer_of("k3-random", K3_TINY.vocab).encode(text))


def prompt_box(page):
    return page.get_by_role("textbox", name="Prompt")


def run(page, text: str) -> None:
    prompt_box(page).fill(text)
    page.get_by_role("button", name="Run", exact=True).click()


def chips(page):
    return page.get_by_role("group", name="Tokens of the prompt").get_by_role("button")


def status(page):
    return page.get_by_test_id("run-status")


def done(page, tokens: int) -> None:
    expect(status(page)).to_contain_text(f"{tokens:,} token", timeout=60_000)
    expect(status(page)).to_contain_text(" ms · ", timeout=60_000)


def test_a_prompt_runs_and_its_tokens_and_next_tokens_appear(visit):
    page = visit()
    prompt_box(page).fill("h月12")
    prompt_box(page).press("Enter")
    done(page, 6)
    expect(chips(page)).to_have_count(6)
    expect(chips(page).first).to_have_text("h104")
    expect(chips(page).nth(1)).to_have_attribute(
        "title", re.compile("id 230, one byte of a longer character")
    )
    following = page.get_by_role("region", name="Likeliest next tokens")
    expect(following.get_by_role("listitem")).to_have_count(8)
    expect(following).to_contain_text("random weights")
    expect(status(page)).to_contain_text("random weights")
    expect(page).to_have_url(
        re.compile(r"with=k3-random&weights=[0-9a-f]{16}&prompt=h%E6%9C%8812&run=[a-z2-7]{12}&v=1$")
    )


def test_shift_enter_makes_a_new_line(visit):
    page = visit()
    prompt_box(page).fill("one")
    prompt_box(page).press("Shift+Enter")
    expect(prompt_box(page)).to_have_value("one\n")


def test_the_lab_offers_an_example_and_then_shows_its_tokens(visit):
    page = visit("?view=lab")
    lab = page.get_by_role("tabpanel", name="Lab")
    expect(lab).to_contain_text("Nothing has run yet")
    lab.get_by_role("button", name="Run an example").click()
    expect(lab.get_by_role("heading", name="Probability of the next token")).to_be_visible(timeout=60_000)
    expect(lab.locator("canvas").first).to_be_visible()
    expect(chips(page)).to_have_count(0)  # the dock does not say the same below
    page.get_by_role("tab", name="Architecture").click()
    expect(chips(page).first).to_be_visible()


def test_the_live_tab_shows_the_selected_block_and_follows_the_chosen_layer(visit):
    page = visit("?select=kda_decay&tab=live&layer=42&prompt=1234")
    live = page.get_by_role("tabpanel", name="Live")
    expect(live).to_contain_text("k3-random, layer 1 (KDA, MoE)", timeout=60_000)
    expect(live).to_contain_text("Same kind as the chosen layer 42 of Kimi K3")
    expect(live).to_contain_text("random weights")
    expect(live.get_by_test_id("point").first).to_contain_text("[1, 4, 5, 32]")
    layers = live.get_by_role("group", name="Layer shown")
    layers.get_by_role("button", name="6", exact=True).click()
    expect(live).to_contain_text("k3-random, layer 6 (KDA, MoE)")
    live.get_by_role("button", name="Draw k3-random").click()
    expect(page).to_have_url(re.compile(r"\?model=k3-random&.*layer=6"))
    expect(live).not_to_contain_text("Same kind")
    layers.get_by_role("button", name="2", exact=True).click()
    expect(page).to_have_url(re.compile("layer=2&"))


def test_a_click_on_a_token_chooses_it_everywhere(visit):
    page = visit("?select=moe_router&tab=live&prompt=123456")
    done(page, 6)
    chips(page).nth(2).click()
    expect(chips(page).nth(2)).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile("token=2&v=1$"))
    expect(page.get_by_role("tabpanel", name="Live")).to_contain_text("Experts of token 2")


@pytest.mark.parametrize("where", ["typed", "linked"])
def test_what_is_typed_is_text_everywhere(visit, where):
    page = visit(
        f"?view=lab&select=moe_router&tab=live&token=0&prompt={quote(HOSTILE)}" if where == "linked" else ""
    )
    if where == "typed":
        run(page, HOSTILE)
    done(page, count(HOSTILE))
    if where == "linked":
        page.get_by_role("button", name="Show the tokens").click()
    expect(chips(page).first).to_have_text("<60")
    expect(prompt_box(page)).to_have_value(HOSTILE)
    assert page.title() not in ("1", "2")
    assert page.locator("img[src=x]").count() == 0


def test_a_long_prompt_is_capped_and_too_long_a_one_refused(visit):
    page = visit()
    run(page, "x" * 300)
    done(page, 300)
    expect(chips(page)).to_have_count(256)
    page.get_by_role("button", name="Show all 300 tokens").click()
    expect(chips(page)).to_have_count(300)
    run(page, "x" * 2049)
    expect(page.get_by_role("alert").filter(has_text="2,049 tokens")).to_contain_text("at most 2,048")
    expect(chips(page)).to_have_count(300)


def test_an_empty_prompt_is_explained(visit):
    page = visit()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(status(page)).to_contain_text(
        "an empty prompt runs as the begin-of-text token alone", timeout=60_000
    )
    expect(chips(page)).to_have_text(["[BOS]2032"])
    expect(page).to_have_url(re.compile("prompt=&run="))


def test_a_run_can_be_cancelled(visit):
    page = visit()
    run(page, LONG)
    page.get_by_role("button", name="Cancel").click()
    expect(status(page)).to_have_text("Cancelled.")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()
    expect(prompt_box(page)).to_have_value(LONG)
    expect(page).not_to_have_url(re.compile("prompt=|run="))


def test_another_visitor_is_answered_while_a_long_prompt_runs(visit, browser):
    page = visit()
    context = browser.new_context()
    other = visit("", context)
    layer = other.get_by_role("treeitem", name=re.compile("^Token embedding"))
    expect(layer).to_be_visible()
    run(page, LONG)
    expect(status(page)).to_contain_text("layer ", timeout=30_000)
    start = time.monotonic()
    layer.click()
    expect(other.get_by_test_id("parameters")).to_have_text("1,174,405,120")
    took = time.monotonic() - start
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()  # it still runs
    assert took < 3, (
        "a click waited for the run of another visitor"
    )  # generous: the machine is busy on purpose
    done(page, count(LONG))
    context.close()


def test_a_link_runs_its_prompt_once_after_the_first_paint_and_back_leaves_it(visit, url):
    page = visit("?with=k3-random")
    page.goto(f"{url}?prompt=once%20only")
    expect(page.get_by_role("treeitem", name=re.compile("^Token embedding"))).to_be_visible()
    done(page, 3)  # in the tokens of the trained model, which runs when the link names none
    expect(page).to_have_url(re.compile("with=k3-tiny&.*prompt=once%20only&run="))
    told = status(page).text_content()
    page.wait_for_timeout(1000)
    assert status(page).text_content() == told
    page.go_back()  # completing the link added no step
    expect(page).to_have_url(url + "?with=k3-random")
    expect(chips(page)).to_have_count(0)


def test_back_shows_the_run_before(visit):
    page = visit()
    run(page, "12345")
    done(page, 5)
    run(page, "123456")
    done(page, 6)
    page.go_back()
    expect(prompt_box(page)).to_have_value("12345")
    done(page, 5)
    page.go_forward()
    expect(prompt_box(page)).to_have_value("123456")
    done(page, 6)


def unheard() -> str:
    """A long prompt that never ran before: the result of another would be there at once."""
    return f"{time.time_ns()}"[-12:] + LONG[12:]


def named(page) -> int:
    """Wait until the address names a run; how many entries there are at that moment."""
    return page.wait_for_function(
        "location.search.includes('run=') && history.length", polling=20
    ).json_value()


def test_a_run_is_one_entry_though_the_address_names_it_from_the_start(visit, url):
    text = unheard()
    page = visit("?select=kda&with=k3-random")
    entries = page.evaluate("history.length")
    run(page, text)
    assert named(page) == entries
    done(page, count(text))
    page.wait_for_function("before => history.length === before + 1", arg=entries)
    page.go_back()
    expect(page).to_have_url(url + "?select=kda&with=k3-random")
    expect(chips(page)).to_have_count(0)
    page.go_forward()
    done(page, count(text))


def test_a_reload_in_the_middle_of_a_run_brings_it_back(visit):
    text = unheard()
    page = visit("?select=kda&with=k3-random")
    entries = page.evaluate("history.length")
    run(page, text)
    assert named(page) == entries  # it still runs
    page.reload()
    page.wait_for_selector("html.live")
    expect(prompt_box(page)).to_have_value(text)
    done(page, count(text))
    expect(page.get_by_role("alert").filter(has_text="run")).to_have_count(0)
    assert page.evaluate("history.length") == entries


def test_an_unknown_run_says_what_is_missing(visit):
    page = visit("?run=aaaaaaaaaaaa")
    expect(page.get_by_role("alert").filter(has_text="aaaaaaaaaaaa")).to_contain_text(
        "prompt is not in the link"
    )


def test_a_long_run_comes_back_by_its_id(visit, browser):
    page = visit()
    text = "not in the link, " * 60
    run(page, text)
    done(page, count(text))
    expect(page).to_have_url(re.compile(r"\?with=k3-random&weights=[0-9a-f]+&run=[a-z2-7]+&v=1$"))
    context = browser.new_context()
    other = visit("?" + page.url.partition("?")[2], context)
    expect(prompt_box(other)).to_have_value(text)
    done(other, count(text))
    context.close()


def test_a_phone_holds_the_dock_without_scrolling_sideways(visit, browser):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = visit("?prompt=12345", context)
    done(page, 5)
    for name in ("Run", "Fold the tokens away"):
        box = page.get_by_role("button", name=name, exact=True).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Fold the tokens away").click()
    expect(chips(page)).to_have_count(0)
    context.close()


def test_a_question_mark_in_a_link_is_a_part_of_the_prompt(visit):
    page = visit("?prompt=34 ? r=")
    expect(prompt_box(page)).to_have_value("34 ? r=")
    expect(chips(page)).to_have_count(count("34 ? r="))
