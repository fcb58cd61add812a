"""That the server is alive, for everybody, and what it runs on, for its operator; both as JSON."""

import asyncio
from functools import cache
from weakref import WeakSet

from tornado.web import RequestHandler

from k3scope.app.diagnostics import report
from k3scope.app.runs.runner import Runner

_report = cache(report)  # nothing of it changes while the server lives


class Liveness(RequestHandler):
    """Only that the server answers: what it runs on is no business of everybody."""

    def get(self):
        self.set_header("Cache-Control", "no-store")
        self.write({"alive": True})


class Details(RequestHandler):
    """The report of `k3scope doctor`, the visitors there are, and the runs pending by model."""

    def initialize(self, runner: Runner, sessions: WeakSet):
        self._runner, self._sessions = runner, sessions

    async def get(self):
        environment = await asyncio.to_thread(_report)
        self.set_header("Cache-Control", "no-store")
        now = {"alive": True, "visitors": len(self._sessions), "runs": self._runner.queued}
        self.write(now | environment)
