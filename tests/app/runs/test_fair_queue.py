"""The queue shares out seconds: nobody starves, short ones wait for no long ones, and it is bounded."""

import random
import re

import pytest

from k3scope.app.runs.fair_queue import Entry, FairQueue, QueueBounds, is_bounded

WIDE = QueueBounds(1e9, 1e9, 1e9, 10**6)


def entry(visitor: int, slices: int = 1, seconds: float = 1.0, **more) -> Entry:
    return Entry([seconds] * slices, visitor, slices * seconds, seconds, **more)


class Model:
    """What a worker does with a queue, in seconds that pass only here."""

    def __init__(self, bounds: QueueBounds = WIDE):
        self.queue, self.now = FairQueue("m", bounds), 0.0
        self.slices: list[Entry] = []
        self.ended: dict[Entry, float] = {}

    def put(self, *entries: Entry) -> None:
        for new in entries:
            self.queue.put(new)

    def slice(self) -> Entry | None:
        if (running := self.queue.next()) is None:
            return None
        seconds = running.item.pop()
        self.now += seconds
        self.queue.charge(running, seconds)
        running.seconds -= seconds
        self.slices.append(running)
        if running.item:
            self.queue.step_back(running)
        else:
            self.ended[running] = self.now
            assert self.queue.remove(running)
        return running

    def drain(self) -> None:
        while self.slice():
            pass


def test_each_ones_own_keep_their_order_and_visitors_take_turns():
    model = Model()
    entries = [entry(visitor) for visitor in (1, 1, 1, 2, 3, 2)]
    model.put(*entries)
    model.drain()
    order = [entries.index(e) for e in model.slices]
    assert order == [0, 3, 4, 1, 5, 2]


def test_ten_single_passes_wait_for_each_other_and_one_token_of_a_long_text():
    model, long = Model(), entry(1, 512, 0.05)
    model.put(long)
    for _ in range(100):
        model.slice()
    arrived = model.now
    short = [entry(visitor, 1, 0.3) for visitor in range(2, 12)]
    model.put(*short)
    model.drain()
    assert max(model.ended[e] for e in short) - arrived <= 10 * 0.3 + 0.05 + 1e-9
    assert model.slices.count(long) == 512


def test_three_visitors_with_four_long_ones_do_not_lock_out_a_short_one():
    model = Model(QueueBounds())
    model.put(*[entry(visitor, 100, 0.1) for visitor in (1, 2, 3) for _ in range(4)])
    for _ in range(50):
        model.slice()
    arrived, short = model.now, entry(9, 1, 0.2)
    model.put(short)
    while short not in model.ended:
        model.slice()
    assert model.ended[short] - arrived <= 0.2 + 3 * 0.1 + 1e-9


def test_visitors_who_always_want_more_get_equal_time_whatever_their_slices_are():
    model, used = Model(), {1: 0.0, 2: 0.0, 3: 0.0}
    model.put(entry(1, 10_000, 0.01), entry(2, 1000, 0.5), *[entry(3, 1, 0.2) for _ in range(1000)])
    while model.now < 90:
        last = model.slice()
        used[last.visitor] += {1: 0.01, 2: 0.5, 3: 0.2}[last.visitor]
    assert max(used.values()) - min(used.values()) <= 2 * 0.5


def test_who_comes_back_at_once_has_no_more_than_a_share():
    model, long = Model(), entry(1, 1000, 0.1)
    model.put(long)
    for _ in range(200):
        model.put(entry(2, 1, 0.1))
        while 2 in [e.visitor for e in model.queue]:
            model.slice()
    assert abs(model.slices.count(long) - 200) <= 2


def test_newcomers_without_end_do_not_starve_who_waits():
    model, long = Model(), entry(1, 5, 0.1)
    model.put(long)
    for visitor in range(2, 500):
        model.put(entry(visitor, 1, 0.1))
        model.slice()
    assert long in model.ended


@pytest.mark.parametrize("seed", range(20))
def test_at_any_arrivals_every_entry_ends_and_backlogged_visitors_stay_together(seed):
    rng, model, put, cancelled = random.Random(seed), Model(), [], set()
    for _ in range(400):
        if rng.random() < 0.3:
            put.append(entry(rng.randint(1, 8), rng.randint(1, 20), rng.choice([0.01, 0.1, 0.7])))
            model.put(put[-1])
        if put and rng.random() < 0.02 and model.queue.remove(victim := rng.choice(put)):
            cancelled.add(victim)
        model.slice()
        shares = model.queue._shares.values()
        if shares:  # who has used least is served, so two differ by a slice of each at most
            assert max(s.used for s in shares) - min(s.used for s in shares) <= 2 * 0.7 + 1e-9
    model.drain()
    assert set(put) == set(model.ended) | cancelled
    assert not set(model.ended) & cancelled
    assert (len(model.queue), model.queue._used_before) == (0, {})


