"""The header: which model is drawn, and its size in one line."""

from app.html import render
from app.shell import Shell
from app.state import State
from diagrams import origins
from diagrams.facts import Facts

TITLES = {"kimi-k3": "Kimi K3", "kimi-linear-48b": "Kimi-Linear-48B"}


def title(model: str) -> str:
    """How a model is called on the page: the release by its name, others as they are registered."""
    return TITLES.get(model, model)


def header(state: State, shell: Shell) -> None:
    """Fill the header now and whenever another model is drawn; name what the link got wrong."""

    def show(*_):
        facts = Facts.of(state.model)
        strip = render(
            "facts.html",
            totals=facts.totals,
            config=facts.config,
            kinds=facts.kinds,
            whole=origins.whole(facts),
            active=origins.active(facts),
            layers=origins.layers(facts),
            snapshot=origins.snapshot(facts),
        )
        shell.fill(facts=strip)

    def complain(*_):
        shell.fill(problems=render("problems.html", problems=state.problems))

    state.param.watch(show, "model")
    state.param.watch(complain, "problems")
    show()
    complain()
