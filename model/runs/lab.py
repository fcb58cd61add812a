"""Run a prompt and look inside: `run = lab("Hello")`, then `run.logit_lens`, `run.kda.half_life(0)`, ..."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.interventions.edits import edits, source_points
from k3scope.model.interventions.intervention import Intervention
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.loading import load
from k3scope.model.measure.observe import VIEWS, observe
from k3scope.model.presets import PRESETS
from k3scope.model.runs.run import Run, token_texts
from k3scope.model.tokenizers.tokenizer import Tokenizer
from k3scope.model.tracing import Trace, trace


def lab(
    prompt: str | Tensor,
    model: str | KimiK3 = "k3-tiny",
    interventions: Iterable[Intervention] = (),
    sources: Mapping[str, Trace | str] | None = None,
    views: Iterable[str] = VIEWS,
    real: Tensor | None = None,
) -> Run:
    """Run a prompt, text or ids, through a model by name or a loaded one; an empty prompt is its first token.

    A batch of ids [B, T] has False in `real` [B, T] at padding; its views show the first row, `run.row(n)`
    another.
    Only what `views` read is recorded. `interventions` edit the pass; `sources` are runs to patch
    from, by the name that interventions use: traces, or prompts that are run for it.
    """
    by_name = isinstance(model, str)
    loaded = load(model) if by_name else model
    tokenizer = _tokenizer(model, loaded.config.vocab) if by_name else None
    ids = _ids(prompt, tokenizer, loaded)
    interventions = tuple(interventions)
    traced = sources_of(loaded, tokenizer, interventions, sources or {})
    observed = observe(loaded, ids, views, edits(loaded.config, interventions, traced), real=real)
    return Run(
        **vars(observed.trace),
        model=loaded,
        name=(model if by_name else "model") + (", changed" if interventions else ""),
        random_weights=model in PRESETS if by_name else None,
        token_texts=token_texts(tokenizer, observed.trace.ids),
        points=observed.points,
        tokenizer=tokenizer,
    )


def sources_of(
    model: KimiK3,
    tokenizer: Tokenizer | None,
    interventions: Iterable[Intervention],
    sources: Mapping[str, Trace | str],
) -> dict[str, Trace]:
    """Traces to patch from; of a prompt, with the hook points that the interventions take from it."""
    needed = source_points(model.config, interventions)
    return {
        name: trace(model, _ids(source, tokenizer, model), needed.get(name, []))
        if isinstance(source, str)
        else source
        for name, source in sources.items()
    }


def _tokenizer(name: str, vocab: int) -> Tokenizer | None:
    """None when the tokens of this model have no text."""
    try:
        return tokenizer_of(name, vocab)
    except ValueError:
        return None


def _ids(prompt: str | Tensor, tokenizer: Tokenizer | None, model: KimiK3) -> Tensor:
    if not isinstance(prompt, str):
        return torch.as_tensor(prompt)
    if tokenizer is None:
        raise ValueError(
            "no tokenizer is known for this model; give ids instead of text, or the model by its name"
        )
    return torch.tensor(tokenizer.encode(prompt) or [model.config.bos])
