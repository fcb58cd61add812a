"""The drawing's geometry, for every way of opening and closing the groups."""

import itertools

import networkx as nx
import pytest

from k3scope.diagrams.drawing.layout import layout

D, H, E = ["[B, T, d]", "[B, T, 7168]"], ["[B, T, kda_heads, kda_head_dim]", "[B, T, 96, 128]"], []
LATENT = ["[B, T, latent]", "[B, T, 3584]"]
GROUPS = ["decoder_layer", "kda", "mla", "latent_moe"]
# id | title | second row | kind | parent | variant
NODES = """
tokens | Token ids | [B, T] | structure
token_embedding | Token embedding | 163840 x 7168 | embed
block_store | Block store | up to 8 block sums | aux
decoder_layer | Decoder layer | two sublayers | structure
attn_mix | AttnRes mix | softmax over depth | norm | decoder_layer
attn_norm | Input RMSNorm | width 7168 | norm | decoder_layer
kda | Kimi Delta Attention | 96 heads of 128 | attention | decoder_layer | attention
kda_projections | Q, K, V projections | 3 x 7168 to 12288 | attention | kda
kda_short_conv | Short convolutions + SiLU | depthwise, causal, kernel 4 | attention | kda
kda_l2_norm | L2 norm of q and k | per head of 128 | norm | kda
kda_decay | Decay gate | rank 128, floor -5.0 | attention | kda
kda_write_strength | Write strength | one number per head | attention | kda
kda_delta_rule | Delta rule and state | 96 states of 128 x 128 | attention | kda
kda_head_norm | Head RMSNorm | width 128, one gain for all heads | norm | kda
kda_output_gate | Output gate | full rank, sigmoid | attention | kda
kda_output_projection | KDA output projection | 12288 to 7168 | attention | kda
mla | Gated MLA | 96 heads, no rotary | attention | decoder_layer | attention
mla_q_down | Query down | 7168 to 1536 | attention | mla
mla_q_norm | Query RMSNorm | width 1536 | norm | mla
mla_q_up | Query up | 1536 to 18432 | attention | mla
mla_kv_down | Key/value down | 7168 to 576 | attention | mla
mla_kv_norm | Key/value RMSNorm | width 512 | norm | mla
mla_kv_up | Key/value up | 512 to 24576 | attention | mla
mla_shared_key | Shared key | 64 for all heads | attention | mla
mla_attention | Causal attention | 96 heads | attention | mla
mla_output_gate | MLA output gate | full rank, sigmoid | attention | mla
mla_output_projection | MLA output projection | 12288 to 7168 | attention | mla
attn_sum | Running sum | after attention | norm | decoder_layer
ffn_mix | AttnRes mix | softmax over depth | norm | decoder_layer
ffn_norm | FFN RMSNorm | width 7168 | norm | decoder_layer
latent_moe | Latent MoE | 896 experts, top 16 | ffn | decoder_layer | ffn
moe_router | Router | 896 scores, top 16 | ffn | latent_moe
moe_latent_down | Latent down | 7168 to 3584 | ffn | latent_moe
moe_experts | Routed experts | 896 x 3 x 3072 x 3584 | ffn | latent_moe
moe_combine | Weighted sum | 16 experts | ffn | latent_moe
moe_latent_norm | Latent RMSNorm | width 3584 | norm | latent_moe
moe_latent_up | Latent up | 3584 to 7168 | ffn | latent_moe
moe_shared_experts | Shared experts | 2 x 3072 wide | ffn | latent_moe
dense_mlp | Dense MLP | 33792 wide | ffn | decoder_layer | ffn
ffn_sum | Running sum | after the FFN | norm | decoder_layer
output_mix | Output AttnRes mix | 9 candidates | norm
final_norm | Final RMSNorm | width 7168 | norm
lm_head | LM head | 7168 to 163840 | embed
logits | Logits | [B, T, 163840] | structure
"""
BADGES = {
    "decoder_layer": "× 93", "kda": "69 of 93 layers", "mla": "24 of 93 layers",
    "latent_moe": "92 of 93 layers", "dense_mlp": "layer 0",
}  # fmt: skip
FLOW = [
    ("tokens token_embedding", ["[B, T]"], ""),
    ("token_embedding attn_mix", D, ""),
    ("attn_mix attn_norm", D, ""),
    *[(f"attn_norm {b}", D, "") for b in (
        "kda_projections", "kda_decay", "kda_write_strength", "kda_output_gate",
        "mla_q_down", "mla_kv_down", "mla_output_gate",
    )],
    ("kda_projections kda_short_conv", ["[B, T, kda_heads*kda_head_dim]", "[B, T, 12288]"], "q, k, v"),
    ("kda_short_conv kda_l2_norm", ["[B, T, kda_heads*kda_head_dim]", "[B, T, 12288]"], "q, k"),
    ("kda_short_conv kda_delta_rule", ["[B, T, kda_heads*kda_head_dim]", "[B, T, 12288]"], "v"),
    ("kda_l2_norm kda_delta_rule", H, "q, k"),
    ("kda_decay kda_delta_rule", H, "log decay"),
    ("kda_write_strength kda_delta_rule", ["[B, T, kda_heads]", "[B, T, 96]"], "strength"),
    ("kda_delta_rule kda_head_norm", H, ""),
    ("kda_head_norm kda_output_gate", H, ""),
    ("kda_output_gate kda_output_projection", H, ""),
    ("kda_output_projection attn_sum", D, ""),
    ("mla_q_down mla_q_norm", ["[B, T, q_rank]", "[B, T, 1536]"], ""),
    ("mla_q_norm mla_q_up", ["[B, T, q_rank]", "[B, T, 1536]"], ""),
    ("mla_q_up mla_attention", ["[B, T, heads*(nope_dim+shared_key_dim)]", "[B, T, 18432]"], "q"),
    ("mla_kv_down mla_kv_norm", ["[B, T, kv_rank+shared_key_dim]", "[B, T, 576]"], "latent part of"),
    ("mla_kv_norm mla_kv_up", ["[B, T, kv_rank]", "[B, T, 512]"], ""),
    ("mla_kv_up mla_attention", ["[B, T, heads*(nope_dim+v_dim)]", "[B, T, 24576]"], "k, v"),
    ("mla_kv_down mla_shared_key", ["[B, T, kv_rank+shared_key_dim]", "[B, T, 576]"], "key part of"),
    ("mla_shared_key mla_attention", ["[B, T, shared_key_dim]", "[B, T, 64]"], "shared key"),
    ("mla_attention mla_output_gate", ["[B, T, heads, v_dim]", "[B, T, 96, 128]"], ""),
    ("mla_output_gate mla_output_projection", ["[B, T, heads*v_dim]", "[B, T, 12288]"], ""),
    ("mla_output_projection attn_sum", D, ""),
    ("attn_sum ffn_mix", D, ""),
    ("ffn_mix ffn_norm", D, ""),
    *[(f"ffn_norm {b}", D, "") for b in ("moe_router", "moe_latent_down", "moe_shared_experts", "dense_mlp")],
    ("moe_router moe_experts", ["[B, T, top_k]", "[B, T, 16]"], "indices"),
    ("moe_router moe_combine", ["[B, T, top_k]", "[B, T, 16]"], "weights"),
    ("moe_latent_down moe_experts", LATENT, ""),
    ("moe_experts moe_combine", ["[B, T, top_k, latent]", "[B, T, 16, 3584]"], ""),
    ("moe_combine moe_latent_norm", LATENT, ""),
    ("moe_latent_norm moe_latent_up", LATENT, ""),
    ("moe_latent_up ffn_sum", D, ""),
    ("moe_shared_experts ffn_sum", D, ""),
    ("dense_mlp ffn_sum", D, ""),
    ("ffn_sum output_mix", D, ""),
    ("output_mix final_norm", D, ""),
    ("final_norm lm_head", D, ""),
    ("lm_head logits", ["[B, T, vocab]", "[B, T, 163840]"], ""),
]  # fmt: skip
OTHER = [
    ("token_embedding attn_sum", "sum", "", False),
    ("attn_sum ffn_sum", "sum", "", False),
    ("ffn_sum attn_mix", "flow", "next layer", True),
    ("ffn_sum attn_sum", "sum", "next layer", True),
    ("token_embedding block_store", "store", "", False),
    ("block_store attn_mix", "store", "", False),
    ("block_store ffn_mix", "store", "", False),
    ("block_store output_mix", "store", "", False),
    ("ffn_sum block_store", "store", "every 12 layers", False),
]


