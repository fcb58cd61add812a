"""A server of a test's own as a process of its own, and what its tree of processes costs."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from k3scope.app.page.process_cost import cpu_seconds, memory_bytes, process_tree

ROOT = Path(__file__).parents[2]
START_S = 60
SAMPLE_S = 0.1  # between two looks at the memory
MB = 2**20


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Server:
    """A server of our own, to be stopped and started again on the same port and store."""

    folder: Path
    options: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    metrics_port: int = field(default_factory=free_port)
    at: str = ""  # path that the page is under
    process: subprocess.Popen | None = None

    @property
    def address(self) -> str:
        return f"http://localhost:{self.port}/{self.at}"

    @property
    def details(self) -> dict:
        """What /details tells an operator."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/details", timeout=20) as answer:
            return json.load(answer)

    @property
    def metrics(self) -> dict[str, float]:
        """What /metrics tells: value by name with labels."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return {name: float(value) for name, _, value in pairs}

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    def start(self) -> None:
        store = str(self.folder / "runs.sqlite")
        command = [sys.executable, "-m", "k3scope", "serve", "--no-open", "--port", str(self.port)]
        command += ["--store", store, "--metrics", str(self.metrics_port), *self.options]
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        wait_for(self)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


def wait_for(server: Server) -> None:
    """Until the server answers. RuntimeError with its output when it does not."""
    for _ in range(START_S * 10):
        if server.process.poll() is not None:
            break
        try:
            urlopen(server.address, timeout=20).close()
            return
        except (URLError, ConnectionError):
            time.sleep(0.1)
    raise RuntimeError(f"the server did not start:\n{server.log[-4000:]}")


@contextmanager
def served(folder: Path, *options: str, at: str = "") -> Iterator[Server]:
    """A server with `options`, which keeps its runs and its log in `folder`."""
    server = Server(folder, options, at=at)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Watch:
    """Memory and CPU of a tree of processes while a block runs: `with Watch(pid) as cost: ...`"""

    def __init__(self, root: int, every_s: float = SAMPLE_S):
        self._root, self._every_s = root, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.start = 0.0  # time.perf_counter
        self.samples: list[tuple[float, float]] = []  # seconds since the start, MB
        self.cpu_s = 0.0  # once the block has ended

    def __enter__(self) -> "Watch":
        self.start, self._cpu_s = time.perf_counter(), cpu_seconds(self._root)
        self._look(process_tree(self._root))
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join()
        self._look(process_tree(self._root))
        self.cpu_s = cpu_seconds(self._root) - self._cpu_s

    @property
    def added_mb(self) -> float:
        """How far the peak lies over what there was at the start."""
        return max(mb for _, mb in self.samples) - self.samples[0][1]

    def _sample(self) -> None:
        """The tree is looked up once a second: that costs as much as its memory."""
        processes, looked_up = process_tree(self._root), time.perf_counter()
        while not self._ended.wait(self._every_s):
            if time.perf_counter() - looked_up > 1:
                processes, looked_up = process_tree(self._root), time.perf_counter()
            self._look(processes)

    def _look(self, processes: list[int]) -> None:
        self.samples.append((time.perf_counter() - self.start, memory_bytes(processes) / MB))
