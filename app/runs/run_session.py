"""What one visitor runs: a job at a time, kept in step with the state and so with the link."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import param

from k3scope.app.link.state import State
from k3scope.app.model_cards import NOISE
from k3scope.app.page.kit.events import turn
from k3scope.app.runs.attachments import Picked
from k3scope.app.runs.continuation import NOTHING, Growth
from k3scope.app.runs.forward_pass import Run
from k3scope.app.runs.job import Job
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_status import lost_images, progress, summary
from k3scope.app.runs.runner import Runner

TICK = 0.08  # seconds between two looks at a running job
LOST = (
    "This link names the run {run}, which this server does not know, and the prompt is not in the link. "
    "Type the prompt and run it again."
)
NOT_ALONE = (
    "The run that this link names is not this prompt alone: it had an image, say, which this server does not "
    "have. Here is the prompt by itself; add what it had and press Run."
)
ELSEWHERE = "This link was made with {model}, which does not run here{why}. Press Run to use {ours} instead."
DIFFERS = "This link was made with other weights ({theirs}; here {ours}): the numbers can differ."
AGAINST = "The run {run} to compare with is not known here; run it again, or choose another."
PLAIN = "plain"  # compare with the same run without its changes
REMEMBERED = 12  # runs a visitor can compare with
BAD = "NaN or infinity first appeared in {point}: what follows from it means nothing."


class Runs(Picked):
    """The run on show and the job on its way; parts watch these fields."""

    run = param.Parameter(None, doc="the Run on show, None before the first")
    reference = param.Parameter(None, doc="the Run that it is compared with, None for none")
    history = param.List([], doc="Runs of this visitor, latest first")
    busy = param.Boolean(False)
    progress = param.Dict({"text": ""}, doc="text; while layers run also done and of")
    model = param.String("", doc="name of the model that runs next")
    prompt = param.String("", doc="text of the prompt box")

    def __init__(self, state: State, runner: Runner, execute: Callable):
        super().__init__()
        self.state, self.runner = state, runner
        self._execute = execute  # runs a coroutine function in the visitor's event loop
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._linked = False  # whether the link, and not the visitor, asked for the job
        self._opened = False
        self.model = self._wanted_model()
        self.prompt = state.prompt or ""
        self._rest()
        state.param.watch(self._follow, ["prompt", "more", "ran", "run", "changes"])
        state.param.watch(self._compare, "against")

    def open(self) -> None:
        """Show what the link names, running it if need be; for after the first paint, and once only."""
        if not self._opened:
            self._opened = True
            self._follow()

    def start(
        self, model: str, prompt: str, changes: str | None = None, growth: Growth | None = None
    ) -> None:
        """Run what the visitor typed, after the images there are, unless something is running.

        With `changes`, those of the last run if none are given. What cannot run becomes the problem.
        """
        changes = self.state.changes if changes is None else changes
        self._start(model, prompt, changes, growth or NOTHING, linked=False)

    def _start(self, model: str, prompt: str, changes: str, growth: Growth, linked: bool) -> None:
        with self._lock:
            if self._job is not None:
                return
            try:
                job = self._job = self.runner.submit(model, prompt, self.images, changes, growth, id(self))
                self._linked = linked
            except ValueError as error:
                self._rest(problem=str(error))
                return
        self.param.update(model=model, prompt=prompt, busy=True, problem="", progress=progress(job))
        # a link says what it runs, and tokens that are to be chosen have no name yet
        self.state.underway = {} if linked or growth.tokens else self._said(job.spec(""))
        self._execute(partial(self._attend, job))

    def stop(self) -> None:
        """Cancel what is running."""
        if self.leave():
            self._rest("Cancelled.")

    def leave(self) -> bool:
        """Wait no more for what is running; others who asked for the same still do. Whether there was any."""
        with self._lock:
            job, self._job = self._job, None
        if job is not None:
            job.cancel()
        return job is not None

    async def _attend(self, job: Job) -> None:
        """Follow a job to its end. Progress is only read here, so none can come after the result."""
        while not job.over:
            if self._job is not job:  # the visitor went elsewhere
                return
            if (now := progress(job)) != self.progress:
                self.progress = now
            if job.named and self.state.underway.get("run") == "":
                turn(partial(self._name, job))
            await asyncio.sleep(TICK)
        turn(partial(self._end, job))

    def _name(self, job: Job) -> None:
        if self._job is job:
            self.state.underway = self._said(job.named)

    def _end(self, job: Job) -> None:
        with self._lock:
            if self._job is not job:
                return
            self._job = None
        if error := job.future.exception():
            self._rest(problem=f"The run failed: {error}")
        else:
            self._show(job.future.result())

    def _follow(self, *_events) -> None:
        """The link or the browser's history names a run: show it, or run it again."""
        state = self.state
        run = self.run
        same = run is not None and state.run == run.id and state.changes == run.spec.changes
        same = same and tuple(state.more) in ((), run.spec.more)
        if same and state.prompt in (None, self.prompt):
            return
        self.leave()
        state.underway = {}
        spec = self.runner.spec(state.run) if state.run else None
        prompt = state.prompt if state.prompt is not None or spec is None else spec.prompt
        if prompt is None:
            self.run = None
            self._rest(problem=LOST.format(run=state.run) if state.run else "")
            return
        named = spec is not None and spec.prompt == prompt
        images, lost = self.runner.images(spec) if named else ([], 0)
        self.param.update(prompt=prompt, model=self._wanted_model(spec if named else None), images=images)
        if state.ran and state.ran != self.model:
            self.run = None
            self._rest(
                problem=ELSEWHERE.format(model=state.ran, why=self.runner.why(state.ran), ours=self.model)
            )
        elif lost:
            self.run = None
            self._rest(problem=lost_images(lost, len(spec.images)))
        else:
            more = tuple(state.more) or (spec.more if named else ())
            changes = state.changes or (spec.changes if named else "")
            self._start(self.model, prompt, changes, Growth(more), linked=True)

    def _show(self, run: Run) -> None:
        state, spec = self.state, run.spec
        named = self.runner.spec(state.run)
        theirs = state.weights or (named.weights if named else "")
        differs = self._linked and theirs not in ("", spec.weights)
        # an id is made of all that a run is: with the same weights, something besides the prompt is missing
        alone = self._linked and state.weights == spec.weights and named is None and state.run
        if differs:
            problem = DIFFERS.format(theirs=theirs, ours=spec.weights)
        elif alone:
            problem = NOT_ALONE
        else:
            problem = BAD.format(point=run.readings.first_bad) if run.readings.first_bad else ""
        seen = [run, *(other for other in self.history if other.id != run.id)][:REMEMBERED]
        shown = {"run": run, "history": seen, "reference": self._reference(run)}
        self.param.update(**shown, busy=False, progress={"text": summary(run)}, problem=problem)
        # a link is completed and never corrected: a change of what it says would be a step that traps Back
        if not self._linked:
            state.param.update(**self._said(spec), underway={})
        elif not differs and state.run in ("", run.id):
            state.param.update(ran=spec.model, weights=spec.weights, run=run.id)

    def _said(self, spec: RunSpec) -> dict:
        """What the link says of a run; one whose weights are not known yet has no id."""
        said = {name: getattr(spec, name) for name in ("weights", "prompt", "changes")}
        said |= {"ran": spec.model, "run": spec.id if spec.weights else "", "more": list(spec.more)}
        return said | {"against": self._against(spec)}

    def _against(self, spec: RunSpec) -> str:
        """A run with changes is compared with the plain one, unless another is chosen."""
        chosen = self.state.against
        if spec.changes:
            return chosen or PLAIN
        return "" if chosen in (PLAIN, spec.id) else chosen

    def _reference(self, run: Run) -> Run | None:
        """The run to compare with, if it is at hand; else it is on its way."""
        chosen = self.state.against if self._linked else self._against(run.spec)
        spec = replace(run.spec, changes="") if chosen == PLAIN else self.runner.spec(chosen)
        if not chosen or spec == run.spec:
            return None
        try:
            if spec is None or spec.model != run.spec.model:
                raise ValueError(AGAINST.format(run=chosen))
            job = self.again(spec)
        except ValueError as error:
            self._execute(partial(self._say, str(error)))
            return None
        if job.future.done():
            return job.future.result()
        self._execute(partial(self._await_reference, run, job))
        return None

    def again(self, spec: RunSpec) -> Job:
        """A job of a run as it was. ValueError when it cannot be repeated."""
        images, lost = self.runner.images(spec)
        if lost:
            raise ValueError(lost_images(lost, len(spec.images)))
        return self.runner.submit(spec.model, spec.prompt, images, spec.changes, Growth(spec.more), id(self))

    def _compare(self, *_events) -> None:
        if self.run is not None:
            self.reference = self._reference(self.run)

    async def _await_reference(self, run: Run, job: Job) -> None:
        try:
            found = await asyncio.wrap_future(job.future)
        except Exception as error:
            self.problem = f"The run to compare with failed: {error}"
            return
        if self.run is run:
            self.reference = found

    async def _say(self, problem: str) -> None:
        self.problem = problem

    def _rest(self, text: str = "", problem: str = "") -> None:
        if not text and self.run is not None:
            text = summary(self.run)
        elif not text and self.runner.random_weights(self.model):
            text = f"{self.model} has random weights: {NOISE}"
        self.param.update(busy=False, progress={"text": text}, problem=problem)
        self.state.underway = {}

    def _wanted_model(self, spec: RunSpec | None = None) -> str:
        """The model that the link ran, by name or by run, else the one it draws, else the first that runs."""
        ran = self.state.ran or (spec.model if spec else "")
        wanted = (ran or self.state.model, self.runner.names[0])
        return next(name for name in wanted if name in self.runner.names)
