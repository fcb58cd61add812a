"""Visitors who come, browse, run or generate, and go; what each act took, and what went wrong."""

import asyncio
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from raw_visitor import RawVisitor, Refused

from k3scope.app.link.fields import FIELDS

MODEL = "k3-tiny"
# of ten visitors; each comes back as the next kind, so that one alone is every kind in turn
PATTERN = ["browse", "run", "browse", "generate", "browse", "run", "browse", "browse", "run", "browse"]
STAYS_S = (20, 60)  # seconds of a visit, once the page is there
PAUSES_S = {"browse": (1, 3), "run": (3, 9), "generate": (4, 12)}  # between two acts
ARRIVE_S = 0.5  # between two visitors at the beginning
GENERATED = (4, 16)  # tokens
WORDS = ["Once", "upon", "a", "time", "there", "was", "little", "fox", "who", "said", "moon", "far", "two"]
BLOCKS = ["kda", "latent_moe", "mla", "lm_head", "token_embedding", "attn_mix", "kda_decay", "moe_router"]
# what browsers click is a closed set: what the server caches of it is soon there, and growth is none of it
CLICKS = {
    "select": BLOCKS,
    "layer": ["0", "3", "7", "42", "91"],
    "tab": ["overview", "params", "code", "live"],
    "open": ["", "kda", "mla", "kda,latent_moe"],
    "view": ["model", "cost", "ledger", "compare", "lab"],
}
DEFAULTS = {f.key: f.write(f.default) for f in FIELDS if f.key in CLICKS and f.default is not None}
PATIENCE = 60  # seconds for any one act


@dataclass
class Journal:
    """What happened: seconds by kind of act, with the moment each began, and sentences."""

    begin: float = field(default_factory=time.perf_counter)
    acts: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    refused: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def note(self, act: str, seconds: float) -> None:
        """An act that has just ended."""
        self.acts[act].append((time.perf_counter() - self.begin - seconds, seconds))

    def seconds(self, act: str, since: float = 0) -> list[float]:
        """How long those took that began so many seconds after the beginning, or later."""
        return [took for at, took in self.acts[act] if at >= since]


class Crowd:
    """So many visitors for some time: `await Crowd(address, 30).stay(60)`, then its `journal`."""

    def __init__(self, address: str, visitors: int, stays_s: tuple[float, float] = STAYS_S):
        self._address, self._count, self._stays_s = address, visitors, stays_s
        self.journal = Journal()

    async def stay(self, seconds: float) -> None:
        """Arrive one after the other, stay until so many seconds after the last has come."""
        self.journal = Journal()  # time begins now
        self._end = time.perf_counter() + self._count * ARRIVE_S + seconds
        await asyncio.gather(*map(self._come_and_go, range(self._count)))

    async def _come_and_go(self, number: int) -> None:
        chance = random.Random(number)
        await asyncio.sleep(number * ARRIVE_S)
        visit = number
        while time.perf_counter() < self._end:
            visitor, kind = RawVisitor(self._address), PATTERN[visit % len(PATTERN)]
            try:
                await self._visit(visitor, kind, chance)
            except Exception as error:  # whatever it is, it is what this visitor met
                address = visitor.last("BrowserHistory").get("entry", {}).get("search")
                self.journal.errors.append(f"{kind} at {address}: {type(error).__name__}: {error}")
            self.journal.errors += visitor.errors
            visitor.close()
            visit += 1

    async def _visit(self, visitor: RawVisitor, kind: str, chance: random.Random) -> None:
        start = time.perf_counter()
        await visitor.open("" if kind == "browse" else f"?view=lab&with={MODEL}", PATIENCE)
        self.journal.note("open", time.perf_counter() - start)
        end = min(time.perf_counter() + chance.uniform(*self._stays_s), self._end)
        if kind == "generate":
            await self._run(visitor, chance)
        while time.perf_counter() < end:
            await asyncio.sleep(chance.uniform(*PAUSES_S[kind]))
            await getattr(self, f"_{kind}")(visitor, chance)

    async def _browse(self, visitor: RawVisitor, chance: random.Random) -> None:
        """A click that changes the link."""
        key = chance.choice(list(CLICKS))
        address = visitor.last("BrowserHistory").get("entry", {}).get("search", "")
        now = parse_qs(address.removeprefix("?"), keep_blank_values=True).get(key, [DEFAULTS.get(key)])
        value = chance.choice([value for value in CLICKS[key] if [value] != now])
        self.journal.note("click", await visitor.click(f"{key}={value}", PATIENCE))

    async def _run(self, visitor: RawVisitor, chance: random.Random) -> None:
        prompt = " ".join(chance.choices(WORDS, k=chance.randint(1, 40)))
        try:
            self.journal.note("run", await visitor.run(MODEL, prompt, PATIENCE))
        except Refused as refused:
            self.journal.refused.append(str(refused))

    async def _generate(self, visitor: RawVisitor, chance: random.Random) -> None:
        try:
            first, _ = await visitor.generate(chance.randint(*GENERATED), PATIENCE)
            self.journal.note("first token", first)
        except Refused as refused:
            self.journal.refused.append(str(refused))
