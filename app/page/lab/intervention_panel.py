"""The panel of interventions: each step runs the prompt again, so that list, run and link are one."""

from k3scope.app.lab import intervention_form
from k3scope.app.page.lab.components import InterventionForm
from k3scope.app.runs.continuation import Continuation
from k3scope.app.runs.run_session import RunSession
from k3scope.model.interventions.intervention import Intervention, dumps, loads


class InterventionPanel:
    """The form of a visitor, kept in step with the run on show."""

    def __init__(self, session: RunSession):
        self._session = session
        self._undo: list[str] = []  # lists of interventions before each step, as canonical JSON
        self.form = InterventionForm(self._on_message)
        session.follow("lab.interventions", self._show)
        self._show()

    def _on_message(self, data: dict) -> None:
        now = self._session.result.interventions
        self.form.problem = ""
        match data:
            case {"add": dict(fields)}:
                self._add(now, fields)
            case {"remove": int(index)} if 0 <= index < len(now):
                self._run_with(now[:index] + now[index + 1 :])
            case {"clear": True} if now:
                self._run_with(())
            case {"undo": True} if self._undo:
                self._run_with(loads(self._undo.pop()), undoable=False)

    def _add(self, now: tuple[Intervention, ...], fields: dict) -> None:
        result = self._session.result
        try:
            interventions = (*now, intervention_form.read(fields))
            self._session.runner.check(result.spec.model, len(result.tokens), interventions)
        except ValueError as error:
            self.form.problem = str(error)
            return
        self._run_with(interventions)

    def _run_with(self, interventions: tuple[Intervention, ...], undoable: bool = True) -> None:
        if self._session.busy:
            return
        spec = self._session.result.spec
        if undoable:
            self._undo.append(spec.interventions)
        canonical = dumps(interventions) if interventions else ""
        self._session.start(spec.model, spec.prompt, canonical, Continuation(spec.generated_ids))
        self.form.undoable = bool(self._undo)

    def _show(self, *_) -> None:
        result = self._session.result
        if result is None:
            return
        sources = [
            [other.id, other.spec.prompt[:40] or "(empty)"]
            for other in self._session.history
            if other.spec.model == result.spec.model and not other.images and not other.interventions
        ]
        self.form.param.update(
            options=intervention_form.options(result.config),
            interventions=[str(intervention) for intervention in result.interventions],
            sources=sources,
            undoable=bool(self._undo),
        )
