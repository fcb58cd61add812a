"""What a run shows over its depth: mixes, sums, and the answer after each layer."""

import numpy as np

from k3scope.model.measure import attribution, depth, lens
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.views import Measured, View, chosen, layer_names, refused


def _lens(run: Measured) -> lens.Lens:
    return lens.lens(run.model, run)


def _attribution(run: Measured) -> attribution.Attribution:
    return attribution.attribution(run.model, run)


class DepthView(View):
    """`run.depth`: from where each mix reads, how the running sum grows, and who made a logit."""

    @property
    def mixes(self) -> tuple[depth.Mix, ...]:
        return depth.mixes(self.run)

    @property
    def residual(self) -> depth.Residual:
        return depth.residual(self.run)

    @property
    def resets(self) -> tuple[depth.Reset, ...]:
        return depth.resets(self.run)

    def attribution(self, targets=None) -> attribution.Attribution:
        """Parts of the logit of a token at each position; the likeliest unless `targets` [T] are given."""
        if targets is None:
            return self.run.once(_attribution)
        return attribution.attribution(self.run.model, self.run, targets)

    def picture(self, layer: int | None = None, head: int | None = None) -> Picture:
        refused(head, "depth")
        if not self.run.config.block:
            return self._sizes()
        if layer is not None:
            return self._layer(layer)
        mixes = self.mixes
        image = depth.table([mix.mean for mix in mixes])
        note = "Mean weight over the tokens; a row sums to 1. An empty cell cannot be read yet."
        more = {"rows": [mix.name for mix in mixes], "columns": depth.source_names(image.shape[1])}
        more |= {"absent": depth.unread(mixes), "meaning": "share", "note": note}
        return self.made("Where each mix reads", image, "mix", "source", "weight", **more)

    def _layer(self, layer: int) -> Picture:
        mixes = [
            mix for mix in self.mixes if mix.layer == chosen(layer, range(self.run.config.layers), "mix")
        ]
        weights = [depth.mix_weights(self.run, mix) for mix in mixes]
        names = [f"{mix.place}: {s}" for mix in mixes for s in depth.source_names(len(mix.mean))]
        title, note = f"What layer {layer} reads", "The weights of a mix at one token sum to 1."
        more = {"rows": names, "columns": self.run.pieces, "meaning": "share", "note": note}
        return self.made(title, np.concatenate(weights, 1).T, "mix and source", "token", "weight", **more)

    def _sizes(self) -> Picture:
        found = self.residual
        names = {"rows": layer_names(self.run.config, found.layers), "columns": self.run.pieces}
        return self.made("Size of the residual stream", found.rms, "layer", "token", "RMS", **names)

    def arrays(self, layer: int | None = None, head: int | None = None) -> dict[str, np.ndarray]:
        sizes, parts = self.residual, self.attribution()
        found = self.common() | {
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
            found |= {"mix_names": np.array([mix.name for mix in mixes]), "weights": np.stack(by_token, 1)}
        return found


class LensView(View):
    """`run.lens`: what the model would say if it ended after each layer."""

    def of(self, targets=None) -> lens.Lens:
        """Probability and rank of a target at each position [layers + 1, T]; the next token unless given."""
        return self.run.once(_lens) if targets is None else lens.lens(self.run.model, self.run, targets)

    @property
    def tokens(self) -> lens.Tokens:
        """Probability, loss and rank of each token of the prompt."""
        return lens.tokens_of(self.run)

    def picture(self, layer: int | None = None, head: int | None = None) -> Picture:
        refused(head, "lens")
        if layer is not None:
            raise ValueError("the lens shows every layer at once: there is none to choose")
        found = self.of()
        return self.made(
            "Probability of the next token", found.prob, "after layer", "token", "probability",
            rows=["embedding", *layer_names(self.run.config, found.layers[1:])], columns=self.run.pieces,
            meaning="share", note="As if the model ended after each layer: its sums go through the output "
            "mix, the final norm and the head. At the last token: what the whole model finds likeliest.",
        )  # fmt: skip

    def arrays(self, layer: int | None = None, head: int | None = None) -> dict[str, np.ndarray]:
        found, tokens = self.of(), self.tokens
        return self.common() | {
            "layers": np.array(found.layers),
            "targets": found.targets,
            "prob": found.prob,
            "rank": found.rank,
            "top_ids": found.top_ids,
            "top_prob": found.top_prob,
            "token_prob": tokens.prob,
            "token_loss": tokens.loss,
            "token_rank": tokens.rank,
        }
