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
from k3scope.app.page.kit.component import Part
from k3scope.app.page.kit.static import scripts, styles
from k3scope.app.page.kit.token_chip import chip
from k3scope.app.runs.run_session import Runs
from k3scope.app.runs.runner import LIMIT, Run
from k3scope.app.runs.uploads import MOST, MOST_BYTES, SAMPLES


class Dock(Part):
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


def dock(runs: Runs) -> Dock:
    """The dock of a visitor; what runs ends with the visit."""
    state, counting = runs.state, threading.Lock()

    def told(data: dict) -> None:
        match data:
            case {"type": "run", "model": str(name), "prompt": str(prompt)}:
                runs.start(name, prompt)
            case {"type": "model", "model": str(name)} if name in runs.runner.names:
                runs.model = name
            case {"type": "cancel"}:
                runs.stop()
            case {"type": "example", "index": int(index)} if 0 <= index < len(examples()):
                state.param.update(**examples()[index].values)
            case {"type": "image", "name": str(name), "data": str(data)}:
                _receive(runs, name, data)
                with counting:
                    shown.received += 1
            case {"type": "sample", "name": str(name)}:
                runs.add_sample(name)
            case {"type": "remove", "index": int(index)}:
                runs.remove(index)
            case {"type": "shrink", "index": int(index)}:
                runs.shrink(index, runs.runner.config(runs.model).vision)
            case {"type": "token", "index": int() | None as index}:
                state.token = index

    shown = Dock(
        told,
        models=[[name, label(runs, name)] for name in runs.runner.names],
        examples=[{"name": e.name, "href": e.link, "place": e.place, "look": e.look} for e in examples()],
        samples=[list(item) for item in SAMPLES.items()],
        **{name: value for read, _ in FOLLOWED for name, value in read(runs).items()},
        **_follows(state),
    )
    for read, watched in FOLLOWED:
        runs.param.watch(lambda *_, read=read: shown.param.update(**read(runs)), watched)
    state.param.watch(lambda *_: shown.param.update(**_follows(state)), ["token", "view"])
    if pn.state.curdoc is not None:
        pn.state.on_session_destroyed(lambda _context: runs.leave())
    return shown


def _receive(runs: Runs, name: str, data: str) -> None:
    """A file in base64, which is safe in any message."""
    try:
        runs.add(name, base64.b64decode(data, validate=True))
    except binascii.Error:
        runs.problem = f"{name} did not arrive whole; please add it again."


def label(runs: Runs, name: str) -> str:
    return f"{name} (random weights)" if runs.runner.random_weights(name) else name


def _now(runs: Runs) -> dict:
    """What changes many times while a run is on its way: little."""
    return {
        "model_name": runs.model,
        "prompt": runs.prompt,
        "busy": runs.busy,
        "progress": runs.progress,
        "problem": runs.problem,
    }


def _result(runs: Runs) -> dict:
    return {"result": {} if runs.run is None else result(runs.run)}


def _follows(state: State) -> dict:
    return {"token": state.token, "beside_lab": state.view == "lab"}


def _images(runs: Runs) -> dict:
    """The images before the prompt; `rows` is 0 when the model takes none."""
    vit = runs.runner.config(runs.model).vision
    shown = []
    for image in runs.images:
        rows = image.rows(vit) if vit else 0
        size = "{} × {}".format(*image.size)
        shown.append(
            {
                "name": image.name,
                "size": size,
                "rows": rows,
                "note": image.note,
                "thumb": image.thumb,
                "large": rows > LIMIT // 2,
            }
        )
    return {"images": shown, "blind": "" if vit else f"{runs.model} has no vision tower"}


# what is read of the runs, and the fields whose change asks for it
FOLLOWED = (
    (_now, ["busy", "progress", "problem"]),
    (_result, ["run"]),
    (_images, ["images", "model"]),
)


def result(run: Run) -> dict:
    """Tokens and next tokens of a run, as the browser draws them; the rows of an image are one chip."""
    example = example_of(run.spec.model, run.spec.prompt, run.spec.changes)
    return {
        "look": f"{example.name}: {example.look}" if example else "",
        "pieces": _chips(run),
        "count": len(run.pieces),
        "next": [[*chip(piece), round(p, 6)] for piece, p in run.next],
        "badge": badge(run.spec.model),
    }


def _chips(run: Run) -> list[list]:
    """[id, visible text, kind, first token, tokens, whether it was added to the prompt] of each chip."""
    chips, at = [], 0
    rows = {image.start: len(image.tokens) for image in run.images}
    while at < len(run.pieces):
        piece, count = run.pieces[at], rows.get(at, 1)
        shown = (
            [piece.id, f"image, {count:,} row{'s' if count > 1 else ''}", "image"]
            if at in rows
            else chip(piece)
        )
        chips.append([*shown, at, count, at >= run.first_new])
        at += count
    return chips
