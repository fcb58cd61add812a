"""Train one of the small models: python -m model.train --corpus FOLDER --out FOLDER

The corpus comes from `python -m model.training.corpus`. A run that was interrupted goes on from OUT; a new
run starts from the weights of --from with fresh moments and a warm-up, or from nothing.
"""

import argparse
import json
import math
import shutil
import signal
import tempfile
from pathlib import Path

import torch
from torch import multiprocessing

from assets import ROOT
from model import load, save_pretrained
from model.bits import token_bytes
from model.bpe import BpeTokenizer
from model.init import random_model
from model.kda import KimiDeltaAttention
from model.kimi_k3 import KimiK3
from model.training.data import Mix, held_out, streams
from model.training.evaluation import Evaluation
from model.training.optimizer import Schedule
from model.training.recipes import RECIPES, Recipe
from model.training.trainer import Settings, Trainer
from model.training.workers import Workers


def fresh(recipe: Recipe, seed: int) -> KimiK3:
    """The model before training: half-lives of the memory spread evenly over their logarithm."""
    model = random_model(recipe.config, seed)
    generator = torch.Generator().manual_seed(seed)
    low, high = (math.log(x) for x in recipe.half_lives)
    for module in model.modules():
        if isinstance(module, KimiDeltaAttention):
            lives = torch.empty_like(module.dt_bias).uniform_(low, high, generator=generator).exp()
            share = math.log(2) / lives / -module.c.decay_floor  # of the strongest decay
            module.dt_bias.copy_(torch.log(share / (1 - share)))
            module.A_log.zero_()  # as the report trains it
    return model


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "options.jsonl").open("a").write(json.dumps(vars(options), default=str) + "\n")
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
    tokenizer = BpeTokenizer.load(options.tokenizer)
    recipe = RECIPES[options.model]
    phase = recipe.phases[options.phase]
    found = streams(options.corpus, tokenizer, "train", phase.shares)
    settings = Settings(
        phase.rows, phase.length, options.steps, options.minutes,
        Schedule(options.rate, options.warmup, options.decay), recipe.gate_rate,
    )  # fmt: skip
    model = load(str(options.start), torch.float32) if options.start else fresh(recipe, options.seed)
    trainer = Trainer(model, Mix(found, phase.shares, options.seed), settings, options.out, workers)
    trainer.restore()
    if workers.first:
        windows = held_out(streams(options.corpus, tokenizer, "held", recipe.domains), 4, 256)
        trainer.evaluation = Evaluation(windows, token_bytes(tokenizer))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(trainer, "stop", True))
    trainer.run()
    if workers.first:
        _export(trainer.model, options.out / "weights", options.tokenizer)
    workers.leave()


def _export(model: KimiK3, folder: Path, tokenizer: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    save_pretrained(model.eval().requires_grad_(False), folder, torch.bfloat16)
    shutil.copy(tokenizer, folder / "tokenizer.json")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="model.train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="state, log and weights")
    parser.add_argument("--from", dest="start", type=Path, help="checkpoint folder to start from")
    parser.add_argument("--tokenizer", type=Path, default=ROOT / "k3-tiny" / "tokenizer.json")
    parser.add_argument("--model", choices=list(RECIPES), default="k3-tiny")
    parser.add_argument("--phase", default="main", help="begin, main; k3-tiny also has anneal")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--decay", type=float, default=0.4, help="last share of the run; 0: none")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    recipe = RECIPES[options.model]
    if options.phase not in recipe.phases:
        expected = ", ".join(recipe.phases)
        parser.error(f"--phase {options.phase}: expected one of {expected} for {options.model}")
    if (begun := _model_in(options.out)) not in (None, options.model):
        parser.error(f"{options.out} holds a run of {begun}, not of {options.model}; give another --out")
    lacking = [d for d in recipe.domains if not (options.corpus / "text" / f"{d}.train.txt").exists()]
    if lacking:
        parser.error(
            f"{options.corpus} lacks the text of {', '.join(sorted(lacking))}; "
            "build it with: python -m model.training.corpus --out ..."
        )
    return options


def _model_in(out: Path) -> str | None:
    """The model of the run that a folder holds; None when there is none."""
    options = out / "options.jsonl"
    if not options.exists():
        return None
    return json.loads(options.read_text().splitlines()[-1]).get("model", "k3-tiny")


if __name__ == "__main__":
    main()
