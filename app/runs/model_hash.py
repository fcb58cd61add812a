"""The hash of a model: of everything that shapes the numbers of a run besides what the run itself names."""

import dataclasses
import hashlib
import json
from dataclasses import replace

from k3scope.app.runs.forward_pass import FORMER_DIGITS, LoadedModel, tensors_hash
from k3scope.model import Config
from k3scope.model.vision import preprocess

DIGITS = 16  # of the hash of a model; that of the tensors alone, in older links, has 12
# What says how a checkpoint is stored, how long a prompt may be and when sampling ends: no number of a pass.
SHAPES_NO_NUMBER = frozenset(
    {"init_std", "max_positions", "eos", "other_eos", "pad"}
    | {"a_log_stored", "quantization", "stored", "own_head"}
)


def canonical_config(config: Config) -> str:
    """What of a config shapes a pass, as JSON: the same text for the same model, on every machine.

    A field at its default is left out, so that a new one leaves the hash of an older model as it was.
    """
    shaping = {name: value for name, value in _changed(config).items() if name not in SHAPES_NO_NUMBER}
    if config.vision:
        shaping["vision"] = _changed(config.vision)
        shaping["images"] = preprocess.SETTINGS
    return json.dumps(shaping, sort_keys=True, separators=(",", ":"))


def model_hash(loaded: LoadedModel) -> str:
    """16 hex digits that stand for tensors, config, dtype, tokenizer and how images are prepared."""
    return _hash(loaded, tensors_hash(loaded.model))


def hashed(loaded: LoadedModel) -> LoadedModel:
    """With the hash of the model, and the one that links carried before there was that."""
    tensors = tensors_hash(loaded.model)
    return replace(loaded, weights=_hash(loaded, tensors), former_weights=tensors[:FORMER_DIGITS])


def _hash(loaded: LoadedModel, tensors: str) -> str:
    model = loaded.model
    dtypes = sorted({str(parameter.dtype) for parameter in model.parameters()})
    parts = (tensors, canonical_config(model.config), *dtypes, loaded.tokenizer.digest)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]


def _changed(config) -> dict:
    """The fields of a record that differ from their default."""
    fields = dataclasses.fields(config)
    return {f.name: _written(v) for f in fields if (v := getattr(config, f.name)) != f.default}


def _written(value):
    """A number as JSON has it once: 4.0 is the 4 that another tool wrote."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
