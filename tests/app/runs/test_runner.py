"""Runs of real prompts: in line, apart from each other, with progress, cancel and limits."""

import threading
import time

import numpy as np
import pytest
import torch

from k3scope.app.runs import forward_pass, result_cache
from k3scope.app.runs.fair_queue import FairQueue, QueueBounds
from k3scope.app.runs.job import Cancelled, Job
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.runner import Runner
from k3scope.model import load, trace
from k3scope.model.interventions.intervention import Intervention, dumps
from k3scope.model.kernels.ops import path_in_use

ZERO = Intervention("sublayer", "zero", layer=3, place="attention")


@pytest.fixture(scope="module")
def runner():
    runner = Runner()
    yield runner
    runner.close()


def wait(job, seconds=60):
    return job.future.result(timeout=seconds)


def slow(monkeypatch, seconds=0.02):
    """Make each point of a pass take its time."""
    plain = Job.on_point

    def at_point(job, path):
        time.sleep(seconds)
        plain(job, path)

    monkeypatch.setattr(Job, "on_point", at_point)


def test_nothing_loads_before_the_first_run():
    runner = Runner()
    assert runner._workers["k3-random"].model._loaded is None
    assert runner.names == ("k3-tiny", "k3-recall", "k3-random")
    assert runner.count("k3-random", "123月") == 6  # three digits, three bytes


def test_a_run_equals_a_plain_forward(runner):
    run = wait(runner.submit("k3-random", "12345"))
    logits = trace(load("k3-random"), torch.tensor(list(b"12345"))).logits[0, -1]
    assert [p.id for p in run.tokens] == list(b"12345")
    assert run.next[0][0].id == int(logits.argmax())
    assert run.next[0][1] == pytest.approx(float(logits.softmax(-1).max()), rel=1e-5)
    assert run.random_weights
    assert run.path == path_in_use()
    assert run.milliseconds > 0
    assert run.readings.counts.sum(-1).tolist() == [5 * run.config.top_k] * len(run.readings.counts)


def test_the_same_prompt_is_run_once(runner):
    assert wait(runner.submit("k3-random", "once")) is wait(runner.submit("k3-random", "once"))


def test_a_known_result_does_not_stand_in_line(monkeypatch):
    runner = Runner()
    run = wait(runner.submit("k3-random", "known"))
    slow(monkeypatch, 0.005)
    busy = runner.submit("k3-random", "busy")
    assert runner.submit("k3-random", "known").future.result(timeout=0) is run
    busy.cancel()


def test_run_ids_are_stable_over_processes():
    first, second = (wait(Runner().submit("k3-random", "stable")) for _ in range(2))
    assert first.id == second.id
    assert first.spec.weights == second.spec.weights


def test_an_empty_prompt_is_the_begin_token_alone(runner):
    run = wait(runner.submit("k3-random", ""))
    assert [p.text for p in run.tokens] == ["[BOS]"]


def test_2048_tokens_are_taken_and_2049_refused(runner):
    job = runner.submit("k3-random", "x" * 2048)
    job.cancel()
    assert len(job.ids) == 2048
    with pytest.raises(ValueError, match=r"2,049 tokens.*at most 2,048"):
        runner.submit("k3-random", "x" * 2049)
    with pytest.raises(ValueError, match=r"at most 2,048"):
        runner.submit("k3-random", "月" * 683)


def test_a_model_without_weights_is_refused_by_name(runner):
    with pytest.raises(
        ValueError, match="kimi-k3 does not run here; these do: k3-tiny, k3-recall, k3-random"
    ):
        runner.submit("kimi-k3", "x")


def test_progress_only_grows_and_ends_at_the_last_layer(monkeypatch):
    slow(monkeypatch, 0.002)
    job, seen = Runner().submit("k3-random", "progress"), []
    while not job.done:
        seen.append((job.stage, job.layer))
        time.sleep(0.002)
    layers = [layer for _, layer in seen]
    assert layers == sorted(layers)
    assert len(set(layers)) > 3
    stages = list(dict.fromkeys(stage for stage, _ in seen))
    order = ["queued", "loading", "running", "measuring"]
    assert stages == [s for s in order if s in stages]
    assert job.layer == job.layers


def test_cancel_ends_a_running_pass_and_the_next_one_works(monkeypatch):
    slow(monkeypatch)
    runner = Runner()
    job = runner.submit("k3-random", "stop me")
    while job.layer < 1:
        time.sleep(0.005)
    job.cancel()
    assert job.done
    with pytest.raises(Cancelled):
        wait(job)
    assert job.layer < job.layers
    monkeypatch.undo()
    assert wait(runner.submit("k3-random", "stop me")).spec.prompt == "stop me"


def test_a_cancelled_job_in_line_never_starts(monkeypatch):
    slow(monkeypatch, 0.0005)
    runner = Runner()
    first, second = runner.submit("k3-random", "first"), runner.submit("k3-random", "second")
    second.cancel()
    wait(first)
    with pytest.raises(Cancelled):
        wait(second)
    assert second.stage == "queued"


def test_the_line_is_bounded(monkeypatch):
    slow(monkeypatch, 0.0005)
    runner = Runner()
    runner._workers["k3-random"]._queue = FairQueue("k3-random", QueueBounds(entries=8))
    jobs = [runner.submit("k3-random", f"{i}") for i in range(8)]
    with pytest.raises(ValueError, match="already wait"):
        runner.submit("k3-random", "one more")
    for job in jobs:
        job.cancel()
    for job in jobs:
        with pytest.raises(Cancelled):
            wait(job)
    assert wait(runner.submit("k3-random", "room again"))


