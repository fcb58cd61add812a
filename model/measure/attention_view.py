"""`run.attention`: what a run shows of the attention maps of its MLA layers."""

from dataclasses import replace

import numpy as np

from k3scope.model.measure import attention, binning
from k3scope.model.measure.picture import Picture, Tiles, label
from k3scope.model.measure.run_view import (
    RunView,
    layer_names,
    refuse_head_alone,
    require_layer,
    require_layers,
)
from k3scope.model.measure.token_map import token_map


class AttentionView(RunView):
    """`run.attention`: the maps of full attention."""

    @property
    def layers(self) -> list[int]:
        return attention.mla_layers(self.run)

    def map(self, layer: int, head: int, rows=slice(None), columns=slice(None)) -> np.ndarray:
        """Weights of a head, or an exact crop of them."""
        return attention.attention_map(self.run, self._own(layer), head, rows, columns)

    def score_parts(self, layer: int, head: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores from the head's own key and from the shared key."""
        return attention.score_parts(self.run, self._own(layer), head)

    def shared_key_share(self, layer: int) -> np.ndarray:
        """How much of the spread of each head's scores comes from the shared key [heads]."""
        return self.run.cached(attention.shared_key_share, self._own(layer))

    def heads(self, layer: int) -> attention.Heads:
        """Sink share, entropy, own share and gate by token and head."""
        return self.run.cached(attention.heads_summary, self._own(layer))

    def tiles(self, layer: int, how: str = "max", cells: int = binning.CELLS) -> list[binning.Binned]:
        """Every head's map, binned so that all together have at most so many cells."""
        count = attention.heads_of(self.run, self._own(layer))
        side = binning.tile_side(count, cells)
        if how == "max":
            return [binning.largest(self.map(layer, head), limit=side) for head in range(count)]
        return [_pooled(self.map(layer, head), side, how) for head in range(count)]

    def picture(self, layer: int | None = None, head: int | None = None) -> Picture:
        if layer is None:
            refuse_head_alone(head)
            layers = require_layers(self.layers, "Entropy of attention")
            image = np.stack([_mean(self.heads(n).entropy) for n in layers])
            note = "Mean over the tokens after the first. 0: one token is read; large: many alike."
            more = {"rows": layer_names(self.run.config, layers), "note": note, "empty": "nothing to choose"}
            more["absent"] = np.full(image.shape, self.run.length == 1)
            return self.make_picture("Entropy of attention", image, "layer", "MLA head", "nats", **more)
        if head is not None:
            image, note = (
                self.map(layer, head),
                "What a token (row) reads from earlier ones; a row sums to 1.",
            )
            return token_map(self.run, f"Attention of layer {layer}, head {head}", image, "share", note)
        return self.mosaic(layer)

    def mosaic(self, layer: int, cells: int = binning.CELLS) -> Picture:
        """Every head's map in one picture."""
        tiles = [tile.image for tile in self.tiles(layer, cells=cells)]
        image, across = binning.mosaic(tiles)
        side = tiles[0].shape[0]
        absent, _ = binning.mosaic([np.triu(np.ones_like(tile), 1) for tile in tiles], across)
        corners = [divmod(n, across) for n in range(len(tiles))]
        marks = [(i * (side + 1), j * (side + 1) + side, str(n)) for n, (i, j) in enumerate(corners)]
        note = "Rows are tokens that read, columns tokens that are read."
        if side < self.run.length:
            note += f" {self.run.length:,} tokens in {side} bins; a cell is the largest weight in it."
        more = {
            "meaning": "share",
            "log": True,
            "absent": absent != 0,  # NaN between the maps: absent too
            "marks": marks,
            "note": note,
            "tiles": Tiles(across, len(tiles), side, self._tile_names(side)),
        }
        return self.make_picture(
            f"Attention of layer {layer}, all heads", image, "heads", "heads", "weight", **more
        )

    def _tile_names(self, side: int) -> list[str]:
        """The tokens that each row and column of a map stands for."""
        texts, last = self.run.token_texts, self.run.length - 1
        numbered = [f"{i}  {text}" for i, text in enumerate(texts)]
        return [label(numbered, i, (0, last), side, 0) for i in range(side)]

    def arrays(self, layer: int | None = None, head: int | None = None) -> dict[str, np.ndarray]:
        own = require_layers(self.layers, "Attention")
        layers = own if layer is None else [self._own(layer)]
        heads = [self.heads(n) for n in layers]
        names = [
            n for n in ("sink", "entropy", "itself", "gate") if heads and getattr(heads[0], n) is not None
        ]
        arrays = self.common_arrays() | {"layers": np.array(layers)}
        arrays |= {name: np.stack([getattr(h, name) for h in heads]) for name in names}
        arrays["shared_key_share"] = np.stack([self.shared_key_share(n) for n in layers])
        if head is not None:
            own, shared = self.score_parts(layer, head)
            arrays |= {"weights": self.map(layer, head), "own_score": own, "shared_score": shared}
        elif layer is not None:
            tiles = self.tiles(layer)
            arrays |= {"tiles": np.stack([tile.image for tile in tiles]), "bounds": tiles[0].rows}
        return arrays

    def _own(self, layer: int) -> int:
        return require_layer(layer, self.layers, "attention maps")


def _pooled(image: np.ndarray, side: int, how: str) -> binning.Binned:
    """A map in which NaN is a value like any other and not absent: a cell with one is NaN."""
    pooled = binning.binned(image, side, how)
    bad = binning.largest(np.where(np.isnan(image), np.nan, 0), limit=side).image  # else 0
    return replace(pooled, image=pooled.image + bad)


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over the tokens after the first; NaN when there is none."""
    return values[1:].mean(0) if len(values) > 1 else np.full(values.shape[1], np.nan)
