"""The panel of interventions: every change runs the prompt again, so that list, run and link are one."""

from k3scope.app.lab import intervention_form
from k3scope.app.page.lab.components import Changes
from k3scope.app.runs.continuation import Growth
from k3scope.app.runs.run_session import Runs
from k3scope.model.interventions.intervention import dumps


def change_form(runs: Runs) -> Changes:
    """The form of a visitor."""
    past: list[str] = []

    def run_with(changes: tuple, remember: bool = True) -> None:
        if runs.busy:
            return
        if remember:
            past.append(runs.run.spec.changes)
        spec = runs.run.spec
        runs.start(spec.model, spec.prompt, dumps(changes) if changes else "", Growth(spec.more))
        form.undoable = bool(past)

    def told(data: dict) -> None:
        now = runs.run.changes
        form.problem = ""
        match data:
            case {"add": dict(values)}:
                add(now, values)
            case {"remove": int(index)} if 0 <= index < len(now):
                run_with(now[:index] + now[index + 1 :])
            case {"clear": True} if now:
                run_with(())
            case {"undo": True} if past:
                run_with(intervention_form.loads(past.pop()), remember=False)

    def add(now: tuple, values: dict) -> None:
        try:
            changes = (*now, intervention_form.read(values))
            runs.runner.check(runs.run.spec.model, len(runs.run.pieces), changes)
        except ValueError as error:
            form.problem = str(error)
            return
        run_with(changes)

    def show(*_) -> None:
        if runs.run is None:
            return
        others = [r for r in runs.history if r.spec.model == runs.run.spec.model and not r.images]
        form.param.update(
            parts=intervention_form.parts(runs.run.config),
            changes=[str(change) for change in runs.run.changes],
            runs=[[r.id, r.spec.prompt[:40] or "(empty)"] for r in others if not r.changes],
            undoable=bool(past),
        )

    form = Changes(told)
    runs.param.watch(show, "run")
    show()
    return form
