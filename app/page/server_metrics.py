"""What an operator watches, in the text format of Prometheus, on a port of its own."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from tornado.web import Application, RequestHandler

from k3scope.app.page.health import Details
from k3scope.app.page.loop_lag import LoopLag
from k3scope.app.page.process_cost import cpu_seconds, memory_bytes, process_tree
from k3scope.app.pool.task import Refused
from k3scope.app.runs.job import Cancelled, Job
from k3scope.app.runs.runner import Runner

LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)  # seconds
LOGGERS = ("", "bokeh", "panel")  # the last two hand nothing on to the root
RUN_BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)  # seconds


@dataclass(frozen=True)
class Counts:
    """What the server counts itself, looked up when it is asked."""

    sessions: Callable[[], int]
    connections: Callable[[], int]


class ErrorCount(logging.Handler):
    """Counts what is logged as an error."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


class Metrics(Collector):
    """Everything that /metrics tells of one server."""

    def __init__(self, runner: Runner, counts: Counts):
        self._runner, self._counts, self._errors = runner, counts, ErrorCount()
        self.registry = CollectorRegistry()
        self._runs = Counter("k3scope_runs", "Runs that ended.", ("model", "outcome"), registry=self.registry)
        self._run_seconds = Histogram(
            "k3scope_run_seconds",
            "From the press of Run to its end, with the wait in the queue.",
            ("model",),
            buckets=RUN_BUCKETS,
            registry=self.registry,
        )
        lags = Histogram(
            "k3scope_loop_lag_seconds",
            "How late the event loop wakes.",
            buckets=LAG_BUCKETS,
            registry=self.registry,
        )
        self.lag = LoopLag(lags.observe)
        self.registry.register(self)
        runner.observers.append(self.watch)
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self._errors)

    def watch(self, job: Job) -> None:
        """Count a run, and its seconds, when it ends."""
        start = time.monotonic()

        def count(future: Future) -> None:
            self._runs.labels(job.model, _outcome(future)).inc()
            self._run_seconds.labels(job.model).observe(time.monotonic() - start)

        job.future.add_done_callback(count)

    def collect(self) -> Iterator[Metric]:
        """What is looked up when it is asked."""
        waiting = GaugeMetricFamily("k3scope_queue", "Runs waiting or running.", labels=("model",))
        for model, runs in self._runner.queued.items():
            waiting.add_metric((model,), runs)
        yield waiting
        memory = memory_bytes(process_tree(os.getpid()))
        for name, what, value in (
            ("loop_lag_max_seconds", "Largest lag since the last look.", self.lag.take_largest()),
            (
                "memory_bytes",
                "Proportional set size of all processes.",
                memory,
            ),
            ("sessions", "Pages that are open.", self._counts.sessions()),
            ("connections", "Connections that are open.", self._counts.connections()),
        ):
            yield GaugeMetricFamily(f"k3scope_{name}", what, value)
        cpu_s = cpu_seconds(os.getpid())
        yield CounterMetricFamily("k3scope_cpu_seconds", "CPU seconds of all processes.", cpu_s)
        yield CounterMetricFamily("k3scope_errors", "Errors logged.", self._errors.count)

    def describe(self) -> list[Metric]:
        """Nothing: to describe itself the registry would collect, and take the largest lag."""
        return []


class MetricsHandler(RequestHandler):
    """The metrics as text."""

    def initialize(self, metrics: Metrics):
        self._metrics = metrics

    async def get(self):
        text = await asyncio.to_thread(generate_latest, self._metrics.registry)  # it reads files of /proc
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.write(text)


def operator_pages(metrics: Metrics, details: dict) -> Application:
    """/metrics and /details; `details` is what `Details` is made with."""
    return Application([("/metrics", MetricsHandler, {"metrics": metrics}), ("/details", Details, details)])


def _outcome(future: Future) -> str:
    error = CancelledError() if future.cancelled() else future.exception()
    if error is None:
        return "done"
    if isinstance(error, Cancelled | CancelledError):
        return "cancelled"
    return "refused" if isinstance(error, Refused | ValueError) else "failed"
