"""What the dock draws of a run."""

from visitor import Visitor

from k3scope.app.examples import examples
from k3scope.app.page.dock.result_message import result_message

RANDOM = next(example for example in examples() if example.model == "k3-random")


def test_a_run_of_an_example_has_its_caption(runner):
    message = result_message(Visitor(runner).run(RANDOM.prompt))
    assert message["caption"] == f"{RANDOM.name}: {RANDOM.caption}"
    assert message["count"] == sum(chip[4] for chip in message["chips"])


def test_any_other_run_has_none(runner):
    message = result_message(Visitor(runner).run("12"))
    assert message["caption"] == ""
    assert message["chips"] == [[49, "1", "", 0, 1, False], [50, "2", "", 1, 1, False]]
    assert [len(row) for row in message["next"]] == [4] * 8