def sample(opened: tuple[str, ...] = ()) -> nx.DiGraph:
    """Kimi K3 as the page hands it to the layout."""
    graph = nx.DiGraph()
    for order, line in enumerate(NODES.strip().splitlines()):
        name, title, sub, kind, *rest = (part.strip() for part in line.split("|"))
        parent, variant = [*rest, None, None][:2]
        graph.add_node(
            name, title=title, sub=sub, mono="", kind=kind, parent=parent, variant=variant, order=order,
            group=name in GROUPS, open=name in opened, badge=BADGES.get(name, ""), params=1000, count=1,
            summary=f"What {title} does", io=name in ("tokens", "logits"),
        )  # fmt: skip
    for ends, label, text in FLOW:
        graph.add_edge(*ends.split(), kind="flow", label=label, text=text, loop=False)
    for ends, kind, text, loop in OTHER:
        graph.add_edge(*ends.split(), kind=kind, label=D if kind == "sum" else [], text=text, loop=loop)
    return graph


STATES = [
    tuple(g for g, on in zip(GROUPS, s, strict=True) if on) for s in itertools.product((0, 1), repeat=4)
]
each_state = pytest.mark.parametrize("opened", STATES, ids=lambda o: "+".join(o) or "closed")


@pytest.fixture(scope="module")
def scenes() -> dict:
    return {opened: layout(sample(opened)) for opened in STATES}


