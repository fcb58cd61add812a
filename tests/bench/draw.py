"""The picture of the ratios in the README, from the results file.

python tests/bench/draw.py
"""

import json
import math
from html import escape

from common import RESULTS

OUT = RESULTS.parents[2] / "assets" / "images" / "kernels.svg"
PANELS = {
    "kda H4 d32 T2048": "KDA, 4 heads of 32, 2,048 tokens",
    "kda H8 d64 T2048": "KDA, 8 heads of 64, 2,048 tokens",
    "kda H16 d128 T2048": "KDA, 16 heads of 128, 2,048 tokens",
    "kda H96 d128 T128": "KDA at K3's width, 96 heads of 128, 128 tokens",
    "moe E16 n128": "Experts, 4 of 16, 128 tokens",
    "moe E896 n128": "Experts, 16 of 896, 128 tokens",
}
OURS = {"cpp": "k3scope, C++", "torch": "k3scope, torch"}
BASE = {"kda": "fla naive_recurrent_kda", "moe": "loop over all experts"}  # own copy of it without fla
NOT_SHOWN = {"experts hit", "grouped_mm", "batched_mm"}  # textbook forms of what libraries do, too
WIDTH, ROW, LEFT, RIGHT, GAP, TOP = 450, 20, 172, 48, 28, 34
EDGE = 14
LOW, HIGH = 0.01, 200.0
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 13px }
.card { fill: #ffffff }
.other { fill: #8c959f } .ours { fill: #0b5cad } .one { stroke: #59636e; stroke-dasharray: 2 2 }
.name.mine { font-weight: 600 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .card { fill: #0d1117 } .other { fill: #7d8590 } .ours { fill: #58a6ff } .one { stroke: #9198a1 }
}
"""


def draw(rows: list[dict]) -> str:
    """Two panels in a line, bars on a logarithmic axis from the base of the ratios."""
    parts, y, tallest = [], 0, 0
    for n, (case, title) in enumerate(PANELS.items()):
        bars = ordered([row for row in rows if row["case"] == case])
        if n % 2 == 0:
            y, tallest = y + tallest, 0
        parts.append(panel(case, title, bars, n % 2 * (WIDTH + GAP), y))
        tallest = max(tallest, TOP + ROW * len(bars) + 14)
    box = -EDGE, -EDGE / 2, 2 * WIDTH + GAP + 2 * EDGE, y + tallest + EDGE
    size = f'width="{box[2]}" height="{box[3]}" viewBox="{" ".join(map(str, box))}"'
    card = '<rect class="card" x="{}" y="{}" width="{}" height="{}" rx="6"/>'.format(*box)
    label = "How many times faster than a plain loop our CPU kernels and others are"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">'
    return "\n".join([head, f"<style>{STYLE}</style>", card, *parts, "</svg>"]) + "\n"


def ordered(rows: list[dict]) -> list[dict]:
    return sorted((r for r in rows if r["impl"] not in NOT_SHOWN), key=lambda r: -r["ratio_to_naive"])


def panel(case: str, title: str, bars: list[dict], x: float, y: float) -> str:
    parts = [f'<text class="title" x="{x}" y="{y + 18}">{escape(title)}</text>']
    for n, row in enumerate(bars):
        parts += bar(row, case, x, y + TOP + n * ROW)
    one, top = f"{x + at(1):.1f}", y + TOP
    end = top + ROW * len(bars)
    return "\n".join([*parts, f'<line class="one" x1="{one}" x2="{one}" y1="{top - 4}" y2="{end}"/>'])


def bar(row: dict, case: str, x: float, y: float) -> list[str]:
    impl, ratio = row["impl"], row["ratio_to_naive"]
    name = BASE[case[:3]] if impl == "naive" else OURS.get(impl, impl)
    mine = impl in OURS
    start, end = sorted((at(1), at(ratio)))
    kind = "ours" if mine else "other"
    place, width = f'x="{x + start:.1f}" y="{y + 2}"', max(end - start, 1)
    bold = " mine" * mine
    return [
        f'<text class="name{bold}" x="{x + LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>',
        f'<rect class="{kind}" {place} width="{width:.1f}" height="{ROW - 7}" rx="2"/>',
        f'<text x="{x + end + 5:.1f}" y="{y + 12}">{times(ratio)}</text>',
    ]


def at(ratio: float) -> float:
    share = (math.log(ratio) - math.log(LOW)) / (math.log(HIGH) - math.log(LOW))
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def times(ratio: float) -> str:
    return f"{ratio:.0f}×" if ratio >= 9.95 else f"{ratio:.1f}×" if ratio >= 0.095 else f"{ratio:.2f}×"


def main() -> None:
    OUT.write_text(draw(json.loads((RESULTS / "cpu.json").read_text())["rows"]))


if __name__ == "__main__":
    main()
