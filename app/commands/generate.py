"""Continue a prompt, token by token."""

import json
import sys

from k3scope.model.presets import PRESETS


def arguments(parser) -> None:
    parser.add_argument("model", nargs="?", default="k3-tiny", help="preset or checkpoint folder")
    parser.add_argument("--prompt", required=True, help="text, read by the model's tokenizer")
    parser.add_argument("--tokens", type=int, default=64, help="how many new tokens at most")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest (default)")
    parser.add_argument(
        "--top-p", type=float, default=1.0, help="keep the likeliest tokens up to this sum (default: all)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draws; the same gives the same text")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.epilog = (
        "Where logits are not finite nothing is printed: the first hook point with NaN or infinity is named "
        "and the exit status is 1."
    )


def run(options) -> None:
    from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
    from k3scope.model.loading import load
    from k3scope.model.runs.generate import Sampling, generate

    if options.tokens < 1:
        raise ValueError(f"--tokens {options.tokens}: expected at least 1")
    sampling = Sampling(options.temperature, options.top_p, options.seed)
    model = load(options.model)
    tokenizer = tokenizer_of(options.model, model.config.vocab)
    if options.model in PRESETS:
        print(f"{options.model} has random weights: what follows is noise.", file=sys.stderr)
    prompt = tokenizer.encode(options.prompt) or [model.config.bos]
    new = list(generate(model, prompt, options.tokens, sampling, stop=model.config.stops))
    text = tokenizer.decode(new)
    print(json.dumps({"prompt_ids": prompt, "ids": new, "text": text}) if options.format == "json" else text)