def test_the_bound_is_in_seconds_before_the_new_one_and_says_so():
    queue = FairQueue("m")
    for visitor in range(1, 4):
        queue.put(entry(visitor, 60, 1.0))
    with pytest.raises(
        ValueError, match=r"before yours need about 180 s; at most 120 s wait here: try again"
    ):
        queue.put(entry(9, 60, 1.0))
    queue.put(entry(9, 1, 1.0))
    for visitor in range(10, 127):
        queue.put(entry(visitor, 1, 1.0))
    with pytest.raises(ValueError, match="need about 121 s"):
        queue.put(entry(127, 1, 1.0))


def test_one_run_of_any_length_is_taken_when_nothing_waits():
    queue = FairQueue("m")
    queue.put(entry(1, 5000, 1.0))
    assert len(queue) == 1


def test_one_visitor_has_half_of_the_seconds():
    queue = FairQueue("m")
    queue.put(entry(1, 40, 1.0))
    with pytest.raises(ValueError, match="need about 40 s, this one 30 s; at most 60 s of one visitor wait"):
        queue.put(entry(1, 30, 1.0))
    queue.put(entry(1, 20, 1.0))
    queue.put(entry(2, 30, 1.0))


def test_what_is_being_cancelled_takes_no_room():
    queue = FairQueue("m")
    cancelled = entry(1, 500, 1.0)
    queue.put(cancelled)
    queue.next()
    cancelled.seconds = 0.0
    queue.put(entry(1, 500, 1.0))
    assert len(queue) == 2


def test_an_address_has_a_bound_and_this_machine_and_no_address_have_none():
    for address in ("", "127.0.0.1", "::1", "localhost"):
        queue = FairQueue("m", QueueBounds(1e9, 60, 90))
        for visitor in range(1, 5):
            queue.put(entry(visitor, 50, 1.0, address=address))
        assert not is_bounded(address)
    queue = FairQueue("m", QueueBounds(1e9, 60, 90))
    queue.put(entry(1, 50, 1.0, address="203.0.113.7"))
    with pytest.raises(ValueError, match="your network address need about 50 s; at most 90 s of one address"):
        queue.put(entry(2, 50, 1.0, address="203.0.113.7"))
    queue.put(entry(3, 50, 1.0, address="203.0.113.8"))


def test_entries_are_bounded_for_the_memory():
    queue = FairQueue("m", QueueBounds(entries=3))
    for visitor in range(3):
        queue.put(entry(visitor, 1, 0.001))
    with pytest.raises(ValueError, match="3 runs already wait for m; please try again in a minute"):
        queue.put(entry(9, 1, 0.001))


def test_no_more_is_held_than_there_is_room_for_and_what_holds_nothing_goes_on():
    model = Model(QueueBounds(held_bytes=100))
    first, second = entry(1, 3, held_bytes=60), entry(2, 3, held_bytes=60)
    third, plain = entry(3, 3, held_bytes=10), entry(4)
    model.put(first, second, third, plain)
    model.drain()
    assert model.slices[1] is plain
    assert model.slices.index(second) > max(i for i, e in enumerate(model.slices) if e is first)
    assert set(model.ended) == {first, second, third, plain}


def test_place_and_wait_count_what_others_get_before():
    queue = FairQueue("m")
    waiting = [entry(visitor, 1, 2.0) for visitor in range(1, 5)]
    for new in waiting:
        queue.put(new)
    assert queue.standing(waiting[0]) == (1, 0)
    assert queue.standing(waiting[3]) == (4, 6.0)
    running = queue.next()
    assert queue.standing(waiting[3]) == (3, 6.0)
    queue.charge(running, 2.0)
    queue.remove(running)
    assert queue.standing(waiting[3]) == (3, 4.0)
    queue.remove(waiting[1])
    assert queue.standing(waiting[3]) == (2, 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_wait_that_is_told_is_about_the_wait_there_is(seed):
    rng, model = random.Random(seed), Model()
    model.put(*[entry(visitor, rng.randint(1, 30), 0.1) for visitor in range(1, 9)])
    last = entry(99, 1, 0.1)
    model.put(last)
    expected = model.queue.standing(last)[1]
    while last not in model.ended:
        model.slice()
    assert model.now - 0.1 == pytest.approx(expected, abs=0.2)


def test_sentences_of_the_bounds_are_whole():
    queue = FairQueue("m", QueueBounds(seconds=1))
    queue.put(entry(1, 5, 1.0))
    with pytest.raises(ValueError) as refused:
        queue.put(entry(2, 5, 1.0))
    assert re.fullmatch(r"[A-Z].*\.", str(refused.value))
