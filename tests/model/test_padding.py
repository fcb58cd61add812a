"""Padding anywhere in a batch leaves every token as it is without: the same numbers, counted nowhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from k3scope import trace
from k3scope.model.init import random_model
from k3scope.model.measure.statistics import all_statistics
from k3scope.model.presets import K3_RECALL
from k3scope.model.runs.lab import lab
from k3scope.model.runs.trace_diff import compare
from k3scope.model.tracing import official_trace
from tests.helpers.mixes import OLDER

K3 = replace(K3_RECALL, kinds=("kda", "kda", "mla"), vocab=64, bos=1, eos=2, pad=0)
MODELS = {"k3": K3, "kimi-linear": replace(OLDER, vocab=64, bos=1, eos=2, pad=0)}
LONGEST = 41  # more than two chunks of the delta rule
CASES = {
    "left": [[0] * 9 + [1] * 32, [0] * 20 + [1] * 21, [1] * 41],
    "right": [[1] * 32 + [0] * 9, [1] * 5 + [0] * 36, [1] * 41],
    "holes": [[1, 0] * 20 + [1], [1] * 16 + [0] * 9 + [1] * 16, [0, 0, 1] * 13 + [0, 1]],
    "one": [[0] * 17 + [1] * 24],
    "almost nothing": [[0] * 40 + [1], [1] + [0] * 40, [0] * 20 + [1] + [0] * 20],
}
# float64 apart from the C++ path, which has float32 alone; chunks of the delta rule begin at other tokens
TOLERANCE = {"reference": 1e-12, "torch": 1e-9, "cpp": 2e-5}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return random_model(MODELS[request.param]).double()


@pytest.fixture(params=["torch", *(pytest.param(p, marks=pytest.mark.slow) for p in ("reference", "cpp"))])
def path(request, monkeypatch):
    monkeypatch.setenv("K3SCOPE_KERNELS", request.param)
    return request.param


def case(name: str):
    """Ids [B, T] and which are real; the others are any ids at all."""
    real = torch.tensor(CASES[name], dtype=torch.bool)
    ids = torch.randint(3, 64, real.shape, generator=torch.Generator().manual_seed(len(name)))
    return ids, real


def close(actual, expected, tolerance: float) -> None:
    torch.testing.assert_close(
        actual, expected, rtol=0, atol=tolerance * max(1.0, float(expected.abs().max()))
    )


@pytest.mark.parametrize("name", CASES)
def test_a_padded_row_has_the_numbers_of_the_row_alone_at_every_hook_point(model, path, name):
    model = model.float() if path == "cpp" else model.double()
    ids, real = case(name)
    padded = trace(model, ids, real=real)
    for row, mask in enumerate(real):
        alone, within = trace(model, ids[row, mask]), padded.row(row)
        close(within.logits, alone.logits, TOLERANCE[path])
        assert within.ids.tolist() == alone.ids.tolist()
        assert within.values.keys() == alone.values.keys()
        for point, value in alone.values.items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                close(within.values[point], value, 10 * TOLERANCE[path])
    model.double()


@pytest.mark.parametrize(
    "split", [(41,), pytest.param((1,) * 41, marks=pytest.mark.slow), (3, 17, 1, 20)], ids=str
)
@pytest.mark.parametrize("name", CASES)
def test_a_padded_prompt_may_come_in_turns_with_a_warm_cache(model, name, split):
    ids, real = case(name)
    cache = model.new_cache()
    parts = zip(ids.split(split, 1), real.split(split, 1), strict=True)
    logits = torch.cat([model(part, cache, mask) for part, mask in parts], 1)
    step = model(torch.full((len(ids), 1), 7), cache)
    for row, mask in enumerate(real):
        close(logits[row, mask], model(ids[row : row + 1, mask])[0], 1e-9)
        further = torch.cat([ids[row, mask], torch.tensor([7])])
        close(step[row, 0], model(further[None])[0, -1], 1e-9)


def test_rows_of_different_lengths_go_on_together_and_end_one_by_one(model):
    ids, real = case("left")
    cache, rows = model.new_cache(), [ids[n, mask].tolist() for n, mask in enumerate(real)]
    model(ids, cache, real)
    for step in range(6):
        active = torch.tensor([[step < 2 * row + 1] for row in range(3)])
        logits = model(torch.full((3, 1), 5 + step), cache, active)
        for row in (n for n in range(3) if active[n]):
            rows[row].append(5 + step)
            close(logits[row, 0], model(torch.tensor([rows[row]]))[0, -1], 1e-9)


def test_padding_is_counted_nowhere_and_a_view_says_which_row_it_shows(model):
    ids, real = case("holes")
    run = lab(ids, model, real=real)
    for row, mask in enumerate(real):
        alone, within = lab(ids[row, mask], model), run.row(row)
        assert within.source.endswith(f"row {row} of 0 to 2")
        assert np.array_equal(within.readings.counts, alone.readings.counts)
        assert within.length == alone.length == int(mask.sum())
        np.testing.assert_allclose(within.readings.tokens.loss, alone.readings.tokens.loss, rtol=1e-6)
        for view in ("routing", "kda", "attention", "depth", "lens"):
            picture, expected = run.picture(view, row=row), alone.picture(view)
            np.testing.assert_allclose(picture.image, expected.image, rtol=1e-5, atol=1e-7)
            assert picture.source.endswith(f"row {row} of 0 to 2")
    assert run.picture("lens").source.endswith("row 0 of 0 to 2")
    assert "3 rows" in repr(run)
    with pytest.raises(ValueError, match="there is no row 3; expected 0 to 2"):
        run.row(3)


def test_statistics_of_a_batch_are_those_of_its_tokens(model):
    ids, real = case("holes")
    whole = all_statistics(trace(model, ids, real=real))
    rows = [all_statistics(trace(model, ids[row, mask])) for row, mask in enumerate(real)]
    for point, of_batch in whole.items():
        assert of_batch.max == pytest.approx(max(row[point].max for row in rows), rel=1e-9)
        assert of_batch.min == pytest.approx(min(row[point].min for row in rows), rel=1e-9, abs=1e-15)
    observed = lab(ids, model, real=real).points
    for point in observed:
        assert observed[point].mean == pytest.approx(whole[point].mean, rel=1e-6, abs=1e-9)


def test_what_stands_at_padding_may_be_anything(model):
    ids, real = case("holes")
    other = torch.where(real, ids, (ids + 11) % 64)
    close(model(ids, real=real)[real], model(other, real=real)[real], 1e-12)


def test_a_written_trace_says_what_is_padding_and_is_compared_without(model):
    ids, real = case("holes")
    ours = official_trace(model, ids, real=real)
    theirs = official_trace(model, torch.where(real, ids, 9), real=real)
    assert torch.equal(ours["real"].bool(), real)
    assert max(d.error for d in compare(ours, theirs)) < 1e-12
    for row, mask in enumerate(real):
        alone = official_trace(model, ids[row, mask])
        for name in (n for n in alone if ".kda." in n):
            close(ours[name][row : row + 1], alone[name], 1e-9)
    with pytest.raises(ValueError, match="padding in different places"):
        compare(ours, theirs | {"real": ours["real"].flip(1)})


@pytest.mark.parametrize(
    ("ids", "real", "sentence"),
    [
        ((2, 5), torch.ones(2, 4), r"real has shape \(2, 4\); expected that of the ids, \(2, 5\)"),
        ((2, 5), torch.ones(5), r"real has shape \(1, 5\); expected that of the ids, \(2, 5\)"),
        ((2, 5), torch.full((2, 5), 2), "other values than 0 and 1"),
        ((2, 5), torch.full((2, 5), 0.5), "other values than 0 and 1"),
        ((2, 5), torch.full((2, 5), float("nan")), "other values than 0 and 1"),
        ((2, 0), None, "expected at least one integer id"),
        ((1, 2, 3), None, "expected at least one integer id"),
    ],
)
def test_a_mask_that_is_none_is_said(model, ids, real, sentence):
    with pytest.raises(ValueError, match=sentence):
        trace(model, torch.zeros(ids, dtype=torch.long), real=real)


def test_a_step_without_tokens_and_a_cache_of_other_sequences_are_refused(model):
    cache = model.new_cache()
    model(torch.tensor([[5, 6]]), cache)
    with pytest.raises(ValueError, match="expected \\[B, T\\] with at least one token"):
        model(torch.zeros(1, 0, dtype=torch.long), cache)
    with pytest.raises(ValueError, match="the cache holds 1 sequences; expected ids of as many, not of 2"):
        model(torch.tensor([[5], [6]]), cache)


def test_a_row_of_nothing_but_padding_harms_no_other(model):
    ids, real = case("left")
    real[0] = False
    run = trace(model, ids, real=real)
    close(run.row(1).logits, model(ids[1:2, real[1]]), 1e-9)
    with pytest.raises(ValueError, match="row 0 is padding throughout"):
        run.row(0)
