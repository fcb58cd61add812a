"""How alike two choices of experts are: of two runs, of two prompts, of two layers."""

import numpy as np

from k3scope.model.measure.routing import Routing


def of_runs(ours: Routing, theirs: Routing) -> np.ndarray:
    """Share of a token's experts that both runs chose, position by position: [shorter T]."""
    tokens = min(len(ours.index), len(theirs.index))
    return of_choices(ours.index[:tokens], theirs.index[:tokens])


def of_choices(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Share of common experts, row by row: both [N, top_k]; NaN where a row has no choice (-1)."""
    share = (ours[:, :, None] == theirs[:, None, :]).any(-1).mean(-1, dtype=np.float32)
    share[(ours < 0).any(-1) | (theirs < 0).any(-1)] = np.nan
    return share


def of_prompts(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Overlap of two prompts' loads by layer: 1 the same shares, 0 no common expert.

    Both are counts [MoE layers, experts]; the prompts may differ in length.
    """
    with np.errstate(invalid="ignore"):
        a, b = (counts / counts.sum(-1, keepdims=True) for counts in (ours, theirs))
    return np.minimum(a, b).sum(-1)


def of_layers(layers: list[Routing], experts: int) -> np.ndarray:
    """Whether two layers group the tokens alike: [layers, layers], 1 on the diagonal.

    Expert 5 of one layer has nothing to do with expert 5 of another, so indices are not compared. Instead:
    the correlation, over all pairs of different tokens, of how many experts the two tokens have in common in
    one layer and in the other. NaN where a layer gives every pair the same number, or has tokens whose scores
    are not finite.
    """
    chosen = [_chosen(r, experts) for r in layers]
    tokens = len(chosen[0])
    pairs = tokens * (tokens - 1)
    top_k = layers[0].index.shape[1]
    sums = np.array([(c.sum(0) ** 2).sum() - tokens * top_k for c in chosen])
    # sum over pairs of common(s, t) * common'(s, t) = |A^T B|^2, less the pairs of a token with itself
    products = np.array([[((a.T @ b) ** 2).sum() - tokens * top_k**2 for b in chosen] for a in chosen])
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = products / pairs - np.outer(sums, sums) / pairs**2
        spread = np.sqrt(np.clip(np.diag(covariance), 0, None))
        correlation = covariance / np.outer(spread, spread)
    correlation[~np.isfinite(correlation)] = np.nan
    bad = [r.bad.any() for r in layers]
    correlation[bad], correlation[:, bad] = np.nan, np.nan
    return correlation


def _chosen(routing: Routing, experts: int) -> np.ndarray:
    """1 where a token chose an expert: [T, experts]."""
    one = np.zeros((len(routing.index), experts))
    np.put_along_axis(one, np.maximum(routing.index, 0).astype(np.int64), 1.0, -1)
    return one
