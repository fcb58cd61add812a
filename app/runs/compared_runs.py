"""The run that a visitor compares with: found among those that are here, or run again."""

from collections.abc import Callable
from dataclasses import replace

import param

from k3scope.app.link.state import State
from k3scope.app.runs import run_status
from k3scope.app.runs.attachments import Attachments
from k3scope.app.runs.requester import Requester
from k3scope.app.runs.run_link import PLAIN
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.runner import Runner


class ComparedRuns(Attachments):
    """The result on show, and the one it is compared with."""

    result = param.Parameter(None, doc="the RunResult on show, None before the first")
    baseline = param.Parameter(None, doc="the RunResult that it is compared with, None for none")
    address = ""  # of the network, where a server has bounds for each

    def __init__(self, state: State, runner: Runner, execute: Callable, dispatch: Callable):
        super().__init__(execute, dispatch)
        self.state, self.runner = state, runner

    @property
    def requester(self) -> Requester:
        """This visitor, as runs know one."""
        return Requester(id(self), self.owner, self.address)

    def _compare_with(self, chosen: str) -> None:
        """Find the run to compare with, or run it again; it becomes the baseline when it is there."""
        result = self.result
        if not chosen:
            self.baseline = None
            return
        if chosen == PLAIN:
            self._repeat_baseline(result, replace(result.spec, interventions=""))
            return
        found = self.runner.find(chosen)

        def repeat() -> None:
            spec = found.result()
            if self.result is not result or self.state.baseline not in (chosen, ""):
                return
            if spec is None or spec.model != result.spec.model:
                problem = run_status.UNKNOWN_BASELINE.format(run=chosen)
                self.param.update(baseline=None, problem=problem)
            else:
                self._repeat_baseline(result, spec)

        self._after(found, repeat)

    def _repeat_baseline(self, result: RunResult, spec: RunSpec) -> None:
        if spec.id in result.ids:
            self.baseline = None
            return
        repeated = self.runner.repeat(spec, self.requester)

        def show() -> None:
            if self.result is not result:
                return
            if error := repeated.exception():
                self.problem = run_status.failure(error, "run to compare with")
                return
            baseline = repeated.result()
            self.baseline = baseline
            if not baseline.of_weights(spec.weights):
                ours = baseline.spec.weights
                self.problem = run_status.OTHER_BASELINE.format(theirs=spec.weights, ours=ours)

        self._after(repeated, show)

    def _follow_baseline(self, *_events) -> None:
        if self.result is not None:
            self._compare_with(self.state.baseline)
