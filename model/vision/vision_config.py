"""The sizes of the vision tower and the projector: one frozen record."""

from dataclasses import dataclass


@dataclass(frozen=True)
class VisionConfig:
    """Sizes of the vision half. Formulas know them with the prefix `vit_`: `vit_d`, `vit_heads`."""

    d: int  # width of the tower
    layers: int
    heads: int
    qkv: int  # width of the queries of all heads, and of the keys and of the values
    mlp: int
    grid: int = 64  # the position table has grid x grid cells
    frames: int = 4  # of one clip
    patch: int = 14  # pixels per side
    merge: int = 2  # patches per side that become one row of the text
    max_side: int = 512  # patches per side that the rotary angles are made for
    theta: float = 10000.0
    eps: float = 1.1920929e-07  # float32 epsilon: what torch's RMSNorm takes when none is given
    projector_eps: float = 1e-5

    def __post_init__(self):
        for name, value in self.sizes().items():
            if not value > 0:
                raise ValueError(f"vision: {name} is {value!r}; expected a positive number")
        if self.qkv % (4 * self.heads):
            raise ValueError(
                f"vision: {self.heads} heads of {self.qkv / self.heads:g} channels; two-dimensional rotary "
                f"angles need a head width divisible by 4"
            )

    @property
    def head_dim(self) -> int:
        return self.qkv // self.heads

    @property
    def pixels(self) -> int:
        """Pixels per side that become one row of the text; images are padded to a multiple of it."""
        return self.patch * self.merge

    def rows(self, grid: tuple[int, int, int]) -> int:
        """Rows in the text of an image or clip of (frames, height, width) patches."""
        return grid[1] * grid[2] // self.merge**2

    def sizes(self) -> dict[str, int | float]:
        """Numbers by name, for formulas."""
        values = {name: getattr(self, name) for name in (*self.__dataclass_fields__, "head_dim")}
        return {f"vit_{name}": value for name, value in values.items()}
