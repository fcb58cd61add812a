"""The same weights as other tools lay them out: read as they are, or refused with the step that helps."""

import json
import re
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from k3scope.model import load
from k3scope.model.accounting import count, totals
from k3scope.model.checkpoint.checkpoint import open_checkpoint
from k3scope.model.checkpoint.save import save_pretrained
from k3scope.model.files.checkpoint_folder import INDEX
from k3scope.model.init import build, random_model
from k3scope.model.presets import K3_RECALL, K3_TINY

IDS = torch.tensor([[3, 1, 4, 1, 5]])
ROOT = "language_model.model."


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small model with a vision tower, as we write it."""
    path = tmp_path_factory.mktemp("layouts") / "whole"
    kinds = ("kda", "mla", "kda")
    save_pretrained(random_model(replace(K3_TINY, kinds=kinds, block=2, max_positions=64)), path)
    return path


@pytest.fixture(scope="module")
def expected(whole):
    return open_checkpoint(whole).load()(IDS)


def rewritten(whole, folder, change, config=None):
    """A folder with the tensors that `change` makes of the official ones."""
    folder.mkdir()
    raw = json.loads((whole / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config(raw) if config else raw))
    tensors = change(load_file(whole / "model.safetensors"))
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "model.safetensors")
    return folder


def renamed(pattern: str, replacement: str):
    return lambda tensors: {re.sub(pattern, replacement, name): t for name, t in tensors.items()}


def stacked(tensors: dict, names=("w1", "w2", "w3"), suffix: str = "") -> dict:
    """Each matrix of all experts of a layer in one tensor [experts, rows, columns]."""
    rest, banks = {}, {}
    for name, tensor in tensors.items():
        if match := re.fullmatch(r"(.+\.experts)\.(\d+)\.(w[123])\.weight", name):
            banks.setdefault((match[1], match[3]), []).append((int(match[2]), tensor))
        else:
            rest[name] = tensor
    plain = dict(zip(("w1", "w2", "w3"), names, strict=True))
    return rest | {
        f"{bank}.{plain[matrix]}{suffix}": torch.stack([t for _, t in sorted(parts, key=lambda p: p[0])])
        for (bank, matrix), parts in banks.items()
    }


def gate_up(tensors: dict) -> dict:
    """Gate and up projection of all experts in one tensor, as transformers has them in memory."""
    made = stacked(tensors)
    for bank in [name.removesuffix(".w1") for name in made if name.endswith(".experts.w1")]:
        made[f"{bank}.gate_up_proj"] = torch.cat([made.pop(f"{bank}.w1"), made.pop(f"{bank}.w3")], 1)
        made[f"{bank}.down_proj"] = made.pop(f"{bank}.w2")
    return made


def one_convolution(tensors: dict) -> dict:
    """The kernels of queries, keys and values in one tensor."""
    made = dict(tensors)
    for base in [name.removesuffix("q_conv1d.weight") for name in made if name.endswith("q_conv1d.weight")]:
        made[f"{base}conv1d.weight"] = torch.cat([made.pop(f"{base}{n}_conv1d.weight") for n in "qkv"])
    return made


LAYOUTS = {
    "model.": renamed(r"^language_model\.", ""),
    "model.language_model.": renamed(r"^language_model\.model\.", "model.language_model."),
    "everything below model.": renamed("^", "model."),
    "no root": renamed(r"^language_model\.(model\.)?", ""),
    "data parallel": renamed("^", "module."),
    "compiled": renamed("^", "_orig_mod."),
    "experts in one tensor": stacked,
    "experts in one tensor.weight": lambda t: stacked(t, suffix=".weight"),
    "experts by what they do": lambda t: stacked(t, ("gate_proj", "down_proj", "up_proj")),
    "gate and up in one": gate_up,
    "one expert by what it does": lambda t: renamed(r"\.w1\.", ".gate_proj.")(
        renamed(r"\.w2\.", ".down_proj.")(renamed(r"\.w3\.", ".up_proj.")(t))
    ),
    "mlp for block_sparse_moe": renamed("block_sparse_moe", "mlp"),
    "one convolution": one_convolution,
    "forget gate": renamed(r"self_attn\.(f_a_proj|f_b_proj|A_log|dt_bias)", r"self_attn.forget_gate.\1"),
    "buffers": lambda t: (
        t
        | {
            f"{ROOT}layers.1.self_attn.rotary_emb.inv_freq": torch.ones(4),
            "vision_tower.rope.freqs_cis": torch.ones(3, 2),
            f"{ROOT}position_ids": torch.arange(9),
        }
    ),
    "all at once": lambda t: renamed(r"^language_model\.", "")(
        renamed("block_sparse_moe", "mlp")(one_convolution(gate_up(t)))
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_same_weights_in_another_layout_are_the_same_model(name, whole, expected, tmp_path):
    checkpoint = open_checkpoint(rewritten(whole, tmp_path / "other", LAYOUTS[name]))
    assert not checkpoint.missing
    assert torch.equal(checkpoint.load()(IDS), expected)
    assert torch.equal(load(str(tmp_path / "other"))(IDS), expected)


def test_a_text_model_with_a_flat_config_and_no_prefix_is_read(whole, expected, tmp_path):
    def text(tensors):
        kept = {n: t for n, t in tensors.items() if n.startswith("language_model.")}
        return renamed(r"^language_model\.", "")(kept)

    folder = rewritten(whole, tmp_path / "other", text, lambda raw: raw["text_config"] | {"dtype": "float32"})
    assert torch.equal(open_checkpoint(folder).load()(IDS), expected)


def test_shards_may_have_any_name_and_any_order(whole, expected, tmp_path):
    tensors = load_file(whole / "model.safetensors")
    names = sorted(tensors, key=lambda name: name[::-1])
    files = {"b.safetensors": names[::2], "weights of one 2.safetensors": names[1::2]}
    for file, part in files.items():
        save_file({n: tensors[n] for n in part}, tmp_path / file)
    index = {n: file for file, part in files.items() for n in part}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": index}))
    shutil.copy(whole / "config.json", tmp_path)
    assert torch.equal(open_checkpoint(tmp_path).load()(IDS), expected)


REFUSED = {
    "another prefix": (
        renamed("^", "net.core."),
        "only the prefix differs; write the names without 'net.core.'",
    ),
    "LoRA": (
        lambda t: t | {"base_model.model.layers.0.self_attn.q_proj.lora_A.weight": torch.ones(1)},
        "LoRA",
    ),
    "llama.cpp": (lambda _: {"blk.0.attn_q.weight": torch.ones(1)}, "llama.cpp"),
    "Megatron": (lambda _: {"decoder.layers.0.linear_qkv.weight": torch.ones(1)}, "Megatron"),
    "one tensor twice": (
        lambda t: t | {"model.norm.weight": t[f"{ROOT}norm.weight"].clone()},
        "are both language_model.model.norm.weight",
    ),
    "too few experts": (
        lambda t: {n: x[:5] if ".experts.w1" in n else x for n, x in stacked(t).items()},
        r"experts.5.w1.weight is stored as \(\)",
    ),
    "experts turned": (
        lambda t: {n: x.mT if ".experts.w1" in n else x for n, x in stacked(t).items()},
        "its two axes are swapped",
    ),
    "experts flat": (
        lambda t: {n: x.flatten() if ".experts.w1" in n else x for n, x in stacked(t).items()},
        r"w1.weight is stored as \(\)",
    ),
    "a third half": (
        lambda t: {n: torch.cat([x, x], 1) if "gate_up" in n else x for n, x in gate_up(t).items()},
        r"w3.weight is stored as \(360, 48\); config.json asks for \(120, 48\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_said_with_the_step_that_would_help(name, whole, tmp_path):
    change, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence) as error:
        open_checkpoint(rewritten(whole, tmp_path / "other", change))
    assert len(str(error.value)) < 400 + len(str(tmp_path))


def test_more_tensors_than_are_opened_are_refused_at_once(whole, tmp_path):
    def vast(raw):
        raw["text_config"] |= {"num_experts": 65_536, "num_hidden_layers": 60, "num_experts_per_token": 2}
        raw["text_config"]["linear_attn_config"] |= {"kda_layers": [*range(1, 60)], "full_attn_layers": [60]}
        return raw

    with pytest.raises(
        ValueError, match=r"config\.json asks for 11,6.* tensors; at most 4,194,304 are opened"
    ):
        open_checkpoint(rewritten(whole, tmp_path / "other", lambda t: t, vast))


@pytest.mark.parametrize("original", [False, True])
def test_kimi_linear_as_transformers_saves_it_gives_its_logits(original, data, tmp_path):
    """Weights and logits of transformers 5.24, in float32; `original` is its other way to save."""
    theirs = data / "kimi_linear_transformers"
    if original:
        rest = renamed(r"\.mlp\.", ".block_sparse_moe.")  # which it does to the dense layer too
        theirs = rewritten(theirs, tmp_path / "original", rest)
    checkpoint, known = (
        open_checkpoint(theirs),
        load_file(data / "kimi_linear_transformers/logits.safetensors"),
    )
    assert checkpoint.config.stops == (3, 4)
    logits = checkpoint.load(torch.float64)(known["ids"])
    torch.testing.assert_close(logits, known["logits"].double(), rtol=0, atol=3e-6)


def kept(*starts: str):
    return lambda tensors: {n: t for n, t in tensors.items() if n.startswith(starts)}


def test_a_folder_with_the_vision_tower_alone_gives_the_vision_tower(whole, tmp_path):
    checkpoint = open_checkpoint(
        rewritten(whole, tmp_path / "seeing", kept("vision_tower.", "mm_projector."))
    )
    assert checkpoint.has_vision
    assert not checkpoint.layers_present
    assert checkpoint.problem().endswith("complete: the first 0 of 3 layers, and the vision tower")
    tower, projector = checkpoint.load_vision()
    model = open_checkpoint(whole).load()
    assert count(tower) == count(model.vision_tower)
    assert torch.equal(projector.proj[0].weight, model.mm_projector.proj[0].weight)
    with pytest.raises(ValueError, match=r"layer 1 is asked for; .*and the vision tower"):
        checkpoint.load_layer(1)


def test_a_folder_with_a_single_layer_gives_that_layer(whole, tmp_path):
    checkpoint = open_checkpoint(rewritten(whole, tmp_path / "layer", kept(f"{ROOT}layers.1.")))
    assert (checkpoint.layers_present, checkpoint.complete_layers) == ((1,), 0)
    assert checkpoint.problem().endswith("complete: the first 0 of 3 layers, and layers 1")
    layer = checkpoint.load_layer(1)
    ours = open_checkpoint(whole).load().language_model.model.layers[1]
    assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), ours.parameters(), strict=True))
    with pytest.raises(ValueError, match=r"the vision tower is asked for; .*are missing"):
        checkpoint.load_vision()


TIED = replace(K3_RECALL, own_head=False, stored="float32")


def test_a_tied_head_is_the_embedding_and_counts_once():
    own, tied = totals(build(replace(TIED, own_head=True))), totals(build(TIED))
    table = K3_RECALL.vocab * K3_RECALL.d
    assert (own.total - tied.total, own.storage.tensors - tied.storage.tensors) == (table, 1)
    assert own.storage.bytes - tied.storage.bytes == 4 * table
    assert (tied.active, tied.active_with_table) == (own.active, own.active)
    assert tied.active_without_head == own.active_without_head


def test_a_tied_head_is_written_and_read_without_a_matrix_of_its_own(tmp_path):
    model = random_model(TIED)
    hidden = []
    model.language_model.model.norm.register_forward_hook(lambda _m, _x, out: hidden.append(out))
    logits = model(IDS)
    assert torch.equal(logits, hidden[0] @ model.language_model.model.embed_tokens.weight.T)
    save_pretrained(model, tmp_path / "tied")
    assert not any("lm_head" in name for name in load_file(tmp_path / "tied" / "model.safetensors"))
    checkpoint = open_checkpoint(tmp_path / "tied")
    assert checkpoint.config == TIED
    assert torch.equal(checkpoint.load()(IDS), logits)


@pytest.mark.parametrize("same", [True, False])
def test_a_tied_head_that_is_stored_all_the_same_must_be_the_same(same, tmp_path):
    model = random_model(TIED)
    save_pretrained(model, tmp_path / "tied")
    table = f"{ROOT}embed_tokens.weight"
    stored = lambda t: t | {"language_model.lm_head.weight": t[table] + (0 if same else 1)}  # noqa: E731
    checkpoint = open_checkpoint(rewritten(tmp_path / "tied", tmp_path / "both", stored))
    if same:
        assert torch.equal(checkpoint.load()(IDS), model(IDS))
    else:
        with pytest.raises(
            ValueError, match=r"tie_word_embeddings\), but language_model.lm_head.weight holds"
        ):
            checkpoint.load()
