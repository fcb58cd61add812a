"""What one visitor runs: a job at a time, kept in step with the state and so with the link.

The state says what is asked for, the session what is there. A link, Back and Forward change the state, and
the session follows; what the visitor does starts a job, and the state follows when it has ended. Threads and
the event loop meet here: what changes fields that the browser sees goes through `dispatch`, which the page
hands in.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

import param

from k3scope.app.link import followers
from k3scope.app.link.state import State
from k3scope.app.model_cards import RANDOM_WEIGHTS
from k3scope.app.runs import run_status
from k3scope.app.runs.attachments import Attachments
from k3scope.app.runs.continuation import NO_CONTINUATION, Continuation
from k3scope.app.runs.job import Job
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.runner import Runner

TICK = 0.08  # seconds between two looks at a running job
PLAIN = "plain"  # the baseline is the same run without its interventions
HISTORY = 12  # runs a visitor can compare with


def at_once(act: Callable[[], None]) -> None:
    """Dispatch where there is no browser."""
    act()


class RunSession(Attachments):
    """The result on show and the job on its way; parts of the page follow these fields."""

    followers: ClassVar = followers.SESSION

    result = param.Parameter(None, doc="the RunResult on show, None before the first")
    baseline = param.Parameter(None, doc="the RunResult that it is compared with, None for none")
    history = param.List([], doc="results of this visitor, latest first")
    busy = param.Boolean(False)
    progress = param.Dict({"text": ""}, doc="text; while layers run also done and of")
    model = param.String("", doc="name of the model that runs next")
    prompt = param.String("", doc="text of the prompt box")

    def __init__(self, state: State, runner: Runner, execute: Callable, dispatch: Callable = at_once):
        """`execute` runs a coroutine function in the visitor's event loop, `dispatch` a function on the
        document's own thread, so that its changes reach the browser in one message.
        """
        super().__init__()
        self.state, self.runner = state, runner
        self._execute, self._dispatch = execute, dispatch
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._linked = False  # whether the link, and not the visitor, asked for the job
        self._opened = False
        self.model = self._requested_model()
        self.prompt = state.prompt or ""
        self._set_idle()
        state.follow("session", self._follow_state)
        state.follow("session.baseline", self._follow_baseline)

    def open(self) -> None:
        """Show what the link names, running it if need be; for after the first paint, and once only.

        Not once the visitor has pressed Run: to follow the link would cancel that.
        """
        if not self._opened:
            self._opened = True
            self._follow_state()

    def start(
        self,
        model: str,
        prompt: str,
        interventions: str | None = None,
        continuation: Continuation = NO_CONTINUATION,
    ) -> None:
        """Run what the visitor typed, after the attached images, unless something is running.

        With `interventions`, those of the last run if none are given. What cannot run becomes the problem.
        """
        self._opened = True
        interventions = self.state.interventions if interventions is None else interventions
        self._start(model, prompt, interventions, continuation, linked=False)

    def _start(
        self, model: str, prompt: str, interventions: str, continuation: Continuation, linked: bool
    ) -> None:
        with self._lock:
            if self._job is not None:
                return
            try:
                job = self._job = self.runner.submit(
                    model, prompt, self.images, interventions, continuation, visitor=id(self)
                )
                self._linked = linked
            except ValueError as error:
                self._set_idle(problem=str(error))
                return
        self.param.update(
            model=model, prompt=prompt, busy=True, problem="", progress=run_status.progress(job)
        )
        # a link names its run already, and tokens that are to be sampled give the run no id yet
        self.state.pending = {} if linked or continuation.tokens else self._link_values(job.spec(""))
        self._execute(partial(self._attend, job))

    def stop(self) -> None:
        """Cancel what is running."""
        if self.leave():
            self._set_idle("Cancelled.")

    def leave(self) -> bool:
        """Wait no more for what is running; others who asked for the same still do. Whether there was any."""
        with self._lock:
            job, self._job = self._job, None
        if job is not None:
            job.cancel()
        return job is not None

    async def _attend(self, job: Job) -> None:
        """Look at a job until its end. Progress is read here only, so none can come after the result."""
        while not job.done:
            if self._job is not job:  # the visitor went elsewhere
                return
            if (now := run_status.progress(job)) != self.progress:
                self.progress = now
            if job.stored_spec and self.state.pending.get("run_id") == "":
                self._dispatch(partial(self._set_pending, job))
            await asyncio.sleep(TICK)
        self._dispatch(partial(self._end, job))

    def _set_pending(self, job: Job) -> None:
        if self._job is job:
            self.state.pending = self._link_values(job.stored_spec)

    def _end(self, job: Job) -> None:
        with self._lock:
            if self._job is not job:
                return
            self._job = None
        if error := job.future.exception():
            self._set_idle(problem=f"The run failed: {error}")
        else:
            self._show(job.future.result())

    def _follow_state(self, *_events) -> None:
        """The link or the browser's history names a run: show it, or run it again."""
        state = self.state
        if self._shows_what_is_asked():
            return
        self.leave()
        state.pending = {}
        spec = self.runner.spec(state.run_id) if state.run_id else None
        prompt = state.prompt if state.prompt is not None or spec is None else spec.prompt
        if prompt is None:
            self.result = None
            problem = run_status.UNKNOWN_RUN.format(run=state.run_id) if state.run_id else ""
            self._set_idle(problem=problem)
            return
        if spec is not None and spec.prompt != prompt:
            spec = None  # the prompt was typed anew: what else that run had does not belong to it
        images, lost = self.runner.images(spec) if spec else ([], 0)
        self.param.update(prompt=prompt, model=self._requested_model(spec), images=images)
        if state.run_model and state.run_model != self.model:
            self.result = None
            why = self.runner.why_unavailable(state.run_model)
            problem = run_status.OTHER_MODEL.format(model=state.run_model, why=why, ours=self.model)
            self._set_idle(problem=problem)
        elif lost:
            self.result = None
            self._set_idle(problem=run_status.lost_images(lost, len(spec.images)))
        else:
            generated_ids = tuple(state.generated_ids) or (spec.generated_ids if spec else ())
            interventions = state.interventions or (spec.interventions if spec else "")
            self._start(self.model, prompt, interventions, Continuation(generated_ids), linked=True)

    def _shows_what_is_asked(self) -> bool:
        state, result = self.state, self.result
        return (
            result is not None
            and state.run_id == result.id
            and state.interventions == result.spec.interventions
            and tuple(state.generated_ids) in ((), result.spec.generated_ids)
            and state.prompt in (None, self.prompt)
        )

    def _show(self, result: RunResult) -> None:
        state, spec = self.state, result.spec
        stored = self.runner.spec(state.run_id)
        theirs = state.weights or (stored.weights if stored else "")
        differs = self._linked and theirs not in ("", spec.weights)
        history = [result, *(other for other in self.history if other.id != result.id)][:HISTORY]
        self.param.update(
            result=result,
            history=history,
            baseline=self._find_baseline(result),
            busy=False,
            progress={"text": run_status.summary(result)},
            problem=self._problem(result, stored, theirs if differs else ""),
        )
        # a link is completed and never corrected: a change of what it says would be a step that traps Back
        if not self._linked:
            state.param.update(**self._link_values(spec), pending={})
        elif not differs and state.run_id in ("", result.id):
            state.param.update(run_model=spec.model, weights=spec.weights, run_id=result.id)

    def _problem(self, result: RunResult, stored: RunSpec | None, other_weights: str) -> str:
        """What a reader of this result has to know, "" for nothing."""
        if other_weights:
            return run_status.OTHER_WEIGHTS.format(theirs=other_weights, ours=result.spec.weights)
        same_weights = self._linked and self.state.weights == result.spec.weights
        # an id is made of all that a run is: with the same weights, something besides the prompt is missing
        if same_weights and stored is None and self.state.run_id:
            return run_status.PROMPT_ALONE
        bad = result.readings.first_bad
        return run_status.NOT_FINITE.format(point=bad) if bad else ""

    def _link_values(self, spec: RunSpec) -> dict:
        """What the link says of a run; one whose weights are not known yet has no id."""
        return {
            "weights": spec.weights,
            "prompt": spec.prompt,
            "interventions": spec.interventions,
            "run_model": spec.model,
            "run_id": spec.id if spec.weights else "",
            "generated_ids": list(spec.generated_ids),
            "baseline": self._baseline_of(spec),
        }

    def _baseline_of(self, spec: RunSpec) -> str:
        """A run with interventions is compared with the plain one, unless another is chosen."""
        chosen = self.state.baseline
        if spec.interventions:
            return chosen or PLAIN
        return "" if chosen in (PLAIN, spec.id) else chosen

    def _find_baseline(self, result: RunResult) -> RunResult | None:
        """The run to compare with, if it is at hand; else it is on its way."""
        chosen = self.state.baseline if self._linked else self._baseline_of(result.spec)
        spec = replace(result.spec, interventions="") if chosen == PLAIN else self.runner.spec(chosen)
        if not chosen or spec == result.spec:
            return None
        try:
            if spec is None or spec.model != result.spec.model:
                raise ValueError(run_status.UNKNOWN_BASELINE.format(run=chosen))
            job = self.repeat(spec)
        except ValueError as error:
            self._execute(partial(self._set_problem, str(error)))
            return None
        if job.future.done():
            return job.future.result()
        self._execute(partial(self._await_baseline, result, job))
        return None

    def repeat(self, spec: RunSpec) -> Job:
        """A job of a run as it was. ValueError when it cannot be repeated."""
        images, lost = self.runner.images(spec)
        if lost:
            raise ValueError(run_status.lost_images(lost, len(spec.images)))
        continuation = Continuation(spec.generated_ids)
        return self.runner.submit(
            spec.model, spec.prompt, images, spec.interventions, continuation, visitor=id(self)
        )

    def _follow_baseline(self, *_events) -> None:
        if self.result is not None:
            self.baseline = self._find_baseline(self.result)

    async def _await_baseline(self, result: RunResult, job: Job) -> None:
        try:
            baseline = await asyncio.wrap_future(job.future)
        except Exception as error:
            self.problem = f"The run to compare with failed: {error}"
            return
        if self.result is result:
            self.baseline = baseline

    async def _set_problem(self, problem: str) -> None:
        self.problem = problem

    def _set_idle(self, text: str = "", problem: str = "") -> None:
        if not text and self.result is not None:
            text = run_status.summary(self.result)
        elif not text and self.runner.random_weights(self.model):
            text = f"{self.model} has random weights: {RANDOM_WEIGHTS}"
        self.param.update(busy=False, progress={"text": text}, problem=problem)
        self.state.pending = {}

    def _requested_model(self, spec: RunSpec | None = None) -> str:
        """The model that the link ran, by name or by run, else the one it draws, else the first that runs."""
        run_model = self.state.run_model or (spec.model if spec else "")
        candidates = (run_model or self.state.model, self.runner.names[0])
        return next(name for name in candidates if name in self.runner.names)
