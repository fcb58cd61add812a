"""Interventions: each replaces what it describes and nothing else, and its text brings it back."""

import json

import numpy as np
import pytest
import torch

from k3scope.model import trace
from k3scope.model.hooks import watch
from k3scope.model.interventions.edits import edits, source_points
from k3scope.model.interventions.intervention import KINDS, Intervention, dumps, loads
from k3scope.model.measure.run_difference import aligned, difference

IDS = torch.tensor([84, 104, 101, 32, 102, 111, 120, 256, 10, 104, 101])
OTHER = torch.tensor([84, 104, 101, 33, 98, 111, 121, 256, 10])
LAYER = "language_model.model.layers."
EACH = (
    Intervention("head", "zero", 1, 3),
    Intervention("head", "mean", 3, 5, tokens=(2, 4)),
    Intervention("expert", "noise", 2, 7, amount=0.5, seed=3),
    Intervention("mix", "zero", 5, 1, place="FFN"),
    Intervention("mix", "patch", index=0, place="output", run="other"),
    Intervention("sublayer", "patch", 6, place="attention", run="other", tokens=(4,)),
    Intervention("token", "zero", tokens=(0, 3)),
    Intervention("token", "noise", 4, tokens=(5,)),
    Intervention("routes", "force", 3, experts=(1, 2, 17)),
    Intervention("routes", "patch", run="other"),
    Intervention("decay", "clamp", low=0.9),
)


@pytest.fixture(scope="module")
def plain(tiny):
    return trace(tiny, IDS)


@pytest.fixture(scope="module")
def other(tiny):
    return {"other": trace(tiny, OTHER)}


def changed(tiny, *changes, sources=None):
    return trace(tiny, IDS, edits=edits(tiny.config, changes, sources))


@pytest.mark.parametrize("change", EACH, ids=str)
def test_every_kind_changes_the_logits_and_repeats_exactly(tiny, plain, other, change):
    first, again = (changed(tiny, change, sources=other).logits for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, plain.logits)
    assert first.isfinite().all()


def test_text_brings_the_changes_back():
    text = dumps(EACH)
    assert loads(text) == EACH
    assert dumps(loads(text)) == text
    assert loads("") == loads("[]") == ()
    assert "seed" not in dumps(EACH[:1])
    assert str(EACH[1]) == "mean head 5 in layer 3 at token 2, 4"


def test_a_zeroed_head_contributes_nothing_and_the_others_stay(tiny, plain):
    for layer, heads, width in ((1, 5, 32), (3, 6, 64)):
        run = changed(tiny, Intervention("head", "zero", layer, 2))
        before, after = (r.layer(layer, "self_attn.gated")[0].reshape(11, heads, width) for r in (plain, run))
        assert after[:, 2].abs().max() == 0
        others = [h for h in range(heads) if h != 2]
        assert torch.equal(before[:, others], after[:, others])
        weight = tiny.language_model.model.layers[layer].self_attn.o_proj.weight
        expected = plain.layer(layer, "self_attn")[0] - before[:, 2] @ weight[:, 2 * width : 3 * width].T
        torch.testing.assert_close(run.layer(layer, "self_attn")[0], expected, atol=1e-6, rtol=1e-5)


def test_an_expert_changes_only_where_it_was_chosen(tiny, plain):
    index = plain.layer(2, "block_sparse_moe.gate.topk_idx")[0]
    expert = int(index[4, 0])
    before = plain.layer(2, "block_sparse_moe.experts")[0]
    for do in ("zero", "mean"):
        run = changed(tiny, Intervention("expert", do, 2, expert))
        after = run.layer(2, "block_sparse_moe.experts")[0]
        mine = index == expert
        assert torch.equal(after[~mine], before[~mine])
        expected = before[mine].mean(0) if do == "mean" else torch.zeros(tiny.config.latent)
        torch.testing.assert_close(after[mine], expected.expand_as(after[mine]))
    chosen = {n: plain.layer(n, "block_sparse_moe.gate.topk_idx")[0].unique().tolist() for n in range(1, 9)}
    layer, nobody = next((n, e) for n in chosen for e in range(18) if e not in chosen[n])
    assert torch.equal(changed(tiny, Intervention("expert", "zero", layer, nobody)).logits, plain.logits)


