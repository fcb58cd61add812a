"""`run.depth`: what a run shows over its depth: mixes, the running sum, and who made a logit."""

import numpy as np

from k3scope.model.measure import attribution, depth
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.run_view import MeasuredTrace, RunView, layer_names, refuse_head, require_layer


def _attribution(run: MeasuredTrace) -> attribution.Attribution:
    return attribution.attribution(run.model, run)


class DepthView(RunView):
    """`run.depth`: from where each mix reads, the size of the running sum, and who made a logit."""

    @property
    def mixes(self) -> tuple[depth.MixWeights, ...]:
        return depth.mixes(self.run)

    @property
    def residual(self) -> depth.Residual:
        return depth.residual(self.run)

    @property
    def resets(self) -> tuple[depth.Reset, ...]:
        return depth.resets(self.run)

    def attribution(self, targets=None) -> attribution.Attribution:
        """Parts of the logit of a token at each position; the likeliest by default. `targets` [T]."""
        if targets is None:
            return self.run.cached(_attribution)
        return attribution.attribution(self.run.model, self.run, targets)

    def picture(self, layer: int | None = None, head: int | None = None) -> Picture:
        refuse_head(head, "depth")
        if not self.run.config.block:
            return self._sizes()
        if layer is not None:
            return self._layer(layer)
        mixes = self.mixes
        image = depth.table([mix.mean for mix in mixes])
        note = "Mean weight over the tokens; a row sums to 1. An empty cell cannot be read yet."
        more = {"rows": [mix.name for mix in mixes], "columns": depth.source_names(image.shape[1])}
        more |= {"absent": depth.unread(mixes), "meaning": "share", "note": note}
        return self.make_picture("Where each mix reads", image, "mix", "source", "weight", **more)

    def _layer(self, layer: int) -> Picture:
        mixes = [
            mix
            for mix in self.mixes
            if mix.layer == require_layer(layer, range(self.run.config.layers), "mix")
        ]
        weights = [depth.mix_weights(self.run, mix) for mix in mixes]
        names = [f"{mix.place}: {s}" for mix in mixes for s in depth.source_names(len(mix.mean))]
        title, note = f"What layer {layer} reads", "The weights of a mix at one token sum to 1."
        more = {"rows": names, "columns": self.run.token_texts, "meaning": "share", "note": note}
        return self.make_picture(
            title, np.concatenate(weights, 1).T, "mix and source", "token", "weight", **more
        )

    def _sizes(self) -> Picture:
        residual = self.residual
        names = {"rows": layer_names(self.run.config, residual.layers), "columns": self.run.token_texts}
        return self.make_picture(
            "Size of the residual stream", residual.rms, "layer", "token", "RMS", **names
        )

    def arrays(self, layer: int | None = None, head: int | None = None) -> dict[str, np.ndarray]:
        sizes, parts = self.residual, self.attribution()
        arrays = self.common_arrays() | {
            "rms": sizes.rms,
            "peak": sizes.peak,
            "parts": parts.parts,
            "part_names": np.array(parts.names),
            "rest": parts.rest,
            "logit": parts.logit,
            "targets": parts.targets,
        }
        mixes = [mix for mix in self.mixes if layer is None or mix.layer == layer]
        if mixes:
            weights = [depth.mix_weights(self.run, mix) for mix in mixes]
            by_token = [depth.table([w[t] for w in weights]) for t in range(self.run.length)]
            arrays |= {"mix_names": np.array([mix.name for mix in mixes]), "weights": np.stack(by_token, 1)}
        return arrays
