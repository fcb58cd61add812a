"""From 1 to 200 visitors who browse, run and generate: what they wait for, and what the server needs.

python tests/bench/load.py [--visitors 1 10 30] [--seconds 60] [--write-docs]
python tests/bench/load.py --soak 20

The first writes results/load.json. With `--write-docs` docs/load.md and its pictures follow from it;
with `--visitors` and no number behind it nothing is measured before. `--soak` lets visitors come and go
for so many minutes and writes results/soak.json. The visitors share this machine's cores with the server.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).parents[1] / "helpers"))

import load_report
from abuse import LONG_PROMPT
from click_stream import quantile
from common import RESULTS, print_rows, write
from crowd import MODEL, Crowd
from machine_lag import MachineLag
from raw_visitor import RawVisitor
from server_process import Server, Watch, served

VISITORS = (1, 10, 30, 100, 200)
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "worst": 1.0}
FAILED = re.compile(r"^(?:ERROR|CRITICAL|Traceback).*", re.M)
SOAKING = 8  # visitors of a soak
SHORT_STAYS_S = (8, 20)  # of each visit of a soak
SETTLE_S = 60  # sessions of the first visitors have ended by then, and the caches are full


@contextmanager
def own_server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        yield server


def measure(visitors: int, seconds: float) -> dict:
    """One row: a server of its own, so that no size has caches that another one filled."""
    with own_server() as server, MachineLag() as lag, Watch(server.process.pid) as cost:
        crowd, start, own_s = Crowd(server.address, visitors), time.perf_counter(), time.process_time()
        asyncio.run(crowd.stay(seconds))
        wall_s, own_s = time.perf_counter() - start, time.process_time() - own_s
        failed = FAILED.findall(server.log)
    journal = crowd.journal
    row = {"visitors": visitors, "seconds": round(wall_s, 1)}
    for act in ("open", "click", "run", "first token"):
        took = journal.seconds(act)
        row |= {f"{act} n": len(took)}
        row |= {f"{act} {name} s": round(quantile(took, share), 3) for name, share in SHARES.items() if took}
    idle_mb = cost.samples[0][1]
    row |= {"idle MB": round(idle_mb), "peak MB": round(idle_mb + cost.added_mb)}
    row |= {"CPU s": round(cost.cpu_s, 1), "cores": round(cost.cpu_s / wall_s, 2)}
    row |= {"cores of the visitors": round(own_s / wall_s, 2)}  # near 1 it is they who are slow
    row |= {"refused": len(journal.refused), "errors": len(journal.errors) + len(failed)}
    row |= {"sentences": sorted({*journal.refused})[:5], "problems": sorted({*journal.errors, *failed})[:5]}
    return row | {
        "machine late p95 s": round(quantile(lag.waits, 0.95), 4),
        "machine late worst s": max(lag.waits),
    }


async def fill_caches(address: str) -> None:
    """As many tokens of full passes and as many results as the server keeps: what grows later is a leak."""
    visitor = await RawVisitor(address).open(f"?view=lab&with={MODEL}")
    for number in range(4):
        await visitor.run(MODEL, f"{number} {LONG_PROMPT}")
    for number in range(48):
        await visitor.run(MODEL, f"{number} short")
    visitor.close()


async def soak_crowd(crowd: Crowd, address: str, seconds: float) -> None:
    await fill_caches(address)
    await crowd.stay(seconds)


def soak(seconds: float, visitors: int = SOAKING) -> dict:
    """Visitors who come and go: memory over time, and what was slow or wrong after the settling."""
    with own_server() as server, MachineLag() as lag, Watch(server.process.pid, every_s=1) as cost:
        crowd = Crowd(server.address, visitors, SHORT_STAYS_S)
        asyncio.run(soak_crowd(crowd, server.address, seconds))
        failed = FAILED.findall(server.log)
    began = crowd.journal.begin - cost.start
    memory = [(round(at - began, 1), round(mb, 1)) for at, mb in cost.samples]
    last = memory[-1][0]
    quarter = (last - SETTLE_S) / 4
    settled = [mb for at, mb in memory if SETTLE_S <= at < SETTLE_S + quarter]
    end = [mb for at, mb in memory if at >= last - quarter]
    journal = crowd.journal
    return {
        "seconds": seconds,
        "visitors": visitors,
        "visits": len(journal.acts["open"]),
        "growth": round(median(end) / median(settled) - 1, 4),
        "settled MB": median(settled),
        "end MB": median(end),
        "clicks": len(journal.seconds("click", SETTLE_S)),
        "worst click s": round(max(journal.seconds("click", SETTLE_S)), 3),
        "machine late worst s": max(lag.waits),
        "runs": len(journal.seconds("run")) + len(journal.seconds("first token")),
        "refused": journal.refused,
        "problems": [*journal.errors, *failed],
        "memory": memory,
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--visitors", type=int, nargs="*", default=VISITORS)
    asked.add_argument("--seconds", type=float, default=60, help="from the last arrival on")
    asked.add_argument("--soak", type=float, metavar="MINUTES", help="20 show what an hour will")
    asked.add_argument("--write-docs", action="store_true", help="docs/load.md from the results")
    options = asked.parse_args()
    if options.soak:
        found = soak(options.soak * 60)
        (RESULTS / "soak.json").write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found | {"memory": found["memory"][:: len(found["memory"]) // 20 + 1]}, indent=1))
    elif options.visitors:
        rows: list[dict] = []
        for visitors in options.visitors:
            rows.append(measure(visitors, options.seconds))
            print_rows(rows[-1:])
            write(RESULTS / "load.json", rows)
    if options.write_docs:
        load_report.write_docs()


if __name__ == "__main__":
    main()
