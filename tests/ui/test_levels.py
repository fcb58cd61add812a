"""Down to tensors and operations, arrows, other models, and two drawings side by side, in a real browser."""

import json
import re

import pytest
from playwright.sync_api import expect

from k3scope.assets import CONFIGS


def box(page, name: str, side: str = ""):
    place = page.locator(f"[data-side={side}]") if side else page.locator("#diagram")
    return place.locator(f"[data-id='{name}']")


def card(page):
    return page.get_by_test_id("part")


def test_a_block_opens_to_tensors_and_operations_by_keyboard(visit):
    page = visit("?open=decoder_layer,mla&select=mla_q_up")
    block = box(page, "mla_q_up")
    block.focus()
    expect(block).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    tensor = box(page, "mla_q_up/q_b_proj.weight")
    expect(tensor).to_have_attribute("aria-label", re.compile(r"^q_b_proj.weight, \[18432, 1536\] BF16"))
    expect(box(page, "mla_q_up/mm1")).to_contain_text("[B, T, 18432]")
    tensor.focus()
    page.keyboard.press("Enter")
    expect(card(page)).to_contain_text("language_model.model.layers.L.self_attn.q_b_proj.weight")
    expect(card(page)).to_contain_text("56,623,104 B in each of 24")
    crumbs = page.get_by_role("navigation", name="Where this is")
    expect(crumbs).to_contain_text(
        re.compile(r"93 layers.*24 MLA layers.*Query up-projection.*q_b_proj", re.S)
    )
    expect(page).to_have_url(re.compile("part=q_b_proj.weight"))
    page.reload()
    page.wait_for_selector("html.live")
    expect(card(page)).to_contain_text("q_b_proj.weight")
    expect(box(page, "mla_q_up/q_b_proj.weight")).to_have_attribute("aria-selected", "true")


def test_search_flies_to_a_tensor_and_opens_its_block(visit):
    page = visit()
    page.keyboard.press("/")
    page.get_by_role("combobox", name=re.compile("^Search")).fill("kv_b_proj")
    expect(page.locator("#hits [role=option]").first).to_contain_text("kv_b_proj")
    page.keyboard.press("Enter")
    expect(box(page, "mla_kv_up/kv_b_proj.weight")).to_be_in_viewport()
    expect(card(page)).to_contain_text("kv_b_proj.weight")


def test_a_click_on_an_arrow_tells_what_it_carries(visit):
    page = visit("?layer=5")
    line = page.locator("#diagram path.hit[data-edge*='kda_decay']").last
    x, y = line.evaluate(
        """path => { const p = path.getPointAtLength(path.getTotalLength() * 0.3), m = path.getScreenCTM()
                     return [p.x * m.a + m.e, p.y * m.d + m.f] }"""
    )
    page.mouse.click(x, y)
    expect(card(page)).to_contain_text("Decay gate → Delta rule and state")
    expect(card(page)).to_contain_text("[1, 17, 96, 128]")
    expect(card(page)).to_contain_text("F32")
    expect(card(page)).to_contain_text("835,584 B")
    expect(page).to_have_url(re.compile("part=to.kda_delta_rule"))


def test_arrows_are_walked_by_keyboard(visit):
    page = visit("?layer=3&open=decoder_layer,latent_moe&select=moe_router")
    box(page, "moe_router").focus()
    page.keyboard.press("e")
    expect(card(page)).to_contain_text("Router →")
    first = card(page).inner_text()
    page.keyboard.press("e")
    expect(card(page)).not_to_have_text(first)


def test_kimi_linear_is_drawn_with_what_it_has(visit):
    page = visit("?model=kimi-linear-48b&open=decoder_layer,mla,latent_moe&select=mla_q_up")
    expect(box(page, "mla_q_up")).to_contain_text("Query projection")
    for absent in ("attn_mix", "block_store", "mla_output_gate", "moe_latent_down", "vision"):
        expect(box(page, absent)).to_have_count(0)
    page.get_by_role("tab", name="Code", exact=True).click()
    expect(page.locator("#about-code")).to_contain_text("class PlainMLA(GatedMLA):")


def test_two_models_stand_side_by_side_and_select_together(visit):
    page = visit("?view=compare&open=decoder_layer,kda")
    left, right = box(page, "kda_decay", "left"), box(page, "kda_decay", "right")
    expect(left).to_contain_text("floor -5.0")
    expect(right).to_contain_text("no floor")
    assert left.get_attribute("transform") == right.get_attribute("transform")
    right.focus()
    page.keyboard.press("Enter")
    for side in (left, right):
        expect(side).to_have_attribute("aria-selected", "true")
        expect(side).to_have_class(re.compile("m-other"))
    expect(page).to_have_url(re.compile("view=compare&select=kda_decay"))
    expect(page.get_by_test_id("subject")).to_have_text("Decay gate")
    expect(box(page, "attn_mix", "right")).to_contain_text("not in this model")
    expect(page.get_by_role("list", name="How the blocks differ")).to_contain_text("28 only in Kimi K3")


def test_opening_a_group_opens_it_on_both_sides(visit):
    page = visit("?view=compare&open=decoder_layer")
    box(page, "mla", "left").focus()
    page.keyboard.press("ArrowRight")
    expect(box(page, "mla_q_up", "left")).to_contain_text("Query up-projection")
    expect(box(page, "mla_q_up", "right")).to_contain_text("Query projection")


def test_a_config_dropped_anywhere_is_drawn_beside_the_model(visit):
    page = visit()
    text = json.dumps(json.loads((CONFIGS / "kimi-linear-48b.json").read_text()) | {"hidden_size": 2048})
    transfer = page.evaluate_handle(
        """text => { const t = new DataTransfer()
                     t.items.add(new File([text], "mine.json", { type: "application/json" })); return t }""",
        text,
    )
    page.dispatch_event("#stage-model", "drop", {"dataTransfer": transfer})
    expect(box(page, "attn_norm", "right")).to_contain_text("width 2,048")
    expect(page.locator(".sides figcaption").last).to_have_text("mine.json")


def test_on_a_phone_one_stands_above_the_other(visit, phone):
    page = visit("?view=compare", phone)
    expect(page.locator("[data-compare=pair]")).to_be_visible(timeout=20_000)
    left, right = (page.locator(f"[data-side={side}]").bounding_box() for side in ("left", "right"))
    assert right["y"] > left["y"] + left["height"]
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("groups", [1, 2])
def test_points_of_the_cost_curves_are_walked_by_keyboard(visit, groups):
    page = visit("?view=cost")
    figure = page.get_by_role(
        "group", name=re.compile("Memory of the sequences" if groups == 1 else "Time of")
    )
    figure.focus()
    how = page.locator("[data-cost=how]")
    expect(how).to_contain_text("at 16,384 tokens")
    page.keyboard.press("End")
    expect(how).to_contain_text("at 1,048,576 tokens")
    if groups == 1:
        expect(how).to_contain_text("1 × 1,048,576 × 27,648 B = 28,991,029,248 B")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Context, exact")).to_have_value("1048576")