def ancestors(node: dict, nodes: dict) -> list[str]:
    return [node["id"], *ancestors(nodes[node["parent"]], nodes)] if node["parent"] else [node["id"]]


def area(node: dict) -> tuple[float, float, float, float]:
    return node["x"], node["y"], node["x"] + node["w"], node["y"] + node["h"]


def overlap(a: tuple, b: tuple, air: float = 0) -> bool:
    return a[0] < b[2] + air and b[0] < a[2] + air and a[1] < b[3] + air and b[1] < a[3] + air


def stretches(edge: dict) -> list[tuple[float, float, float, float]]:
    pairs = itertools.pairwise(edge["points"])
    return [(min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1])) for a, b in pairs]


def side_by_side(s: tuple, t: tuple) -> bool:
    """Whether two stretches run in the same direction less than 4 px apart."""
    for along, across in ((0, 1), (1, 0)):
        if s[across] == s[across + 2] and t[across] == t[across + 2] and abs(s[across] - t[across]) < 4:
            return min(s[along + 2], t[along + 2]) > max(s[along], t[along])
    return False


def on_border(point: list[float], node: dict) -> bool:
    (x, y), (left, top, right, bottom) = point, area(node)
    level = left - 0.5 <= x <= right + 0.5 and min(abs(y - top), abs(y - bottom)) < 0.5
    upright = top - 0.5 <= y <= bottom + 0.5 and min(abs(x - left), abs(x - right)) < 0.5
    return level or upright


def label_area(edge: dict) -> tuple[float, float, float, float]:
    lines = ([edge["text"]] if edge["text"] else []) + edge["label"]
    width = max(len(line) for line in lines) * 6
    left = edge["lx"] if edge["anchor"] == "start" else edge["lx"] - width
    return left, edge["ly"] - 8, left + width, edge["ly"] + 12 * (len(lines) - 1) + 2


def labelled(scene: dict) -> list[dict]:
    return [e for e in scene["edges"] if "lx" in e]


@each_state
def test_boxes_overlap_only_when_nested(scenes, opened):
    nodes = {n["id"]: n for n in scenes[opened]["nodes"]}
    for a, b in itertools.combinations(nodes.values(), 2):
        nested = a["id"] in ancestors(b, nodes) or b["id"] in ancestors(a, nodes)
        assert nested or not overlap(area(a), area(b), air=8), (a["id"], b["id"])


@each_state
def test_children_stand_inside_their_parents(scenes, opened):
    nodes = {n["id"]: n for n in scenes[opened]["nodes"]}
    for node in nodes.values():
        left, top, right, bottom = area(node)
        if node["parent"]:
            a, b, c, d = area(nodes[node["parent"]])
            assert all((left >= a + 8, top >= b + 36, right <= c - 8, bottom <= d - 8)), node["id"]
        assert min(left, top) >= 0
        assert right <= scenes[opened]["width"]
        assert bottom <= scenes[opened]["height"]


@each_state
def test_the_boxes_shown_are_those_outside_closed_groups(scenes, opened):
    graph = sample(opened)

    def shown(name):
        parent = graph.nodes[name]["parent"]
        return not parent or (parent in opened and shown(parent))

    assert [n["id"] for n in scenes[opened]["nodes"]] == [n for n in graph if shown(n)]


@each_state
def test_every_line_is_axis_parallel_and_joins_its_two_ends(scenes, opened):
    nodes = {n["id"]: n for n in scenes[opened]["nodes"]}
    for edge in scenes[opened]["edges"]:
        assert all((a[0] == b[0]) != (a[1] == b[1]) for a, b in itertools.pairwise(edge["points"])), edge
        assert on_border(edge["points"][0], nodes[edge["source"]]), edge
        assert on_border(edge["points"][-1], nodes[edge["target"]]), edge


