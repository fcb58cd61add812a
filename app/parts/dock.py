"""The dock: a prompt, the model that runs it, its tokens and what would come next."""

from typing import ClassVar

import panel as pn
import param
from panel.custom import JSComponent

from app.runner import Run
from app.runs import Runs
from assets import ROOT
from model.tokenizer import Piece

EXAMPLES = (
    ("English prose", "The quick brown fox jumps over the lazy dog."),
    ("Code", "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"),
    ("Arithmetic", "12 + 35 = 47\n8 * 9 = 72\n105 - 38 ="),
    ("Repeated words", "tick tock tick tock tick tock tick tock tick tock tick"),
    ("CJK and emoji", "月亮代表我的心 · こんにちは · 👩‍👩‍👧 🚀"),
    ("Brackets", "([{<>}]) ((())) [[[]]] {{}} (([[{{"),
    ("Key-value recall", "red=7 blue=3 green=9 pink=1 blue=3 red=7 green="),
    ("2,048 tokens", "All work and no play makes a long prompt. " * 48 + "The very end, at last, is now..."),
)


def read(*names: str) -> str:
    """Files of assets as one text; Panel serves no path outside `app`."""
    return "\n".join((ROOT / name).read_text(encoding="utf-8") for name in names)


class Dock(JSComponent):
    """Shows what is typed, running and found; asks to run, to cancel and to choose a token."""

    models = param.List([], doc="[name, label] of the models that run")
    examples = param.List([], doc="[label, prompt]")
    model_name = param.String("", doc="name of the model in the menu")
    prompt = param.String("", doc="text to put into the prompt box")
    busy = param.Boolean(False)
    progress = param.Dict({"text": ""}, doc="text, and while layers run: done, of")
    problem = param.String("", doc="a sentence that something went wrong or differs")
    result = param.Dict({}, doc="pieces, next, random; empty before a run")
    token = param.Integer(None, allow_None=True)

    _esm = read("dom.js", "dock.js")
    _stylesheets: ClassVar = [read("dock.css")]

    def __init__(self, on_message, **params):
        super().__init__(sizing_mode="stretch_width", margin=0, **params)
        self._on_message = on_message

    def _handle_msg(self, data) -> None:
        if isinstance(data, dict):
            self._on_message(data)


def dock(runs: Runs) -> Dock:
    """The dock of a visitor; what runs ends with the visit."""
    state = runs.state

    def told(data: dict) -> None:
        match data:
            case {"type": "run", "model": str(name), "prompt": str(prompt)}:
                runs.start(name, prompt)
            case {"type": "cancel"}:
                runs.stop()
            case {"type": "token", "index": int() | None as index}:
                state.token = index

    shown = Dock(
        told,
        models=[[name, label(runs, name)] for name in runs.runner.names],
        examples=[list(example) for example in EXAMPLES],
        **_values(runs),
    )
    runs.param.watch(lambda *_: shown.param.update(**_values(runs)), ["busy", "progress", "problem", "run"])
    state.param.watch(lambda event: setattr(shown, "token", event.new), "token")
    if pn.state.curdoc is not None:
        pn.state.on_session_destroyed(lambda _context: runs.stop())
    return shown


def label(runs: Runs, name: str) -> str:
    return f"{name} (random weights)" if runs.runner.random_weights(name) else name


def _values(runs: Runs) -> dict:
    return {
        "model_name": runs.model,
        "prompt": runs.prompt,
        "busy": runs.busy,
        "progress": runs.progress,
        "problem": runs.problem,
        "result": {} if runs.run is None else result(runs.run),
        "token": runs.state.token,
    }


def result(run: Run) -> dict:
    """Tokens and next tokens of a run, as the browser draws them."""
    return {
        "pieces": [chip(piece) for piece in run.pieces],
        "next": [[*chip(piece), round(p, 6)] for piece, p in run.next],
        "random": run.random_weights,
    }


def chip(piece: Piece) -> list:
    """[id, visible text, kind]: kind is special, space, byte (not a character by itself) or empty."""
    if piece.special:
        return [piece.id, piece.text, "special"]
    if piece.raw.isspace():
        return [piece.id, piece.text.replace(" ", "␣"), "space"]
    return [piece.id, piece.text, "byte" if piece.part else ""]