def test_an_expert_is_patched_where_both_runs_chose_it(tiny, plain, other):
    point = "block_sparse_moe.gate.topk_idx"
    ours, theirs = plain.layer(1, point)[0], other["other"].layer(1, point)[0]
    both = [
        (t, e) for t in range(3, 9) for e in ours[t].tolist() if e in theirs[t]
    ]  # they differ from token 3
    token, expert = both[0]
    run = changed(tiny, Intervention("expert", "patch", 1, expert, run="other"), sources=other)
    out, source = (r.layer(1, "block_sparse_moe.experts")[0] for r in (run, other["other"]))
    torch.testing.assert_close(out[token][ours[token] == expert], source[token][theirs[token] == expert])
    alone = (ours == expert) & ~torch.cat([(theirs == expert).any(-1), torch.zeros(2) > 0])[:, None]
    assert torch.equal(out[alone], plain.layer(1, "block_sparse_moe.experts")[0][alone])


def test_the_weights_of_a_mix_still_sum_to_one(tiny, plain):
    for do in ("zero", "mean", "noise"):
        run = changed(tiny, Intervention("mix", do, 6, 0, place="attention"))
        probs = run.layer(6, "self_attention_res.probs")[0]
        torch.testing.assert_close(probs.sum(-1), torch.ones(11))
        if do == "zero":
            rest = plain.layer(6, "self_attention_res.probs")[0][:, 1:]
            torch.testing.assert_close(probs[:, 1:], rest / rest.sum(-1, keepdim=True))


def test_a_whole_patched_embedding_is_the_other_run(tiny, other):
    tokens = tuple(range(9))
    change = Intervention("token", "patch", tokens=tokens, run="other")
    run = trace(tiny, IDS[:9], edits=edits(tiny.config, [change], other))
    assert torch.equal(run.logits, other["other"].logits)


def test_a_token_changes_nothing_before_it(tiny, plain):
    run = changed(tiny, Intervention("token", "zero", 2, tokens=(6,)))
    result = difference(plain, run)
    assert (result.kl[:6] < 1e-12).all()  # products of several tokens may round otherwise
    assert (result.kl[6:] > 0).all()
    assert result.shift[2, 6] == 1
    assert (result.shift[:2] == 0).all()


def test_clamped_decay_stays_in_its_bounds(tiny):
    run = changed(tiny, Intervention("decay", "clamp", 0, 2, low=0.5, high=0.6))
    stored = run.layer(0, "self_attn.decay")[0].exp()
    assert 0.5 - 1e-6 <= stored[:, 2].min() <= stored[:, 2].max() <= 0.6 + 1e-6
    assert stored[:, [0, 1, 3, 4]].min() < 0.5


def test_forced_routes_are_taken(tiny):
    run = changed(tiny, Intervention("routes", "force", 4, experts=(0, 5, 9), tokens=(3,)))
    assert run.layer(4, "block_sparse_moe.gate.topk_idx")[0, 3].tolist() == [0, 5, 9]


def test_several_changes_combine_also_on_one_output(tiny):
    both = changed(tiny, Intervention("head", "zero", 1, 0), Intervention("head", "zero", 1, 4))
    gated = both.layer(1, "self_attn.gated")[0]
    assert gated[:, [0, 4]].abs().max() == 0
    assert gated[:, 1:4].abs().min() > 0


def test_source_points_are_enough(tiny, other):
    changes = [c for c in EACH if c.do == "patch"]
    needed = source_points(tiny.config, changes)["other"]
    few = {"other": trace(tiny, OTHER, points=needed)}
    assert torch.equal(
        changed(tiny, *changes, sources=few).logits, changed(tiny, *changes, sources=other).logits
    )