@each_state
def test_lines_bend_at_most_twice_and_loops_four_times(scenes, opened):
    for edge in scenes[opened]["edges"]:
        from_port = edge["source"] in GROUPS and edge["source"] in opened
        assert len(edge["points"]) - 2 <= (4 if edge["loop"] else 3 if from_port else 2), edge["id"]


@each_state
def test_no_line_runs_through_a_box_it_does_not_touch(scenes, opened):
    nodes = {n["id"]: n for n in scenes[opened]["nodes"]}
    for edge in scenes[opened]["edges"]:
        around = {*ancestors(nodes[edge["source"]], nodes), *ancestors(nodes[edge["target"]], nodes)}
        for node in nodes.values():
            if node["id"] in around and node["open"]:
                continue
            left, top, right, bottom = area(node)
            inner = (left + 1, top + 1, right - 1, bottom - 1)
            assert not any(overlap(s, inner) for s in stretches(edge)), (edge["id"], node["id"])


@each_state
def test_lines_of_different_sources_never_lie_on_each_other(scenes, opened):
    for a, b in itertools.combinations(scenes[opened]["edges"], 2):
        if a["net"] == b["net"] or a["loop"] or b["loop"]:
            continue
        for s, t in itertools.product(stretches(a), stretches(b)):
            assert not side_by_side(s, t), (a["id"], b["id"])


@each_state
def test_labels_touch_no_box_no_line_and_no_other_label(scenes, opened):
    scene = scenes[opened]
    boxes = [n for n in scene["nodes"] if not n["open"]]
    for edge in labelled(scene):
        here = label_area(edge)
        assert not any(overlap(here, area(n)) for n in boxes), edge["id"]
        assert not any(overlap(here, s) for e in scene["edges"] for s in stretches(e)), edge["id"]
        assert 0 <= here[0] <= here[2] <= scene["width"], edge["id"]
    for a, b in itertools.combinations(labelled(scene), 2):
        assert not overlap(label_area(a), label_area(b)), (a["id"], b["id"])


@each_state
def test_every_edge_of_the_graph_is_drawn(scenes, opened):
    graph, nodes = sample(opened), {n["id"] for n in scenes[opened]["nodes"]}

    def shown(name):
        return name if name in nodes else shown(graph.nodes[name]["parent"])

    drawn = {tuple(m) for e in scenes[opened]["edges"] for m in e["members"]}
    for a, b in graph.edges:
        assert shown(a) == shown(b) or (shown(a), shown(b)) in drawn, (a, b)


def test_a_trunk_that_forks_says_its_shape_once(scenes):
    edges = scenes[tuple(GROUPS)]["edges"]
    assert sum(e["label"] == D for e in edges if e["members"][0][0] == "attn_norm") == 1


def test_variants_stand_side_by_side_with_their_tops_aligned(scenes):
    nodes = {n["id"]: n for n in scenes[tuple(GROUPS)]["nodes"]}
    for a, b in (("kda", "mla"), ("latent_moe", "dense_mlp")):
        assert nodes[a]["y"] == nodes[b]["y"]
        assert nodes[a]["x"] + nodes[a]["w"] + 30 <= nodes[b]["x"]


def test_the_block_store_is_as_tall_as_the_layer_it_serves(scenes):
    nodes = {n["id"]: n for n in scenes[("decoder_layer", "kda")]["nodes"]}
    store, layer = nodes["block_store"], nodes["decoder_layer"]
    assert (store["y"], store["h"]) == (layer["y"], layer["h"])
    assert store["x"] > layer["x"] + layer["w"]


def test_the_next_layer_is_a_lane_left_of_the_layer(scenes):
    scene = scenes[("decoder_layer",)]
    layer = next(n for n in scene["nodes"] if n["id"] == "decoder_layer")
    [loop] = [e for e in scene["edges"] if e["loop"]]
    assert loop["text"] == "next layer"
    assert min(x for x, _ in loop["points"]) < layer["x"]
    assert sorted(loop["members"]) == [["ffn_sum", "attn_mix"], ["ffn_sum", "attn_sum"]]


def test_inputs_of_one_box_arrive_at_distinct_points(scenes):
    ends = [tuple(e["points"][-1]) for e in scenes[tuple(GROUPS)]["edges"] if e["target"] == "kda_delta_rule"]
    assert len(ends) == len(set(ends)) == 4


def test_the_same_graph_gives_the_same_drawing():
    assert layout(sample(tuple(GROUPS))) == layout(sample(tuple(GROUPS)))


def test_an_empty_graph_gives_an_empty_drawing():
    assert layout(nx.DiGraph())["nodes"] == []
