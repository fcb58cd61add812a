"""Tensors that compressed-tensors writes in each of its formats, counted by us name for name."""

import json
from dataclasses import replace

import pytest
from safetensors import safe_open

from k3scope.model import open_checkpoint
from k3scope.model.checkpoint.tensor_layout import Layout
from k3scope.model.config import Config
from k3scope.model.init import build
from k3scope.model.official_config_write import document
from k3scope.model.quantization.quantization import Quantization
from tests.helpers.quantised import AROUND, RELEASE, SMALL, official_tree, quantise, written

pytest.importorskip(
    "compressed_tensors", reason="compressed-tensors, the library that writes them, is absent"
)

pytestmark = pytest.mark.slow
FP4 = {"num_bits": 4, "type": "float", "symmetric": True}
FP8 = {"num_bits": 8, "type": "float", "symmetric": True}
INT4 = {"num_bits": 4, "type": "int", "symmetric": True}
NVFP4 = FP4 | {"strategy": "tensor_group", "group_size": 16, "scale_dtype": "torch.float8_e4m3fn"}
MXFP4 = FP4 | {"strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"}
INT8 = {"num_bits": 8, "type": "int", "symmetric": True}


def config(form: str, weights: dict | None, inputs: dict | None = None, ignore=("lm_head",), **group) -> dict:
    content = {"targets": ["Linear"], "weights": weights, "input_activations": inputs, "format": form} | group
    return {
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        "format": form,
        "config_groups": {"group_0": content},
        "ignore": list(ignore),
    }


def mixed(*groups: dict, ignore=("re:.*vision.*", "re:.*mm_projector.*")) -> dict:
    first = config("mixed-precision", None, ignore=ignore)
    return first | {"config_groups": {f"group_{i}": group for i, group in enumerate(groups)}}


CASES = {
    "mxfp4": config("mxfp4-pack-quantized", MXFP4),
    "mxfp4 in groups of 16": config("mxfp4-pack-quantized", MXFP4 | {"group_size": 16}),
    "mxfp4 of experts alone": config("mxfp4-pack-quantized", MXFP4, ignore=[*RELEASE, *AROUND]),
    "nvfp4, weights only": config("nvfp4-pack-quantized", NVFP4),
    "nvfp4, inputs scaled": config("nvfp4-pack-quantized", NVFP4, NVFP4 | {"dynamic": "local"}),
    "nvfp4, inputs static": config("nvfp4-pack-quantized", NVFP4, NVFP4 | {"dynamic": False}),
    "mxfp6": config("mxfp6-pack-quantized", MXFP4 | {"num_bits": 6}),
    "mxfp8": config("mxfp8-quantized", MXFP4 | {"num_bits": 8}),
    "int4 by groups": config("pack-quantized", INT4 | {"strategy": "group", "group_size": 32}),
    "int4 by channels": config("pack-quantized", INT4 | {"strategy": "channel"}),
    "int4 with zero points": config(
        "pack-quantized", INT4 | {"strategy": "group", "group_size": 16, "symmetric": False}
    ),
    "int4 by channels with zero points": config(
        "pack-quantized", INT4 | {"strategy": "channel", "symmetric": False}
    ),
    "int3 of whole tensors": config("pack-quantized", INT4 | {"num_bits": 3, "strategy": "tensor"}),
    "int8 packed": config("pack-quantized", INT8 | {"strategy": "group", "group_size": 32}),
    "int8 with int8 inputs": config(
        "int-quantized", INT8 | {"strategy": "channel", "symmetric": False},
        INT8 | {"strategy": "tensor", "symmetric": False},
    ),
    "fp8 of whole tensors": config(
        "float-quantized", FP8 | {"strategy": "tensor"}, FP8 | {"strategy": "tensor"},
        output_activations=FP8 | {"strategy": "tensor"},
    ),
    "fp8 by channels": config(
        "float-quantized", FP8 | {"strategy": "channel"}, FP8 | {"strategy": "token", "dynamic": True}
    ),
    "fp8 in blocks": config("float-quantized", FP8 | {"strategy": "block", "block_structure": [48, 32]}),
    "naive int4": config("naive-quantized", INT4 | {"strategy": "channel"}),
    "naive fp8": config("naive-quantized", FP8 | {"strategy": "tensor"}),
    "names and patterns": config(
        "float-quantized", FP8 | {"strategy": "channel"}, ignore=["Embedding", "re:.*kv_a.*"],
        targets=["language_model.lm_head", r"re:.*self_attn\.(q|kv)_.*", r"re:.*experts\.\d+\.w2"],
    ),
    "an embedding": config("naive-quantized", FP8 | {"strategy": "channel"}, targets=["Embedding"]),
    "two formats": mixed(
        {"targets": [r"re:.*\.experts\..*"], "weights": NVFP4, "format": "nvfp4-pack-quantized"},
        {"targets": ["Linear"], "weights": FP8 | {"strategy": "channel"}, "format": "float-quantized"},
    ),
    "two formats, none said": mixed(
        {"targets": ["re:.*w1$"], "weights": MXFP4},
        {"targets": ["re:.*w[23]$"], "weights": INT4 | {"strategy": "channel"}},
        {"targets": ["Linear"], "weights": FP8, "input_activations": FP8},
    ),
    "an expert by itself": config(
        "nvfp4-pack-quantized", NVFP4,
        ignore=[*RELEASE, *AROUND, "language_model.model.layers.1.block_sparse_moe.experts.0.w2"],
    ),
    "experts of two formats": mixed(
        {"targets": [r"re:.*experts\.2\.w[12]"], "weights": FP8, "format": "float-quantized"},
        {"targets": [r"re:.*experts\.[01]\..*"], "weights": MXFP4, "format": "mxfp4-pack-quantized"},
    ),
    "inputs only": config("dense", None, FP8 | {"strategy": "tensor"}),
}  # fmt: skip


