"""The dock: a prompt and its images, the model that runs it, its tokens and what would come next."""

import base64
import binascii
import threading
from typing import ClassVar

import panel as pn
import param

from k3scope.app.examples import example_of, examples
from k3scope.app.link.state import State
from k3scope.app.model_cards import badge
from k3scope.app.page.kit.component import Component
from k3scope.app.page.kit.static import scripts, styles
from k3scope.app.page.kit.token_chip import chip
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_session import RunSession
from k3scope.app.runs.runnable_model import TOKEN_LIMIT
from k3scope.app.runs.uploads import MOST, MOST_BYTES, SAMPLES


class Dock(Component):
    """Shows what is typed, added, running and found; asks to run, to cancel and to choose a token."""

    models = param.List([], doc="[name, label] of the models that run")
    examples = param.List([], doc="of each: name, href, place, look")
    samples = param.List([], doc="[name, label] of the sample images")
    limits = param.Dict({"images": MOST, "bytes": MOST_BYTES}, doc="what one prompt takes, and one file")
    images = param.List([], doc="of each: name, size, rows, note, thumb, large")
    blind = param.String("", doc="that the model in the menu takes no images, empty when it does")
    received = param.Integer(0, doc="files that arrived here, taken or not")
    model_name = param.String("", doc="name of the model in the menu")
    prompt = param.String("", doc="text to put into the prompt box")
    busy = param.Boolean(False)
    progress = param.Dict({"text": ""}, doc="text, and while layers run: done, of")
    problem = param.String("", doc="a sentence that something went wrong or differs")
    result = param.Dict({}, doc="pieces, next, badge, look; empty before a run")
    token = param.Integer(None, allow_None=True)
    beside_lab = param.Boolean(False, doc="whether the Lab is on show, which has the tokens larger")

    _esm = scripts("dom", "dock_images", "dock_examples", "dock")
    _stylesheets: ClassVar = [styles("dock")]


def dock(session: RunSession) -> Dock:
    """The dock of a visitor; what runs ends with the visit."""
    state, counting = session.state, threading.Lock()

    def told(data: dict) -> None:
        match data:
            case {"type": "run", "model": str(name), "prompt": str(prompt)}:
                session.start(name, prompt)
            case {"type": "model", "model": str(name)} if name in session.runner.names:
                session.model = name
            case {"type": "cancel"}:
                session.stop()
            case {"type": "example", "index": int(index)} if 0 <= index < len(examples()):
                state.param.update(**examples()[index].values)
            case {"type": "image", "name": str(name), "data": str(data)}:
                _receive(session, name, data)
                with counting:
                    shown.received += 1
            case {"type": "sample", "name": str(name)}:
                session.add_sample(name)
            case {"type": "remove", "index": int(index)}:
                session.remove(index)
            case {"type": "shrink", "index": int(index)}:
                session.shrink(index, session.runner.config(session.model).vision)
            case {"type": "token", "index": int() | None as index}:
                state.token = index

    shown = Dock(
        told,
        models=[[name, label(session, name)] for name in session.runner.names],
        examples=[{"name": e.name, "href": e.link, "place": e.place, "look": e.look} for e in examples()],
        samples=[list(item) for item in SAMPLES.items()],
        **_progress(session),
        **_result(session),
        **_images(session),
        **_token(state),
    )
    session.follow("dock.progress", lambda *_: shown.param.update(**_progress(session)))
    session.follow("dock.result", lambda *_: shown.param.update(**_result(session)))
    session.follow("dock.images", lambda *_: shown.param.update(**_images(session)))
    state.follow("dock.token", lambda *_: shown.param.update(**_token(state)))
    if pn.state.curdoc is not None:
        pn.state.on_session_destroyed(lambda _context: session.leave())
    return shown


def _receive(session: RunSession, name: str, data: str) -> None:
    """A file in base64, which is safe in any message."""
    try:
        session.add(name, base64.b64decode(data, validate=True))
    except binascii.Error:
        session.problem = f"{name} did not arrive whole; please add it again."


def label(session: RunSession, name: str) -> str:
    return f"{name} (random weights)" if session.runner.random_weights(name) else name


def _progress(session: RunSession) -> dict:
    """What changes many times while a run is on its way: little."""
    return {
        "model_name": session.model,
        "prompt": session.prompt,
        "busy": session.busy,
        "progress": session.progress,
        "problem": session.problem,
    }


def _result(session: RunSession) -> dict:
    return {"result": {} if session.result is None else result(session.result)}


def _token(state: State) -> dict:
    return {"token": state.token, "beside_lab": state.view == "lab"}


def _images(session: RunSession) -> dict:
    """The images before the prompt; `rows` is 0 when the model takes none."""
    vit = session.runner.config(session.model).vision
    shown = []
    for image in session.images:
        rows = image.rows(vit) if vit else 0
        size = "{} × {}".format(*image.size)
        shown.append(
            {
                "name": image.name,
                "size": size,
                "rows": rows,
                "note": image.note,
                "thumb": image.thumb,
                "large": rows > TOKEN_LIMIT // 2,
            }
        )
    return {"images": shown, "blind": "" if vit else f"{session.model} has no vision tower"}


def result(run: RunResult) -> dict:
    """Tokens and next tokens of a run, as the browser draws them; the rows of an image are one chip."""
    example = example_of(run.spec.model, run.spec.prompt, run.spec.interventions)
    return {
        "look": f"{example.name}: {example.look}" if example else "",
        "pieces": _chips(run),
        "count": len(run.tokens),
        "next": [[*chip(piece), round(p, 6)] for piece, p in run.next],
        "badge": badge(run.spec.model),
    }


def _chips(run: RunResult) -> list[list]:
    """[id, visible text, kind, first token, tokens, whether it was added to the prompt] of each chip."""
    chips, at = [], 0
    rows = {image.start: len(image.tokens) for image in run.images}
    while at < len(run.tokens):
        piece, count = run.tokens[at], rows.get(at, 1)
        shown = (
            [piece.id, f"image, {count:,} row{'s' if count > 1 else ''}", "image"]
            if at in rows
            else chip(piece)
        )
        chips.append([*shown, at, count, at >= run.first_generated])
        at += count
    return chips
