"""A visitor without a browser."""

import asyncio

from k3scope.app.link.state import State
from k3scope.app.runs.run_session import RunSession
from k3scope.app.runs.runner import Runner


class Visitor:
    """A state and its session; `settle` lets everything that was started come to its end."""

    def __init__(self, runner: Runner, **link):
        self.state, self.started = State(**link), []
        self.session = RunSession(self.state, runner, self.started.append)

    def settle(self) -> None:
        while self.started:
            asyncio.run(self.started.pop(0)())

    def run(self, prompt: str):
        """What a prompt gives, after the images there are."""
        self.session.start("k3-random", prompt)
        self.settle()
        return self.session.result
