"""A run is what its link says: what else than the tensors shapes its numbers is in the hash of its model."""

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from visitor import Visitor

from k3scope.app.runs import model_hash as hashes
from k3scope.app.runs import reading
from k3scope.app.runs.forward_pass import LoadedModel, weights_hash
from k3scope.app.runs.model_hash import SHAPES_NO_NUMBER, canonical_config, model_hash
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.runner import Runner
from k3scope.model import Config, load, save_pretrained
from k3scope.model.init import random_model
from k3scope.model.interventions.intervention import Intervention, dumps
from k3scope.model.loading import tokenizer
from k3scope.model.presets import K3_RECALL, K3_TINY, TRAINED
from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.vision.vision_config import VisionConfig

OTHER = {str: "other", bool: None, int: 77, float: 0.37, tuple: ("mla",), type(None): 0.37}


def loaded(name: str = "k3-random", **config) -> LoadedModel:
    model = load(name, torch.float32)
    model.config = replace(model.config, **config)
    return LoadedModel(model, tokenizer(name), False, False)


@pytest.fixture(scope="module")
def whole():
    return loaded()


def other_value(record, name: str):
    value = getattr(record, name)
    return not value if isinstance(value, bool) else OTHER[type(value)]


@pytest.mark.parametrize("name", [f.name for f in fields(Config) if f.name != "vision"])
def test_every_field_of_the_config_is_in_the_hash_or_shapes_no_number(name):
    value = other_value(K3_TINY, name)
    other = replace(K3_TINY)
    object.__setattr__(other, name, value)  # whether it is a model does not matter
    assert (canonical_config(other) == canonical_config(K3_TINY)) is (name in SHAPES_NO_NUMBER)


@pytest.mark.parametrize("name", [f.name for f in fields(VisionConfig)])
def test_every_field_of_the_vision_config_is_in_the_hash(name):
    vision = replace(K3_TINY.vision)
    object.__setattr__(vision, name, other_value(vision, name))
    assert canonical_config(replace(K3_TINY, vision=vision)) != canonical_config(K3_TINY)


def test_how_images_are_prepared_is_in_the_hash_of_a_model_that_sees(monkeypatch):
    blind = replace(K3_TINY, vision=None, media_pad=None)
    before = canonical_config(K3_TINY), canonical_config(blind)
    monkeypatch.setitem(hashes.preprocess.SETTINGS, "mean", 0.4)
    assert canonical_config(K3_TINY) != before[0]
    assert canonical_config(blind) == before[1]


def test_the_dtype_and_the_tokenizer_are_in_the_hash_and_the_name_is_not(whole):
    half = LoadedModel(load("k3-random", torch.bfloat16), whole.tokenizer, False, False)
    fewer = BpeTokenizer(whole.tokenizer.merges[:-1], [*whole.tokenizer.specials])
    swapped = [whole.tokenizer.merges[1], whole.tokenizer.merges[0], *whole.tokenizer.merges[2:]]
    others = [half, replace(whole, tokenizer=fewer)]
    others += [replace(whole, tokenizer=BpeTokenizer(swapped, [*whole.tokenizer.specials]))]
    assert len({model_hash(other) for other in [whole, *others]}) == 4
    assert model_hash(replace(whole, random_weights=True)) == model_hash(whole)


def test_the_hashes_of_the_shipped_models_are_those_of_every_machine():
    """A link of today must work tomorrow; the first are in links of 0.1.0."""
    models = {name: loaded(name) for name in ("k3-tiny", "k3-recall")}
    former = {"k3-tiny": "51040e85502d", "k3-recall": "25fa2033c356"}
    assert {name: weights_hash(model.model) for name, model in models.items()} == former
    now = {"k3-tiny": "a3f6a673df27c71f", "k3-recall": "dd4eee1ccf1fdcc6"}
    assert {name: model_hash(model) for name, model in models.items()} == now


