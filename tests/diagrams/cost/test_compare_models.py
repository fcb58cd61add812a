"""Two models side by side, and files that people bring."""

import json

import pytest

from k3scope.assets import CONFIGS
from k3scope.diagrams.cost.compare_models import LARGEST_FILE, compare, facts_of, pattern, read_config
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec.config_fields import MEANINGS
from k3scope.model.presets import KIMI_K3, KIMI_LINEAR

OFFICIAL = (CONFIGS / "kimi-k3.json").read_text()


VISION = json.loads(OFFICIAL)["vision_config"]


@pytest.fixture(scope="module")
def both():
    return compare(Facts.of("kimi-k3"), Facts.of("kimi-linear-48b"))


def test_every_field_has_a_meaning():
    assert set(KIMI_K3.__dataclass_fields__) - {"vision"} <= MEANINGS.keys()
    assert KIMI_K3.vision.sizes().keys() <= MEANINGS.keys()


def test_the_blocks_sum_to_both_models(both):
    assert sum(pair.a or 0 for pair in both.blocks) == 2_779_931_837_184
    assert sum(pair.b or 0 for pair in both.blocks) == 49_122_681_728


def test_blocks_that_only_one_model_has_are_told_apart(both):
    only = {pair.id for pair in both.blocks if pair.b is None}
    assert {"attn_mix", "moe_latent_up", "mla_output_gate", "vision_qkv"} <= only
    assert not [pair for pair in both.blocks if pair.a is None]
    assert next(p for p in both.blocks if p.id == "kda_decay").ratio > 1


def test_fields_that_differ_and_fields_that_do_not(both):
    fields = {f.name: f for f in both.fields}
    assert fields["conv"].same
    assert not fields["latent"].same
    assert (fields["latent"].a, fields["latent"].b) == ("3,584", "none")
    assert (fields["mla_gate"].a, fields["mla_gate"].b) == ("yes", "no")
    assert fields["vit_d"].b == "none"


def test_caches_of_both(both):
    totals = {pair.title: pair for pair in both.totals}
    assert totals["KV cache bytes per token"].a == 27_648
    assert totals["KV cache bytes per token"].b == 7 * 576 * 2
    assert totals["Cache passes state at, tokens"].a == 16_253


def test_a_model_equals_itself():
    same = compare(Facts.of("k3-random"), Facts.of("k3-random"))
    assert all(field.same for field in same.fields)
    assert not any(pair.difference for pair in same.blocks)


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        (KIMI_K3.kinds, "23 × (3 KDA, MLA), MLA"),
        (("kda", "mla", "mla"), "KDA, 2 MLA"),
        (("kda",) * 4, "4 KDA"),
        (("kda",), "KDA"),
        (KIMI_LINEAR.kinds, "6 × (3 KDA, MLA), 2 KDA, MLA"),
    ],
)
def test_the_order_of_layers_is_said_in_short(kinds, text):
    assert pattern(kinds) == text


def test_an_official_file_is_read_and_counted():
    facts = facts_of(read_config(OFFICIAL), "config.json")
    assert facts.totals.text == 2_779_484_478_208
    assert "config.json does not say it" in facts.notes[0]  # how long A_log is stored


def edited(**changes) -> str:
    raw = json.loads(OFFICIAL)
    raw["text_config"] |= changes
    return json.dumps(raw)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not valid JSON"),
        ("[1, 2]", "expected an object"),
        ("[" * 2**20 + "]", "larger than 1,024 kB"),
        ("[" * 60_000, "not valid JSON"),
        ('{"a": 1}', "linear_attn_config"),
        ('{"text_config": 3}', "text_config"),
        (" " * (LARGEST_FILE + 1), "larger than 1,024 kB"),
        (edited(hidden_size=None), "hidden_size"),
        (edited(num_experts=-1), "experts"),
        (
            json.dumps(json.loads(OFFICIAL) | {"vision_config": VISION | {"vt_num_hidden_layers": 10**7}}),
            "at most 4,096",
        ),
        (edited(num_hidden_layers=10**12), "num_hidden_layers is 1,000,000,000,000; at most 4,096"),
        (edited(num_hidden_layers=92), "must name each of the layers"),
        (edited(hidden_size="7168"), "hidden_size"),
        (edited(quantization_config=[]), r"quantization_config is \[\]; expected an object"),
        (edited(kv_lora_rank=1.5), "kv_lora_rank is 1.5; expected a whole number"),
        (edited(moe_intermediate_size=10**30), "moe_intermediate_size is 10.*; at most 1,048,576"),
    ],
)
def test_what_is_no_config_is_said_in_a_sentence(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_config(text)
