"""Random configs of compressed-tensors: what both accept is counted as the library writes it."""

import random
from dataclasses import replace

import pytest

from k3scope.model.checkpoint.tensor_layout import Layout
from k3scope.model.config import Config
from k3scope.model.init import build
from k3scope.model.official_config_write import document
from k3scope.model.quantization.compressed_scheme import FORMATS
from k3scope.model.quantization.quantization import Quantization
from tests.helpers.quantised import SMALL, official_tree, quantise, written

pytest.importorskip("compressed_tensors", reason="compressed-tensors, which writes them, is absent")
TARGETS = (
    "Linear", "Embedding", "Module", "re:.*self_attn.*", r"re:.*experts\.\d+\.w[12]$", "re:.*_proj$",
    "re:.*w3",
    "language_model.lm_head", "re:vision", "re:.*mlp",
    "language_model.model.layers.0.self_attn.q_proj",
    "re:.*embed.*", "re:.*res_proj", "re:.*routed.*", "language_model.model.layers.1.block_sparse_moe",
)  # fmt: skip


def arguments(r: random.Random, form: str | None, weights: bool) -> dict:
    bits = {"mxfp4": 4, "nvfp4": 4, "mxfp6": 6, "mxfp8": 8}.get((form or "").partition("-")[0])
    kind = "float" if bits else r.choice(["int", "float"])
    kind = {"pack-quantized": "int", "int-quantized": "int", "float-quantized": "float"}.get(form, kind)
    bits = bits or (8 if kind == "float" else r.choice([2, 3, 4, 5, 8]))
    strategies = (
        ["tensor", "channel", "group", "tensor_group", "block"]
        if weights
        else ["tensor", "group", "tensor_group"]
    )
    strategy = r.choice(["group", "tensor_group"] if "fp" in (form or "") else strategies)
    args = {"num_bits": bits, "type": kind, "strategy": strategy}
    args["symmetric"] = True if kind == "float" else r.choice([True, False])
    if "group" in strategy:
        args["group_size"] = r.choice([16, 32])
    if strategy == "block":
        args["block_structure"] = r.choice([[16, 32], [48, 64]])
    if not weights:
        args["dynamic"] = r.choice([True, False] + ["local"] * (strategy == "tensor_group"))
    return args


def drawn(seed: int) -> dict:
    r = random.Random(seed)
    groups, left = {}, list(TARGETS)
    r.shuffle(left)
    for i in range(r.choice([1, 1, 2, 3])):
        form = r.choice([*FORMATS, None])
        inputs = arguments(r, "float-quantized" if r.random() < 0.5 else "int-quantized", False)
        groups[f"group_{i}"] = {
            "targets": [left.pop() for _ in range(r.choice([1, 2]))],
            "weights": arguments(r, form, True),
            "input_activations": r.choice([None, inputs]),
            "format": form,
        }
    ignore = r.sample(TARGETS[3:], r.choice([0, 1, 3]))
    return {"config_groups": groups, "format": "mixed-precision", "ignore": ignore}


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(200))
def test_a_random_config_is_counted_as_it_is_written(seed, tmp_path):
    content = drawn(seed)
    model = official_tree(SMALL)
    try:
        quantise(model, content)
    except Exception as error:  # whatever it says, the library does not write this one
        pytest.skip(f"compressed-tensors refuses it: {error}")
    theirs = written(model, tmp_path / "model.safetensors")
    c = Config.from_official(document(replace(SMALL, quantization=Quantization.of(content))))
    ours = {t.name: (t.dtype, t.shape) for t in Layout(build(c), c, lambda: theirs)}
    assert ours == theirs
