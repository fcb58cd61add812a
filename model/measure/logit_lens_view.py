"""`run.logit_lens`: what a run shows of the model's answer after each layer."""

import numpy as np

from k3scope.model.measure import logit_lens
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.run_view import MeasuredTrace, RunView, layer_names, refuse_head


def _logit_lens(run: MeasuredTrace) -> logit_lens.LogitLens:
    return logit_lens.logit_lens(run.model, run)


class LogitLensView(RunView):
    """`run.logit_lens`: what the model would predict if it ended after each layer."""

    def of(self, targets=None) -> logit_lens.LogitLens:
        """Probability and rank of a target at each position [layers + 1, T]; the next token by default."""
        return (
            self.run.cached(_logit_lens)
            if targets is None
            else logit_lens.logit_lens(self.run.model, self.run, targets)
        )

    @property
    def tokens(self) -> logit_lens.TokenPredictions:
        """Probability, loss and rank of each token of the prompt."""
        return logit_lens.token_predictions(self.run)

    def picture(self, layer: int | None = None, head: int | None = None) -> Picture:
        refuse_head(head, "lens")
        if layer is not None:
            raise ValueError("the logit lens shows every layer at once: there is none to choose")
        lens = self.of()
        return self.make_picture(
            "Probability of the next token", lens.prob, "after layer", "token", "probability",
            rows=["embedding", *layer_names(self.run.config, lens.layers[1:])], columns=self.run.token_texts,
            meaning="share", note="As if the model ended after each layer: its sums go through the output "
            "mix, the final norm and the LM head. At the last token: what the full model finds likeliest.",
        )  # fmt: skip

    def arrays(self, layer: int | None = None, head: int | None = None) -> dict[str, np.ndarray]:
        lens, tokens = self.of(), self.tokens
        return self.common_arrays() | {
            "layers": np.array(lens.layers),
            "targets": lens.targets,
            "prob": lens.prob,
            "rank": lens.rank,
            "top_ids": lens.top_ids,
            "top_prob": lens.top_prob,
            "token_prob": tokens.prob,
            "token_loss": tokens.loss,
            "token_rank": tokens.rank,
        }
