"""The ledger: every parameter of the model in a table that sums to the total, and a search by tensor name."""

from functools import cache

from app.html import render
from app.parts.header import title
from app.shell import Shell
from app.state import State
from diagrams import origins
from diagrams.facts import Facts
from diagrams.records import Row

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


def _asked(facts: Facts, row: Row) -> tuple[origins.Origin, ...]:
    """Where the total, the bytes and the share of a row come from."""
    block = facts.block(row.id)
    return origins.of_block(facts, block), origins.of_bytes(facts, row.id), origins.of_share(facts, block)


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

    state.param.watch(show, ["view", "model"])
    shell.param.watch(search, "sought")
    show()
