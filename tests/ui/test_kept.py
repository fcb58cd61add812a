"""What is kept is said on the page, and "Forget my runs" removes it, in a real browser."""

import re

from playwright.sync_api import expect

from k3scope.app.runs.retention import UNBOUNDED
from k3scope.app.runs.run_store import Store

TOKEN = "localStorage.getItem('k3scope-owner')"


def run(page, prompt):
    page.get_by_role("textbox", name="Prompt").fill(prompt)
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("run-status")).to_contain_text(" ms", timeout=60_000)


def prompts(folder) -> list[str]:
    """Of the runs in the store of a server."""
    store = Store(folder / "runs.sqlite", UNBOUNDED)
    try:
        return [run.spec.prompt for run in store.runs()]
    finally:
        store.close()


def test_a_visitor_reads_what_is_kept_and_forgets_it_with_the_keyboard(served, context, browser, tmp_path):
    with served(tmp_path, "--keep-days", "30", "--store-size", "20") as server:
        other = browser.new_context()
        for place, prompt in ((other, "of another"), (context, "first secret"), (context, "second secret")):
            page = place.new_page()
            page.goto(server.address)
            page.wait_for_selector("html.live")
            run(page, prompt)
        assert re.fullmatch("[0-9a-f]{32}", page.evaluate(TOKEN))  # both pages of the browser have the same
        assert prompts(tmp_path) == ["of another", "first secret", "second secret"]
        button = page.get_by_role("button", name="What is kept")
        button.focus()
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="What is kept")
        forget = dialog.get_by_role("button", name="Forget my runs")
        expect(dialog).to_contain_text("20,000 runs and 20 MB together")
        expect(dialog).to_contain_text("None is kept longer than 30 days after it ran last")
        expect(forget).to_be_focused()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(button).to_be_focused()
        page.keyboard.press("Enter")
        expect(forget).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_test_id("run-status")).to_have_text("2 runs removed from this server.")
        expect(page.get_by_role("textbox", name="Prompt")).to_have_value("")
        expect(page).to_have_url(server.address)
        assert prompts(tmp_path) == ["of another"]
        content = b"".join(file.read_bytes() for file in tmp_path.glob("runs.sqlite*"))
        assert b"secret" not in content
        assert "secret" not in server.log
        other.close()


def test_a_page_without_storage_has_a_token_of_its_own(served, browser, tmp_path):
    with served(tmp_path, "--store", "memory") as server, browser.new_context() as context:
        context.add_init_script(
            "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no') } })"
        )
        page = context.new_page()
        page.goto(server.address)
        page.wait_for_selector("html.live")
        run(page, "kept in memory")
        page.get_by_role("button", name="What is kept").click()
        dialog = page.get_by_role("dialog", name="What is kept")
        expect(dialog).to_contain_text("in the memory of this server, until it is restarted")
        dialog.get_by_role("button", name="Forget my runs").click()
        expect(page.get_by_test_id("run-status")).to_have_text("1 run removed from this server.")
        assert not (tmp_path / "runs.sqlite").exists()
