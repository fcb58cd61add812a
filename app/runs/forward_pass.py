"""One pass of a prompt: what every view shows of it, and the pass itself for those who ask for more."""

import hashlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from k3scope.app.runs import continuation as continuations
from k3scope.app.runs.continuation import NO_RESULT, Callbacks, Continuation, ContinuationResult, step_error
from k3scope.app.runs.price import PLAIN, Slice
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_spec import RunSpec
from k3scope.model import KimiK3
from k3scope.model.interventions.edits import edits, source_points
from k3scope.model.interventions.intervention import Intervention, loads
from k3scope.model.kernels.ops import path_in_use
from k3scope.model.measure.image_readings import image_readings
from k3scope.model.measure.observe import observe, points_for
from k3scope.model.measure.readings import Readings, readings
from k3scope.model.runs.run import Run
from k3scope.model.tokenizers.tokenizer import Tokenizer
from k3scope.model.tracing import Trace, trace
from k3scope.model.vision.preprocess import ImageSource, prepare

FORMER_DIGITS = 12  # of the hash of the tensors alone, in older links and runs


@dataclass(frozen=True)
class LoadedModel:
    """A model that runs, its tokenizer, which of its parts are untrained, and the hashes that it goes by."""

    model: KimiK3
    tokenizer: Tokenizer
    random_weights: bool
    random_tower: bool
    weights: str = ""  # its hash, in links and ids
    former_weights: str = ""  # the hash of its tensors alone, in older ones


@dataclass(frozen=True)
class PassInput:
    """A run as a pass takes it: ids with a placeholder per picture, what follows them, runs to patch from."""

    spec: RunSpec
    ids: list[int]
    pictures: Sequence[ImageSource]
    sources: Mapping[str, Trace]
    continued: ContinuationResult = NO_RESULT

    @property
    def all_ids(self) -> Tensor:
        """[T] int64: the prompt and all tokens after it."""
        return torch.tensor([*self.ids, *self.continued.generated_ids])


def extend(
    loaded: LoadedModel, inputs: PassInput, continuation: Continuation, callbacks: Callbacks
) -> Generator[Slice, None, PassInput]:
    """The same prompt with the tokens that are to follow it; yields after each."""
    if not continuation.length:
        return inputs
    config, interventions = loaded.model.config, loads(inputs.spec.interventions)
    images = prepare(inputs.pictures, config.vision) if inputs.pictures else None
    continued = yield from continuations.extend(
        loaded.model,
        inputs.ids,
        continuation,
        images,
        lambda: edits(config, interventions, inputs.sources),
        callbacks,
    )
    spec = replace(inputs.spec, generated_ids=continued.generated_ids)
    return replace(inputs, spec=spec, continued=continued)


def forward(
    loaded: LoadedModel, inputs: PassInput, on_point: Callable[[str], None], on_measuring: Callable[[], None]
) -> tuple[RunResult, Run]:
    """The result, about 1 MB at most; and the full run with the points that the Lab reads, 65 KB a token.

    `on_point` is called with the path of each hook point that is reached, `on_measuring` when the forward
    pass is over. What either raises ends the pass.
    """
    model, config, token = loaded.model, loaded.model.config, loaded.tokenizer.token
    spec, pictures = inputs.spec, inputs.pictures
    images = prepare(pictures, config.vision) if pictures else None
    changed = edits(config, loads(spec.interventions), inputs.sources)
    start = time.perf_counter()
    observed = observe(model, inputs.all_ids, edits=changed, on_point=on_point, images=images)
    milliseconds = (time.perf_counter() - start) * 1000
    on_measuring()
    measured = readings(observed.trace, points=observed.points)
    tokens = tuple(map(token, observed.trace.ids[0].tolist()))
    likely = zip(measured.next_ids, measured.next_probs, strict=True)
    result = RunResult(
        spec=spec,
        random_weights=loaded.random_weights,
        config=config,
        tokens=tokens,
        next=tuple((token(int(i)), float(p)) for i, p in likely),
        readings=measured,
        milliseconds=milliseconds,
        path=path_in_use(),
        images=image_readings(observed.trace, images, [p.size for p in pictures], config) if images else (),
        random_tower=loaded.random_tower,
        step_error=step_error(observed.trace, inputs.continued),
        former_weights=loaded.former_weights,
    )
    return result, _full_run(loaded, spec, observed.trace, tokens, measured)


def _full_run(loaded: LoadedModel, spec: RunSpec, passed: Trace, tokens, measured: Readings) -> Run:
    needed = set(points_for(loaded.model.config))
    fields = vars(passed) | {"values": {p: v for p, v in passed.values.items() if p in needed}}
    return Run(
        **fields,
        model=loaded.model,
        name=spec.model + (", changed" if spec.interventions else ""),
        random_weights=loaded.random_weights,
        token_texts=[token.text for token in tokens],
        points=measured.points,
    )


def patch_sources(
    loaded: LoadedModel,
    interventions: Sequence[Intervention],
    ids: Callable[[RunSpec], list[int]],
    spec_of: Callable[[str], RunSpec | None],
    on_point: Callable[[str], None],
) -> Generator[Slice, None, dict[str, Trace]]:
    """The runs to patch from, run once more for the points they give; yields after each.

    ValueError for an unknown one. What `on_point` raises at a hook point ends the pass.
    """
    config, sources = loaded.model.config, {}
    for name, points in source_points(config, interventions).items():
        spec = spec_of(name)
        if spec is None:
            raise ValueError(f"the run {name} to patch from is not known here")
        if spec.images:
            raise ValueError(f"the run {name} has images; patching takes runs of text alone")
        if loaded.weights and spec.weights not in (loaded.weights, loaded.former_weights):
            raise ValueError(
                f"the run {name} to patch from was made with another model "
                f"({spec.model} {spec.weights}; here {loaded.weights})"
            )
        own = edits(config, loads(spec.interventions))
        tokens = torch.tensor(ids(spec))
        passed = trace(loaded.model, tokens, points, own, on_point)
        sources[name] = replace(passed, logits=passed.logits.new_empty(0))  # nobody patches from them
        yield Slice(PLAIN, len(tokens))
    return sources


def tensors_hash(model: KimiK3) -> str:
    """64 hex digits that stand for all tensors of a model, and not for its config."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()


def weights_hash(model: KimiK3) -> str:
    """12 hex digits for all tensors of a model: what links and runs carried before `model_hash`."""
    return tensors_hash(model)[:FORMER_DIGITS]
