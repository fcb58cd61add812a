"""The panel of interventions: each step runs the prompt again, so that list, run and link are one."""

from k3scope.app.lab import intervention_form
from k3scope.app.page.lab.components import InterventionForm
from k3scope.app.runs.continuation import Continuation
from k3scope.app.runs.run_session import RunSession
from k3scope.model.interventions.intervention import Intervention, dumps, loads


def intervention_panel(session: RunSession) -> InterventionForm:
    """The form of a visitor."""
    undo: list[str] = []  # lists of interventions before each step, as canonical JSON

    def run_with(interventions: tuple[Intervention, ...], undoable: bool = True) -> None:
        if session.busy:
            return
        spec = session.result.spec
        if undoable:
            undo.append(spec.interventions)
        canonical = dumps(interventions) if interventions else ""
        session.start(spec.model, spec.prompt, canonical, Continuation(spec.generated_ids))
        form.undoable = bool(undo)

    def on_message(data: dict) -> None:
        now = session.result.interventions
        form.problem = ""
        match data:
            case {"add": dict(fields)}:
                add(now, fields)
            case {"remove": int(index)} if 0 <= index < len(now):
                run_with(now[:index] + now[index + 1 :])
            case {"clear": True} if now:
                run_with(())
            case {"undo": True} if undo:
                run_with(loads(undo.pop()), undoable=False)

    def add(now: tuple[Intervention, ...], fields: dict) -> None:
        result = session.result
        try:
            interventions = (*now, intervention_form.read(fields))
            session.runner.check(result.spec.model, len(result.tokens), interventions)
        except ValueError as error:
            form.problem = str(error)
            return
        run_with(interventions)

    def show(*_) -> None:
        result = session.result
        if result is None:
            return
        sources = [
            [other.id, other.spec.prompt[:40] or "(empty)"]
            for other in session.history
            if other.spec.model == result.spec.model and not other.images and not other.interventions
        ]
        form.param.update(
            options=intervention_form.options(result.config),
            interventions=[str(intervention) for intervention in result.interventions],
            runs=sources,
            undoable=bool(undo),
        )

    form = InterventionForm(on_message)
    session.follow("lab.interventions", show)
    show()
    return form
