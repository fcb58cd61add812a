"""The panel of interventions: every change runs the prompt again, so that list, run and link are one."""

from app import lab_changes
from app.growth import Growth
from app.parts.lab_parts import Changes
from app.runs import Runs
from model.intervene import dumps


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
                run_with(lab_changes.loads(past.pop()), remember=False)

    def add(now: tuple, values: dict) -> None:
        try:
            changes = (*now, lab_changes.read(values))
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
            parts=lab_changes.parts(runs.run.config),
            changes=[str(change) for change in runs.run.changes],
            runs=[[r.id, r.spec.prompt[:40] or "(empty)"] for r in others if not r.changes],
            undoable=bool(past),
        )

    form = Changes(told)
    runs.param.watch(show, "run")
    show()
    return form
