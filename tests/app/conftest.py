"""The runner that tests of what is run share, one per file."""

import pytest

from k3scope.app.runs.runner import Runner


@pytest.fixture(scope="module")
def runner():
    runner = Runner(("k3-random",))
    yield runner
    runner.close()
