"""The ledger: every parameter of the model in a table that sums to the total, and a search by tensor name."""

from functools import cache

from k3scope.app.link.state import State
from k3scope.app.models import title
from k3scope.app.page.kit.shell import Shell
from k3scope.app.page.kit.templates import render
from k3scope.diagrams.facts import provenance
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.records import ParameterRow

FOUND = 40  # names shown of a search


@cache
def table(model: str) -> str:
    facts = Facts.of(model)
    rows = facts.rows()
    return render(
        "ledger.html",
        title=title(model),
        rows=[(row, *_asked(facts, row)) for row in rows],
        summed=sum(row.total for row in rows),
        summed_bytes=sum(row.bytes for row in rows),
        whole=facts.totals.total,
        storage=facts.totals.storage,
        difference=facts.totals.difference(model),
    )


def _asked(facts: Facts, row: ParameterRow) -> tuple[provenance.Provenance, ...]:
    """Where the total, the bytes and the share of a row come from."""
    block = facts.block(row.id)
    return (
        provenance.of_block(facts, block),
        provenance.of_bytes(facts, row.id),
        provenance.of_share(facts, block),
    )


def found(model: str, text: str) -> str:
    """Tensors whose official name contains `text`."""
    rows = Facts.of(model).layout.search(text.strip(), FOUND + 1) if text.strip() else []
    return render("found.html", text=text.strip(), rows=rows[:FOUND], more=len(rows) > FOUND)


def ledger(state: State, shell: Shell) -> None:
    """Fill the ledger when it is looked at, and answer what is typed into its search."""

    def show(*_):
        if state.view == "ledger":
            shell.fill(ledger=table(state.model))
        shell.sought = shell.found = ""  # another model has other names

    def search(*_):
        shell.found = found(state.model, shell.sought)

    state.follow("ledger", show)
    shell.param.watch(search, "sought")
    show()
