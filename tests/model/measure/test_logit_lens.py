"""Token statistics, logit lens, routing: against a direct recomputation."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from k3scope.model import load, trace
from k3scope.model.measure import logit_lens, routing, routing_overlap

IDS = torch.tensor([84, 104, 101, 32, 102, 111, 120, 256, 10, 104, 101])
GATE = "block_sparse_moe.gate."


@pytest.fixture(scope="module")
def run(tiny):
    return trace(tiny, IDS)


def test_loss_is_the_cross_entropy_of_the_next_token(run):
    result = logit_lens.token_predictions(run)
    expected = F.cross_entropy(run.logits[0, :-1].double(), IDS[1:], reduction="none").numpy()
    np.testing.assert_allclose(result.loss[1:], expected, rtol=1e-6)
    np.testing.assert_allclose(result.prob[1:], np.exp(-expected), rtol=1e-6)
    assert np.isnan(result.prob[0])
    assert result.rank[0] == -1
    assert result.mean_loss == pytest.approx(expected.mean(), rel=1e-6)
    for t in range(1, len(IDS)):
        order = run.logits[0, t - 1].argsort(descending=True)
        assert order[result.rank[t]] == IDS[t]


def test_one_token_was_predicted_by_nothing(tiny):
    alone = trace(tiny, IDS[:1])
    result = logit_lens.token_predictions(alone)
    assert np.isnan(result.loss).all()
    assert np.isnan(result.mean_loss)
    assert logit_lens.logit_lens(tiny, alone).rank.shape == (tiny.config.layers + 1, 1)


def test_logits_that_are_not_finite_have_no_rank(tiny):
    broken = trace(tiny, IDS, edits={"": lambda x: x.index_fill(1, torch.tensor([3]), torch.nan)})
    result = logit_lens.token_predictions(broken)
    assert result.rank[4] == -1
    assert np.isnan(result.loss[4])
    assert np.isfinite(result.loss[[3, 5]]).all()


def test_candidates_are_sorted_probabilities(run):
    ids, probs = logit_lens.candidates(run.logits, 4)
    softmax = run.logits[0].double().softmax(-1).numpy()
    np.testing.assert_allclose(probs, -np.sort(-softmax, -1)[:, :4], rtol=1e-6)
    np.testing.assert_array_equal(ids[:, 0], softmax.argmax(-1))


def test_the_logit_lens_after_the_last_layer_is_the_model_itself(tiny, run):
    assert torch.equal(logit_lens.logits_after(tiny, run, tiny.config.layers - 1), run.logits[0])


def test_the_logit_lens_after_a_layer_equals_a_model_that_ends_there(tiny, run):
    layer, text = 5, tiny.language_model.model  # in the second block
    blocks = [run.layer(0, "block_store"), run.layer(4, "block_store")]
    values = torch.stack([*blocks, run.layer(layer, "prefix_sum")], -2)
    keys = values / (values.square().mean(-1, keepdim=True) + tiny.config.eps).sqrt()
    score = keys @ (text.output_attn_res_norm.weight * text.output_attn_res_proj.weight[0])
    hidden = (score.softmax(-1)[..., None] * values).sum(-2)
    expected = tiny.language_model.lm_head(text.norm(hidden))[0]
    torch.testing.assert_close(logit_lens.logits_after(tiny, run, layer), expected)
    result = logit_lens.logit_lens(tiny, run)
    row = result.layers.index(layer)
    np.testing.assert_array_equal(result.targets[:-1], IDS[1:])
    assert result.targets[-1] == run.logits[0, -1].argmax()
    np.testing.assert_array_equal(result.top_ids[row], expected.argmax(-1))
    own = expected.double().softmax(-1).gather(-1, torch.tensor(result.targets)[:, None])[:, 0]
    np.testing.assert_allclose(result.prob[row], own, rtol=1e-5)


def test_lanes_hold_each_weight_once(run, tiny):
    result = routing.routing_of(run, 3)
    lanes = result.lanes(tiny.config.experts)
    np.testing.assert_allclose(lanes.sum(-1), result.weight.sum(-1), rtol=1e-6)
    assert ((lanes > 0).sum(-1) == tiny.config.top_k).all()


def test_balance_of_even_and_of_one_sided_counts():
    even = routing.balance(np.full(8, 3))
    assert (even.target, even.violation, len(even.dead)) == (3, 0, 0)
    assert even.entropy == pytest.approx(np.log(8))
    one = routing.balance(np.array([0, 0, 12, 0]))
    assert (one.violation, one.entropy, one.dead.tolist()) == (3, 0, [0, 1, 3])


def test_entropy_and_output_shares(run):
    scores = run.layer(2, GATE + "scores")[0].double().numpy()
    p = scores / scores.sum(-1, keepdims=True)
    np.testing.assert_allclose(routing.score_entropy(run, 2), -(p * np.log(p)).sum(-1), rtol=1e-6)
    result = routing.output_of(run, 2)
    routed = run.layer(2, "block_sparse_moe.routed_expert_up_proj")[0].numpy()
    shared = run.layer(2, "block_sparse_moe.shared_experts")[0].numpy()
    np.testing.assert_allclose(routed + shared, run.layer(2, "block_sparse_moe")[0].numpy(), atol=1e-6)
    a, b = (np.sqrt((x**2).mean(-1)) for x in (routed, shared))
    np.testing.assert_allclose(result.routed_share, a / (a + b), rtol=1e-5)


def test_a_bias_changes_exactly_the_choices_it_reports():
    model = load("k3-random")
    plain = routing.bias_effect(trace(model, IDS), 4)
    assert plain.changed.sum() == plain.gained.sum() == plain.lost.sum() == 0
    gate = model.language_model.model.layers[4].block_sparse_moe.gate
    gate.e_score_correction_bias[7] = 10.0
    result = routing.bias_effect(trace(model, IDS), 4)
    without = np.sort(plain.without, -1)
    np.testing.assert_array_equal(np.sort(result.without, -1), without)
    missed = ~(without == 7).any(-1)
    np.testing.assert_array_equal(result.changed, missed.astype(int))
    assert result.gained[7] == missed.sum() == result.lost.sum()


def test_overlap_of_runs_and_prompts(tiny, run):
    a, b = routing.routing_of(run, 1), routing.routing_of(trace(tiny, IDS.flip(0)[:6]), 1)
    assert (routing_overlap.of_runs(a, a) == 1).all()
    expected = [len({*x} & {*y}) / 3 for x, y in zip(a.index.tolist(), b.index.tolist(), strict=False)]
    np.testing.assert_allclose(routing_overlap.of_runs(a, b), expected, rtol=1e-6)
    counts = routing.routing_counts(run)
    np.testing.assert_allclose(routing_overlap.of_prompts(counts, counts * 3), 1)


def test_overlap_of_layers_is_the_correlation_of_common_choices(tiny, run):
    layers = [routing.routing_of(run, layer) for layer in (1, 2, 8)]
    result = routing_overlap.of_layers(layers, tiny.config.experts)
    off = ~np.eye(len(IDS), dtype=bool)
    common = [(x := r.lanes(tiny.config.experts) > 0).astype(int) @ x.T.astype(int) for r in layers]
    np.testing.assert_allclose(result, np.corrcoef([c[off] for c in common]), atol=1e-9)
    # the names of the experts do not matter
    renamed = routing.Routing(2, (layers[1].index + 5) % 18, layers[1].weight, layers[1].margin)
    np.testing.assert_allclose(routing_overlap.of_layers([layers[0], renamed], 18)[0, 1], result[0, 1])
    assert np.isnan(routing_overlap.of_layers([layers[0]] * 2, 18)).any() == np.isnan(result[0, 0])
