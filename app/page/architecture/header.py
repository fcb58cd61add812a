"""The header: which model is drawn, and its size in one line."""

from k3scope.app.link.state import State
from k3scope.app.page.kit.shell import Shell
from k3scope.app.page.kit.templates import render
from k3scope.diagrams.facts import provenance
from k3scope.diagrams.facts.block_facts import Facts


def header(state: State, shell: Shell) -> None:
    """Fill the header now and whenever another model is drawn; name what the link got wrong."""

    def show(*_):
        facts = Facts.of(state.model)
        strip = render(
            "facts.html",
            totals=facts.totals,
            config=facts.config,
            kinds=facts.kinds,
            whole=provenance.total(facts),
            active=provenance.active(facts),
            layers=provenance.layers(facts),
            snapshot=provenance.snapshot(facts),
        )
        shell.fill(facts=strip)

    def complain(*_):
        shell.fill(problems=render("problems.html", problems=state.problems))

    state.follow("header", show)
    state.follow("header.problems", complain)
    show()
    complain()