def test_a_number_counts_alike_whether_a_tool_wrote_it_as_an_integer_or_not():
    written = [canonical_config(replace(K3_TINY, routed_scale=scale)) for scale in (2, 2.0)]
    assert written[0] == written[1] != canonical_config(K3_TINY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint folder of one's own, a small one."""
    folder = tmp_path_factory.mktemp("restarted") / "one"
    save_pretrained(random_model(K3_RECALL), folder)
    shutil.copy(TRAINED["k3-recall"] / "tokenizer.json", folder)
    return folder


def restarted(folder, tmp_path, change) -> Path:
    """The same tensors in another folder, after a change of its config.json and its merges."""
    other = shutil.copytree(folder, tmp_path / "two")
    config = json.loads((other / "config.json").read_text())
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    change(config, tokenizer["merges"])
    (other / "config.json").write_text(json.dumps(config))
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    return other


def opened(folder, store, **link) -> Visitor:
    """What a visitor of a server that has just begun sees of a link."""
    visitor = Visitor(Runner({"mine": str(folder)}, store=store), **link)
    visitor.session.open()
    visitor.settle()
    visitor.session.runner.close()
    return visitor


def of(key: str, value):
    return lambda config, merges: config["text_config"].update({key: value})


CHANGES = {
    "top-k": of("num_experts_per_token", 5),
    "block": of("attn_res_block_size", 3),
    "eps": of("rms_norm_eps", 1e-3),
    "gate cap": of("activation_situ_beta", 3.0),
    "up cap": of("activation_situ_linear_beta", 7.0),
    "routed scale": of("routed_scaling_factor", 1.7),
    "decay floor": lambda config, merges: config["text_config"]["linear_attn_config"].update(
        gate_lower_bound=-4.0
    ),
    "begin of text": lambda config, merges: config["text_config"].update(bos_token_id=7),
    "tokenizer": lambda config, merges: merges.insert(0, merges.pop(1)),
}
SAME = {
    "nothing": lambda config, merges: None,
    "longest prompt": of("max_position_embeddings", 512),
    "end of text": lambda config, merges: config.update(eos_token_id=9),
}

EVERY, QUICK = (*CHANGES, *SAME), {"top-k", "block", "eps", "gate cap", "tokenizer", "nothing"}


@pytest.mark.parametrize(
    ("change", "store_kept"),
    [
        *(pytest.param(change, True, marks=() if change in QUICK else pytest.mark.sweep) for change in EVERY),
        ("top-k", False),
        ("tokenizer", False),
    ],
)
def test_a_link_says_that_the_model_of_that_name_is_another_after_a_restart(
    folder, tmp_path, change, store_kept
):
    store = Store()
    first = opened(folder, store, run_model="mine", prompt="Hello 12")
    link = {name: first.state.linked()[name] for name in ("run_model", "prompt", "weights", "run_id")}
    other = restarted(folder, tmp_path, (CHANGES | SAME)[change])
    later = opened(other, store if store_kept else Store(), **link)
    same = change in SAME
    assert (later.session.problem == "") is same
    assert (later.session.result.id == link["run_id"]) is same
    if not same:
        assert "another model of that name" in later.session.problem
        assert later.state.linked() == first.state.linked()  # the link stays what it was


@pytest.mark.parametrize("kept", ["link", "stored run", "both"])
def test_a_link_or_a_run_with_the_hash_of_the_tensors_alone_restores_without_a_word(folder, kept):
    old = RunSpec("mine", weights_hash(load(str(folder), torch.float32)), "Hello 12")
    store, link = Store(), {"run_id": old.id}
    if kept != "link":
        store.put(old)
    if kept != "stored run":
        link |= {"run_model": "mine", "weights": old.weights, "prompt": old.prompt}
    visitor = opened(folder, store, **link)
    assert visitor.session.problem == ""
    assert visitor.session.result.spec.prompt == old.prompt
    assert visitor.state.run_id == old.id  # completed at most, and never corrected: Back would be trapped
    assert visitor.state.weights == link.get("weights", visitor.session.result.spec.weights)
    shown = visitor.session.result
    visitor.state.param.trigger("run_id")
    assert visitor.session.result is shown
    assert not visitor.started


def test_the_hash_of_other_tensors_is_another_model_whatever_its_length(folder):
    for weights in ("0123456789ab", "0123456789abcdef"):
        visitor = opened(folder, Store(), run_model="mine", prompt="Hello", weights=weights)
        assert weights in visitor.session.problem


def test_the_run_to_compare_with_is_found_by_its_older_id_and_says_another_model(folder):
    old = RunSpec("mine", weights_hash(load(str(folder), torch.float32)), "before")
    other = RunSpec("mine", "0123456789abcdef", "before")
    store = Store()
    for spec in (old, other):
        store.put(spec)
    good, bad = (
        opened(folder, store, run_model="mine", prompt="Hello", baseline=spec.id) for spec in (old, other)
    )
    assert good.session.baseline.spec.prompt == bad.session.baseline.spec.prompt == "before"
    assert good.session.problem == ""
    assert "run to compare with was made with another model" in bad.session.problem
    itself = RunSpec("mine", old.weights, "Hello")
    store.put(itself)
    assert (
        opened(folder, store, run_model="mine", prompt="Hello", baseline=itself.id).session.baseline is None
    )


@pytest.mark.parametrize("known", [True, False], ids=["tensors alone", "other tensors"])
def test_a_patch_takes_values_of_a_run_of_the_same_model_alone(folder, known):
    weights = weights_hash(load(str(folder), torch.float32)) if known else "0123456789abcdef"
    source, store = RunSpec("mine", weights, "Hello 12"), Store()
    store.put(source)
    patch = dumps([Intervention("sublayer", "patch", layer=1, place="FFN", run=source.id)])
    visitor = opened(folder, store, run_model="mine", prompt="Hello 21", interventions=patch)
    assert (visitor.session.problem == "") is known
    assert known or "to patch from was made with another model" in visitor.session.problem


def test_a_tokenizer_that_changes_under_a_server_is_not_read(folder, tmp_path):
    other = restarted(folder, tmp_path, SAME["nothing"])
    vocab, digest = K3_RECALL.vocab, "0" * 64
    with pytest.raises(ValueError, match="tokenizer have changed"):
        reading.prompt_ids((str(other), vocab, digest), "", "Hello")


def test_a_link_of_the_first_version_to_a_shipped_model_opens_without_a_word():
    weights = "51040e85502d"
    link = {"run_model": "k3-tiny", "weights": weights, "prompt": "Once"}
    link["run_id"] = RunSpec("k3-tiny", weights, "Once").id
    visitor = Visitor(Runner(("k3-tiny",)), **link)
    visitor.session.open()
    visitor.settle()
    assert visitor.session.problem == ""
    assert visitor.state.linked() == Visitor(visitor.session.runner, **link).state.linked()
