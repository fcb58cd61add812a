"""Every view on every size of screen and in both themes, and many visitors at once: in a real browser."""

import itertools
import re

import pytest
from playwright.sync_api import expect

from k3scope.app.link.fields import VIEWS

pytestmark = pytest.mark.sweep
SCREENS = [(1920, 1080), (1440, 900), (1024, 768), (820, 1180), (390, 844)]
VISITORS = 6


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SCREENS, ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_fits_the_screen_and_has_no_errors(visit, browser, view, size, theme):
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page = visit(f"?view={view}&select=kda_delta_rule", context)  # `visit` fails on any error of the page
    assert page.evaluate("document.documentElement.scrollWidth") == width
    expect(page.get_by_role("tab", selected=True).first).to_be_visible()
    assert page.evaluate("document.documentElement.classList.contains('dark')") == (theme == "dark")
    context.close()


def test_many_visitors_run_at_once_and_each_gets_its_own_run(visit, browser):
    contexts = [browser.new_context() for _ in range(VISITORS)]
    pages = [visit("?with=k3-random", context) for context in contexts]
    for n, page in enumerate(pages):
        page.get_by_role("textbox", name="Prompt").fill(f"visitor {n} " * 20)
        page.get_by_role("button", name="Run", exact=True).click()
    for n, page in enumerate(pages):
        expect(page.get_by_test_id("run-status")).to_contain_text("weights", timeout=60_000)
        expect(page).to_have_url(re.compile(f"prompt=visitor%20{n}%20"), timeout=60_000)
    addresses = [re.search("run=([a-z2-7]{12})", page.url)[1] for page in pages]
    assert all(a != b for a, b in itertools.combinations(addresses, 2))
    for context in contexts:
        context.close()
