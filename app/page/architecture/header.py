"""The header: which model is drawn, and its size in one line."""

from k3scope.app.link.state import State
from k3scope.app.page.kit.shell import Shell
from k3scope.app.page.kit.templates import render
from k3scope.diagrams.facts import provenance
from k3scope.diagrams.facts.block_facts import Facts


def header(state: State, shell: Shell) -> None:
    """Fill the header now and whenever another model is drawn; report what could not be read of the link."""

    def show(*_):
        facts = Facts.of(state.model)
        html = render(
            "facts.html",
            totals=facts.totals,
            config=facts.config,
            kinds=provenance.kinds(facts),
            total=provenance.total(facts),
            active=provenance.active(facts),
            layers=provenance.layers(facts),
            snapshot=provenance.snapshot(facts),
            by_rule=provenance.by_rule(facts),
        )
        shell.fill(facts=html)

    def show_problems(*_):
        shell.fill(problems=render("problems.html", problems=state.problems))

    state.follow("header", show)
    state.follow("header.problems", show_problems)
    show()
    show_problems()
