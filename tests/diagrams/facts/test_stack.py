"""One layer drawn alone: what it has and what it reads, against the layer that runs."""

import pytest

from k3scope.diagrams.facts import stack
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import graph
from k3scope.diagrams.spec.shapes import Step
from k3scope.model.presets import preset

K3 = "kimi-k3"


def shown(layer: int, **more) -> dict:
    return {n["id"]: n for n in graph.scene(K3, layer=layer, **more)["nodes"]}


def pairs(layer: int) -> set[tuple[str, str]]:
    opened = ("decoder_layer", "kda", "mla", "latent_moe")
    return {tuple(m) for e in graph.scene(K3, opened=opened, layer=layer)["edges"] for m in e["members"]}


@pytest.fixture(scope="module")
def facts() -> Facts:
    return Facts.of(K3)


@pytest.mark.parametrize("index", [0, 1, 3, 11, 12, 42, 84, 91, 92])
def test_only_the_variants_of_the_layer_are_drawn(facts, index):
    layer = facts.model.language_model.model.layers[index]
    mla = type(layer.self_attn).__name__ == "GatedMLA"
    dense = hasattr(layer, "mlp") and layer.mlp is not None and not hasattr(layer, "block_sparse_moe")
    boxes = shown(index)
    assert ("mla" in boxes, "kda" in boxes) == (mla, not mla)
    assert ("dense_mlp" in boxes, "latent_moe" in boxes) == (dense, not dense)


@pytest.mark.parametrize("index", [0, 1, 11, 12, 13, 84, 92])
def test_the_candidates_are_those_of_the_mixes_that_run(facts, index):
    layer = facts.model.language_model.model.layers[index]
    drawn = stack.layer(facts.config, index)
    assert drawn.attn_candidates == layer.self_attention_res.candidates
    assert drawn.ffn_candidates == layer.mlp_res.candidates
    assert str(drawn.ffn_candidates) in shown(index)["ffn_mix"]["row"]


def test_layers_are_named_by_kind_and_block(facts):
    assert stack.layer(facts.config, 92).name == "layer 92, MLA + MoE, AttnRes block 8 of 8"
    assert stack.layer(facts.config, 0).name == "layer 0, KDA + dense FFN, AttnRes block 1 of 8"
    assert shown(42)["decoder_layer"]["title"] == "Layer 42 · KDA + MoE"


def test_the_block_store_is_written_only_where_a_block_starts():
    assert (stack.EARLIER, "block_store") in pairs(12)
    assert (stack.EARLIER, "attn_sum") not in pairs(12)
    assert (stack.EARLIER, "block_store") not in pairs(13)
    assert (stack.EARLIER, "attn_sum") in pairs(13)
    assert ("splice", "block_store") in pairs(0)


def test_the_first_layer_reads_no_store_and_the_last_feeds_the_output():
    assert ("block_store", "attn_mix") not in pairs(0)
    assert ("splice", "attn_mix") in pairs(0)
    assert ("ffn_sum", stack.LATER) in pairs(91)
    assert ("ffn_sum", "output_mix") in pairs(92)
    assert stack.LATER not in shown(92)
    assert stack.EARLIER not in shown(0)


def test_the_layers_around_are_counted():
    boxes = shown(42)
    assert (boxes[stack.EARLIER]["title"], boxes[stack.EARLIER]["row"]) == (
        "Layers 0 to 41",
        "32 KDA + 10 MLA",
    )
    assert (boxes[stack.LATER]["title"], boxes[stack.LATER]["row"]) == ("Layers 43 to 92", "36 KDA + 14 MLA")


def test_few_pictures_serve_all_layers():
    config = preset(K3)
    scenes = {id(graph.template(K3, layer=i)) for i in range(config.layers)}
    assert len(scenes) == len({stack.representative(config, i) for i in range(config.layers)}) == 5


def test_words_of_a_layer_fit_the_boxes_of_its_picture():
    for index in range(93):
        template = {n["id"]: n for n in graph.template(K3, layer=index)["nodes"]}
        for block, texts in graph.layer_texts(K3, index).items():
            assert block in template
            room = max(len(template[block]["title"]), len(template[block]["row"] or ""), 26)
            assert len(texts.get("row", "")) <= room


def test_a_layer_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="expected 0 to 92"):
        graph.scene(K3, layer=93)


def test_a_layer_has_its_own_numbers(facts):
    assert facts.block("decoder_layer", 42).total == facts.layer_total(42) == 30_228_720_256
    assert facts.bytes("decoder_layer", 42) == 16_990_092_800
    assert sum(facts.block("decoder_layer", i).total for i in range(93)) == facts.block("decoder_layer").total


def label(step: Step, source: str, target: str) -> list[str]:
    opened = ("decoder_layer", "mla")
    edges = graph.scene(K3, opened=opened, step=step)["edges"]
    return next(e["label"] for e in edges if [source, target] in e["members"] and e["label"])


def test_shapes_are_those_of_the_step():
    assert label(Step(4, 4096), "mla_q_down", "mla_q_norm") == ["[B, T, q_rank]", "[4, 4096, 1536]"]
    assert label(Step(4, 4096, "decode"), "mla_q_down", "mla_q_norm") == ["[B, 1, q_rank]", "[4, 1, 1536]"]
    assert label(Step(4, 4096, "decode"), "mla_kv_norm", "mla_kv_up") == ["[B, T, kv_rank]", "[4, 4096, 512]"]


@pytest.mark.parametrize("wrong", [{"B": 0}, {"T": 2**20 + 1}, {"phase": "train"}])
def test_a_step_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        Step(**wrong)
