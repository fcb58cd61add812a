"""While one visitor asks for what costs most, another clicks ten times a second and is answered."""

import asyncio
import re
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import abuse
import pytest
from click_stream import ClickStream, quantile
from machine_lag import MachineLag
from raw_visitor import RawVisitor
from server_process import Watch

pytestmark = pytest.mark.sweep

P95_S, WORST_S = 0.3, 1.0  # of another visitor's clicks, over what a little work waits on this machine
ADDED_MB = 600  # of the whole tree of processes, over what it has when nobody asks anything
GROWN = 256  # tokens, all that one press can ask for
ABUSES = [
    *map(abuse.png_of_everything, (1, 5)),
    *[abuse.long_word(letters, way) for letters in (6_000, 60_000) for way in ("dock", "history", "link")],
    *map(abuse.image, abuse.IMAGES),
    abuse.image("10,000 x 10,000 RGBA", visitors=4),
    *map(abuse.configs, (1, 5)),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory, served):
    with served(tmp_path_factory.mktemp("abused")) as server:
        yield server


@dataclass(frozen=True)
class Felt:
    """What a script was for another visitor and for the machine."""

    waits: list[float]  # seconds, of each click of the other
    lag: list[float]  # seconds, of a process that does a click's worth of work
    added_mb: float
    cpu_s: float
    wall_s: float
    said: list[str]
    answered: bool  # all that was asked

    def __str__(self) -> str:
        waits, lag = (
            f"p50 {statistics.median(times):.3f} p95 {quantile(times, 0.95):.3f} worst {max(times):.3f} s"
            for times in (self.waits, self.lag)
        )
        cost = f"+{self.added_mb:.0f} MB, {self.cpu_s:.1f} CPU s in {self.wall_s:.1f} s"
        said = f"{'' if self.answered else 'not answered, '}said {dict(Counter(self.said))}"
        return f"clicks {waits}; machine {lag}; {cost}; {said}"

    def check(self) -> None:
        print(self)
        assert self.answered, str(self)
        assert quantile(self.waits, 0.95) < P95_S + quantile(self.lag, 0.95), str(self)
        assert max(self.waits) < WORST_S + max(self.lag), str(self)
        assert self.added_mb < ADDED_MB, str(self)
        assert [sentence for sentence in self.said if not is_sentence(sentence)] == []


def is_sentence(text: str) -> bool:
    """Words for a person, ended; no exception's name and no colon with nothing behind it."""
    words = re.findall(r"[\w’']+", text)
    return (
        len(words) > 3 and text[-1] in ".?!" and not re.search(r"Traceback|\w(Error|Exception)\b|:\.?$", text)
    )


async def quiet(visitor: RawVisitor) -> None:
    """Until what was asked before is over: the page answers at once, three times in a row."""
    for _ in range(60):
        waits = [await visitor.click(f"layer={layer}", abuse.PATIENCE) for layer in (1, 2, 3)]
        if max(waits) < P95_S:
            return
        await asyncio.sleep(0.5)


async def play(server, script: abuse.Abuse) -> Felt:
    script.prepare()
    other = await RawVisitor(server.address).open()
    visitors = await script.visitors(server.address)
    await quiet(other)
    start = time.perf_counter()
    with MachineLag() as lag, Watch(server.process.pid) as cost:
        async with ClickStream(other) as clicks:
            try:
                sentences, answered = await script.act(visitors), True
            except TimeoutError:
                sentences, answered = [], False
    for visitor in (other, *visitors):
        visitor.close()
    wall_s = time.perf_counter() - start
    return Felt(clicks.waits, lag.waits, cost.added_mb, cost.cpu_s, wall_s, sentences, answered)


def played(coroutine):
    """The browser's event loop may run in this thread already."""
    with ThreadPoolExecutor(1) as own:
        return own.submit(asyncio.run, coroutine).result()


@pytest.mark.parametrize("script", ABUSES, ids=lambda script: script.name)
def test_another_visitor_is_answered_meanwhile(server, script):
    played(play(server, script)).check()


def test_thirty_who_press_run_together_all_get_their_result(server):
    felt = played(play(server, abuse.runs_together(30)))
    felt.check()
    assert felt.said == []


def sampled_at(visitor: RawVisitor, mark: int) -> list[float]:
    """When each token of a growing run was there."""
    changes = [c for c in visitor.changes[mark:] if (c.component, c.attribute) == ("Dock", "progress")]
    return [c.at for c in changes if c.value.get("done")]


async def short_run_beside_growth(server) -> tuple[float, float, float, float]:
    """Seconds of two words alone and while somebody grows a long run, of one token of that, of its cancel."""
    growing = await abuse.ready_to_grow(server.address)
    short = await RawVisitor(server.address).open()
    alone = await short.run(abuse.ALONE, "one two")
    mark = len(growing.changes)
    await growing.send("TokenStrip", {"generate": GROWN, "temperature": 0, "seed": 0})
    await growing.until(lambda: len(sampled_at(growing, mark)) >= 3, abuse.PATIENCE)
    at = sampled_at(growing, mark)
    try:
        beside = await short.run(abuse.ALONE, "three four", abuse.PATIENCE / 2)
    except TimeoutError:
        beside = float("inf")
    cancelled = time.perf_counter()
    await growing.send("Dock", {"type": "cancel"})
    await growing.until(lambda: not growing.last("Dock")["busy"], abuse.PATIENCE)
    cancel = time.perf_counter() - cancelled
    growing.close()
    short.close()
    return alone, beside, max(later - earlier for earlier, later in pairwise(at)), cancel


def test_two_words_do_not_wait_for_somebody_elses_256_tokens(server):
    alone, beside, token, cancel = played(short_run_beside_growth(server))
    print(f"alone {alone:.2f} s, beside {beside:.2f} s, one token {token:.2f} s, cancel {cancel:.2f} s")
    assert beside < 2 * alone + token + WORST_S
    assert cancel < WORST_S