def counted(c: Config) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {t.name: (t.dtype, t.shape) for t in Layout(build(c), c)}


@pytest.mark.parametrize("content", CASES.values(), ids=CASES)
def test_every_tensor_is_counted_by_name_dtype_and_shape(content, tmp_path):
    model = official_tree(SMALL)
    quantise(model, content)
    file = tmp_path / "model.safetensors"
    theirs = written(model, file)
    c = Config.from_official(document(replace(SMALL, quantization=Quantization.of(content))))
    assert counted(c) == theirs
    layout = Layout(build(c), c)
    s = layout.storage()
    with safe_open(file, "pt") as opened:
        assert s.bytes == sum(opened.get_tensor(n).nbytes for n in theirs)
    assert (s.tensors, s.parameters) == (len(theirs), Layout(build(SMALL), SMALL).storage().parameters)
    assert all(layout.find(t.name) == t for t in layout)


@pytest.mark.parametrize(
    "name", ["mxfp4 of experts alone", "nvfp4, inputs scaled", "two formats", "fp8 in blocks"]
)
def test_the_config_that_compressed_tensors_writes_is_read(name, tmp_path):
    """Its `ignore` lists modules one by one, every expert for itself."""
    from compressed_tensors.compressors import ModelCompressor

    model = official_tree(SMALL)
    quantise(model, CASES[name])
    ModelCompressor.from_pretrained_model(model).update_config(str(tmp_path))
    content = json.loads((tmp_path / "config.json").read_text())["quantization_config"]
    c = replace(SMALL, quantization=Quantization.of(content))
    assert counted(c) == written(model, tmp_path / "model.safetensors")


@pytest.mark.parametrize("name", [name for name in CASES if name != "inputs only"])
def test_a_folder_in_any_format_opens_and_what_cannot_run_says_so(name, tmp_path):
    model = official_tree(SMALL)
    quantise(model, CASES[name])
    written(model, tmp_path / "model.safetensors")
    official = document(replace(SMALL, quantization=Quantization.of(CASES[name])))
    (tmp_path / "config.json").write_text(json.dumps(official))
    checkpoint = open_checkpoint(tmp_path)
    assert not checkpoint.missing
    if name == "mxfp4 of experts alone":
        assert checkpoint.load().language_model.model.layers[1].block_sparse_moe.experts.w1.isfinite().all()
        return
    with pytest.raises(ValueError, match="is counted and drawn but does not run here"):
        checkpoint.load()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("mxfp4 of experts alone", "config.json says that experts are stored as MXFP4"),
     ("nvfp4, weights only", r"says that numbers are stored as nvfp4-pack-quantized \(groups of 16\)")],
)  # fmt: skip
def test_plain_tensors_under_a_quantised_config_are_refused(name, sentence, tmp_path):
    written(official_tree(SMALL), tmp_path / "model.safetensors")
    official = document(replace(SMALL, quantization=Quantization.of(CASES[name])))
    (tmp_path / "config.json").write_text(json.dumps(official))
    with pytest.raises(ValueError, match=sentence):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("around", [[], AROUND], ids=["quantised around", "as it is around"])
@pytest.mark.parametrize("ignore", [RELEASE, ["lm_head"]], ids=["only experts", "all"])
def test_names_of_the_tensors_decide_what_a_config_leaves_open(ignore, around, tmp_path):
    """The release's `ignore` does not name the Linears around its experts, and they are in BF16."""
    content = config("nvfp4-pack-quantized", NVFP4, ignore=ignore)
    model = official_tree(SMALL)
    quantise(model, content | {"ignore": [*ignore, *around]})
    theirs = written(model, tmp_path / "model.safetensors")
    official = document(replace(SMALL, quantization=Quantization.of(content)))
    (tmp_path / "config.json").write_text(json.dumps(official))
    checkpoint = open_checkpoint(tmp_path)
    assert not checkpoint.missing
    assert {t.name: (t.dtype, t.shape) for t in checkpoint.layout} == theirs
