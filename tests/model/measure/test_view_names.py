from k3scope.model.measure.observe import VIEWS
from k3scope.model.measure.run_plots import PLOTS
from k3scope.model.measure.view_names import PLOT_NAMES


def test_every_view_and_plot_is_named():
    assert tuple(PLOT_NAMES) == VIEWS
    assert {view: tuple(plots) for view, plots in PLOTS.items()} == PLOT_NAMES
