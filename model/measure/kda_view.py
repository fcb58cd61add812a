"""`run.kda`: what a run shows of the memory of its KDA layers."""

import numpy as np

from k3scope.model.measure import half_life as kda
from k3scope.model.measure import kda_memory
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.run_view import (
    RunView,
    layer_names,
    refuse_head_alone,
    require_layer,
    require_layers,
)
from k3scope.model.measure.token_map import token_map


class KdaView(RunView):
    """`run.kda`: how long the memory lasts, what is written to it and what is read from it."""

    @property
    def layers(self) -> list[int]:
        return kda.kda_layers(self.run)

    def half_life(self, layer: int) -> np.ndarray:
        """Median tokens until half is forgotten, by head."""
        return kda.half_life(self.run, self._own(layer))

    def half_life_of_channels(self, layer: int) -> np.ndarray:
        return kda.half_life_of_channels(self.run, self._own(layer))

    def retention(self, layer: int) -> np.ndarray:
        return kda.retention(self.run, self._own(layer))

    def write_strength(self, layer: int) -> np.ndarray:
        return kda.write_strength(self.run, self._own(layer))

    def steps(self, layer: int) -> kda_memory.Steps:
        """State norm, erased, written and changed by token and head."""
        return self.run.cached(kda_memory.steps, self._own(layer))

    def reads(self, layer: int, head: int) -> np.ndarray:
        """Weight of each earlier value in each read-out [T, T]."""
        return kda_memory.reads(self.run, self._own(layer), head)

    def write(self, layer: int, head: int, token: int) -> kda_memory.Write:
        return kda_memory.write_of(self.run, self._own(layer), head, token)

    def state(self, layer: int, head: int, token: int) -> np.ndarray:
        """Memory after a token [key channels, value channels]."""
        return kda_memory.state_after(self.run, self._own(layer), head, token)

    def forms(self, layer: int, tokens: int | None = None) -> dict[str, float]:
        """Error of each way to compute the layer, over the first `tokens`."""
        return self.run.cached(kda_memory.forms, self._own(layer), tokens)

    def picture(self, layer: int | None = None, head: int | None = None) -> Picture:
        if layer is None:
            refuse_head_alone(head)
            require_layers(self.layers, "Half-life of the memory")
            lives = kda.half_lives(self.run)
            note = (
                "Tokens until half of what a key channel held is forgotten: median over tokens and channels."
            )
            more = {"rows": layer_names(self.run.config, list(lives)), "note": note, "meaning": "time"}
            image = np.stack(list(lives.values()))
            return self.make_picture(
                "Half-life of the memory", image, "layer", "KDA head", "tokens", log=True, **more
            )
        if head is None:
            note = "Median over the tokens."
            more = {"meaning": "time", "log": True, "note": note}
            image = self.half_life_of_channels(layer)
            return self.make_picture(
                f"Half-life, layer {layer}", image, "KDA head", "key channel", "tokens", **more
            )
        note = "The read-out at a row is the sum of these weights times the values of the columns."
        title = f"Read-out of layer {layer}, head {head}"
        return token_map(self.run, title, self.reads(layer, head), "signed", note)

    def arrays(self, layer: int | None = None, head: int | None = None) -> dict[str, np.ndarray]:
        own = require_layers(self.layers, "Memory")
        layers = own if layer is None else [self._own(layer)]
        arrays = self.common_arrays() | {
            "layers": np.array(layers),
            "half_life": np.stack([self.half_life(n) for n in layers]),
            "half_life_of_channels": np.stack([self.half_life_of_channels(n) for n in layers]),
            "kept": np.stack([self.retention(n) for n in layers]),
            "write": np.stack([self.write_strength(n) for n in layers]),
        }
        if layer is not None:
            arrays |= vars(self.steps(layer))
        if head is not None:
            last = self.run.length - 1
            arrays |= {"reads": self.reads(layer, head), "last_state": self.state(layer, head, last)}
        return arrays

    def _own(self, layer: int) -> int:
        return require_layer(layer, self.layers, "linear attention")