def test_difference_against_a_direct_computation(tiny, plain):
    run = changed(tiny, Intervention("sublayer", "zero", 0, place="FFN"))
    result = difference(plain, run)
    p, q = (r.logits[0].double().log_softmax(-1) for r in (plain, run))
    np.testing.assert_allclose(result.kl, (p.exp() * (p - q)).sum(-1), rtol=1e-4, atol=1e-9)
    loss = (p - q)[:-1].gather(-1, IDS[1:, None])[:, 0]
    np.testing.assert_allclose(result.loss[1:], loss, atol=1e-6)
    assert result.mean_loss == pytest.approx(float(loss.mean()), abs=1e-6)
    assert result.routes.shape == (8, 11)
    same = difference(plain, plain)
    assert same.kl.max() == same.logits.max() == same.shift.max() == 0
    assert (same.routes == 1).all()
    assert not same.top_changed.any()


def test_prompts_are_aligned_by_token(tiny, plain, other):
    pairs = aligned([1, 2, 3, 4], [1, 9, 3, 4, 5])
    assert pairs.tolist() == [[0, 0], [2, 2], [3, 3]]
    result = difference(plain, other["other"])
    assert (IDS[result.pairs[:, 0]] == OTHER[result.pairs[:, 1]]).all()
    nothing = difference(plain, trace(tiny, torch.tensor([1, 2])))
    assert (len(nothing.kl), nothing.shift.shape) == (0, (9, 0))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"what": "head", "do": "zero", "layer": 9, "index": 0}, "layers 0 to 8"),
        ({"what": "head", "do": "zero", "layer": 3, "index": 6}, "there are 6"),
        ({"what": "expert", "do": "zero", "layer": 0, "index": 1}, "no experts"),
        ({"what": "mix", "do": "zero", "layer": 0, "index": 0, "place": "attention"}, "there are 0"),
        ({"what": "decay", "do": "clamp", "layer": 3}, "is MLA"),
        ({"what": "routes", "do": "force", "layer": 3, "experts": [1, 1, 2]}, "3 different experts"),
        ({"what": "routes", "do": "force", "layer": 3}, "3 different experts"),
        ({"what": "sublayer", "do": "patch", "layer": 1, "place": "FFN", "run": "gone"}, "not here"),
        ({"what": "head", "do": "zero", "index": 0}, "layer is missing"),
        ({"what": "token", "do": "zero", "layer": 2}, "positions to change"),
        ({"what": "token", "do": "zero", "tokens": [99]}, "tokens 0 to 10"),
        ({"what": "tail", "do": "zero"}, "cannot change 'tail'"),
        ({"what": "decay", "do": "zero"}, "expected clamp"),
        ({"what": "decay", "do": "clamp", "low": 2}, "are shares"),
        ({"what": "head", "do": "zero", "layr": 1, "index": 0}, "did you mean 'layer'"),
        ({"what": "head", "do": "zero", "layer": "1", "index": 0}, "layer of an intervention is '1'"),
        ({"what": "head"}, "needs do"),
    ],
)
def test_what_cannot_be_done_is_reported(tiny, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        changed(tiny, *loads(json.dumps([change])))


@pytest.mark.parametrize("text", ["{", "7", "[1]", '{"what": "head"}'])
def test_text_that_is_no_list_of_changes_is_refused(text):
    with pytest.raises(ValueError, match="interventions are"):
        loads(text)


def test_every_kind_is_tried_here():
    assert {c.what for c in EACH} == set(KINDS)


def test_a_failing_edit_leaves_hooks_and_the_next_run_alone(tiny, plain):
    count = lambda: sum(len(m._forward_hooks) for m in watch(tiny).modules())  # noqa: E731
    before = count()
    with pytest.raises(ValueError, match="tokens 0 to 10"):
        changed(tiny, Intervention("token", "zero", 4, tokens=(50,)))
    assert count() == before
    assert torch.equal(trace(tiny, IDS).logits, plain.logits)
