"""Where a claim comes from: official file and lines, a section of the report, or another kind of evidence."""

import re
from dataclasses import dataclass

REPOSITORY = "moonshotai/Kimi-K3"
REVISION = "f831ab66814297da540d832a5235f8e904f29d06"
FILES = f"https://huggingface.co/{REPOSITORY}/blob/{REVISION}"
TREE = f"https://huggingface.co/{REPOSITORY}/tree/{REVISION}"
REPORT = "https://arxiv.org/abs/2607.24653"

# how sure a claim is, in plain language
MARKS = {
    "A": "read in the official file and checked a second, independent way",
    "B": "one primary source",
    "C": "secondary or inferred",
    "M": "measured or computed, not read",
}


@dataclass(frozen=True)
class Citation:
    """One citation: what to print, where it leads ("" for nowhere), the claim it supports, how sure."""

    label: str
    url: str
    supports: str
    mark: str = ""  # a key of MARKS; "" is the block's own


def citation_of(raw: dict) -> Citation:
    """From a YAML entry: {file, lines, for}, {report, for} or {also, for}. ValueError for anything else."""
    supports, mark = raw.get("for", ""), raw.get("mark", "")
    if mark and mark not in MARKS:
        raise ValueError(f"source {raw!r}: mark is {mark!r}; expected one of {', '.join(MARKS)}")
    if "report" in raw:
        return Citation(f"tech report, {raw['report']}", REPORT, supports, mark)
    if "also" in raw:
        return Citation(raw["also"], "", supports, mark)
    if "file" not in raw:
        raise ValueError(f"source {raw!r}; expected 'file' (with 'lines'), 'report' or 'also'")
    return Citation(f"{raw['file']} {raw.get('lines', '')}".strip(), _link(raw), supports, mark)


def citations_in(text: str) -> list[Citation]:
    """The sources named in one line, "a.py 1-9; report 2.1": official ones get their link."""
    return [_citation(part.strip()) for part in text.split(";") if part.strip()]


def _citation(part: str) -> Citation:
    if file := re.match(r"(\w[\w.]*\.(?:py|json))(?: ([0-9]+(?:-[0-9]+)?))?", part):
        return Citation(part, _link({"file": file[1], "lines": file[2] or ""}), "")
    if part.startswith("report"):
        return Citation(f"tech {part}", REPORT, "")
    return Citation(part, "", "")


def _link(raw: dict) -> str:
    lines = str(raw.get("lines", ""))
    anchor = "#" + "-".join(f"L{n}" for n in lines.split("-")) if lines else ""
    return f"{FILES}/{raw['file']}{anchor}"
