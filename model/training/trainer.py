"""One process of the training: steps, balancing, the log, and a state to go on from."""

import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from k3scope.model.hooks import record, watch
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.training.balance import histogram, histogram_bias
from k3scope.model.training.evaluation import Evaluation
from k3scope.model.training.optimizer import Schedule, optimizer, set_rate
from k3scope.model.training.token_streams import DataMix
from k3scope.model.training.workers import Workers

BALANCE = 0.5  # how far one step moves the bias towards the quantiles of its batch
LOAD = 0.05  # weight of one step in the running load of the experts
_GATE = "block_sparse_moe.gate."


@dataclass(frozen=True)
class Settings:
    """How long and how fast to train. The run ends by steps or by minutes, whichever comes first."""

    rows: int = 4  # per worker and step
    length: int = 256  # tokens of a row
    steps: int = 1_000_000
    minutes: float = math.inf
    schedule: Schedule = field(default_factory=Schedule)
    gate_rate: float = 0.3  # of the decay gates, as a share of the learning rate
    log_every: int = 50  # steps
    evaluate_every: int = 200  # steps
    save_every: float = 180.0  # seconds


class Trainer:
    """Owns model and optimizer; `run` goes on until the end or until `stop` is set."""

    def __init__(
        self, model: KimiK3, mix: DataMix, settings: Settings, out: Path, workers: Workers | None = None
    ):
        self.model = watch(model.train().requires_grad_(True))
        self.adam = optimizer(model, settings.gate_rate)
        self.mix, self.settings, self.out = mix, settings, out
        self.workers = workers or Workers()
        self.evaluation: Evaluation | None = None
        self.stop = False
        self.gates = {p.removesuffix("gate.scores"): m for p, m in _gates(model)}
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.load = {path: torch.ones(gate.c.experts) / gate.c.experts for path, gate in self.gates.items()}
        self.loss = None

    def run(self) -> None:
        """Train to the end of the settings; saves on the way and at the end."""
        saved = before = time.monotonic()
        self.reported = self.tokens, self.seconds
        ended = self._finished()
        while not ended:
            self.train_step()
            now = time.monotonic()
            self.seconds += now - before
            before = now
            ended = self._finished()
            if self.workers.first:
                self._report(always=ended)
                if ended or now - saved > self.settings.save_every:
                    self.save()
                    saved = now

    @property
    def progress(self) -> float:
        s = self.settings
        return min(1.0, max(self.step / s.steps, self.seconds / 60 / s.minutes))

    def train_step(self) -> None:
        """One batch of every worker, one update."""
        s = self.settings
        self.rate = s.schedule.at(self.step, self.workers.agree(self.progress))
        set_rate(self.adam, self.rate)
        ids = self.mix.batch(self.step, self.workers.rank, s.rows, s.length)
        points = [path + "gate." + point for path in self.gates for point in ("scores", "topk_idx")]
        with record(points) as values:
            logits = self.model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        trained = [p for p in self.model.parameters() if p.grad is not None]
        self.workers.average([p.grad for p in trained])
        self.norm = torch.nn.utils.clip_grad_norm_(trained, 1.0).item()
        self.adam.step()
        self.adam.zero_grad()
        self._balance(values)
        self.step += 1
        self.tokens += ids[:, 1:].numel() * self.workers.count
        self.loss = loss.item() if self.loss is None else 0.97 * self.loss + 0.03 * loss.item()

    @torch.no_grad()
    def _balance(self, values: dict[str, Tensor]) -> None:
        """Move every router's bias towards the quantiles of this step's scores, over all workers."""
        counts = {}
        for path, gate in self.gates.items():
            scores, bias = values[path + "gate.scores"].flatten(0, 1), gate.e_score_correction_bias
            margins = histogram(scores, bias, gate.c.top_k)
            chosen = torch.bincount(values[path + "gate.topk_idx"].flatten(), minlength=gate.c.experts)
            counts[path] = torch.cat([margins, chosen[:, None]], 1)
        self.workers.add(list(counts.values()))
        for path, gate in self.gates.items():
            bias, chosen = gate.e_score_correction_bias, counts[path][:, -1].float()
            bias.lerp_(histogram_bias(counts[path][:, :-1], bias, gate.c.top_k), BALANCE)
            self.load[path].lerp_(chosen / chosen.sum(), LOAD)

    def _finished(self) -> bool:
        return self.workers.agree(float(self.stop or self.progress >= 1)) > 0

    def _report(self, always: bool = False) -> None:
        s = self.settings
        if always or self.step % s.log_every == 0:
            shares = torch.stack(list(self.load.values())) * next(iter(self.gates.values())).c.experts
            line = {
                "step": self.step, "tokens": self.tokens, "seconds": round(self.seconds, 1),
                "rate": round(self.rate, 7), "loss": round(self.loss, 4), "gradient": round(self.norm, 3),
                "fullest_expert": round(shares.max().item(), 2),
                "emptiest_expert": round(shares.min().item(), 2),
            }  # fmt: skip
            if self.evaluation and (always or self.step % s.evaluate_every == 0):
                line |= self.evaluation.measure(self.model)
            with (self.out / "log.jsonl").open("a") as log:
                log.write(json.dumps(line) + "\n")
            self._print(line)

    def _print(self, line: dict) -> None:
        """A line of the log for the terminal, with the speed since the last one."""
        tokens, seconds = self.reported
        self.reported = self.tokens, self.seconds
        speed = (self.tokens - tokens) / max(self.seconds - seconds, 1e-9)
        print(
            f"step {self.step:,}  {self.tokens:,} tokens  {speed:,.0f} tokens/s  "
            f"loss {line['loss']:.3f}  rate {line['rate']:.2g}",
            flush=True,
        )
        if bits := line.get("bits_per_byte"):
            shown = ", ".join(f"{domain} {value:.2f}" for domain, value in bits.items())
            print(f"  bits per byte: {shown}", flush=True)

    def save(self) -> None:
        """Everything that going on needs, replaced at once."""
        state = {
            "model": self.model.state_dict(), "adam": self.adam.state_dict(), "step": self.step,
            "tokens": self.tokens, "seconds": self.seconds, "load": self.load, "loss": self.loss,
        }  # fmt: skip
        torch.save(state, self.out / "state.new")
        (self.out / "state.new").replace(self.out / "state.pt")

    def restore(self) -> bool:
        """Go on from the last save; False when there is none."""
        if not (self.out / "state.pt").exists():
            return False
        state = torch.load(self.out / "state.pt")
        self.model.load_state_dict(state["model"])
        self.adam.load_state_dict(state["adam"])
        for name in ("step", "tokens", "seconds", "load", "loss"):
            setattr(self, name, state[name])
        return True


def _gates(model: KimiK3):
    return [(f"{p}.scores", m) for p, m in model.named_modules() if p.endswith(_GATE.rstrip("."))]
