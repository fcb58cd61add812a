"""The ledger: every parameter of the model in a table that sums to the total."""

from functools import cache

from app.html import render
from app.parts.header import title
from app.shell import Shell
from app.state import State
from diagrams.facts import Facts


@cache
def table(model: str) -> str:
    facts = Facts.of(model)
    rows = facts.rows()
    return render(
        "ledger.html",
        title=title(model),
        rows=rows,
        summed=sum(row.total for row in rows),
        whole=facts.totals.total,
    )


def ledger(state: State, shell: Shell) -> None:
    """Fill the ledger when it is looked at."""

    def show(*_):
        if state.view == "ledger":
            shell.ledger = table(state.model)

    state.param.watch(show, ["view", "model"])
    show()
