"""What the attention heads of a run show: the memory of KDA, the maps of MLA."""

import numpy as np

from k3scope.model.measure import attention, binning, memory
from k3scope.model.measure import half_life as kda
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.views import Measured, View, chosen, layer_names, there

PIXELS = 512  # side to which a map of a whole head is binned in a picture


class KdaView(View):
    """`run.kda`: how long the memory lasts, what is written to it and what is read from it."""

    @property
    def layers(self) -> list[int]:
        return kda.kda_layers(self.run)

    def half_life(self, layer: int) -> np.ndarray:
        """Median tokens until half is forgotten, by head."""
        return kda.half_life(self.run, self._own(layer))

    def half_life_of_channels(self, layer: int) -> np.ndarray:
        return kda.half_life_of_channels(self.run, self._own(layer))

    def kept(self, layer: int) -> np.ndarray:
        return kda.kept(self.run, self._own(layer))

    def write_strength(self, layer: int) -> np.ndarray:
        return kda.write_strength(self.run, self._own(layer))

    def steps(self, layer: int) -> memory.Steps:
        """State norm, erased, written and changed by token and head."""
        return self.run.once(memory.steps, self._own(layer))

    def reads(self, layer: int, head: int) -> np.ndarray:
        """Weight of each earlier value in each read-out [T, T]."""
        return memory.reads(self.run, self._own(layer), head)

    def write(self, layer: int, head: int, token: int) -> memory.Write:
        return memory.write_of(self.run, self._own(layer), head, token)

    def state(self, layer: int, head: int, token: int) -> np.ndarray:
        """Memory after a token [key channels, value channels]."""
        return memory.state_after(self.run, self._own(layer), head, token)

    def forms(self, layer: int, tokens: int | None = None) -> dict[str, float]:
        """Error of each way to compute the layer, over the first `tokens`."""
        return self.run.once(memory.forms, self._own(layer), tokens)

    def picture(self, layer: int | None = None, head: int | None = None) -> Picture:
        if layer is None:
            _needs_layer(head)
            there(self.layers, "Half-life of the memory")
            lives = kda.half_lives(self.run)
            note = (
                "Tokens until half of what a key channel held is forgotten: median over tokens and channels."
            )
            more = {"rows": layer_names(self.run.config, list(lives)), "note": note, "meaning": "time"}
            image = np.stack(list(lives.values()))
            return self.made(
                "Half-life of the memory", image, "layer", "KDA head", "tokens", log=True, **more
            )
        if head is None:
            note = "Median over the tokens."
            more = {"meaning": "time", "log": True, "note": note}
            image = self.half_life_of_channels(layer)
            return self.made(f"Half-life, layer {layer}", image, "KDA head", "key channel", "tokens", **more)
        note = "The read-out at a row is the sum of these weights times the values of the columns."
        title = f"Read-out of layer {layer}, head {head}"
        return square(self.run, title, self.reads(layer, head), "signed", note)

    def arrays(self, layer: int | None = None, head: int | None = None) -> dict[str, np.ndarray]:
        layers = self.layers if layer is None else [self._own(layer)]
        found = self.common() | {
            "layers": np.array(layers),
            "half_life": np.stack([self.half_life(n) for n in layers]),
            "half_life_of_channels": np.stack([self.half_life_of_channels(n) for n in layers]),
            "kept": np.stack([self.kept(n) for n in layers]),
            "write": np.stack([self.write_strength(n) for n in layers]),
        }
        if layer is not None:
            found |= vars(self.steps(layer))
        if head is not None:
            last = self.run.length - 1
            found |= {"reads": self.reads(layer, head), "last_state": self.state(layer, head, last)}
        return found

    def _own(self, layer: int) -> int:
        return chosen(layer, self.layers, "linear attention")


class AttentionView(View):
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
        return self.run.once(attention.shared_key_share, self._own(layer))

    def heads(self, layer: int) -> attention.Heads:
        """Sink share, entropy, own share and gate by token and head."""
        return self.run.once(attention.heads_summary, self._own(layer))

    def tiles(self, layer: int, how: str = "max", cells: int = binning.CELLS) -> list[binning.Binned]:
        """Every head's map, binned so that all together have at most so many cells."""
        count = attention.heads_of(self.run, self._own(layer))
        side = binning.tile_side(count, cells)
        if how == "max":
            return [binning.largest(self.map(layer, head), limit=side) for head in range(count)]
        return [binning.binned(self.map(layer, head), side, how) for head in range(count)]

    def picture(self, layer: int | None = None, head: int | None = None) -> Picture:
        if layer is None:
            _needs_layer(head)
            layers = there(self.layers, "Entropy of attention")
            image = np.stack([_mean(self.heads(n).entropy) for n in layers])
            note = "Mean over the tokens after the first. 0: one token is read; large: many alike."
            more = {"rows": layer_names(self.run.config, layers), "note": note}
            return self.made("Entropy of attention", image, "layer", "MLA head", "nats", **more)
        if head is not None:
            image, note = (
                self.map(layer, head),
                "What a token (row) reads from earlier ones; a row sums to 1.",
            )
            return square(self.run, f"Attention of layer {layer}, head {head}", image, "share", note)
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
        }
        return self.made(f"Attention of layer {layer}, all heads", image, "heads", "heads", "weight", **more)

    def arrays(self, layer: int | None = None, head: int | None = None) -> dict[str, np.ndarray]:
        layers = self.layers if layer is None else [self._own(layer)]
        heads = [self.heads(n) for n in layers]
        names = [
            n for n in ("sink", "entropy", "itself", "gate") if heads and getattr(heads[0], n) is not None
        ]
        found = self.common() | {"layers": np.array(layers)}
        found |= {name: np.stack([getattr(h, name) for h in heads]) for name in names}
        found["shared_key_share"] = np.stack([self.shared_key_share(n) for n in layers])
        if head is not None:
            own, shared = self.score_parts(layer, head)
            found |= {"weights": self.map(layer, head), "own_score": own, "shared_score": shared}
        elif layer is not None:
            tiles = self.tiles(layer)
            found |= {"tiles": np.stack([tile.image for tile in tiles]), "bounds": tiles[0].rows}
        return found

    def _own(self, layer: int) -> int:
        return chosen(layer, self.layers, "attention map")


def square(run: Measured, title: str, image: np.ndarray, meaning: str, note: str, value="weight") -> Picture:
    """A map of tokens by tokens, binned if it is large; what lies in the future is absent."""
    later = np.triu(np.ones(image.shape, dtype=bool), 1)
    small = binning.largest(image, later, PIXELS)
    if meaning == "signed" and not small.exact:  # the largest value of each cell, whichever its sign
        low = binning.largest(-image, later, PIXELS).image
        small = binning.Binned(np.where(low > small.image, -low, small.image), small.rows, small.columns)
    if not small.exact:
        note += f" {len(image):,} tokens in {len(small.image)} bins; a cell is the largest {value} in it."
    last = len(image) - 1
    more = {"rows": run.pieces, "columns": run.pieces, "span": (0, last, 0, last), "log": meaning == "share"}
    absent = np.triu(np.ones(small.image.shape, dtype=bool), 1)
    more |= {"absent": absent, "meaning": meaning, "note": note}
    shown = image if small.exact else np.where(absent, 0, small.image)
    return Picture(title, shown, "token", "token", value, source=run.source, **more)


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over the tokens after the first; NaN when there is none."""
    return values[1:].mean(0) if len(values) > 1 else np.full(values.shape[1], np.nan)


def _needs_layer(head: int | None) -> None:
    if head is not None:
        raise ValueError("a head is one of a layer: say which layer")
