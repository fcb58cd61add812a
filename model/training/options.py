"""The options of `python -m k3scope.model.training`, checked before anything is written."""

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from k3scope.assets import MODELS
from k3scope.model.checkpoint.checkpoint import open_checkpoint
from k3scope.model.checkpoint.model_registry import folder_of
from k3scope.model.config import Config
from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.training.recipes import RECIPES

OPTIONS_LOG = "options.jsonl"  # in OUT: a line for every start


def read(about: str) -> argparse.Namespace:
    """The options of the command line; one that cannot be ends the program with a sentence."""
    parser = _parser(about)
    options = parser.parse_args()
    try:
        _check(options)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return options


def keep(options: argparse.Namespace) -> None:
    """Note in OUT how it was started."""
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / OPTIONS_LOG).open("a") as log:
        log.write(json.dumps(vars(options), default=str) + "\n")


def has_state(out: Path) -> bool:
    """Whether a folder holds a run to go on with."""
    return (out / "state.pt").exists()


def _number(kind: type, fits: Callable[[float], bool], expected: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not fits(value):
            raise argparse.ArgumentTypeError(f"expected {expected}, not {text}")
        return value

    return parse


_COUNT = _number(int, lambda x: x >= 1, "a whole number of at least 1")
_STEPS = _number(int, lambda x: x >= 0, "a whole number of at least 0")
_SEED = _number(int, lambda x: 0 <= x < 2**63, "a whole number from 0 to 2^63 - 1")
_MINUTES = _number(float, lambda x: x > 0, "a number above 0")
_RATE = _number(float, lambda x: 0 < x < math.inf, "a number above 0")
_SHARE = _number(float, lambda x: 0 <= x <= 1, "a share from 0 to 1")


def _parser(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="k3scope.model.training",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_folders(parser)
    _add_course(parser)
    return parser


def _add_folders(parser: argparse.ArgumentParser) -> None:
    def folder(name: str, text: str, **options_of_argument) -> None:
        parser.add_argument(name, type=Path, metavar="FOLDER", help=text, **options_of_argument)

    folder("--corpus", "what k3scope.model.training.corpus has built (required)", required=True)
    folder("--out", "for state, log and weights; a run in it goes on (required)", required=True)
    folder("--from", "checkpoint to start from (default: new random weights)", dest="start")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="FILE", default=MODELS / "k3-tiny" / "tokenizer.json",
        help="tokenizer.json (default: that of k3-tiny)",
    )  # fmt: skip


def _add_course(parser: argparse.ArgumentParser) -> None:
    def option(name: str, kind: Callable, default: object, text: str) -> None:
        meta = name.strip("-").upper()
        help_text = f"{text} (default: %(default)s)"
        parser.add_argument(name, type=kind, default=default, metavar=meta, help=help_text)

    option("--model", _model_name, "k3-tiny", f"what to train: {', '.join(RECIPES)}")
    phases = "; ".join(f"{name} has {', '.join(recipe.phases)}" for name, recipe in RECIPES.items())
    option("--phase", str, "main", f"which mix of texts; {phases}")
    option("--steps", _COUNT, 1_000_000, "the run ends at this step")
    option("--minutes", _MINUTES, math.inf, "or after this time, whichever comes first")
    option("--rate", _RATE, 3e-3, "highest learning rate")
    option("--warmup", _STEPS, 100, "steps over which the rate rises; 0: none")
    option("--decay", _SHARE, 0.4, "last share of the run, over which the rate falls to 0; 0: none")
    option("--workers", _COUNT, 2, "processes that share the work")
    option("--seed", _SEED, 0, "of new weights and of the order of the texts")


def _model_name(name: str) -> str:
    if name not in RECIPES:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(RECIPES)}, not {name}")
    return name


def _check(options: argparse.Namespace) -> None:
    """ValueError names what cannot be; --from is filled in when a run goes on."""
    recipe, last = RECIPES[options.model], _last(options.out)
    if options.phase not in recipe.phases:
        expected = ", ".join(recipe.phases)
        raise ValueError(f"--phase {options.phase}: expected one of {expected} for {options.model}")
    if last and (begun := last.get("model", "k3-tiny")) != options.model:
        raise ValueError(f"{options.out} holds a run of {begun}, not of {options.model}; give another --out")
    _check_corpus(options.corpus, recipe.domains)
    _check_tokenizer(options.tokenizer, recipe.config)
    if has_state(options.out):
        options.start = _same_start(options, last.get("start"))
    elif options.start:
        _check_start(options.start, options.model)


def _last(out: Path) -> dict:
    """How the run in a folder was last started; empty when there is none."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out}: expected a folder, not a file")
    log = out / OPTIONS_LOG
    return json.loads(log.read_text().splitlines()[-1]) if log.exists() else {}


def _check_corpus(corpus: Path, domains: set[str]) -> None:
    parts = ("train", "held")
    lacking = [d for d in domains if not all((corpus / "text" / f"{d}.{p}.txt").exists() for p in parts)]
    if lacking:
        raise ValueError(
            f"{corpus} lacks the text of {', '.join(sorted(lacking))}; "
            f"build it with: python -m k3scope.model.training.corpus --out {corpus}"
        )


def _check_tokenizer(file: Path, config: Config) -> None:
    if not file.is_file():
        raise ValueError(f"--tokenizer {file}: no such file")
    if (vocab := BpeTokenizer.load(file).vocab) > config.vocab:
        raise ValueError(f"--tokenizer {file} has {vocab:,} ids; the model knows {config.vocab:,}")


def _same_start(options: argparse.Namespace, recorded: str | None) -> Path | None:
    """Where the run in OUT began; a --from that is passed must be the same."""
    begun = Path(recorded) if recorded else None
    if options.start and (not begun or options.start.resolve() != begun.resolve()):
        raise ValueError(
            f"{options.out} holds a run that began from {begun or 'new weights'}, not from {options.start}; "
            "give another --out, or leave out --from to go on with it"
        )
    return begun


def _check_start(start: Path, name: str) -> None:
    folder, config = folder_of(str(start)), RECIPES[name].config
    if not folder.is_dir():
        raise ValueError(f"--from {start}: no such folder; expected a checkpoint")
    checkpoint = open_checkpoint(folder)
    if checkpoint.missing:
        raise ValueError(checkpoint.problem())
    pairs = [(f.name, getattr(checkpoint.config, f.name), getattr(config, f.name)) for f in fields(config)]
    if other := [f"{field} {has}, not {wants}" for field, has, wants in pairs if has != wants]:
        more = f"; {len(other) - 3} more differ" if len(other) > 3 else ""
        raise ValueError(f"--from {start} has other sizes than {name}: {'; '.join(other[:3])}{more}")
