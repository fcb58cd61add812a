"""Train one of the small models: python -m k3scope.model.training --corpus FOLDER --out FOLDER

The corpus comes from `python -m k3scope.model.training.corpus`. A run that was interrupted goes on from
OUT; a new run starts from the weights of --from with fresh moments and a warm-up, or from nothing.
"""

import argparse
import math
import shutil
import signal
import tempfile
from pathlib import Path

import torch
from torch import multiprocessing

from k3scope.model.checkpoint.save import save_pretrained
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.loading import load
from k3scope.model.runs.bits_per_byte import token_bytes
from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.training.evaluation import Evaluation
from k3scope.model.training.initial_model import initial_model
from k3scope.model.training.optimizer import Schedule
from k3scope.model.training.options import has_state, keep, read
from k3scope.model.training.recipes import RECIPES
from k3scope.model.training.token_streams import DataMix, held_out, streams
from k3scope.model.training.trainer import Settings, Trainer
from k3scope.model.training.workers import Workers


def main() -> None:
    options = read(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        context = multiprocessing.get_context("spawn")
        arguments = (options, f"{scratch}/meeting")
        others = [context.Process(target=_work, args=(r, *arguments)) for r in range(1, options.workers)]
        for process in others:
            process.start()
        _work(0, *arguments)
        for process in others:
            process.join()


def _work(rank: int, options: argparse.Namespace, meeting: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    workers = Workers(rank, options.workers)
    workers.join(meeting)
    if workers.first:
        print(
            f"reading {options.corpus} (the first time its text is encoded, which takes longer)", flush=True
        )
    trainer = _trainer(options, workers)
    ended = trainer.progress >= 1
    if workers.first:
        print(_at_end(trainer.step, options.out) if ended else _plan(trainer, options), flush=True)
    if not ended:
        _run(trainer, options)
    weights = options.out / "weights"
    if workers.first and not (ended and weights.exists()):
        _export(trainer.model, weights, options.tokenizer)
        how = "stopped; the same command goes on" if trainer.stop else "done"
        print(f"{how}: step {trainer.step:,}, weights in {weights}", flush=True)
    workers.leave()


def _trainer(options: argparse.Namespace, workers: Workers) -> Trainer:
    """The model with its data, as far as the run in OUT has come."""
    tokenizer = BpeTokenizer.load(options.tokenizer)
    recipe = RECIPES[options.model]
    phase = recipe.phases[options.phase]
    training_streams = workers.in_turn(lambda: streams(options.corpus, tokenizer, "train", phase.shares))
    settings = Settings(
        phase.rows, phase.length, options.steps, options.minutes,
        Schedule(options.rate, max(1, options.warmup), options.decay),  # over one step is none
        recipe.gate_rate,
    )  # fmt: skip
    anew = has_state(options.out) or not options.start
    model = initial_model(recipe, options.seed) if anew else load(str(options.start), torch.float32)
    trainer = Trainer(
        model, DataMix(training_streams, phase.shares, options.seed), settings, options.out, workers
    )
    trainer.restore()
    if workers.first:
        windows = held_out(streams(options.corpus, tokenizer, "held", recipe.domains), 4, 256)
        trainer.evaluation = Evaluation(windows, token_bytes(tokenizer))
    return trainer


def _run(trainer: Trainer, options: argparse.Namespace) -> None:
    if trainer.workers.first:
        keep(options)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(trainer, "stop", True))
    trainer.run()


def _plan(trainer: Trainer, options: argparse.Namespace) -> str:
    out, settings = options.out, trainer.settings
    count = sum(p.numel() for p in trainer.model.parameters())
    begun = f"from {options.start}" if options.start else "from new weights"
    if trainer.step:
        begun += f", going on after step {trainer.step:,}"
    end = f"step {settings.steps:,}"
    if settings.minutes < math.inf:
        end += f" or {settings.minutes:g} minutes"
    return (
        f"training {options.model} ({count:,} parameters), phase {options.phase}, {begun}, to {end}\n"
        f"log: {out / 'log.jsonl'}, a line every {settings.log_every} steps; weights: {out / 'weights'}"
    )


def _at_end(step: int, out: Path) -> str:
    return (
        f"the run in {out} is already at its end (step {step:,}): to go on give more --steps or --minutes, "
        f"or --from {out / 'weights'} with a new --out"
    )


def _export(model: KimiK3, folder: Path, tokenizer: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    save_pretrained(model.eval().requires_grad_(False), folder, torch.bfloat16)
    shutil.copy(tokenizer, folder / "tokenizer.json")
