import pytest
import torch
from safetensors.torch import load_file, save_file

from k3scope.app.cli import main
from k3scope.model import load, trace
from k3scope.model.interventions.forced_routing import agreement, forced, load_routes, routes_of, save_routes
from k3scope.model.runs.trace_diff import compare, first_beyond
from k3scope.model.tracing import official_trace


@pytest.fixture(scope="module")
def ids():
    return torch.randint(0, 256, (1, 24), generator=torch.Generator().manual_seed(8))


def test_routes_survive_a_file_and_force_themselves(tiny, ids, tmp_path):
    first = trace(tiny, ids)
    routes = routes_of(first)
    assert sorted(routes) == list(range(1, 9))
    save_routes(routes, tmp_path / "routes.safetensors")
    again = trace(tiny, ids, edits=forced(tiny, load_routes(tmp_path / "routes.safetensors")))
    assert torch.equal(again.logits, first.logits)


def test_forced_routes_hold_on_another_dtype(tiny, ids):
    other = load("k3-random", torch.bfloat16)
    routes = routes_of(trace(tiny, ids))
    free, held = trace(other, ids), trace(other, ids, edits=forced(other, routes))
    assert all(torch.equal(routes_of(held)[n], routes[n]) for n in routes)
    exact = trace(tiny, ids).logits
    error = lambda t: (t.logits.float() - exact).norm()  # noqa: E731
    assert error(held) <= error(free)


def test_other_routes_change_weights_and_output(tiny, ids):
    first = trace(tiny, ids)
    routes = {n: (i + 1) % tiny.config.experts for n, i in routes_of(first).items()}
    other = trace(tiny, ids, edits=forced(tiny, routes))
    weight = other.layer(3, "block_sparse_moe.gate.topk_weight")
    torch.testing.assert_close(weight.sum(-1), torch.ones_like(weight[..., 0]))
    assert not torch.equal(other.logits, first.logits)


def test_agreement_counts_choices_whatever_their_order():
    a = {1: torch.tensor([[[0, 1], [2, 3]]])}
    b = {1: torch.tensor([[[1, 0], [2, 5]]])}
    row = agreement(a, b, {1: torch.tensor([[0.5, 0.01]])})[0]
    assert (row.share, row.tokens_apart) == (0.75, 1)
    assert row.widest_margin == pytest.approx(0.01)


def test_routes_that_do_not_fit_are_refused(tiny, ids):
    routes = routes_of(trace(tiny, ids))
    with pytest.raises(ValueError, match="this model has experts in"):
        forced(tiny, {n: r for n, r in routes.items() if n != 3})
    with pytest.raises(ValueError, match="this model picks 3 of 18"):
        forced(tiny, {n: r + 5 for n, r in routes.items()})
    with pytest.raises(ValueError, match="the run has"):
        trace(tiny, ids[:, :5], edits=forced(tiny, routes))


def test_compare_names_the_first_block_that_disagrees(tiny, ids):
    plain = official_trace(tiny, ids)
    other = load("k3-random")
    other.language_model.model.layers[5].self_attn.o_norm.weight *= 1.01
    spoiled = official_trace(other, ids)
    assert first_beyond(compare(plain, plain), 0.0) is None
    assert first_beyond(compare(spoiled, plain), 1e-6).name == "layers.5.self_attn.out"


def test_compare_trace_on_the_command_line(tmp_path, capsys, data):
    folder, a = str(data / "a_mix13"), str(tmp_path / "a.safetensors")
    expected = str(data / "a_mix13" / "expected_f64.safetensors")
    main(["trace", folder, "--ids-file", f"{folder}/input_ids.safetensors", "--out", a])
    assert main(["compare-trace", a, expected]) == 0
    assert "all 178 shared tensors agree" in capsys.readouterr().out
    assert main(["compare-trace", a, expected, "--tolerance", "1e-12"]) == 1
    assert "first to disagree: layers.0." in capsys.readouterr().out
    tensors = load_file(a)
    tensors["layers.4.router.topk_idx"] = tensors["layers.4.router.topk_idx"].flip(1)
    save_file(tensors, a)
    assert main(["compare-trace", a, expected]) == 1
    out = capsys.readouterr().out
    assert "layer 4:" in out
    assert "--routes" in out


def test_compare_trace_refuses_other_tokens(tmp_path, capsys):
    files = [str(tmp_path / name) for name in ("a", "b")]
    for file, prompt in zip(files, ("one", "two"), strict=True):
        main(["trace", "--prompt", prompt, "--out", file])
    assert main(["compare-trace", *files]) == 2
    assert "different token_ids" in capsys.readouterr().err


def test_compare_trace_of_two_sizes_of_models_says_so_and_no_more(tmp_path, capsys):
    models = "k3-tiny", "k3-recall"
    files = [str(tmp_path / name) for name in models]
    for file, name in zip(files, models, strict=True):
        main(["trace", name, "--prompt", "one", "--out", file])
    capsys.readouterr()
    assert main(["compare-trace", *files]) == 2
    message = capsys.readouterr()
    assert "of models of different sizes" in message.err
    assert not message.out


def test_trace_with_forced_routes_on_the_command_line(tmp_path):
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    main(["trace", "--prompt", "hello there", "--out", a])
    assert main(["trace", "--prompt", "hello there", "--routes", a, "--dtype", "bfloat16", "--out", b]) == 0
    name = "layers.8.router.topk_idx"
    assert torch.equal(load_file(a)[name], load_file(b)[name])
