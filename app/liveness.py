"""What /liveness answers: that the server is alive, and what it runs on, as JSON."""

import asyncio
from functools import cache

from tornado.web import RequestHandler

from app.commands import doctor
from app.runner import Runner

_report = cache(doctor.report)  # nothing of it changes while the server lives


class Liveness(RequestHandler):
    """The report of `k3scope doctor`, and the runs that are on their way now."""

    def initialize(self, runner: Runner):
        self._runner = runner

    async def get(self):
        found = await asyncio.to_thread(_report)
        self.set_header("Cache-Control", "no-store")
        self.write({"alive": True, "runs": self._runner.on_their_way, **found})
