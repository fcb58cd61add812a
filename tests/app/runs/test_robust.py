"""Many visitors, many runs, broken weights, odd text: each run is right, apart, and leaves nothing behind."""

import gc
import sys
import threading

import numpy as np
import pytest
import torch
from visitor import Visitor

from k3scope.app.page.dock.result_message import chips
from k3scope.app.runs.job import Cancelled, Job
from k3scope.app.runs.run_session import RunSession
from k3scope.app.runs.runner import Runner
from k3scope.model import load
from k3scope.model.runs.generate import Sampling, generate

BAND = 24 * 2**20  # bytes by which memory may differ after many runs; each of them kept would be 100 MB


def hooks(runner) -> int:
    model = runner._workers["k3-random"].model._loaded.model
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.slow
def test_ten_visitors_at_once_see_only_their_own_runs(runner):
    visitors = [Visitor(runner) for _ in range(10)]
    prompts = [[f"visitor {n}, run {i}, {'xyz'[i % 3] * n}" for i in range(3)] for n in range(10)]
    seen: list[list] = [[] for _ in visitors]
    room = threading.Semaphore(8)  # the line holds so many; those before it wait as people do

    def visit(n: int) -> None:
        for prompt in prompts[n]:
            with room:
                seen[n].append(visitors[n].run(prompt))

    threads = [threading.Thread(target=visit, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = Runner(("k3-random",))
    for n, visitor in enumerate(visitors):
        assert [b"".join(p.raw for p in run.tokens).decode() for run in seen[n]] == prompts[n]
        assert {run.spec.prompt for run in visitor.session.history} == set(prompts[n])
        last = alone.submit("k3-random", prompts[n][-1]).future.result(60)
        np.testing.assert_allclose(seen[n][-1].readings.residual.rms, last.readings.residual.rms, rtol=1e-5)
    alone.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
def test_a_hundred_runs_leave_memory_and_hooks_as_they_were(runner, monkeypatch):
    monkeypatch.setattr("k3scope.app.runs.result_cache.RESULTS", 8)
    monkeypatch.setattr("k3scope.app.runs.result_cache.FULL_RUN_BYTES", 8 * 2**20)
    for n in range(20):  # more than are remembered, so that what is kept is at its most
        runner.submit("k3-random", f"1{n:015}").future.result(60)
    gc.collect()
    memory, count = resident(), hooks(runner)
    for n in range(100):
        runner.submit("k3-random", f"2{n:015}").future.result(60)
    gc.collect()
    assert hooks(runner) == count
    assert resident() - memory < BAND


def test_an_error_in_the_middle_of_a_pass_leaves_nothing_behind(runner, monkeypatch):
    whole = runner.submit("k3-random", "after an error").future.result(60)
    count, plain = hooks(runner), Job.on_point

    def break_off(job, path):
        if path.endswith("layers.4.prefix_sum"):
            raise RuntimeError("broken on purpose")
        plain(job, path)

    monkeypatch.setattr(Job, "on_point", break_off)
    with pytest.raises(RuntimeError, match="on purpose"):
        runner.submit("k3-random", "in the middle").future.result(60)
    monkeypatch.undo()
    assert hooks(runner) == count
    assert runner.queued == {"k3-random": 0}
    again = Runner(("k3-random",))
    # the same hooked model
    again._workers["k3-random"].model._loaded = runner._workers["k3-random"].model._loaded
    again._workers["k3-random"].model.weights = whole.spec.weights
    after = again.submit("k3-random", "after an error").future.result(60)
    np.testing.assert_array_equal(after.readings.residual.rms, whole.readings.residual.rms)
    again.close()


def test_nan_in_weights_names_its_block_and_nothing_is_sampled(monkeypatch):
    broken = load("k3-random")
    bad = "language_model.model.layers.5.self_attn.o_proj"
    broken.get_submodule(bad).weight[0, 0] = torch.nan
    monkeypatch.setattr("k3scope.app.runs.runnable_model.load", lambda *_: broken)
    visitor = Visitor(Runner(("k3-random",)))
    run = visitor.run("nan inside")
    assert run.readings.first_bad == bad
    assert visitor.session.problem.startswith(f"NaN or infinity first appeared in {bad}")
    with pytest.raises(ValueError, match=f"nothing is sampled; first NaN or infinity: {bad}"):
        list(generate(broken, [1, 2, 3], 1, Sampling()))


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "x",
        "\0",
        "👩‍👩‍👧 🏳️‍🌈",
        "שלום עולם ‮abc",
        "مرحبا",
        "<b onmouseover=alert(1)>&lt;",
        "\ud800 half",
        "a\r\n\tb",
    ],
    ids=["empty", "one", "nul", "joiners", "rtl", "arabic", "html", "surrogate", "white"],
)
def test_odd_text_runs_and_is_kept_as_it_was_typed(runner, prompt):
    visitor = Visitor(runner)
    run = visitor.run(prompt)
    assert run is not None, visitor.session.problem
    assert run.spec.prompt == visitor.session.prompt == visitor.state.prompt == prompt
    assert sum(chip[4] for chip in chips(run)) == len(run.tokens)
    assert runner.spec(run.id).prompt == prompt


def test_who_leaves_is_forgotten(runner):
    visitor = Visitor(runner)
    visitor.run("soon gone")
    del visitor
    gc.collect()
    assert not [o for o in gc.get_objects() if isinstance(o, RunSession) and o.prompt == "soon gone"]


def test_a_run_that_nobody_waits_for_ends(runner):
    job = runner.submit("k3-random", "123456" * 50)
    job.cancel()
    with pytest.raises(Cancelled):
        job.future.result(60)