def test_runs_of_many_visitors_never_mix(runner):
    prompts = [f"visitor {i} says {'ab'[i % 2] * (i + 1)}" for i in range(8)]
    got: dict[str, object] = {}

    def visit(prompt):
        got[prompt] = wait(runner.submit("k3-random", prompt))

    threads = [threading.Thread(target=visit, args=(p,)) for p in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lone = Runner()
    for prompt in prompts:
        run = got[prompt]
        assert b"".join(p.raw for p in run.tokens).decode() == prompt
        alone = wait(lone.submit("k3-random", prompt))
        np.testing.assert_allclose(run.readings.residual.rms, alone.readings.residual.rms, rtol=1e-5)
        np.testing.assert_array_equal(run.readings.counts, alone.readings.counts)


def test_two_models_run_side_by_side():
    runner = Runner({"a": "k3-random", "b": "k3-random"})
    jobs = [runner.submit(name, "same") for name in "ab"]
    first, second = map(wait, jobs)
    assert first.id != second.id
    np.testing.assert_array_equal(first.readings.counts, second.readings.counts)


def test_a_spec_comes_back_from_the_store_after_a_restart(tmp_path):
    path = tmp_path / "runs.sqlite"
    run = wait(Runner(store=Store(path)).submit("k3-random", "kept"))
    later = Runner(store=Store(path))
    assert later.result(run.id) is None
    assert later.spec(run.id) == run.spec
    assert later.spec("aaaaaaaaaaaa") is None


def test_an_error_inside_reaches_the_one_who_waits(monkeypatch):
    monkeypatch.setattr(forward_pass, "readings", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        wait(Runner().submit("k3-random", "x"))


def test_memory_of_a_long_run_is_dropped(runner):
    run = wait(runner.submit("k3-random", "y" * 512))
    kept = [run.readings.residual.rms, run.readings.residual.peak, run.readings.counts]
    kept += [a for r in run.readings.routing.values() for a in (r.index, r.weight, r.margin)]
    assert all(a.base is None or a.base.nbytes <= a.nbytes for a in kept)  # no view of something larger
    assert sum(a.nbytes for a in kept) < 300_000


def test_a_run_without_changes_keeps_its_id_and_one_with_them_has_another(runner):
    plain = RunSpec("k3-random", "0123456789ab", "same")
    assert plain.canonical == '{"model":"k3-random","prompt":"same","weights":"0123456789ab"}'
    assert plain.id == RunSpec("k3-random", "0123456789ab", "same", (), "").id
    changed = RunSpec("k3-random", "0123456789ab", "same", (), dumps([ZERO]))
    assert changed.id != plain.id
    assert RunSpec.read(changed.canonical) == changed


def test_changes_reach_the_pass_and_leave_the_plain_run_alone(runner):
    plain = wait(runner.submit("k3-random", "change me"))
    changed = wait(runner.submit("k3-random", "change me", (), dumps([ZERO])))
    assert changed.interventions == (ZERO,)
    before, after = (runner.full_run(run.id) for run in (plain, changed))
    assert after.source == "k3-random, changed, random weights"
    assert float(before.difference_from(after).kl.max()) > 0
    again = wait(Runner().submit("k3-random", "change me"))
    np.testing.assert_allclose(again.readings.residual.rms, plain.readings.residual.rms, rtol=1e-5)


def test_a_run_can_be_patched_from_another(runner):
    source = wait(runner.submit("k3-random", "patch 1234"))
    patch = Intervention("token", "patch", tokens=tuple(range(len(source.tokens))), run=source.id)
    patched = wait(runner.submit("k3-random", "patch 5678", (), dumps([patch])))
    assert [p.id for p, _ in patched.next] == [p.id for p, _ in source.next]  # every embedding is its
    with pytest.raises(ValueError, match="not known here"):
        wait(
            runner.submit("k3-random", "x", (), dumps([Intervention("routes", "patch", run="aaaaaaaaaaaa")]))
        )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Intervention("head", "zero", layer=40, index=0), "layers 0 to 8"),
        (Intervention("token", "zero", tokens=(9,)), "tokens 0 to 4"),
    ],
)
def test_a_change_that_does_not_fit_is_refused_at_once(runner, change, why):
    with pytest.raises(ValueError, match=why):
        runner.submit("k3-random", "12345", (), dumps([change]))


def test_a_change_that_makes_nan_names_the_block(runner):
    change = Intervention("sublayer", "noise", layer=2, place="FFN", amount=1e39)
    run = wait(runner.submit("k3-random", "nan", (), dumps([change])))
    assert run.readings.first_bad == "language_model.model.layers.2.block_sparse_moe"


def test_only_the_latest_passes_are_kept_whole_and_an_older_one_runs_again(monkeypatch):
    runner = Runner()
    first = wait(runner.submit("k3-random", "123456"))
    size = result_cache.held_bytes(runner.full_run(first.id))
    assert size > 6 * 60_000  # 65 KB a token
    monkeypatch.setattr(result_cache, "FULL_RUN_BYTES", 3 * size // 2)
    wait(runner.submit("k3-random", "654321"))
    assert runner.full_run(first.id) is None
    assert runner.result(first.id) is first
    again = wait(runner.submit("k3-random", "123456"))
    assert runner.full_run(again.id).length == 6
