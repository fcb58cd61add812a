"""What the derivations claim, computed: each identity and each number in them."""

import math
import re

import pytest
import torch
from torch import Tensor

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.derivation import derivation, texts
from k3scope.diagrams.spec import formula
from k3scope.model.kernels import mxfp4, reference
from k3scope.model.norm import RMSNorm
from k3scope.model.training.balance import exact_bias

FLOAT32_MAX = torch.finfo(torch.float32).max


@pytest.fixture
def rand():
    generator = torch.Generator().manual_seed(11)
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("block_id", sorted(texts()))
@pytest.mark.parametrize("model", ["kimi-k3", "k3-random"])
def test_every_derivation_is_of_a_block_and_gets_its_numbers(model, block_id):
    facts = Facts.of(model)
    assert block_id in facts.blocks
    text = derivation(facts, block_id)
    assert len(text) > 300
    assert not re.search(r"\{\{[a-z_]+[^{}]*\}\}", text)
    assert text.count("$") % 2 == 0


def test_a_model_without_a_size_has_no_derivation_that_speaks_of_it(monkeypatch):
    facts = Facts.of("k3-random")
    monkeypatch.setattr(facts, "sizes", {k: v for k, v in facts.sizes.items() if k != "decay_floor"})
    assert derivation(facts, "kda_decay") == ""
    assert derivation(facts, "kda_output_gate")


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def test_a_chunk_of_the_delta_rule_is_a_triangular_system(rand):
    C, D, V = 16, 8, 6
    q, k, v = unit(rand(C, D)), unit(rand(C, D)), rand(C, V)
    g, beta, S0 = -5 * rand(C, D).sigmoid(), rand(C).sigmoid(), rand(D, V)
    G = g.cumsum(0)
    pair = torch.exp(G[:, None] - G[None])  # [i, j, c]
    A = (beta[:, None] * torch.einsum("ic,jc,ijc->ij", k, k, pair)).tril(-1)
    U = torch.linalg.solve(torch.eye(C) + A, beta[:, None] * (v - (G.exp() * k) @ S0))
    o = (G.exp() * q) @ S0 + torch.einsum("ic,jc,ijc->ij", q, k, pair).tril() @ U
    S = G[-1].exp()[:, None] * S0 + ((G[-1] - G).exp() * k).T @ U
    one = [t[None, :, None] for t in (q, k, v, g)]
    out, state = reference.kda(*one, beta[None, :, None], S0[None, None])
    torch.testing.assert_close(o, out[0, :, 0])
    torch.testing.assert_close(S, state[0, 0])


def test_a_write_averages_old_answer_and_new_value(rand):
    k, v, S, beta = unit(rand(8)), rand(6), rand(8, 6), 0.3
    after = S + beta * torch.outer(k, v - S.T @ k)
    torch.testing.assert_close(after.T @ k, (1 - beta) * S.T @ k + beta * v)


def test_tiles_of_sixteen_fit_into_float32_and_chunks_of_sixty_four_do_not():
    assert math.exp(5 * 16) < FLOAT32_MAX < math.exp(88.8) < math.exp(5 * 64)
    assert f"{math.exp(80):.1e}" == "5.5e+34"
    assert f"{math.exp(-5):.4f}" == "0.0067"


def test_long_memory_lives_in_the_tail_of_the_gate():
    rate = math.log(2) / 1000
    assert f"{rate:.5f}" == "0.00069"
    assert f"{rate / 5:.1e}" == "1.4e-04"
    assert f"{math.log(rate / 5 / (1 - rate / 5)):.1f}" == "-8.9"
    assert f"{math.exp(-2.5):.2f}" == "0.08"


def test_keeping_never_enlarges_the_memory(rand):
    for _ in range(20):
        k, beta, alpha = unit(rand(8)), rand(1).sigmoid(), (-5 * rand(8).sigmoid()).exp()
        decayed = (torch.eye(8) - beta * torch.outer(k, k)) * alpha
        assert torch.linalg.matrix_norm(decayed, 2) <= 1 + 1e-12


