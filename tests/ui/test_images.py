"""Images in a real browser: chosen, dropped, refused, seen in the Lab, restored by their link."""

import base64
import re

import pytest
from playwright.sync_api import expect

from k3scope.assets import samples

DROP = """([name, type, data]) => {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0))
  const transfer = new DataTransfer()
  transfer.items.add(new File([bytes], name, { type }))
  const options = { dataTransfer: transfer, bubbles: true, cancelable: true }
  for (const kind of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(kind, options))
}"""


def strip(page):
    return page.get_by_role("list", name="Images before the prompt")


def add_sample(page, label: str) -> None:
    page.get_by_role("button", name="Examples").click()
    page.get_by_role("group", name="Images to add").get_by_role("button", name=label).click()


def run(page, prompt: str) -> None:
    page.get_by_role("textbox", name="Prompt").fill(prompt)
    page.get_by_role("button", name="Run", exact=True).click()


def drop(page, name: str, kind: str, data: bytes) -> None:
    page.evaluate(DROP, [name, kind, base64.b64encode(data).decode()])


def image_chip(page):
    return page.get_by_role("group", name="Tokens of the prompt").get_by_role(
        "button", name=re.compile("^image, ")
    )


def test_a_sample_runs_is_seen_in_the_lab_and_comes_back_by_its_link(visit, browser):
    page = visit("?view=lab&with=k3-random")
    add_sample(page, "Ring on nothing, padded")
    expect(strip(page)).to_contain_text("150 × 100 · 24 rows")
    run(page, "What is it?")
    expect(page.get_by_test_id("run-status")).to_contain_text("24 of them image rows", timeout=60_000)
    page.get_by_role("button", name="Show the tokens").click()
    expect(image_chip(page)).to_have_text("image, 24 rows2043")
    lab = page.get_by_role("tabpanel", name="Lab")
    expect(lab.get_by_role("heading", name="The image")).to_contain_text("random weights")
    expect(lab).to_contain_text("150 × 100 pixels are read as 12 × 8 patches of 14 × 14, with zeros added")
    expect(lab).to_contain_text("MLA layer 8")
    lab.get_by_role("combobox", name="Attention").select_option("MLA layer 3")
    expect(lab).to_contain_text("heads of MLA layer 3")
    assert drawn(page), "the patches are not painted"
    page.get_by_role("group", name="Tokens of the prompt").get_by_role("button").last.click()
    before = 1 + len(["im", "age", " ", *"150x100"]) + 1  # tokens before the rows
    expect(lab).to_contain_text(f"Token {before + 24 + 1 + 3}, “?”, gives")

    expect(page).to_have_url(re.compile("run=[a-z2-7]{12}"))
    found = re.search("run=[a-z2-7]{12}", page.url)[0]
    context = browser.new_context()
    other = visit(f"?view=lab&{found}", context)
    expect(strip(other)).to_contain_text("Ring on nothing, padded")
    expect(other.get_by_role("textbox", name="Prompt")).to_have_value("What is it?")
    other.get_by_role("button", name="Show the tokens").click(timeout=60_000)
    expect(image_chip(other)).to_have_count(1)
    expect(other.get_by_role("tabpanel", name="Lab")).to_contain_text("12 × 8 patches")
    context.close()


def drawn(page) -> bool:
    """Whether the figure titled "What the tower reads" shows the blue of the ring."""
    page.wait_for_timeout(500)
    return page.evaluate(
        """() => {
          const canvases = []
          const walk = (root) => root.querySelectorAll("*").forEach((el) => {
            if (el.shadowRoot) walk(el.shadowRoot)
            if (el.tagName === "CANVAS" && el.width && el.height) canvases.push(el)
          })
          walk(document)
          return canvases.some((canvas) => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
            let ring = 0
            for (let i = 0; i < data.length; i += 4)
              ring += data[i] === 0x2e && data[i + 1] === 0x5e && data[i + 2] === 0xaa
            return ring > 500
          })
        }"""
    )


def test_files_are_chosen_by_button_dropped_anywhere_and_removed(visit):
    page = visit()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Image", exact=True).press("Enter")
    chooser.value.set_files(samples.path("shapes"))
    expect(strip(page).get_by_role("listitem")).to_have_count(1)
    drop(page, "dropped.png", "image/png", samples.path("ramp").read_bytes())
    expect(strip(page)).to_contain_text("dropped.png168 × 168 · 36 rows")
    page.get_by_role("button", name="Remove shapes.png").press("Enter")
    expect(strip(page).get_by_role("listitem")).to_have_count(1)
    expect(page.get_by_role("button", name="Remove dropped.png")).to_be_focused()
    page.get_by_role("button", name="Remove dropped.png").press("Enter")
    expect(strip(page)).to_have_count(0)
    expect(page.get_by_role("button", name="Image", exact=True)).to_be_focused()


@pytest.mark.parametrize(
    ("name", "kind", "data", "sentence"),
    [
        ("notes.txt", "text/plain", b"words", "notes.txt is no image."),
        ("none.png", "image/png", b"", "none.png is empty."),
        ("big.png", "image/png", b"0" * 9 * 2**20, "big.png has 9.0 MB; an image here has at most 8 MB."),
        ("fake.png", "image/png", b"words", "fake.png: not an image in a known format."),
        ("half.png", "image/png", samples.path("ring").read_bytes()[:500], "half.png: broken image"),
    ],
    ids=["no image", "empty", "too large", "not what it says", "broken"],
)  # fmt: skip
def test_what_cannot_be_taken_is_said(visit, name, kind, data, sentence):
    page = visit()
    drop(page, name, kind, data)
    expect(page.get_by_role("alert").filter(has_text=sentence)).to_be_visible()
    expect(strip(page)).to_have_count(0)


def test_an_image_with_too_many_rows_is_scaled_down_on_request(visit, tmp_path):
    page = visit()
    samples.shapes().resize((1920, 1080)).save(tmp_path / "wide.png")
    drop(page, "wide.png", "image/png", (tmp_path / "wide.png").read_bytes())
    expect(strip(page)).to_contain_text("2,691 rows")
    run(page, "too much")
    expect(page.get_by_role("alert").filter(has_text="The image becomes 2,691 rows")).to_contain_text(
        "a run here takes at most 2,048"
    )
    page.get_by_role("button", name="Scale wide.png down").click()
    expect(strip(page)).to_contain_text("scaled down")
    expect(page.get_by_role("button", name="Scale wide.png down")).to_have_count(0)


def test_a_phone_keeps_the_image_button_in_reach(visit, phone):
    page = visit("", phone)
    add_sample(page, "Colour ramp")
    expect(strip(page)).to_be_visible()
    for name in ("Image", "Run", "Remove Colour ramp"):
        box = page.get_by_role("button", name=name, exact=True).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_model_without_a_tower_says_at_once_that_it_takes_no_image(visit):
    page = visit("?with=k3-recall")
    button = page.get_by_role("button", name="Image", exact=True)
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", "k3-recall has no vision tower")
    drop(page, "ring.png", "image/png", samples.path("ring").read_bytes())
    expect(page.get_by_role("alert")).to_have_text("k3-recall has no vision tower, so it takes no images.")
    page.get_by_role("combobox", name="Model that runs").select_option("k3-random")
    expect(button).to_be_enabled()
    add_sample(page, "Ring on nothing, padded")
    expect(strip(page)).to_contain_text("24 rows")
    page.get_by_role("combobox", name="Model that runs").select_option("k3-recall")
    expect(page.get_by_text("k3-recall has no vision tower and will not take this image")).to_be_visible()
    expect(strip(page)).not_to_contain_text("rows")
