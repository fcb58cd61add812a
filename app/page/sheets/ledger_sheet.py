"""The ledger: every parameter of the model in a table that sums to the total, and a search by tensor name."""

from functools import cache

from k3scope.app.link.state import State
from k3scope.app.models import title
from k3scope.app.page.kit.shell import Shell
from k3scope.app.page.kit.templates import render
from k3scope.diagrams.facts import provenance
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.records import ParameterRow

MAX_MATCHES = 40  # tensors shown of a search


@cache
def table(model: str) -> str:
    """Every row with where its numbers come from, the sums, and the difference to the official index."""
    facts = Facts.of(model)
    rows = facts.rows()
    return render(
        "ledger.html",
        title=title(model),
        rows=[(row, *_provenances(facts, row)) for row in rows],
        summed=sum(row.total for row in rows),
        summed_bytes=sum(row.bytes for row in rows),
        counted=facts.totals.total,
        storage=facts.totals.storage,
        difference=facts.totals.difference(model),
        notes=facts.notes,
    )


def _provenances(facts: Facts, row: ParameterRow) -> tuple[provenance.Provenance, ...]:
    """Where the total, the bytes and the share of a row come from."""
    block = facts.block(row.id)
    return (
        provenance.of_block(facts, block),
        provenance.of_bytes(facts, row.id),
        provenance.of_share(facts, block),
    )


def tensor_matches(model: str, query: str) -> str:
    """Tensors whose official name contains the query; nothing for an empty one."""
    query = query.strip()
    rows = Facts.of(model).layout.search(query, MAX_MATCHES + 1) if query else []
    return render(
        "tensor_matches.html", query=query, rows=rows[:MAX_MATCHES], incomplete=len(rows) > MAX_MATCHES
    )


def ledger(state: State, shell: Shell) -> None:
    """Fill the ledger when it is opened, and answer its search."""

    def show(*_):
        if state.view == "ledger":
            shell.fill(ledger=table(state.model))
        shell.tensor_query = shell.tensor_matches = ""  # another model has other names

    def search(*_):
        shell.tensor_matches = tensor_matches(state.model, shell.tensor_query)

    state.follow("ledger", show)
    shell.param.watch(search, "tensor_query")
    show()
