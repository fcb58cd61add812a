"""A forward pass that records only what the reducers need and counts the rest as it goes by."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from k3scope.model.config import Config
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.measure import attention, attribution, depth, half_life, logit_lens, routing
from k3scope.model.measure import image_readings as pictures
from k3scope.model.measure.hook_points import in_layer
from k3scope.model.measure.readings import Readings, readings
from k3scope.model.measure.statistics import Statistics, Tally
from k3scope.model.tracing import Trace, check_ids, mask_of, trace
from k3scope.model.vision.tower import Images

NEEDS = {
    "routing": (routing.points,),
    "kda": (half_life.points,),
    "attention": (attention.points,),
    "depth": (depth.points, attribution.points),
    "lens": (logit_lens.points,),
}
VIEWS = tuple(NEEDS)
_MIX = "language_model.model.output_attn_res"


@dataclass(frozen=True)
class Observed:
    """A pass: a trace of the hook points that the views need, and statistics of every one."""

    trace: Trace
    points: dict[str, Statistics]  # in the order of the forward pass

    def readings(self, k: int = 8) -> Readings:
        """The same as `readings` of a trace of every point, if the views include routing, kda and depth."""
        return readings(self.trace, k, self.points)


def points_for(config: Config, views: Iterable[str] = VIEWS) -> list[str]:
    """Every hook point that the reducers of these views read."""
    outside = [_MIX, _MIX + ".probs"] if config.block else ["language_model.model.embed_tokens"]
    inside = {
        in_layer(layer, point): None
        for view in views
        for needs in NEEDS[view]
        for layer in range(config.layers)
        for point in needs(config, layer)
    }
    return [*outside, *inside]


def observe(
    model: KimiK3,
    ids: Tensor,
    views: Iterable[str] = VIEWS,
    edits=None,
    on_point=None,
    images: Images | None = None,
    real: Tensor | None = None,
) -> Observed:
    """Run `ids` and record what `views` need: of 2,048 tokens a tenth of what every hook point would take.

    Attention maps are not recorded: they are recomputed per head from queries and keys. For the other
    arguments see `trace`.
    """
    real = mask_of(ids, real)
    counted = real if images is None else model.expand(check_ids(model, ids), images, real)[1]
    tally, points = Tally(counted), points_for(model.config, views)
    if images is not None:
        points += pictures.points(model.config)
    passed = trace(model, ids, points, edits, on_point, images, tally.add, real)
    with torch.no_grad():
        return Observed(passed, tally.statistics())
