"""The dock: a prompt and its images, the model that runs it, its tokens and what would come next."""

from functools import partial
from typing import ClassVar

import panel as pn
import param

from k3scope.app.examples import examples
from k3scope.app.link.state import State
from k3scope.app.page.dock.result_message import result_message
from k3scope.app.page.kit.component import Component
from k3scope.app.page.kit.static import scripts, styles
from k3scope.app.runs.run_session import RunSession
from k3scope.app.runs.run_status import what_is_kept
from k3scope.app.runs.runnable_model import TOKEN_LIMIT
from k3scope.app.runs.uploads import MOST, MOST_BYTES, PIECE, SAMPLES


class Dock(Component):
    """Shows prompt, attachments, progress and result; asks to run, to cancel, to choose a token."""

    models = param.List([], doc="[name, label] of the models that run")
    examples = param.List([], doc="of each: name, href, view_title, caption")
    samples = param.List([list(item) for item in SAMPLES.items()], doc="[name, label] of the sample images")
    limits = param.Dict(
        {"images": MOST, "bytes": MOST_BYTES, "piece": PIECE},
        doc="what one prompt takes, and one file; letters of base64 in one message",
    )
    kept = param.List([], doc="what the server keeps of runs, a paragraph each")
    attachments = param.List([], doc="of each image: name, size, rows, note, thumb, large")
    no_vision = param.String("", doc="that the model in the menu takes no images, empty when it does")
    received = param.Integer(0, doc="files that have arrived, attached or refused")
    model_name = param.String("", doc="name of the model in the menu")
    prompt = param.String("", doc="text to put into the prompt box")
    busy = param.Boolean(False)
    progress = param.Dict({"text": ""}, doc="text, and while layers run: done, of")
    problem = param.String("", doc="a sentence that something went wrong or differs")
    result = param.Dict({}, doc="as of `result_message`; empty before a run")
    token = param.Integer(None, allow_None=True, doc="the chosen position")
    beside_lab = param.Boolean(False, doc="whether the Lab is on show, which has the tokens larger")

    _esm = scripts("dom", "dock_attachments", "dock_examples", "dock_kept", "dock_result", "dock")
    _stylesheets: ClassVar = [styles("dock")]


def answer(session: RunSession, data: dict) -> None:
    """Do what a message of the browser asks for; one of another form changes nothing."""
    match data:
        case {"type": "run", "model": str(name), "prompt": str(prompt)}:
            session.start(name, prompt)
        case {"type": "model", "model": str(name)} if name in session.runner.names:
            session.model = name
        case {"type": "cancel"}:
            session.stop()
        case {"type": "example", "index": int(index)} if 0 <= index < len(examples()):
            session.state.param.update(**examples()[index].values)
        case {"type": "attach", "name": str(name), "data": str(piece)}:
            part, of = data.get("part", 0), data.get("of", 1)
            if isinstance(part, int) and isinstance(of, int):
                session.receive(name, piece, part, of)
        case {"type": "cancel_attach"}:
            session.cancel_reading()
        case {"type": "attach_sample", "name": str(name)}:
            session.add_sample(name)
        case {"type": "remove", "index": int(index)}:
            session.remove(index)
        case {"type": "shrink", "index": int(index)}:
            session.shrink(index, session.runner.config(session.model).vision)
        case {"type": "owner", "token": str(token)}:
            session.set_owner(token)
        case {"type": "forget"}:
            session.forget()
        case {"type": "token", "index": int() | None as index}:
            session.state.token = index


def dock(session: RunSession) -> Dock:
    """The dock of a visitor; what runs ends with the visit."""
    state = session.state

    shown = Dock(
        partial(answer, session),
        models=[[name, label(session, name)] for name in session.runner.names],
        examples=[
            {"name": e.name, "href": e.link, "view_title": e.view_title, "caption": e.caption}
            for e in examples()
        ],
        kept=what_is_kept(*session.runner.what_is_kept),
        **_progress(session),
        **_result(session),
        **_attachments(session),
        **_token(state),
    )
    session.follow("dock.progress", lambda *_: shown.param.update(**_progress(session)))
    session.follow("dock.result", lambda *_: shown.param.update(**_result(session)))
    session.follow("dock.attachments", lambda *_: shown.param.update(**_attachments(session)))
    state.follow("dock.token", lambda *_: shown.param.update(**_token(state)))
    if pn.state.curdoc is not None:
        pn.state.on_session_destroyed(lambda _context: session.leave())
    return shown


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
    return {"result": {} if session.result is None else result_message(session.result)}


def _token(state: State) -> dict:
    return {"token": state.token, "beside_lab": state.view == "lab"}


def _attachments(session: RunSession) -> dict:
    """The attached images; `rows` is 0 when the model takes none, `large` ones leave little room for text."""
    vit = session.runner.config(session.model).vision
    attachments = []
    for image in session.images:
        rows = image.rows(vit) if vit else 0
        attachments.append(
            {
                "name": image.name,
                "size": "{} × {}".format(*image.size),
                "rows": rows,
                "note": image.note,
                "thumb": image.thumb,
                "large": rows > TOKEN_LIMIT // 2,
            }
        )
    return {
        "attachments": attachments,
        "received": session.received,
        "no_vision": "" if vit else f"{session.model} has no vision tower",
    }
