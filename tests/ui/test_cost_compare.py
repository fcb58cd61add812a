"""The Cost and Compare views in a real browser."""

import json
import re

import pytest
from playwright.sync_api import expect

from k3scope.assets import CONFIGS

OFFICIAL = json.loads((CONFIGS / "kimi-k3-0.40b.json").read_text())


def reading(page, name: str):
    return page.get_by_test_id(f"cost-{name}")


def drop(page, name: str, text: str) -> None:
    """Drop a file on the Compare view."""
    transfer = page.evaluate_handle(
        """([name, text]) => {
            const transfer = new DataTransfer()
            transfer.items.add(new File([text], name, { type: "application/json" }))
            return transfer
        }""",
        [name, text],
    )
    page.dispatch_event("#stage-compare", "drop", {"dataTransfer": transfer})


def test_the_crossover_and_the_cache_are_read_off(visit):
    page = visit("?view=cost")
    expect(reading(page, "crossover")).to_have_text("16,253 tokens")
    expect(reading(page, "latents")).to_have_text("453.0 MB")
    expect(reading(page, "touched")).to_have_text("16 of 896")
    page.get_by_label("Convolution state").select_option("fp32")
    expect(reading(page, "crossover")).to_have_text("16,805 tokens")
    expect(page).to_have_url(re.compile("at=16384,1,decode,mxfp4,fp32,h200,16"))
    page.reload()
    page.wait_for_selector("html.live")
    expect(page.get_by_label("Convolution state")).to_have_value("fp32")
    expect(reading(page, "crossover")).to_have_text("16,805 tokens")


def test_a_slider_moves_the_readings_by_keyboard(visit):
    page = visit("?view=cost")
    slider = page.get_by_role("slider", name="Context")
    expect(slider).to_have_attribute("aria-valuetext", "16,384 tokens")
    slider.press("End")
    expect(reading(page, "latents")).to_have_text("29.0 GB")
    expect(page.get_by_label("Context, exact")).to_have_value("1048576")
    expect(slider).to_be_focused()
    page.get_by_label("Batch, exact").fill("100")
    expect(reading(page, "touched")).to_contain_text("748")
    page.get_by_label("Context, exact").fill("0")
    expect(page.get_by_role("alert").filter(has_text="context is")).to_contain_text("from 1 to 1,048,576")


def test_a_number_says_where_it_comes_from(visit):
    page = visit("?view=cost")
    how = page.locator("[data-cost=how]")
    expect(how).to_contain_text("Where does a number come from?")
    reading(page, "latents").hover()
    expect(how).to_contain_text("1 × 16,384 × 24 × (512 + 64) × 2 B = 452,984,832 B")
    page.get_by_role("button", name=re.compile("^KDA state")).focus()
    expect(how).to_contain_text("69 × (96 × 128² × 4 B")
    reading(page, "states").click()
    page.get_by_label("Batch, exact").fill("2")
    expect(how).to_contain_text("2 × 69 × (96 × 128² × 4 B + 3 × 3 × 12,288 × 2 B) = 898,744,320 B")


def test_the_picture_answers_and_sets_the_context(visit):
    page = visit("?view=cost")
    picture = page.get_by_role("img", name="Memory of the sequences")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    place = {"x": box["width"] - 18, "y": box["height"] / 2}
    picture.hover(position=place)
    expect(page.locator("[data-cost=how]")).to_contain_text("1 × 1,048,576 × 27,648 B = 28,991,029,248 B")
    picture.click(position=place)
    expect(page.get_by_label("Context, exact")).to_have_value("1048576")


def test_kimi_linear_stands_beside_k3_and_another_can_be_chosen(visit):
    page = visit("?view=compare")
    expect(page.get_by_test_id("sum-a")).to_have_text("2,779,931,837,184")
    expect(page.get_by_test_id("sum-b")).to_have_text("49,122,681,728")
    row = page.get_by_role("row", name=re.compile("Latent up-projection"))
    expect(row).to_contain_text("only Kimi K3")
    expect(
        page.get_by_role("img", name=re.compile(r"^Kimi-Linear-48B, 27 layers: 6 × \(3 KDA"))
    ).to_be_visible()
    page.get_by_label("Compare with").select_option("k3-random")
    expect(page.get_by_test_id("compared")).to_have_text("Kimi K3 and k3-random")
    expect(page).to_have_url(re.compile("view=compare&compare=k3-random"))


def test_a_broken_file_is_answered_with_a_sentence_and_a_good_one_is_compared(visit):
    page = visit("?view=compare")
    alert = page.locator("#stage-compare").get_by_role("alert")
    drop(page, "config.json", "{ not json")
    expect(alert).to_have_text(
        "config.json: this is not valid JSON; expected the config.json of a checkpoint."
    )
    missing = {k: v for k, v in OFFICIAL["text_config"].items() if k != "kv_lora_rank"}
    drop(page, "config.json", json.dumps(OFFICIAL | {"text_config": missing}))
    expect(alert).to_contain_text("the key 'kv_lora_rank' is missing")
    drop(page, "large.json", " " * 70_000)
    expect(alert).to_contain_text("larger than 64 kB")
    expect(page.get_by_test_id("sum-b")).to_have_text("49,122,681,728")
    drop(page, "mine.json", json.dumps(OFFICIAL))
    expect(page.get_by_test_id("compared")).to_have_text("Kimi K3 and mine.json")
    expect(alert).to_be_hidden()
    page.get_by_text("or paste it").click()
    page.get_by_label("Text of a config.json").fill(json.dumps(OFFICIAL))
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_test_id("compared")).to_have_text("Kimi K3 and pasted config.json")


@pytest.mark.parametrize(
    "search", ["?view=cost", "?view=cost&at=1048576,4096,prefill,bf16,fp32,h100,1024", "?view=compare"]
)
def test_neither_view_scrolls_sideways_on_a_phone(visit, phone, search):
    page = visit(search, phone)
    view = page.get_by_role("tabpanel", name=re.compile("Cost|Compare"))
    expect(view).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert view.evaluate("element => element.scrollWidth <= element.clientWidth")
