"""What the run on show measured in each layer, beside the cells of the strip."""

from dataclasses import dataclass

from k3scope.app.runs.run_session import RunSession
from k3scope.model.measure.layer_rows import LayerRow, rows


@dataclass(frozen=True, eq=False)
class MeasuredLayers:
    """The rows of a run and the model whose layers they belong to."""

    model: str
    rows: tuple[LayerRow, ...]


def strip(session: RunSession) -> None:
    """Put each run's rows into the state, where the stage shows them with the layers of the same model."""

    def show(*_) -> None:
        result = session.result
        measured = MeasuredLayers(result.spec.model, rows(result.readings)) if result else None
        session.state.layer_rows = measured

    session.follow("layer_strip", show)
    show()
