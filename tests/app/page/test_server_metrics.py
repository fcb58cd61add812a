"""The lag of the event loop, and what an operator reads of a server."""

import asyncio
import logging
import os
import subprocess
import sys
import time

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from k3scope.app.page.loop_lag import LoopLag
from k3scope.app.page.process_cost import cpu_seconds, memory_bytes, process_tree
from k3scope.app.page.server_metrics import Counts, Metrics
from k3scope.app.pool.task import Refused
from k3scope.app.runs.job import Cancelled, Job
from k3scope.app.runs.runner import Runner

HELD_S = 0.15


def samples(metrics: Metrics) -> dict:
    text = generate_latest(metrics.registry).decode()
    families = text_string_to_metric_families(text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


@pytest.fixture(scope="module")
def runner():
    runner = Runner(("k3-random",))
    yield runner
    runner.close()


def test_the_lag_is_how_long_something_held_the_loop():
    async def hold() -> tuple[float, float]:
        lag = LoopLag()
        task = asyncio.create_task(lag.measure())
        await asyncio.sleep(0.05)
        time.sleep(HELD_S)
        await asyncio.sleep(0.05)
        task.cancel()
        return lag.take_largest(), lag.take_largest()

    first, second = asyncio.run(hold())
    assert HELD_S - 0.02 < first < HELD_S + 1
    assert second == 0


def test_a_tree_of_processes_costs_more_than_its_root():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in process_tree(os.getpid())
        assert memory_bytes(process_tree(os.getpid())) > memory_bytes([child.pid]) > 0
        assert cpu_seconds(os.getpid()) >= time.process_time() - 0.1
    finally:
        child.communicate(b"\n")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, "done"), (Cancelled(), "cancelled"), (Refused("full"), "refused"), (OSError("disk"), "failed")],
)
def test_a_run_is_counted_by_how_it_ended(runner, error, outcome):
    metrics = Metrics(runner, Counts(lambda: 3, lambda: 4))
    job = Job("k3-random", "prompt", ids=[], layers=1, tokens=0)
    metrics.watch(job)
    job.future.set_exception(error) if error else job.future.set_result(None)
    read = samples(metrics)
    assert read["k3scope_runs_total", "k3-random", outcome] == 1
    assert read["k3scope_run_seconds_count", "k3-random"] == 1
    assert read["k3scope_sessions",] == 3
    assert read["k3scope_connections",] == 4


def test_a_run_of_the_runner_and_an_error_logged_are_counted(runner, caplog):
    metrics = Metrics(runner, Counts(lambda: 0, lambda: 0))
    runner.submit("k3-random", "a run to count").future.result(60)
    logging.getLogger("tornado.application").error("broken")
    read = samples(metrics)
    assert read["k3scope_runs_total", "k3-random", "done"] == 1
    assert read["k3scope_queue", "k3-random"] in (0, 1)  # the worker may still be putting its things away
    assert read["k3scope_errors_total",] == 1
    assert read["k3scope_memory_bytes",] > 0
    assert read["k3scope_cpu_seconds_total",] > 0
