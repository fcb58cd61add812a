"""Bits per byte of a text, and what each token of it costs."""

import json
from pathlib import Path


def arguments(parser) -> None:
    parser.add_argument("model", nargs="?", default="k3-tiny", help="preset or checkpoint folder")
    parser.add_argument("--text-file", required=True, help="UTF-8 text")
    parser.add_argument(
        "--window", type=int, help="start again with an empty cache after so many tokens (default: never)"
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.epilog = (
        "Where a loss is not finite there is no score: the first hook point with NaN or infinity is named "
        "and the exit status is 1."
    )


def run(options) -> None:
    from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
    from k3scope.model.loading import load
    from k3scope.model.runs.bits_per_byte import bits_per_byte, refuse_bad, text_losses, token_bytes

    if options.window is not None and options.window < 1:
        raise ValueError(f"--window {options.window}: expected at least 1")
    text = _read(Path(options.text_file))
    model = load(options.model)
    tokenizer = tokenizer_of(options.model, model.config.vocab)
    ids = tokenizer.encode(text)
    losses = text_losses(model, ids, options.window)
    refuse_bad(model, ids, losses, options.window)
    score = {
        "model": options.model,
        "bytes": len(text.encode()),
        "tokens": len(ids),
        "bits_per_byte": bits_per_byte(losses, losses.new_tensor(ids).long(), token_bytes(tokenizer)),
        "losses": [round(x, 4) for x in losses.tolist()],  # nats of each token, in order
    }
    if options.format == "json":
        print(json.dumps(score))
    else:
        print("{bits_per_byte:.4f} bits per byte, {tokens:,} tokens, {bytes:,} bytes".format(**score))


def _read(path: Path) -> str:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error})") from None
    if not text:
        raise ValueError(f"{path}: is empty; expected text to score")
    return text
