"""What `k3scope trace` writes: the inner tensors of one forward pass."""

from pathlib import Path

import torch

from k3scope.app.commands import intervention_options
from k3scope.app.commands.tensor_files import read_tensors, write_tensors
from k3scope.model import Checkpoint, KimiK3, load, open_checkpoint
from k3scope.model.checkpoint.layer_by_layer import run_leading
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.config import Config
from k3scope.model.interventions.edits import edits
from k3scope.model.interventions.forced_routing import forced, load_routes
from k3scope.model.measure.statistics import all_statistics, first_bad
from k3scope.model.runs.lab import sources_of
from k3scope.model.tracing import layer_tensors, official_tensors, trace
from k3scope.model.vision.preprocess import prepare, prompt_text, read
from k3scope.model.vision.tower import Images

MASKS = ("real", "attention_mask")  # tensors of an ids file: 1 at tokens, 0 at padding


def write_trace(options) -> str | None:
    """Run the whole model, or the leading layers that a folder has; the first hook point that is not finite.

    ValueError says what cannot work.
    """
    if Path(options.model).is_dir():
        checkpoint = open_checkpoint(options.model)
        if checkpoint.missing or options.hidden:
            return _run_leading(options, checkpoint)
    elif options.hidden:
        raise ValueError(f"--hidden: {options.model} is no checkpoint folder")
    model = load(options.model, _dtype(options), _device(options.device))
    ids, real = _ids(options, model.config), _mask(options)
    ids, real = (None if t is None else t.to(options.device) for t in (ids, real))
    images = _images(options, model.config)
    run = trace(model, ids, edits=_edits(options, model), images=images, real=real)
    tensors = official_tensors(run, model.config)
    write_tensors(tensors, options.out)
    shape = tuple(tensors["token_ids"].shape)
    print(f"{options.out}: {len(tensors)} tensors of a forward over {shape} ids")
    return first_bad(all_statistics(run))


def _edits(options, model: KimiK3) -> dict:
    """Routes from a file, and interventions. ValueError when both choose the same experts."""
    interventions = intervention_options.interventions(options)
    tokenizer = tokenizer_of(options.model, model.config.vocab) if options.source else None
    sources = sources_of(model, tokenizer, interventions, intervention_options.sources(options))
    intervened = edits(model.config, interventions, sources)
    routed = forced(model, load_routes(options.routes)) if options.routes else {}
    if both := routed.keys() & intervened.keys():
        raise ValueError(f"--routes and --intervention both choose the experts of {min(both)}")
    return routed | intervened


def _run_leading(options, checkpoint: Checkpoint) -> str | None:
    """Run the layers that are complete, from ids or from hidden states, and say what is missing."""
    if options.routes:
        raise ValueError("--routes needs the whole model; this run ends at the last complete layer")
    if options.interventions:
        raise ValueError("--intervention needs the whole model; this run ends at the last complete layer")
    if options.ids_file and _mask(options) is not None:
        raise ValueError("a mask needs the whole model; this run ends at the last complete layer")
    if options.image:
        raise ValueError("--image needs the whole model; this run ends at the last complete layer")
    inputs = _hidden(Path(options.hidden)) if options.hidden else _ids(options, checkpoint.config)
    run = run_leading(checkpoint, inputs, None, _dtype(options), _device(options.device))
    layers = checkpoint.complete_layers
    tensors = {} if options.hidden else {"token_ids": run.ids}
    for layer in range(layers):
        tensors |= layer_tensors(run, layer, checkpoint.config)
    write_tensors({name: tensor.contiguous() for name, tensor in tensors.items()}, options.out)
    if checkpoint.missing:
        print(checkpoint.problem())
    print(f"{options.out}: {len(tensors)} tensors of layers 0 to {layers - 1}")
    return first_bad(all_statistics(run))


def _ids(options, config: Config) -> torch.Tensor:
    if options.ids_file:
        return _ids_of_file(Path(options.ids_file))
    if options.ids is not None:
        try:
            return torch.tensor([[int(part) for part in options.ids.split(",")]])
        except ValueError:
            raise ValueError(f"--ids {options.ids!r}: expected whole numbers such as 1,2,3") from None
    tokenizer = tokenizer_of(options.model, config.vocab)
    pictures = tokenizer.encode(prompt_text([read(file) for file in options.image]), specials=True)
    return torch.tensor([pictures + tokenizer.encode(options.prompt) or [config.bos]])


def _images(options, config: Config) -> Images | None:
    if not options.image:
        return None
    if config.vision is None:
        raise ValueError(f"--image: {options.model} has no vision tower")
    return prepare(options.image, config.vision)


def _hidden(path: Path) -> torch.Tensor:
    floats = [t for t in read_tensors(path).values() if t.is_floating_point()]
    if len(floats) != 1:
        raise ValueError(f"{path}: has {len(floats)} tensors of hidden states; expected exactly one")
    return floats[0]


def _ids_of_file(path: Path) -> torch.Tensor:
    tensors = read_tensors(path)
    integers = [t for name, t in tensors.items() if not t.is_floating_point() and name not in MASKS]
    if len(integers) != 1:
        raise ValueError(
            f"{path}: has {len(integers)} integer tensors besides {' and '.join(MASKS)}; "
            "expected exactly one, [T] or [B, T]"
        )
    return integers[0]


def _mask(options) -> torch.Tensor | None:
    """Which ids of a file are no padding, where the file says so."""
    if not options.ids_file:
        return None
    masks = [t for name, t in read_tensors(Path(options.ids_file)).items() if name in MASKS]
    if len(masks) > 1:
        raise ValueError(f"{options.ids_file}: has both {' and '.join(MASKS)}; expected one of them")
    return masks[0] if masks else None


def _device(name: str) -> str:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):
        raise ValueError(f"there is no device {name!r} on this machine") from None
    return name


def _dtype(options) -> torch.dtype:
    return getattr(torch, options.dtype)
