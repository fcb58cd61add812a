"""`serve --model NAME=PATH`: a folder of one's own is drawn, run, looked into and shared like a preset."""

import re
import shutil

import pytest
import torch
from playwright.sync_api import expect

from k3scope.model import load, save_pretrained
from k3scope.model.presets import TRAINED


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three models of a visitor: whole, in part, and without weights."""
    folder = tmp_path_factory.mktemp("named")
    model = load("k3-random")
    save_pretrained(model, folder / "whole", torch.bfloat16)
    shutil.copy(TRAINED["k3-tiny"] / "tokenizer.json", folder / "whole")
    save_pretrained(model, folder / "leading", shard_bytes=1_500_000)
    for shard in sorted((folder / "leading").glob("*.safetensors"))[3:]:
        shard.unlink()
    shutil.copy(folder / "whole" / "config.json", folder / "config.json")
    return folder


@pytest.fixture(scope="module")
def server(folder, served):
    paths = {"mine": folder / "whole", "part": folder / "leading", "bare": folder / "config.json"}
    with served(folder, *(f"--model={name}={path}" for name, path in paths.items())) as server:
        yield server


@pytest.fixture(scope="module")
def url(server):
    return server.address


def test_the_start_says_what_runs_and_why_the_rest_does_not(server):
    lines = server.log.splitlines()
    assert re.fullmatch(r"mine \(9 layers of .*whole\) runs here", lines[0])
    assert re.fullmatch(
        r"part \(9 layers .*\) is drawn but does not run: \d+ tensors are missing, .*"
        r"the first 2 of 9 layers",
        lines[1],
    )
    assert lines[2].endswith("is drawn but does not run: there are no weights, only its config.json")


def test_a_folder_of_ones_own_is_drawn_run_and_shared(visit, browser):
    page = visit("?model=mine")
    expect(page.get_by_role("combobox", name="Model on show")).to_have_value("mine")
    dock = page.get_by_role("combobox", name="Model that runs")
    expect(dock).to_have_value("mine")  # the model on show runs, unless the link names another
    page.get_by_role("textbox", name="Prompt").fill("mine, all mine 1234567")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page).to_have_url(re.compile(r"model=mine&with=mine&weights=[0-9a-f]{16}&prompt="), timeout=60_000)
    expect(page.get_by_test_id("run-status")).to_contain_text("mine · weights ")
    page.get_by_role("tab", name="Lab").click()
    lab = page.get_by_role("tabpanel", name="Lab")
    expect(lab.get_by_role("heading", name="Probability of the next token")).to_be_visible(timeout=60_000)
    context = browser.new_context()
    other = visit("?" + page.url.partition("?")[2], context)
    expect(other.get_by_test_id("run-status")).to_contain_text("14 tokens", timeout=60_000)
    context.close()


def test_it_stands_in_ledger_cost_and_comparison(visit):
    page = visit("?model=mine&view=ledger")
    expect(page.get_by_role("tabpanel", name="Ledger")).to_contain_text("Counted on the whole model")
    page.get_by_role("tab", name="Cost").click()
    expect(page.get_by_role("tabpanel", name="Cost")).to_contain_text("KV cache")
    page.get_by_role("tab", name="Compare").click()
    compare = page.get_by_role("tabpanel", name="Compare")
    compare.get_by_role("combobox").select_option("bare")
    expect(page).to_have_url(re.compile("compare=bare"))
    expect(compare).to_contain_text("bare")


def test_the_live_tab_reads_it(visit):
    page = visit("?model=mine&with=mine&select=moe_router&tab=live&prompt=live")
    live = page.get_by_role("tabpanel", name="Live")
    expect(live).to_contain_text("mine, layer 1 (KDA, MoE)", timeout=60_000)


@pytest.mark.parametrize(("name", "why"), [("part", "tensors are missing"), ("bare", "there are no weights")])
def test_what_has_not_all_weights_is_drawn_and_says_why_it_does_not_run(visit, folder, name, why):
    page = visit(f"?model={name}&with={name}&prompt=x")
    expect(page.get_by_role("combobox", name="Model on show")).to_have_value(name)
    problem = page.get_by_role("alert").filter(has_text="does not run here")
    expect(problem).to_contain_text(why)
    assert str(folder) not in page.content()  # where the owner keeps it is not told


def test_a_link_opens_no_path(visit, folder):
    page = visit(f"?model={folder / 'whole'}&with={folder / 'whole'}&compare={folder / 'whole'}")
    expect(page.get_by_role("combobox", name="Model on show")).to_have_value("kimi-k3")
    for key in ("model", "with", "compare"):
        expect(page.locator("#notes")).to_contain_text(f"“{key}=")