def test_a_norm_ignores_a_common_factor(rand):
    norm = RMSNorm(64, 1e-12).double()
    x = rand(3, 64)
    torch.testing.assert_close(norm(7 * x), norm(x))


def test_the_up_projection_of_mla_can_be_absorbed(rand):
    q, c, shared = rand(5, 8), rand(7, 6), rand(7, 4)
    qs, WK, WV = rand(5, 4), rand(8, 6), rand(9, 6)
    plain = q @ (c @ WK.T).T + qs @ shared.T
    absorbed = (q @ WK) @ c.T + qs @ shared.T
    torch.testing.assert_close(absorbed, plain)
    P = plain.softmax(-1)
    torch.testing.assert_close(P @ (c @ WV.T), (P @ c) @ WV.T)


def test_the_price_of_absorbing_in_the_release():
    sizes = Facts.of("kimi-k3").sizes
    value = lambda text: formula.evaluate(text, sizes)  # noqa: E731
    wide, narrow = value("nope_dim + shared_key_dim + v_dim"), value("kv_rank + shared_key_dim")
    assert f"{(narrow + value('kv_rank')) / wide:.1f}" == "3.4"
    assert f"{value('heads') * wide / narrow:.1f}" == "53.3"


@pytest.mark.parametrize("name", ["kimi-k3", "k3-random"])
def test_candidates_of_the_mixes(name):
    facts = Facts.of(name)
    c, model = facts.config, facts.model
    attn = [model.get_submodule(p).candidates for p in facts.instances(facts.blocks["attn_mix"])]
    assert attn[1:] == [math.ceil(i / c.block) + 1 for i in range(1, c.layers)]
    ffn = [model.get_submodule(p).candidates for p in facts.instances(facts.blocks["ffn_mix"])]
    assert ffn == [i // c.block + 2 for i in range(c.layers)]
    output = model.get_submodule(facts.instances(facts.blocks["output_mix"])[0])
    assert output.candidates == math.ceil(c.layers / c.block) + 1
    assert len(attn[1:]) + len(ffn) + 1 == 2 * c.layers


def test_all_sources_together_are_the_ordinary_residual(tiny, tiny_trace):
    values, stack = tiny_trace.values, "language_model.model.layers"
    layers = range(tiny.config.layers)
    stored = [values[f"{stack}.{i}.block_store"] for i in layers if i % tiny.config.block == 0]
    running = values[f"{stack}.{layers[-1]}.prefix_sum"]
    outputs = [values[f"{stack}.{i}.self_attn.o_proj"] for i in layers]
    ffns = ["mlp" if i < tiny.config.dense_layers else "block_sparse_moe" for i in layers]
    outputs += [values[f"{stack}.{i}.{ffn}"] for i, ffn in enumerate(ffns)]
    residual = values["language_model.model.embed_tokens"] + sum(outputs)
    # float32 sums in another order
    torch.testing.assert_close(sum(stored) + running, residual, atol=1e-5, rtol=1e-4)


def test_situ_is_capped_and_is_swiglu_near_zero(rand):
    g, u = 100 * rand(1000), 100 * rand(1000)
    assert reference.situ_glu(g, u, 4.0, 25.0).abs().max() <= 100
    small = torch.tensor([0.01], dtype=torch.float64)
    torch.testing.assert_close(reference.situ_glu(small, small, 4.0, 25.0), small * small.sigmoid() * small,
                               rtol=1e-5, atol=0)  # fmt: skip
    assert f"{4 * math.tanh(1 / 4):.2f}" == "0.98"
    assert f"{25 * math.tanh(6 / 25) / 6:.2f}" == "0.98"


def test_the_quantile_gives_an_expert_its_load_and_the_dual_its_slope(rand):
    m, n, k = 4000, 20, 3
    s, b = rand(m, n).sigmoid(), 0.1 * rand(n)
    q = m * k // n
    cutoff = (s + b).topk(k + 1).values[:, -1]
    new = exact_bias(s.float(), b.float(), k).double()
    # the rule is centred; adding the mean back gives the quantile of each expert
    margin = s - cutoff[:, None]
    plain = -margin.sort(0, descending=True).values[q - 1 : q + 1].mean(0)
    assert torch.allclose(plain - plain.mean(), new, atol=1e-3)
    slack = 1e-12
    assert all((margin > -plain + slack).sum(0) <= q)
    assert all((margin >= -plain - slack).sum(0) >= q)
    # tokens whose cutoff is the expert itself tie at its old bias
    own = (s + b).topk(k + 1).indices[:, -1]
    assert torch.allclose(margin[torch.arange(m), own], -b[own])
    dual = lambda b: (s + b).topk(k).values.sum() - q * b.sum()  # noqa: E731
    load = torch.bincount((s + b).topk(k).indices.flatten(), minlength=n)
    step = torch.zeros(n, dtype=torch.float64)
    step[4] = 1e-7
    assert ((dual(b + step) - dual(b)) / 1e-7).item() == pytest.approx(float(load[4] - q), abs=0.5)


def test_when_the_latent_pays():
    sizes = Facts.of("kimi-k3").sizes
    up, saved = (formula.evaluate(t, sizes) for t in ("2*d*latent", "3*expert_dim*(d - latent)"))
    assert f"{up / saved:.2f}" == "1.56"
    assert sizes["experts"] == 56 * sizes["top_k"]


def test_an_expert_in_bytes_and_a_byte_by_hand():
    weights = formula.evaluate("3*expert_dim*latent", Facts.of("kimi-k3").sizes)
    assert (weights // 2, weights // 32) == (16_515_072, 1_032_192)
    assert weights // 2 + weights // 32 == 17_547_264
    packed = torch.full((1, 16), 22, dtype=torch.uint8)
    decoded = mxfp4.decode(packed, torch.tensor([[121]], dtype=torch.uint8), torch.float32)
    assert decoded[0, :2].tolist() == [0.0625, 0.0078125]


def test_two_experts_side_by_side_are_one(rand):
    x, gate, up, down = rand(4, 6), rand(2, 5, 6), rand(2, 5, 6), rand(2, 6, 5)
    act = lambda g, u: reference.situ_glu(g, u, 4.0, 25.0)  # noqa: E731
    apart = sum(act(x @ gate[e].T, x @ up[e].T) @ down[e].T for e in range(2))
    fused = act(x @ gate.reshape(10, 6).T, x @ up.reshape(10, 6).T) @ torch.cat([*down], 1).T
    torch.testing.assert_close(fused, apart)


def test_memory_and_cache_are_equal_at_the_crossover():
    sizes = Facts.of("kimi-k3").sizes
    state = 69 * formula.evaluate("kda_heads*kda_head_dim*kda_head_dim*4", sizes)
    conv = 69 * formula.evaluate("3*kda_heads*kda_head_dim*(conv - 1)*2", sizes)
    assert (state, state + conv) == (434_110_464, 449_372_160)
    assert (state + conv) / 27_648 == pytest.approx(16_253, abs=1)
    assert f"{27_648 * 1_048_576 / 1e9:.2f}" == "28.99"


def test_a_rotated_score_depends_on_the_distance(rand):
    q, k = torch.complex(rand(5), rand(5)), torch.complex(rand(5), rand(5))
    turn = lambda z, x: z * torch.exp(1j * torch.tensor(0.37 * x, dtype=torch.float64))  # noqa: E731
    score = lambda x, y: (turn(q, x).conj() * turn(k, y)).real.sum()  # noqa: E731
    torch.testing.assert_close(score(3, 8), score(103, 108))
    assert round(10_000 ** (31 / 32)) == 7499
    assert round(2 * math.pi * 7499, -3) == 47_000
