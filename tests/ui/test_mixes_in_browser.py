"""Every mix of layers in a browser: drawn, run, and looked into in every view of the Lab."""

import re

import pytest
from playwright.sync_api import expect

from tests.helpers.mixes import MIXES, save

pytestmark = pytest.mark.sweep
NAMES = ("kda-only", "mla-only", "dense-only", "one-kda-layer")
NAMES += ("moe-from-0", "blind", "plain-residuals", "no-shared-expert")
LAB = {
    "Tokens": (lambda c: True, "Probability of the next token", ""),
    "Routing": (lambda c: c.moe_layers, "Tokens per expert", "no MoE layers"),
    "Memory": (lambda c: c.kda_layers, "Half-life of the memory", "no KDA layers"),
    "Attention": (lambda c: c.mla_layers, "Attention of layer", "no MLA layers"),
    "Depth": (lambda c: True, "Where each mix reads|Size of the residual stream", ""),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory, served):
    root = tmp_path_factory.mktemp("mixes")
    folders = save(NAMES, root / "models")
    with served(root, *(f"--model=mix-{name}={path}" for name, path in folders.items())) as server:
        yield server.address


@pytest.mark.parametrize("name", NAMES)
def test_a_mix_of_layers_is_drawn_run_and_looked_into(name, visit):
    model, config = f"mix-{name}", MIXES[name]
    page = visit(f"?model={model}&with={model}&view=lab&prompt=Once%20upon")
    lab = page.get_by_role("tabpanel", name="Lab")
    for tab, (has, title, absence) in LAB.items():
        lab.get_by_role("tab", name=tab).click(timeout=60_000)
        if has(config):
            heading = lab.get_by_role("heading", name=re.compile(f"^({title})"))
            expect(heading.first).to_be_visible(timeout=60_000)
        else:
            expect(lab.get_by_text(absence).locator("visible=true").first).to_be_visible(timeout=60_000)
            expect(lab.get_by_role("heading").locator("visible=true")).to_have_count(0)
    for tab in ("Architecture", "Ledger", "Cost", "Compare"):
        page.get_by_role("tab", name=tab, exact=True).click()
        expect(page.get_by_role("tabpanel", name=tab)).to_be_visible()
        expect(page.get_by_text("could not be read")).to_have_count(0)
