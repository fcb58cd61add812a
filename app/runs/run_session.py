"""What one visitor runs: a job at a time, kept in step with the state and so with the link.

The state says what is asked for, the session what is there. A link, Back and Forward change the state, and
the session follows; what the visitor does starts a job, and the state follows when it has ended. Threads and
the event loop meet here: fields that the browser sees change through `dispatch` alone, which the page hands
in, so that two changes never meet.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import ClassVar

import param
from param.parameterized import batch_call_watchers

from k3scope.app.link import followers
from k3scope.app.link.state import State
from k3scope.app.model_cards import RANDOM_WEIGHTS
from k3scope.app.runs import run_link, run_status
from k3scope.app.runs.compared_runs import ComparedRuns
from k3scope.app.runs.continuation import NO_CONTINUATION, Continuation
from k3scope.app.runs.job import Job
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.runner import Runner
from k3scope.app.runs.uploads import Upload

TICK = 0.08  # seconds between two looks at a running job
HISTORY = 12  # runs a visitor can compare with


def at_once(act: Callable[[], None]) -> None:
    """Dispatch where there is no browser."""
    act()


class RunSession(ComparedRuns):
    """The result on show and the job on its way; parts of the page follow these fields."""

    followers: ClassVar = followers.SESSION

    history = param.List([], doc="results of this visitor, latest first")
    busy = param.Boolean(False)
    progress = param.Dict({"text": ""}, doc="text; while layers run also done and of")
    model = param.String("", doc="name of the model that runs next")
    prompt = param.String("", doc="text of the prompt box")

    def __init__(self, state: State, runner: Runner, execute: Callable, dispatch: Callable = at_once):
        """`execute` runs a coroutine function in the visitor's event loop, `dispatch` a function while the
        document is this visitor's alone, so that its changes reach the browser in one message.
        """
        super().__init__(state, runner, execute, dispatch)
        self._job: Job | None = None
        self._asked = object()  # another one for everything that is asked for: what is older is dropped
        self._linked = False  # whether the link, and not the visitor, asked for the job
        self._stored: RunSpec | None = None  # the run that the link names, where it is known
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

    def continue_run(self, prompt: str, continuation: Continuation) -> None:
        """Run what is on show again with other tokens after the prompt; the last one is then chosen."""
        spec = self.result.spec

        def start() -> None:
            self.start(spec.model, prompt, spec.interventions, continuation)
            if self.busy:
                self.state.token = None

        self._with_images(spec, start)

    def continue_after(self, ids: Sequence[int], token: int) -> None:
        """Run the model on show with these ids and one more token, as far as a text ends with them."""

        def start(cut: tuple[str, tuple[int, ...]]) -> None:
            prompt, rest = cut
            self.continue_run(prompt, Continuation((*rest, token)))

        self._when(self.runner.text_before(self.result.spec.model, ids, id(self)), start)

    def _start(
        self, model: str, prompt: str, interventions: str, continuation: Continuation, linked: bool
    ) -> None:
        if self._job is not None:
            return
        self._asked = object()
        try:
            job = self._job = self.runner.submit(
                model, prompt, self.images, interventions, continuation, self.requester
            )
        except ValueError as error:
            self._set_idle(problem=str(error))
            return
        self._linked = linked
        self.param.update(
            model=model, prompt=prompt, busy=True, problem="", progress=run_status.progress(job)
        )
        # a link names its run already, and tokens that are to be sampled give the run no id yet
        spec = None if linked or continuation.tokens else job.spec("")
        self.state.pending = run_link.link_values(spec, self.state.baseline) if spec else {}
        self._execute(partial(self._attend, job))

    def stop(self) -> None:
        """Cancel what is running."""
        if self.leave():
            self._set_idle("Cancelled.")

    def leave(self) -> bool:
        """Wait no more for what is running; others who asked for the same still do. Whether there was any."""
        job, self._job = self._job, None
        waited, self._asked = self.busy, object()
        if job is not None:
            job.cancel()
        return waited

    async def _attend(self, job: Job) -> None:
        """Look at a job until its end. Progress is read here only, so none can come after the result."""
        shown = self.progress
        while not job.done:
            if self._job is not job:  # the visitor went elsewhere
                return
            if (now := run_status.progress(job)) != shown:
                shown = now
                self._dispatch(partial(self._set_progress, job, now))
            await asyncio.sleep(TICK)
        self._dispatch(partial(self._end, job))

    def _set_progress(self, job: Job, progress: dict) -> None:
        if self._job is not job:
            return
        self.progress = progress
        if job.stored_spec and self.state.pending.get("run_id") == "":
            self.state.pending = run_link.link_values(job.stored_spec, self.state.baseline)

    def _end(self, job: Job) -> None:
        if self._job is not job:
            return
        self._job = None
        if error := job.future.exception():
            self._set_idle(problem=run_status.failure(error))
        else:
            self._show(job.future.result())

    def _follow_state(self, *_events) -> None:
        """The link or the browser's history names a run: show it, or run it again."""
        if run_link.shows(self.result, self.state, self.prompt):
            return
        self.leave()
        self.state.pending = {}
        if self.state.run_id:
            self._when(self.runner.find(self.state.run_id), self._open_run)
        else:
            self._open_run(None)

    def _open_run(self, spec: RunSpec | None) -> None:
        """Run again what the link names, where it can be; `spec` is what this server knows of it."""
        state, self._stored = self.state, spec
        prompt = state.prompt if state.prompt is not None or spec is None else spec.prompt
        if prompt is None:
            self.result = None
            problem = run_status.UNKNOWN_RUN.format(run=state.run_id) if state.run_id else ""
            self._set_idle(problem=problem)
            return
        if spec is not None and spec.prompt != prompt:
            spec = None  # the prompt was typed anew: what else that run had does not belong to it
        self.param.update(prompt=prompt, model=self._requested_model(spec))
        if state.run_model and state.run_model != self.model:
            self.param.update(result=None, images=[])
            why = self.runner.why_unavailable(state.run_model)
            problem = run_status.OTHER_MODEL.format(model=state.run_model, why=why, ours=self.model)
            self._set_idle(problem=problem)
            return
        generated_ids = tuple(state.generated_ids) or (spec.generated_ids if spec else ())
        interventions = state.interventions or (spec.interventions if spec else "")
        continuation = Continuation(generated_ids)
        start = partial(self._start, self.model, prompt, interventions, continuation, linked=True)
        if spec is None:
            self.images = []
            start()
        else:
            self._with_images(spec, start)

    def _with_images(self, spec: RunSpec, start: Callable[[], None]) -> None:
        """Attach the images of a run as they were, then go on; with a problem when some are lost."""
        if tuple(image.sha for image in self.images) == spec.images:
            start()
            return

        def attach(images: Sequence[Upload]) -> None:
            lost = len(spec.images) - len(images)
            self.images = list(images)
            if lost:
                self.result = None
                self._set_idle(problem=run_status.lost_images(lost, len(spec.images)))
            else:
                start()

        self._when(self.runner.images(spec, id(self)), attach)

    def _when(self, future: Future, go_on: Callable) -> None:
        """Go on with what a future gives, unless something else is asked for meanwhile."""
        asked = self._asked = object()

        def act() -> None:
            if self._asked is not asked:
                return
            try:
                result = future.result()
            except Exception as error:
                self._set_idle(problem=run_status.failure(error))
                return
            go_on(result)

        if not future.done():
            self.param.update(busy=True, progress={"text": run_status.OPENING}, problem="")
        self._after(future, act)

    def _show(self, result: RunResult) -> None:
        state, spec = self.state, result.spec
        differs = self._linked and run_link.other_weights(result, state, self._stored)
        history = [result, *(other for other in self.history if other.id != result.id)][:HISTORY]
        chosen = state.baseline if self._linked else run_link.baseline_of(spec, state.baseline)
        with batch_call_watchers(self):
            self.param.update(
                result=result,
                history=history,
                busy=False,
                progress={"text": run_status.summary(result)},
                problem=run_link.problem_of(result, state, self._stored, self._linked),
            )
            self._compare_with(chosen)
        # a link is completed and never corrected: a change of what it says would be a step that traps Back
        if not self._linked:
            state.param.update(**run_link.link_values(spec, state.baseline), pending={})
        elif not differs and state.run_id in ("", *result.ids):
            state.param.update(
                run_model=spec.model,
                weights=state.weights or spec.weights,
                run_id=state.run_id or result.id,
            )

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
