"""The queue before a model: it shares out seconds of the model, whoever asks for how many runs.

Stride scheduling: the next slice is for the visitor who has used the least model time. It knows no thread and
no clock; whoever measures a slice says what it took.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class QueueBounds:
    """How much may wait: estimated seconds of the model, and entries and bytes for the memory's sake."""

    seconds: float = 120.0  # before a new entry
    seconds_of_visitor: float = 60.0
    seconds_of_address: float = 90.0  # of one address of the network
    entries: int = 512
    held_bytes: int = 512 << 20  # of entries that have begun and let others pass


@dataclass(eq=False)
class Entry:
    """A run in the queue. `seconds` and `slice_seconds` are estimates: all that is left, the next slice."""

    item: object
    visitor: int = 0
    seconds: float = 0.0
    slice_seconds: float = 0.0
    held_bytes: int = 0
    address: str = ""
    begun: bool = False
    order: int = 0  # of arrival, or of the last slice


@dataclass(eq=False)
class Share:
    """What one visitor has in the queue, in the order of asking, and the model time used."""

    used: float
    entries: list[Entry] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return sum(entry.seconds for entry in self.entries)

    @property
    def rank(self) -> tuple[float, int]:
        return self.used, self.entries[0].order


class FairQueue:
    """Entries of many visitors for one model. The one that runs stays in, at the head of its visitor's."""

    def __init__(self, model: str, bounds: QueueBounds | None = None):
        self._model, self._bounds = model, bounds or QueueBounds()
        self._shares: dict[int, Share] = {}
        self._used_before: dict[int, float] = {}  # of those who have left, while it is more than others have
        self._running: Entry | None = None
        self._clock, self._order = 0.0, 0  # of used time, where newcomers start; of arrivals and slices

    def __len__(self) -> int:
        """Entries waiting or running."""
        return sum(len(share.entries) for share in self._shares.values())

    def __iter__(self) -> Iterator[Entry]:
        return (entry for share in self._shares.values() for entry in share.entries)

    def put(self, entry: Entry) -> None:
        """The last place among the visitor's own. ValueError when too much waits before it."""
        self._check(entry)
        entry.order = self._next_order()
        if entry.visitor not in self._shares:
            # not at zero: who comes now has no claim on the time before
            used = max(self._clock, self._used_before.pop(entry.visitor, 0.0))
            self._shares[entry.visitor] = Share(used)
        self._shares[entry.visitor].entries.append(entry)

    def next(self) -> Entry | None:
        """The entry that gets the next slice; it is the running one until `step_back` or `remove`."""
        assert self._running is None
        share = min(self._eligible(), key=lambda share: share.rank, default=None)
        if share is None:
            return None
        self._running = share.entries[0]
        self._running.begun = True
        return self._running

    def charge(self, entry: Entry, seconds: float) -> None:
        """A slice of the running entry took so long."""
        self._shares[entry.visitor].used += seconds
        entry.order = self._next_order()
        # what each of them is entitled to: were it the least that one has, newcomers could always be first
        self._advance(self._clock + seconds / len(self._shares))

    def others_first(self, entry: Entry) -> bool:
        """Whether a slice for somebody else is due before the next one of the running entry."""
        own = self._shares[entry.visitor]
        return any(share.rank < own.rank for share in self._eligible() if share is not own)

    def step_back(self, entry: Entry) -> None:
        """The running entry waits again, first among its visitor's own."""
        assert entry is self._running
        self._running = None

    def remove(self, entry: Entry) -> bool:
        """Take an entry out. False when it is not in the queue."""
        share = self._shares.get(entry.visitor)
        if share is None or entry not in share.entries:
            return False
        share.entries.remove(entry)
        if entry is self._running:
            self._running = None
        if not share.entries:
            del self._shares[entry.visitor]
            self._used_before[entry.visitor] = share.used
            self._advance(self._clock)
        return True

    def running(self, entry: Entry) -> bool:
        return entry is self._running

    def standing(self, entry: Entry) -> tuple[int, float]:
        """Place of a waiting entry, 1 being the next, and the seconds until it begins, about."""
        own = self._shares[entry.visitor]
        before = own.entries[: own.entries.index(entry)]
        place, seconds = 1 + len(before), sum(other.seconds for other in before)
        point = own.used + seconds
        for share in self._shares.values():
            if share is not own:
                waits, takes = self._ahead(share, point, entry.order)
                place, seconds = place + waits, seconds + takes
        return place, seconds

    def _ahead(self, share: Share, used: float, order: int) -> tuple[int, float]:
        """How many entries of another visitor have slices before a point of the shared time, and how long."""
        head = share.entries[0]
        runs = head is self._running
        if not runs and (share.used, head.order) > (used, order):
            return 0, 0.0
        takes = min(share.seconds, max(0.0, used - share.used) + head.slice_seconds)
        waits, covered = 0, 0.0
        for entry in share.entries:
            if covered >= takes and waits:
                break
            waits, covered = waits + 1, covered + entry.seconds
        return waits - runs, takes

    def _eligible(self) -> list[Share]:
        """Those who can have a slice: what would hold more than there is room for waits, and its like too."""
        held = sum(entry.held_bytes for entry in self if entry.begun)
        shares, full = [], False
        for share in sorted(self._shares.values(), key=lambda share: share.rank):
            head = share.entries[0]
            if not head.begun and head.held_bytes:
                full = full or (held > 0 and held + head.held_bytes > self._bounds.held_bytes)
                if full:
                    continue
            shares.append(share)
        return shares

    def _check(self, entry: Entry) -> None:
        bounds, model = self._bounds, self._model
        if len(self) >= bounds.entries:
            raise ValueError(f"{len(self)} runs already wait for {model}; please try again in a minute.")
        if not entry.visitor:  # the program itself (tests, commands) has no bound in seconds
            return
        own = [other.seconds for other in self if other.visitor == entry.visitor]
        if sum(own) and sum(own) + entry.seconds > bounds.seconds_of_visitor:
            raise ValueError(
                f"Your runs before this one need about {sum(own):,.0f} s, this one {entry.seconds:,.0f} s; "
                f"at most {bounds.seconds_of_visitor:,.0f} s of one visitor wait here: let one end."
            )
        near = [other.seconds for other in self if other.address == entry.address]
        if is_bounded(entry.address) and sum(near) and sum(near) + entry.seconds > bounds.seconds_of_address:
            raise ValueError(
                f"The runs from your network address need about {sum(near):,.0f} s; at most "
                f"{bounds.seconds_of_address:,.0f} s of one address wait here: try again in a minute."
            )
        # what the others get while this entry is served, and no more: a short run waits for no long one
        others = [share for visitor, share in self._shares.items() if visitor != entry.visitor]
        before = sum(own) + sum(min(share.seconds, sum(own) + entry.seconds) for share in others)
        if before > bounds.seconds:
            raise ValueError(
                f"The runs before yours need about {before:,.0f} s; at most {bounds.seconds:,.0f} s wait "
                "here: try again in a minute."
            )

    def _advance(self, clock: float) -> None:
        """Move the clock at which newcomers start, and forget those who have no more than it behind them."""
        if not self._shares:
            self._used_before.clear()
            self._clock = 0.0
            return
        self._clock = max(clock, min(share.used for share in self._shares.values()))
        self._used_before = {v: used for v, used in self._used_before.items() if used > self._clock}

    def _next_order(self) -> int:
        self._order += 1
        return self._order


def is_bounded(address: str) -> bool:
    """Whether an address has a bound of its own: none has none, and neither has this machine."""
    try:
        return bool(address) and not ipaddress.ip_address(address).is_loopback
    except ValueError:  # a name, or what a proxy wrote
        return address != "localhost"
