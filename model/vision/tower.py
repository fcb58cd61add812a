"""MoonViT-V2: the tower that turns the patches of images into rows for the projector."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from k3scope.model.norm import widen
from k3scope.model.vision.vision_block import VisionBlock, VisionNorm
from k3scope.model.vision.vision_config import VisionConfig

Grid = tuple[int, int, int]  # frames, height, width, in patches


@dataclass(frozen=True)
class Images:
    """Patches of the images and clips of a prompt, one after the other, frame by frame and row by row."""

    patches: Tensor  # [N, 3, vit_patch, vit_patch], values in [-1, 1]
    grids: tuple[Grid, ...]

    @property
    def lengths(self) -> list[int]:
        return [t * h * w for t, h, w in self.grids]

    def rows(self, vit: VisionConfig) -> list[int]:
        """How many rows of the text each becomes."""
        return [vit.rows(grid) for grid in self.grids]


class PositionTable(nn.Module):
    """Add what is learned for each place, resized to the image's grid; in clips also the time."""

    def __init__(self, vit: VisionConfig):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(vit.grid, vit.grid, vit.d))

    def forward(self, x: Tensor, grids: tuple[Grid, ...]) -> Tensor:  # [N, vit_d]
        return x + torch.cat([self._of(*grid) for grid in grids])

    def _of(self, t: int, h: int, w: int) -> Tensor:
        cells = self.weight
        if cells.shape[:2] != (h, w):
            plane = cells.permute(2, 0, 1)[None]
            plane = F.interpolate(plane, (h, w), mode="bilinear", align_corners=False, antialias=False)
            cells = plane[0].permute(1, 2, 0)
        cells = cells.flatten(0, 1)  # [h * w, vit_d]
        if t == 1:  # a single image has no time
            return cells
        return (cells + _times(t, cells)[:, None]).flatten(0, 1)


def _times(frames: int, like: Tensor) -> Tensor:
    """A fixed wave per frame index, [frames, vit_d]: sines in the first half, cosines in the second."""
    half = like.shape[-1] // 2
    speed = 10000.0 ** (-torch.arange(half, dtype=torch.float64, device=like.device) / half)
    angle = torch.arange(frames, dtype=torch.float64, device=like.device)[:, None] * speed
    return torch.cat([angle.sin(), angle.cos()], -1).to(like.dtype)


class PatchEmbed(nn.Module):
    """One linear map from the pixels of a patch to a vector, then its position."""

    def __init__(self, vit: VisionConfig):
        super().__init__()
        self.proj = nn.Conv2d(3, vit.d, vit.patch, stride=vit.patch, bias=False)
        self.pos_emb = PositionTable(vit)

    def forward(self, patches: Tensor, grids: tuple[Grid, ...]) -> Tensor:
        """patches [N, 3, vit_patch, vit_patch] to [N, vit_d]."""
        return self.pos_emb(self.proj(patches).flatten(1), grids)


class VisionEncoder(nn.Module):
    """The stack of blocks and a last norm; angles depend on the grids only, so they are made once."""

    def __init__(self, vit: VisionConfig):
        super().__init__()
        self.vit = vit
        self.blocks = nn.ModuleList(VisionBlock(vit) for _ in range(vit.layers))
        self.final_layernorm = VisionNorm(vit)

    def forward(self, x: Tensor, images: Images) -> Tensor:  # [N, vit_d]
        angles = torch.cat([rope_angles(grid, self.vit, x) for grid in images.grids])
        for block in self.blocks:
            x = block(x, angles, images.lengths)
        return self.final_layernorm(x)


def rope_angles(grid: Grid, vit: VisionConfig, like: Tensor) -> Tensor:
    """Angle of each channel pair at each patch, [N, vit_head_dim / 2]: columns and rows take turns."""
    t, h, w = grid
    steps = torch.arange(0, vit.head_dim, 4, device=like.device, dtype=widen(like).dtype)
    speed = 1.0 / vit.theta ** (steps / vit.head_dim)  # [vit_head_dim / 4]
    place = torch.arange(h * w, device=like.device)
    column, row = (place % w)[:, None] * speed, (place // w)[:, None] * speed
    return torch.stack([column, row], -1).flatten(1).repeat(t, 1)


class PatchMerge(nn.Module):
    """Average a clip over its frames, then lay each square of neighbours side by side."""

    def __init__(self, vit: VisionConfig):
        super().__init__()
        self.vit = vit

    def forward(self, x: Tensor, images: Images) -> Tensor:
        """x [N, vit_d] to [M, vit_merge * vit_merge * vit_d], M rows in the text."""
        merged = [
            self._of(part, *grid) for part, grid in zip(x.split(images.lengths), images.grids, strict=True)
        ]
        return torch.cat(merged)

    def _of(self, x: Tensor, t: int, h: int, w: int) -> Tensor:
        m = self.vit.merge
        squares = x.view(t, h // m, m, w // m, m, -1).mean(0)
        return squares.transpose(1, 2).flatten(2).flatten(0, 1)  # a square reads row by row


class VisionTower(nn.Module):
    """MoonViT-V2: patches of images and short clips to merged rows, each item on its own."""

    def __init__(self, vit: VisionConfig):
        super().__init__()
        self.vit = vit
        self.patch_embed = PatchEmbed(vit)
        self.encoder = VisionEncoder(vit)
        self.merge = PatchMerge(vit)

    def forward(self, images: Images) -> Tensor:
        """[M, vit_merge * vit_merge * vit_d]. ValueError for a grid the tower is not made for."""
        for grid in images.grids:
            _check(self.vit, grid)
        if len(images.patches) != sum(images.lengths):
            raise ValueError(f"images: {len(images.patches)} patches for grids of {sum(images.lengths)}")
        patches = images.patches.to(self.patch_embed.proj.weight)
        return self.merge(self.encoder(self.patch_embed(patches, images.grids), images), images)


def _check(vit: VisionConfig, grid: Grid) -> None:
    t, h, w = grid
    if not 1 <= t <= vit.frames:
        raise ValueError(f"a clip has {t} frames; the tower takes 1 to {vit.frames}")
    if min(h, w) < 1 or h % vit.merge or w % vit.merge:
        raise ValueError(f"a grid of {h} x {w} patches; both sides must be multiples of {vit.merge}")
    if max(h, w) > vit.max_side:
        raise ValueError(f"a grid of {h} x {w} patches; at most {vit.max_side} per side")
