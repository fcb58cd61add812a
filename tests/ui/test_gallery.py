"""The examples in a real browser: one click runs one and shows where to look; each is a link."""

import re

from playwright.sync_api import expect

from k3scope.app.examples import examples

STORY = next(e for e in examples() if e.values["lab_view"].startswith("memory"))


def gallery(page):
    page.get_by_role("button", name="Examples").click()
    return page.get_by_role("dialog", name="Examples")


def shown(page, example):
    lab = page.get_by_role("tabpanel", name="Lab")
    expect(lab.get_by_role("tab", name="Memory")).to_have_attribute("aria-selected", "true", timeout=60_000)
    expect(page.get_by_role("textbox", name="Prompt")).to_have_value(example.prompt)
    expect(page.get_by_test_id("run-status")).to_contain_text(example.model, timeout=60_000)
    expect(page.get_by_test_id("look")).to_contain_text(example.caption)


def test_one_click_runs_an_example_and_says_where_to_look(visit):
    page = visit()
    dialog = gallery(page)
    expect(dialog.get_by_role("link")).to_have_count(len(examples()))
    dialog.get_by_role("link", name=STORY.name).click()
    expect(dialog).to_be_hidden()
    shown(page, STORY)
    page.get_by_role("textbox", name="Prompt").fill("something else")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_test_id("look")).to_be_hidden(timeout=60_000)


def test_an_example_is_a_link_that_shows_the_same(visit):
    page = visit()
    link = gallery(page).get_by_role("link", name=STORY.name)
    expect(link).to_have_attribute("href", re.compile("prompt="))
    shown(visit(link.get_attribute("href")), STORY)


def test_the_examples_open_and_close_by_keyboard(visit):
    page = visit()
    button = page.get_by_role("button", name="Examples")
    button.focus()
    button.press("Enter")
    dialog = page.get_by_role("dialog", name="Examples")
    expect(dialog.get_by_role("link").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(button).to_be_focused()
