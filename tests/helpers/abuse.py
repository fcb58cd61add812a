"""What visitors can do that costs much: a test plays it while it watches somebody else."""

import asyncio
import io
import itertools
import json
import random
import string
import struct
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from urllib.parse import quote

from PIL import Image
from raw_visitor import NoPage, RawVisitor, Refused

from k3scope.assets import MODELS

PATIENCE = 120  # seconds for an answer of any kind
ALONE = "k3-tiny"
PROBLEMS = (("Dock", "problem"), ("CompareView", "problem"), ("Shell", "announcement"))
NOT_OPENED = None


@dataclass(frozen=True)
class Abuse:
    """A name, the links that its visitors have open before, and what they then do, until all is answered."""

    name: str
    links: tuple[str | None, ...]
    act: Callable[[list[RawVisitor]], Awaitable[list[str]]]  # gives the sentences that the pages showed
    prepare: Callable[[], object] = lambda: None  # before anything is measured

    async def visitors(self, address: str) -> list[RawVisitor]:
        visitors = [RawVisitor(address) for _ in self.links]
        for visitor, link in zip(visitors, self.links, strict=True):
            if link is not NOT_OPENED:
                await visitor.open(link, PATIENCE)
        return visitors


def said(visitor: RawVisitor) -> list[str]:
    """Every sentence on something that went wrong, as the page got it."""
    shown = [c.value for c in visitor.changes if (c.component, c.attribute) in PROBLEMS]
    shown += [visitor.last(component).get(name) for component, name in PROBLEMS]
    answers = [m for m in visitor.sent("Controls") if isinstance(m, dict)]
    return list(dict.fromkeys(filter(None, [*shown, *(m.get("problem") for m in answers)])))


def png_of_everything(times: int) -> Abuse:
    """Save the drawing as PNG with every group open."""

    async def act(visitors: list[RawVisitor]) -> list[str]:
        (visitor,) = visitors
        for _ in range(times):
            await visitor.send("Controls", {"export": "png"})
        await visitor.until(lambda: len(answers(visitor)) >= times, PATIENCE)
        return said(visitor)

    return Abuse(f"{times} PNG of everything", ("?open=everything",), act)


def answers(visitor: RawVisitor) -> list[dict]:
    """Files that came, and sentences why one does not."""
    return [m for m in visitor.sent("Controls") if "base64" in m or "problem" in m]


def word(letters: int, seed: str) -> str:
    """Letters without a space; another seed gives a word that no cache holds."""
    return "".join(random.Random(seed).choices(string.ascii_lowercase, k=letters))


def long_word(letters: int, way: str) -> Abuse:
    """A word that is far too long: typed into the dock, by Back or Forward, or as a link."""
    search = f"?with={ALONE}&prompt={(typed := word(letters, way))}"

    async def act(visitors: list[RawVisitor]) -> list[str]:
        (visitor,) = visitors
        if way == "dock":
            await visitor.send("Dock", {"type": "run", "model": ALONE, "prompt": typed})
        elif way == "history":
            await visitor.send("BrowserHistory", {"search": search})
        else:
            try:
                await visitor.open(search, PATIENCE)
            except NoPage as refused:
                if not 400 <= refused.status < 500:
                    raise
                return [f"The server answered {refused.status} to the link."]
        await visitor.until(lambda: said(visitor) or visitor.last("Dock").get("result"), PATIENCE)
        return said(visitor)

    return Abuse(f"word of {letters:,} letters by {way}", (NOT_OPENED if way == "link" else "",), act)


@cache
def png(width: int, height: int, colour: int, bits: int = 8) -> bytes:
    """A solid image of colour type 0 (grey) or 6 (RGBA), compressed row by row."""
    row = b"\0" * (1 + (width * bits * {0: 1, 6: 4}[colour] + 7) // 8)
    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def gif(frames: int) -> bytes:
    images = [Image.new("P", (300, 300), i % 256) for i in range(frames)]
    out = io.BytesIO()
    images[0].save(out, "GIF", save_all=True, append_images=images[1:])
    return out.getvalue()


IMAGES: dict[str, Callable[[], bytes]] = {
    "10,000 x 10,000 RGBA": lambda: png(10_000, 10_000, 6),
    "99,999,999 x 1": lambda: png(99_999_999, 1, 0, 1),
    "50,000 x 50,000": lambda: png(50_000, 50_000, 0, 1),
    "200 frames": lambda: gif(200),
    "8.1 MB": lambda: png(1, 1, 0) + b"\0" * (81 * 2**20 // 10),
}


@cache
def image_file(name: str) -> bytes:
    return IMAGES[name]()


def image(name: str, visitors: int = 1) -> Abuse:
    """The same image from some visitors at once; each then runs a prompt after it."""

    async def one(visitor: RawVisitor) -> list[str]:
        await visitor.attach("image.png", image_file(name), timeout=PATIENCE)
        sentences = said(visitor)
        try:
            await visitor.run(ALONE, "What is it?", PATIENCE)
        except Refused as refused:
            sentences.append(str(refused))
        return sentences

    async def act(visitors: list[RawVisitor]) -> list[str]:
        return list(itertools.chain(*await asyncio.gather(*map(one, visitors))))

    return Abuse(f"{visitors} image of {name}", ("",) * visitors, act, partial(image_file, name))


def config_of_layers(layers: int, number: int) -> str:
    """The text of a config.json with many layers, another one for each number."""
    config = json.loads((MODELS / ALONE / "config.json").read_text())
    text, every = config["text_config"], range(1, layers + 1)
    text |= {"num_hidden_layers": layers, "rms_norm_eps": 1e-5 * (1 + number)}
    full = [layer for layer in every if layer % 4 == 0]
    text["linear_attn_config"] |= {"kda_layers": sorted({*every} - {*full}), "full_attn_layers": full}
    return json.dumps(config)


def configs(count: int, layers: int = 128) -> Abuse:
    """Compare with config.json files of many layers, one after the other without waiting."""

    async def act(visitors: list[RawVisitor]) -> list[str]:
        (visitor,) = visitors
        for number in range(count):
            text = config_of_layers(layers, 10 * count + number)
            await visitor.send("CompareView", {"config": text, "name": f"{number}.json"})
        await visitor.until(lambda: visitor.last("CompareView").get("answers", 0) >= count, PATIENCE)
        return said(visitor)

    return Abuse(f"{count} config of {layers} layers", ("?view=compare",), act)


async def _press_run(visitor: RawVisitor, prompt: str) -> str:
    try:
        await visitor.run(ALONE, prompt, PATIENCE)
    except Refused as refused:
        return str(refused)
    return ""


def runs_together(count: int) -> Abuse:
    """Everybody presses Run at once, each with a prompt of their own."""

    async def act(visitors: list[RawVisitor]) -> list[str]:
        prompts = [f"{number} " + "word " * 60 for number in range(count)]
        return list(filter(None, await asyncio.gather(*map(_press_run, visitors, prompts))))

    return Abuse(f"{count} runs together", ("",) * count, act)


LONG_PROMPT = "the cat " * 650  # 1,300 tokens
CHANGE = '[{"what":"head","do":"zero","layer":3,"index":0}]'  # each further token is then a whole pass


async def ready_to_grow(address: str) -> RawVisitor:
    """A visitor whose long run with an intervention is on show in the Lab."""
    link = f"?with={ALONE}&view=lab&prompt={quote(LONG_PROMPT)}&do={quote(CHANGE)}"
    visitor = await RawVisitor(address).open(link, PATIENCE)
    await visitor.until(lambda: visitor.components["TokenStrip"], PATIENCE)
    return visitor
