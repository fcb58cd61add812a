"""Small models with NaN or infinity put somewhere, and a look for numbers that are none in what is shown."""

import math
import re
from functools import cache

import torch
from PIL import Image

from k3scope.app.runs.forward_pass import LoadedModel, PassInput, forward
from k3scope.app.runs.run_spec import RunSpec
from k3scope.model import load
from k3scope.model.loading import tokenizer
from k3scope.model.vision.preprocess import prompt_text

NAN, INF = float("nan"), float("inf")
PROMPT = "see one bad token here"
LATE, LATE_ID = 4, 358  # the fifth of its nine tokens, and its id, which no other has
_NUMBER = re.compile(r"(?<![A-Za-z])[-+]?(nan|NaN|inf)(?![A-Za-z])")


def _layer(model, n: int):
    return model.language_model.model.layers[n]


def _embedding(model, value):
    model.language_model.model.embed_tokens.weight.data[LATE_ID] = value


# layer 0 is dense, 3 and 7 are MLA; layers from 1 on have experts
PLACES = {
    "KDA query": lambda m: _layer(m, 2).self_attn.q_proj.weight.data[0].fill_(NAN),
    "KDA from one token on": lambda m: _embedding(m, NAN),
    "infinite embedding": lambda m: _embedding(m, INF),
    "minus infinite embedding": lambda m: _embedding(m, -INF),
    "KDA decay": lambda m: _layer(m, 1).self_attn.A_log.data.fill_(NAN),
    "MLA key": lambda m: _layer(m, 3).self_attn.kv_b_proj.weight.data[0].fill_(NAN),
    "dense FFN": lambda m: _layer(m, 0).mlp.down_proj.weight.data[0].fill_(INF),
    "one expert": lambda m: m.language_model.model.layers[4].block_sparse_moe.experts.w2.data[5].fill_(NAN),
    "router": lambda m: _layer(m, 4).block_sparse_moe.gate.weight.data[3].fill_(NAN),
    "router bias": lambda m: _layer(m, 4).block_sparse_moe.gate.e_score_correction_bias.data[3].fill_(NAN),
    "LM head": lambda m: m.language_model.lm_head.weight.data[7].fill_(NAN),
    "infinite LM head": lambda m: m.language_model.lm_head.weight.data[7].fill_(-INF),
    "everything": lambda m: [p.data.fill_(NAN) for p in m.parameters()],
}


def bad_model(place: str):
    model = load("k3-random", torch.float32)
    with torch.no_grad():
        PLACES[place](model)
    return model


@cache
def bad_run(place: str):
    """RunResult and Run of PROMPT through a model with NaN or infinity at this place."""
    reader = tokenizer("k3-random")
    loaded = LoadedModel(bad_model(place) if place else load("k3-random", torch.float32), reader, True, True)
    inputs = PassInput(RunSpec("k3-random", "0" * 12, PROMPT), reader.encode(PROMPT), [], {})
    return forward(loaded, inputs, lambda path: None, lambda: None)


def not_numbers(shown) -> list:
    """NaN and infinity among the numbers and in the texts of what is shown, however it is nested."""
    if isinstance(shown, dict):
        shown = list(shown.values())
    if isinstance(shown, list | tuple):
        return [bad for item in shown for bad in not_numbers(item)]
    if isinstance(shown, float):
        return [] if math.isfinite(shown) else [shown]
    if not isinstance(shown, str):
        return []
    text = re.sub(r"NaN\s+or\s+infinity", "", re.sub("<[^>]*>", "", shown))  # an SVG breaks its lines
    return [bad[0] for bad in [_NUMBER.search(text)] if bad]


@cache
def bad_image_run(stage: str):
    """The same of a text after an image, with NaN in the vision tower (`patches`, `block`, `projector`)."""
    model, reader = load("k3-random", torch.float32), tokenizer("k3-random")
    tower = {
        "patches": model.vision_tower.patch_embed,
        "block": model.vision_tower.encoder.blocks[1],
        "projector": model.mm_projector,
    }
    with torch.no_grad():
        next(tower[stage].parameters()).fill_(NAN)
    image = Image.new("RGB", (56, 42), "teal")
    ids = [*reader.encode(prompt_text([image]), specials=True), *reader.encode(PROMPT)]
    spec = RunSpec("k3-random", "0" * 12, PROMPT, ("0" * 64,))
    return forward(
        LoadedModel(model, reader, True, True),
        PassInput(spec, ids, [image], {}),
        lambda path: None,
        lambda: None,
    )
