"""Where a claim comes from: official file and lines, or a section of the report."""

from dataclasses import dataclass

REVISION = "f831ab66814297da540d832a5235f8e904f29d06"
FILES = f"https://huggingface.co/moonshotai/Kimi-K3/blob/{REVISION}"
REPORT = "https://arxiv.org/abs/2607.24653"


@dataclass(frozen=True)
class Source:
    """One citation: what to print, where it leads, and the claim it supports."""

    label: str
    url: str
    supports: str


def source_of(raw: dict) -> Source:
    """From a YAML entry: {file, lines, for} or {report, for}. ValueError for anything else."""
    supports = raw.get("for", "")
    if "report" in raw:
        return Source(f"tech report, {raw['report']}", REPORT, supports)
    if "file" not in raw:
        raise ValueError(f"source {raw!r}; expected 'file' (with 'lines') or 'report'")
    file, lines = raw["file"], str(raw.get("lines", ""))
    anchor = "#" + "-".join(f"L{n}" for n in lines.split("-")) if lines else ""
    return Source(f"{file} {lines}".strip(), f"{FILES}/{file}{anchor}", supports)
