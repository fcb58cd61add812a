"""Prefill and single steps are one pass; padding on the left changes nothing."""

import pytest
import torch

from k3scope.model import load
from k3scope.model.runs.generate import SNAPSHOT_EVERY, Sampling, Session, choose, generate

TIGHT = {"rtol": 0, "atol": 1e-12}


@pytest.fixture(scope="module")
def wide():
    return load("k3-random", torch.float64)


def tokens(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, (1, n), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("split", [[12], [1] * 12, [5, 7], [11, 1], [2, 3, 1, 6]], ids=str)
def test_any_split_is_one_pass(wide, split):
    ids = tokens(12)
    cache = wide.new_cache()
    parts = [wide(part, cache) for part in ids.split(split, 1)]
    torch.testing.assert_close(torch.cat(parts, 1), wide(ids), **TIGHT)
    assert cache.length == 12


def test_a_left_padded_batch_equals_its_rows(wide):
    rows = [tokens(n, n) for n in (9, 4, 1)]
    batch = torch.zeros(3, 9, dtype=torch.long)
    real = torch.zeros(3, 9, dtype=torch.bool)
    for i, row in enumerate(rows):
        batch[i, 9 - row.shape[1] :] = row
        real[i, 9 - row.shape[1] :] = True
    logits = wide(batch, None, real)
    for i, row in enumerate(rows):
        torch.testing.assert_close(logits[i, 9 - row.shape[1] :], wide(row)[0], **TIGHT)


def test_a_padded_batch_goes_on_step_by_step(wide):
    long, short = tokens(7, 1), tokens(7, 2)[:, :3]
    batch = torch.cat([long, torch.cat([torch.zeros(1, 4, dtype=torch.long), short], 1)])
    real = torch.ones(2, 7, dtype=torch.bool)
    real[1, :4] = False
    cache = wide.new_cache()
    wide(batch, cache, real)
    step = wide(torch.tensor([[5], [6]]), cache)
    for i, row in enumerate((long, short)):
        alone = wide(torch.cat([row, torch.tensor([[5 + i]])], 1))
        torch.testing.assert_close(step[i, -1], alone[0, -1], **TIGHT)


def test_the_cache_holds_what_the_release_keeps(tiny):
    c, cache = tiny.config, tiny.new_cache()
    tiny(tokens(10), cache)
    numbers = sum(t.numel() for t in cache.tensors())
    mla = c.kinds.count("mla") * 10 * (c.kv_rank + c.shared_key_dim)
    width = c.kda_heads * c.kda_head_dim
    kda = c.kinds.count("kda") * (c.kda_heads * c.kda_head_dim**2 + 3 * (c.conv - 1) * width)
    assert numbers == mla + kda
    assert cache.cache_bytes == 4 * numbers


@pytest.mark.slow
def test_a_cache_of_the_released_model_has_the_known_size(full):
    cache = full.new_cache()
    full(torch.zeros(1, 2, dtype=torch.long, device="meta"), cache)
    latents = [c.latent for c in cache.layers if c.latent is not None]
    assert sum(t[:, 0].numel() for t in latents) * 2 == 27_648  # bytes per token in bfloat16
    states = [c.state for c in cache.layers if c.state is not None]
    assert sum(t.numel() for t in states) == 108_527_616
    assert sum(t.numel() for c in cache.layers for t in c.inputs.values()) == 7_630_848


def test_editing_the_tail_equals_a_fresh_run(wide):
    first, session = tokens(2 * SNAPSHOT_EVERY + 20, 3)[0].tolist(), Session(wide)
    session.run(first)
    edited = [*first[: SNAPSHOT_EVERY + 9], 7, 8, 9]
    torch.testing.assert_close(session.run(edited), wide(torch.tensor([edited]))[0, -1], **TIGHT)
    assert session.computed < 20
    shorter = edited[:10]
    torch.testing.assert_close(session.run(shorter), wide(torch.tensor([shorter]))[0, -1], **TIGHT)
    torch.testing.assert_close(session.run(shorter), wide(torch.tensor([shorter]))[0, -1], **TIGHT)


def test_greedy_generation_takes_the_likeliest_each_time(tiny):
    ids = tokens(5)[0].tolist()
    new = list(generate(tiny, ids, 6))
    for n in range(6):
        assert new[n] == tiny(torch.tensor([ids + new[:n]]))[0, -1].argmax()


def test_sampling_repeats_with_its_seed(tiny):
    ids = tokens(5)[0].tolist()
    run = lambda seed: list(generate(tiny, ids, 12, Sampling(1.0, 0.95, seed)))  # noqa: E731
    assert run(1) == run(1)
    assert run(1) != run(2)


def test_top_p_leaves_out_the_tail():
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    generator = torch.Generator().manual_seed(0)
    recorded = {choose(logits, Sampling(1.0, 0.7), generator) for _ in range(200)}
    assert recorded == {0, 1}


def test_a_stop_token_ends_it(tiny):
    ids = tokens(5)[0].tolist()
    first = next(generate(tiny, ids, 1))
    assert list(generate(tiny, ids, 50, stop=[first])) == [first]


def test_nan_is_refused_and_its_block_named():
    broken = load("k3-random")
    broken.language_model.model.layers[2].block_sparse_moe.routed_expert_norm.weight[3] = torch.nan
    with pytest.raises(ValueError, match=r"layers\.2\.block_sparse_moe\.routed_expert_norm"):
        list(generate(broken, [1, 2, 3], 1))


@pytest.mark.parametrize(
    "bad", [{"temperature": -1}, {"top_p": 0}, {"top_p": 1.5}, {"temperature": float("nan")}]
)
def test_sampling_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="expected"):
        Sampling(**bad)
