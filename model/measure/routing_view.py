"""What a run shows of its experts."""

import numpy as np

from k3scope.model.measure import routing, routing_overlap
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.run_view import RunView, layer_names, refuse_head, require_layer, require_layers


class RoutingView(RunView):
    """`run.routing`: which experts the tokens went to."""

    @property
    def layers(self) -> list[int]:
        return routing.moe_layers(self.run)

    @property
    def counts(self) -> np.ndarray:
        """Tokens per expert [MoE layers, experts]."""
        return routing.routing_counts(self.run)

    def of(self, layer: int) -> routing.Routing:
        """Indices, weights and margins of a layer."""
        return routing.routing_of(self.run, require_layer(layer, self.layers, "experts"))

    def load(self, layer: int) -> np.ndarray:
        """Summed weight per expert [experts]."""
        return self.of(layer).load(self.run.config.experts)

    def balance(self, layer: int) -> routing.Balance:
        return routing.balance(self.of(layer).counts(self.run.config.experts))

    def bias_effect(self, layer: int) -> routing.BiasEffect:
        return routing.bias_effect(self.run, require_layer(layer, self.layers, "experts"))

    def output(self, layer: int) -> routing.Output:
        return routing.output_of(self.run, require_layer(layer, self.layers, "experts"))

    def overlap(self) -> np.ndarray:
        """Whether two layers group the tokens alike [MoE layers, MoE layers]."""
        return routing_overlap.of_layers([self.of(layer) for layer in self.layers], self.run.config.experts)

    def picture(self, layer: int | None = None, head: int | None = None) -> Picture:
        refuse_head(head, "routing")
        c, tokens = self.run.config, self.run.length
        if layer is not None:
            note = (
                f"Weights of the {c.top_k} chosen experts of each token; a column sums to {c.routed_scale:g}."
                + self._without([layer])
            )
            title, image = f"Experts of each token, layer {layer}", self.of(layer).lanes(c.experts).T
            lanes = {"columns": self.run.token_texts, "meaning": "share", "note": note}
            return self.make_picture(title, image, "expert", "token", "weight", **lanes)
        layers = require_layers(self.layers, "Tokens per expert")
        note = f"Every row sums to {tokens:,} tokens x {c.top_k} = {tokens * c.top_k:,} choices."
        note += self._without(layers)
        ends = (0, len(layers) - 1, 0, c.experts - 1)
        names = {"rows": layer_names(c, layers), "span": ends, "note": note}
        image = self._counts(layers)
        return self.make_picture("Tokens per expert", image, "layer", "expert", "tokens", **names)

    def _counts(self, layers: list[int]) -> np.ndarray:
        """Tokens per expert [layers, experts]; NaN in a layer where none was chosen: 0 would be a count."""
        routings = [self.of(n) for n in layers]
        counts = np.stack([r.counts(self.run.config.experts) for r in routings])
        chose = np.array([not r.bad.all() for r in routings])
        return counts if chose.all() else np.where(chose[:, None], counts, np.nan)

    def _without(self, layers: list[int]) -> str:
        """Which tokens no expert was chosen for, as a sentence with a space before it; empty for none."""
        bad = {n: int(self.of(n).bad.sum()) for n in layers}
        listed = [f"layer {n}: {count:,}" for n, count in bad.items() if count]
        shown = ", ".join(listed[:4]) + (f" and {len(listed) - 4} more layers" if len(listed) > 4 else "")
        return f" Tokens whose scores are not finite are not counted: {shown}." if listed else ""

    def arrays(self, layer: int | None = None, head: int | None = None) -> dict[str, np.ndarray]:
        all_layers = require_layers(self.layers, "Routing")
        layers = all_layers if layer is None else [require_layer(layer, all_layers, "experts")]
        routings = [self.of(n) for n in layers]
        arrays = self.common_arrays() | {
            "counts": self._counts(layers),
            "top_k": np.array(self.run.config.top_k),
            "layers": np.array(layers),
            "indices": np.stack([r.index for r in routings]),
            "weights": np.stack([r.weight for r in routings]),
            "margin": np.stack([r.margin for r in routings]),
            "entropy": np.stack([routing.score_entropy(self.run, n) for n in layers]),
        }
        if self.run.config.shared_experts:
            arrays["routed_share"] = np.stack([self.output(n).routed_share for n in layers])
        return arrays
