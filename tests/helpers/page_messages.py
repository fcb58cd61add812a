"""Every message that the browser may send, at the largest that is allowed and at one that is too large.

`in_code` reads the names of messages out of app/page/, so that a new one is missed here by a test.
"""

import ast
import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abuse import config_of_layers, png

from k3scope.app.link.fields import FIELDS
from k3scope.app.runs.reading import LONGEST

PAGE = Path(__file__).parents[2] / "app" / "page"
MESSAGE = 2**20 - 4096  # characters of a text: two of them are in the largest message that the server takes
TEXT = "x" * MESSAGE
MODEL = "k3-tiny"
EVERYTHING = "open=everything&view=model&model=kimi-k3"


@dataclass(frozen=True)
class Message:
    """What one component sends; `name` as `in_code` has it."""

    name: str
    component: str
    largest: Any
    too_large: Any = None  # None: it is a choice of some, and has no size


def in_code() -> set[str]:
    """Name of each message: file, key, and the value where that says which message it is."""
    names = set()
    for path in PAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names |= {f"{path.stem}:{key}" for key in _keys(node)}
    return names


def _keys(node: ast.AST) -> Iterator[str]:
    """Keys of `case {"key": ...}`, `data.get("key")`, `data == {"key": ...}`, and of loops over such keys."""
    if isinstance(node, ast.MatchMapping):
        first, pattern = node.keys[0].value, node.patterns[0]
        literal = isinstance(pattern, ast.MatchValue)
        yield f"{first}={pattern.value.value}" if literal else str(first)
    elif isinstance(node, ast.Compare) and isinstance(node.comparators[0], ast.Dict):
        yield from (key.value for key in node.comparators[0].keys)
    elif isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple) and _gets(node):
        yield from (pair.elts[0].value for pair in node.iter.elts)
    elif isinstance(node, ast.Call):
        yield from (argument.value for argument in _gets(node)[:1] if isinstance(argument, ast.Constant))


def _gets(node: ast.AST) -> list[ast.expr]:
    """What is taken out of `data` there."""
    calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
    return [call.args[0] for call in calls if ast.unparse(call.func) == "data.get"]


def largest_image() -> str:
    """As many pixels as are read, in base64."""
    return base64.b64encode(png(5_000, 5_000, 6)).decode()


def messages() -> list[Message]:
    """Of the page before a run, and of the Lab after one of 2,048 tokens."""
    return [*of_the_page(), *of_the_dock(), *of_the_lab()]


def of_the_page() -> list[Message]:
    opened = {"type": "toggle", "id": "latent_moe", "toggles": 10**9}
    return [
        Message("shell:go", "Shell", {"go": EVERYTHING}, {"go": f"select={TEXT}"}),
        Message("shell:tensor_query", "Shell", {"tensor_query": "w" * 200}, {"tensor_query": TEXT}),
        Message("controls:go", "Controls", {"go": f"{EVERYTHING}&T=4096"}, {"go": f"prompt={TEXT}"}),
        Message("controls:cancel_export", "Controls", {"cancel_export": True}, {"cancel_export": TEXT}),
        Message("controls:query", "Controls", {"query": "attention " * 10}, {"query": TEXT}),
        Message("controls:choose", "Controls", {"choose": "mla_q_up/q_b_proj.weight"}, {"choose": TEXT}),
        *[
            Message("controls:export", "Controls", {"export": form}, {"export": TEXT})
            for form in ("svg", "png", "json")
        ],
        Message("diagram:type=toggle", "Diagram", opened, opened | {"id": TEXT}),
        Message(
            "diagram:type=prefetch",
            "Diagram",
            opened | {"type": "prefetch"},
            {"type": "prefetch", "id": TEXT},
        ),
        Message(
            "history:search", "BrowserHistory", {"search": f"?{EVERYTHING}"}, {"search": f"?prompt={TEXT}"}
        ),
        Message("compare_sheet:with", "CompareView", {"with": "kimi-linear-48b"}, {"with": TEXT}),
        Message("compare_sheet:cancel", "CompareView", {"cancel": True}, {"cancel": TEXT}),
        Message("compare_sheet:toggle", "CompareView", {"toggle": "kda"}, {"toggle": TEXT}),
        Message("compare_sheet:select", "CompareView", {"select": "kda"}, {"select": TEXT}),
        Message(
            "compare_sheet:config",
            "CompareView",
            {"config": config_of_layers(128, 1), "name": "n" * 60},
            {"config": TEXT, "name": TEXT},
        ),
        Message(
            "compare_sheet:name",
            "CompareView",
            {"config": config_of_layers(128, 2), "name": "n"},
            {"config": "{}", "name": TEXT},
        ),
        Message(
            "cost_sheet:point", "CostView", {"point": "1048576,64,decode,mxfp4,bf16,h200,64"}, {"point": TEXT}
        ),
        Message(
            "live:type=layer", "Live", {"type": "layer", "layer": 7}, {"type": "layer", "layer": 10**300}
        ),
        Message("live:type=draw", "Live", {"type": "draw"}),
        Message("live:type=example", "Live", {"type": "example"}),
    ]


