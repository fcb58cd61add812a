"""The table of who follows which field is what the code does: nothing subscribes beside it, no row idles."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

import panel as pn
import pytest
from bokeh.plotting import figure

from k3scope.app.link.followers import SESSION, STATE, Followed
from k3scope.app.link.state import State
from k3scope.app.page.architecture.layer_strip import strip
from k3scope.app.page.dock.dock import dock
from k3scope.app.page.inspector.live import live
from k3scope.app.page.kit.theme import follow_theme
from k3scope.app.page.lab.image_views import image_pictures
from k3scope.app.page.lab.lab_tab import lab
from k3scope.app.page.page import session_template, visit
from k3scope.app.runs.run_session import RunSession
from k3scope.app.runs.runner import Runner

APP = Path(__file__).parents[3] / "app"
READ_ONLY = {"history", "prompt"}  # fields of the session that are read when others change
NEW = {  # another value for each field of the state
    "model": "k3-tiny", "view": "lab", "select": "kda", "part": "weight", "open": [], "layer": 4,
    "phase": "decode", "types": True, "B": 2, "T": 5, "run_model": "k3-tiny", "weights": "ab12",
    "prompt": "x", "generated_ids": [7], "run_id": "abcdefgh2345", "interventions": "[]", "baseline": "plain",
    "lab_view": "routing", "plots": ["a"], "tab": "code", "token": 1, "head": 1, "compare": "k3-tiny",
    "cost_point": "1,1,decode,fp8,bf16,h200,1", "detail_level": "line", "tour": 2, "camera": "1,2,0.5",
    "pending": {"prompt": "x"}, "dark": True, "problems": ["x"], "layer_rows": object(), "notice": "x",
}  # fmt: skip


def calls(method: str) -> list[tuple[str, ast.Call]]:
    """Receiver and call of every `receiver.method(...)` in app."""
    found = []
    for path in APP.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == method
            ):
                found.append((ast.unparse(node.func.value), node))
    return found


def test_every_row_is_used_by_one_part_and_every_part_names_a_row():
    used = {"state": Counter(), "session": Counter()}
    for receiver, call in calls("follow"):
        name = receiver.split(".")[-1].lstrip("_").replace("self", "session")  # which follows itself too
        if name in used:
            used[name][call.args[0].value] += 1
    assert used["state"] == Counter(dict.fromkeys(STATE, 1))
    assert used["session"] == Counter(dict.fromkeys(SESSION, 1))


def test_nothing_else_subscribes_to_the_state_or_the_session():
    watched = {receiver.removesuffix(".param") for receiver, _ in calls("watch")}
    # components of the page that hand on what the browser sends
    assert watched == {"drawn", "menu", "self", "shell"}
    assert calls("depends") == []


@pytest.mark.parametrize(
    ("table", "kind", "read_only"), [(STATE, State, set()), (SESSION, RunSession, READ_ONLY)]
)
def test_the_rows_name_fields_and_every_field_has_a_follower(table, kind, read_only):
    fields = set(kind.param) - {"name"}
    assert {field for row in table.values() for field in row} == fields - read_only


@pytest.fixture(scope="module")
def reactions():
    """A page, and for each field of its state the rows whose part was called when it changed."""
    called, changing = defaultdict(set), [""]
    plain = Followed.follow

    def follow(self, row, react):
        def recorded(*events):
            if isinstance(self, State) and changing[0] in {event.name for event in events}:
                called[changing[0]].add(row)
            # what the parts then do belongs to their own tests

        plain(self, row, recorded)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Followed, "follow", follow)
        state, address = visit("")
        runner = Runner()
        session = RunSession(state, runner, lambda _coroutine: None)
        strip(session)
        parts = dock(session), live(session), lab(session)
        assert isinstance(session_template(state, address, *parts), pn.Template)
        image_pictures(session)
        follow_theme(figure(), state)
        for name, value in NEW.items():
            changing[0] = name
            setattr(state, name, value)
        changing[0] = ""
        runner.close()
    return called


def test_every_field_of_the_state_can_be_changed():
    assert set(NEW) == set(State.param) - {"name"}


@pytest.mark.parametrize("field", NEW)
def test_a_change_reaches_exactly_the_parts_of_its_rows(reactions, field):
    assert reactions[field] == {row for row, fields in STATE.items() if field in fields}
