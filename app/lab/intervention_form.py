"""The form for an intervention: what it offers for a model, and the intervention that a filled one means."""

import json
import re

from k3scope.model.config import Config
from k3scope.model.interventions.intervention import (
    ATTENTION,
    FFN,
    INDEXED,
    KINDS,
    SITES,
    Intervention,
    loads,
)


def options(config: Config) -> dict:
    """What can be chosen: kinds, and of each layer how many heads, experts and candidates it has."""
    layers = [
        {
            "layer": i,
            "kind": kind.upper(),
            "heads": config.heads if kind == "mla" else config.kda_heads,
            "experts": 0 if i < config.dense_layers else config.experts,
            ATTENTION: _candidates(config, i, "attn"),
            FFN: _candidates(config, i, "ffn"),
        }
        for i, kind in enumerate(config.kinds)
    ]
    has = {"mix": config.block, "decay": config.kda_layers}
    has |= dict.fromkeys(("expert", "routes"), config.moe_layers)
    kinds = {what: list(does) for what, does in KINDS.items() if has.get(what, True)}
    return {
        "kinds": kinds,
        "sites": {what: list(sites) for what, sites in SITES.items()},
        "layers": layers,
        "output": _candidates(config, config.layers - 1, "ffn"),
        "top_k": config.top_k,
    }


def _candidates(config: Config, layer: int, half: str) -> int:
    count = config.candidates(layer, half) if config.block else 0
    return count if count > 1 else 0


def read(form: dict[str, str]) -> Intervention:
    """The intervention that a form means: every value of it is text. ValueError says what is wrong."""
    texts = {name: str(value).strip()[:200] for name, value in form.items()}
    row: dict = {"what": texts.get("what", ""), "do": texts.get("do", "")}
    for name in ("layer", "index"):
        if texts.get(name):
            row[name] = _integer(texts[name], name)
    for name in ("place", "run"):
        if texts.get(name):
            row[name] = texts[name]
    for name in ("amount", "low", "high"):
        if texts.get(name):
            row[name] = _real(texts[name], name)
    for name in ("tokens", "experts"):
        if texts.get(name):
            row[name] = _numbers(texts[name], name)
    if row["what"] in (*INDEXED, "decay") or "index" not in row:
        return loads(json.dumps([row]))[0]
    raise ValueError(f"{row['what']}: there is nothing to number")


def _integer(text: str, name: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise ValueError(f"{name} is {text!r}; expected a whole number")
    return int(text)


def _real(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}; expected a number") from None


def _numbers(text: str, name: str) -> list[int]:
    """Numbers and ranges: "0, 3-5" is [0, 3, 4, 5]."""
    numbers: list[int] = []
    for part in re.split(r"[\s,]+", text):
        if match := re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part):
            first, last = int(match[1]), int(match[2] or match[1])
            numbers += range(first, min(last, first + 4096) + 1)
        elif part:
            raise ValueError(f"{name} are {text!r}; expected numbers such as 0, 3-5")
    return list(dict.fromkeys(numbers))
