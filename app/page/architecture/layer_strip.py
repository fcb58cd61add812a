"""What the run on show says of each layer, beside the cells of the strip."""

from dataclasses import dataclass

from k3scope.app.runs.run_session import Runs
from k3scope.model.measure.layer_rows import Row, rows


@dataclass(frozen=True, eq=False)
class Measured:
    """The rows of a run and the model whose layers they belong to."""

    model: str
    rows: tuple[Row, ...]


def strip(runs: Runs) -> None:
    """Hand each run's rows to the state, where the stage shows them with the layers of the same model."""

    def show(*_) -> None:
        run = runs.run
        runs.state.measured = Measured(run.spec.model, rows(run.readings)) if run else None

    runs.param.watch(show, "run")
    show()
