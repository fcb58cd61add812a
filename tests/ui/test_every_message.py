"""Every message and every key of the link, at its largest and larger: the loop goes on, memory is bounded."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import page_messages
import pytest
from machine_lag import MachineLag
from raw_visitor import NoPage, RawVisitor
from server_process import Watch

from k3scope.app.link.fields import FIELDS

LAG_S = 0.1  # that the loop may be late, over what the machine itself is
ADDED_MB = 600  # of the tree of processes, over what it has when nobody asks anything
LONG_RUN = "1 " * 1020  # 2,040 tokens, so that the Lab has its largest pictures
PATIENCE = 90
TRIES = 3  # of what was late: the machine has moments of its own


@pytest.fixture(scope="module")
def server(tmp_path_factory, served):
    with served(tmp_path_factory.mktemp("messages")) as server:
        played(warm(server))
        yield server


async def warm(server) -> None:
    """What is there when nobody asks anything: the weights of a model and the processes of the pool too."""
    visitor = await RawVisitor(server.address).open("?view=compare", PATIENCE)
    await visitor.run(page_messages.MODEL, "warm", PATIENCE)
    await visitor.until(lambda: visitor.last("CompareView").get("results"), PATIENCE)
    visitor.close()


def played(coroutine):
    """The browser's event loop may run in this thread already."""
    with ThreadPoolExecutor(1) as own:
        return own.submit(asyncio.run, coroutine).result()


def test_every_message_that_the_page_knows_is_sent_here():
    assert page_messages.in_code() == {message.name for message in page_messages.messages()}


def test_every_key_of_the_link_is_opened_here():
    assert [key for key, *_ in page_messages.links()] == [f.key for f in FIELDS]


async def answered(visitor: RawVisitor, n: int) -> None:
    """Until what was sent before is done: messages of a visitor are answered in their order."""
    await visitor.click(f"camera={n},1,1", PATIENCE)


async def idle(visitor: RawVisitor) -> None:
    """Until nothing of this visitor is on its way."""
    await visitor.until(lambda: not visitor.last("Dock").get("busy"), PATIENCE)


async def least_lag(server, act) -> float:
    """Seconds that the loop was late meanwhile, less what the machine was; the least of some tries."""
    least = float("inf")
    for _ in range(TRIES):
        with MachineLag() as machine:
            await asyncio.to_thread(lambda: server.metrics)  # the largest from here on
            await act()
            lag = (await asyncio.to_thread(lambda: server.metrics))["k3scope_loop_lag_max_seconds"]
        least = min(least, lag - max(machine.waits, default=0))
        if least <= LAG_S:
            break
    return least


async def send_all(server, messages: list, link: str, run: str = "") -> dict[str, float]:
    """Seconds that the loop was late while each was done, less what the machine was."""
    visitor = await RawVisitor(server.address).open(link, PATIENCE)
    if run:
        await visitor.run(page_messages.MODEL, run, PATIENCE)
        await visitor.until(lambda: visitor.components["TokenStrip"], PATIENCE)
        await visitor.send("SelectionBar", {"connected": True})
        await asyncio.sleep(1)
    late = {}
    for n, (name, component, message) in enumerate(messages):

        async def act(n=n, component=component, message=message):
            await visitor.send(component, message)
            await answered(visitor, n)
            await asyncio.sleep(0.2)

        late[f"{name} {str(message)[:60]}"] = await least_lag(server, act)
        if component in ("Dock", "TokenStrip", "InterventionForm", "Live"):
            await visitor.send("Dock", {"type": "cancel"})
            await idle(visitor)
    visitor.close()
    return late


def sizes(messages: list) -> list:
    """Of each message the largest and the one that is too large, if there is any."""
    return [
        (message.name, message.component, data)
        for message in messages
        for data in (message.largest, message.too_large)
        if data is not None
    ]


def check(late: dict[str, float], cost: Watch, what: str) -> None:
    """Nothing was late, and the memory stayed in its bounds; the worst are printed."""
    worst = sorted(late.items(), key=lambda item: -item[1])[:5]
    print(f"{what}: +{cost.added_mb:.0f} MB", *(f"{s * 1000:.0f} ms {name}" for name, s in worst), sep="\n")
    assert {name: s for name, s in late.items() if s > LAG_S} == {}
    assert cost.added_mb < ADDED_MB


@pytest.mark.sweep
@pytest.mark.parametrize("where", ["page", "lab"])
def test_no_message_holds_the_loop_or_fills_the_memory(server, where):
    groups = {
        "page": (page_messages.of_the_page() + page_messages.of_the_dock(), "", ""),
        "lab": (page_messages.of_the_lab(), "?view=lab", LONG_RUN),
    }
    messages, link, run = groups[where]
    with Watch(server.process.pid) as cost:
        late = played(send_all(server, sizes(messages), link, run))
    check(late, cost, where)


async def open_links(server) -> dict[str, float]:
    late = {}
    for key, *values in page_messages.links():
        for value in values:

            async def act(key=key, value=value):
                try:
                    visitor = await RawVisitor(server.address).open(f"?{key}={value}", PATIENCE)
                except NoPage as refused:
                    if refused.status != 400:  # longer than a link may be
                        raise
                    return
                await idle(visitor)
                visitor.close()

            late[f"{key}={value[:40]}"] = await least_lag(server, act)
    return late


@pytest.mark.sweep
def test_no_link_holds_the_loop_or_fills_the_memory(server):
    with Watch(server.process.pid) as cost:
        late = played(open_links(server))
    check(late, cost, "links")
