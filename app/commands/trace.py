"""Run ids or a prompt through a model and write every inner tensor to a safetensors file."""

from k3scope.app.commands import intervention_options

DTYPES = ("float32", "float64", "bfloat16")


def arguments(parser) -> None:
    parser.add_argument("model", nargs="?", default="k3-tiny", help="preset or checkpoint folder")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--prompt", help="text, read by the model's tokenizer")
    given.add_argument("--ids", help="token ids: 1,2,3")
    given.add_argument(
        "--ids-file",
        help="safetensors file with one integer tensor [T] or [B, T]; where there is padding, another one of "
        "that shape, real or attention_mask, has 1 at tokens",
    )
    given.add_argument(
        "--hidden",
        help="safetensors file with hidden states [T, d] or [B, T, d], for a folder without embedding",
    )
    parser.add_argument(
        "--image", action="append", default=[], metavar="FILE", help="picture before the prompt; repeatable"
    )
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")
    parser.add_argument("--routes", help="trace whose choice of experts is forced on this run")
    intervention_options.arguments(parser)
    parser.add_argument("--out", required=True, help="file to write")
    parser.epilog = (
        "Where a tensor has NaN or infinity the first hook point that has is named and the exit status is 1; "
        "the file is written all the same."
    )


def run(options) -> int:
    from k3scope.app.commands.not_finite import report
    from k3scope.app.commands.trace_file import write_trace

    return report(write_trace(options))
