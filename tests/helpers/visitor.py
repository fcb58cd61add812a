"""A visitor without a browser."""

import asyncio

from app.runner import Runner
from app.runs import Runs
from app.state import State


class Visitor:
    """A state and its runs; `settle` lets everything that was started come to its end."""

    def __init__(self, runner: Runner, **link):
        self.state, self.started = State(**link), []
        self.runs = Runs(self.state, runner, self.started.append)

    def settle(self) -> None:
        while self.started:
            asyncio.run(self.started.pop(0)())

    def run(self, prompt: str):
        """What a prompt gives, after the images there are."""
        self.runs.start("k3-random", prompt)
        self.settle()
        return self.runs.run