def of_the_dock() -> list[Message]:
    word = "a" * LONGEST
    image = {"type": "attach", "name": "n" * 80}
    run = {"type": "run", "model": MODEL}
    return [
        Message("dock:type=run", "Dock", run | {"prompt": word}, run | {"prompt": TEXT}),
        Message(
            "dock:type=model", "Dock", {"type": "model", "model": MODEL}, {"type": "model", "model": TEXT}
        ),
        Message("dock:type=cancel", "Dock", {"type": "cancel"}),
        Message(
            "dock:type=example",
            "Dock",
            {"type": "example", "index": 0},
            {"type": "example", "index": 10**300},
        ),
        Message("dock:type=attach", "Dock", image | {"data": largest_image()}, image | {"data": TEXT}),
        Message("dock:type=cancel_attach", "Dock", {"type": "cancel_attach"}),
        Message(
            "dock:part",
            "Dock",
            image | {"data": "A" * 2**20, "part": 0, "of": 11},
            image | {"data": TEXT, "part": 0, "of": 10**9},
        ),
        Message(
            "dock:of",
            "Dock",
            image | {"data": "A" * 2**20, "part": 1, "of": 11},
            image | {"data": "", "part": 10**9, "of": 10**9},
        ),
        Message(
            "dock:type=attach_sample",
            "Dock",
            {"type": "attach_sample", "name": "shapes"},
            {"type": "attach_sample", "name": TEXT},
        ),
        Message(
            "dock:type=shrink", "Dock", {"type": "shrink", "index": 0}, {"type": "shrink", "index": 10**300}
        ),
        Message(
            "dock:type=remove", "Dock", {"type": "remove", "index": 0}, {"type": "remove", "index": 10**300}
        ),
        Message(
            "dock:type=token", "Dock", {"type": "token", "index": 2047}, {"type": "token", "index": 10**300}
        ),
        Message(
            "dock:type=owner", "Dock", {"type": "owner", "token": "0" * 32}, {"type": "owner", "token": TEXT}
        ),
        Message("dock:type=forget", "Dock", {"type": "forget"}),
    ]


def of_the_lab() -> list[Message]:
    change = {"what": "head", "do": "zero", "layer": "3", "index": "0"}
    views = [
        Message("lab_messages:view", "SelectionBar", {"view": view}, {"view": TEXT})
        for view in ("routing", "memory", "attention", "depth", "tokens")
    ]
    return [
        Message("lab_pictures:connected", "SelectionBar", {"connected": True}, {"connected": TEXT}),
        *views,
        Message("lab_messages:layer", "SelectionBar", {"layer": 3}, {"layer": 10**300}),
        Message("lab_messages:head", "SelectionBar", {"head": 1}, {"head": 10**300}),
        Message("lab_messages:token", "SelectionBar", {"token": 1000}, {"token": 10**300}),
        Message("lab_messages:baseline", "SelectionBar", {"baseline": ""}, {"baseline": TEXT}),
        Message("plot_pane:choice", "PlotHead", {"choice": "tokens"}, {"choice": TEXT}),
        *[
            Message("plot_pane:save", "PlotHead", {"save": form}, {"save": TEXT})
            for form in ("PNG", "SVG", "CSV", "NPZ")
        ],
        Message(
            "intervention_panel:add",
            "InterventionForm",
            {"add": change},
            {"add": change | {"tokens": TEXT, "more": [TEXT]}},
        ),
        Message("intervention_panel:undo", "InterventionForm", {"undo": True}),
        Message("intervention_panel:remove", "InterventionForm", {"remove": 0}, {"remove": 10**300}),
        Message("intervention_panel:clear", "InterventionForm", {"clear": True}),
        Message(
            "continuation_panel:append",
            "TokenStrip",
            {"append": 70, "after": 1000},
            {"append": 10**300, "after": 3},
        ),
        Message(
            "continuation_panel:generate",
            "TokenStrip",
            {"generate": 256, "temperature": 0, "seed": 2**31 - 1},
            {"generate": 10**300, "temperature": 1, "seed": 1},
        ),
        Message("continuation_panel:remove", "TokenStrip", {"remove": 1}, {"remove": 10**300}),
    ]


def links() -> list[tuple[str, str, str]]:
    """Of each key of the link: its largest value, and one that is too large."""
    largest = {
        "open": "everything",
        "prompt": "a" * 7000,
        "do": json.dumps([CHANGE] * 20)[:1990],
        "with": MODEL,
        "more": ",".join(["70"] * 1000),
        "plots": "matrix,exchange",
        "lab": "attention:7",
        "view": "compare",
    }
    return [(f.key, largest.get(f.key, "9" * 9), "9" * 60_000) for f in FIELDS]


CHANGE = {"what": "head", "do": "zero", "layer": 3, "index": 0}
