"""Models by name: the released Kimi K3 and the small one with the same topology."""

import difflib
import json
from dataclasses import replace

from k3scope.assets import CONFIGS, MODELS
from k3scope.model.config import Config
from k3scope.model.vision.vision_config import VisionConfig


def _official(name: str) -> Config:
    return Config.from_official(json.loads((CONFIGS / f"{name}.json").read_text()))


# A_log is stored padded to 128 in the release; config.json does not say so, the tensor header does
_RELEASED = _official("kimi-k3")
KIMI_K3 = replace(_RELEASED, a_log_stored=128)

# Every size differs from every other, so that a swapped dimension cannot pass a test
K3_TINY = replace(
    KIMI_K3,
    quantization=None,
    kinds=("kda", "kda", "kda", "mla", "kda", "kda", "kda", "mla", "mla"),
    vocab=2048, d=128, dense=352, block=4,
    kda_heads=5, kda_head_dim=32, a_log_stored=8,
    heads=6, q_rank=112, kv_rank=80, nope_dim=40, shared_key_dim=16, v_dim=64,
    experts=18, top_k=3, expert_dim=120, latent=48,
    max_positions=2048, bos=2032, eos=2033, pad=2035, media_pad=2043,
    vision=VisionConfig(d=36, layers=3, heads=7, qkv=84, mlp=88, grid=10),
)  # fmt: skip

# a specialist for look-ups and repeats: the same parts, half as wide, blind
K3_RECALL = replace(
    K3_TINY,
    kinds=("kda", "kda", "kda", "mla", "mla"),
    d=64, dense=176, block=2, init_std=0.08,
    kda_heads=3, kda_head_dim=16,
    heads=4, q_rank=48, kv_rank=40, nope_dim=24, shared_key_dim=8, v_dim=36,
    experts=12, top_k=2, shared_experts=1, expert_dim=56, latent=28,
    max_positions=1024, vision=None, media_pad=None,
)  # fmt: skip

KIMI_LINEAR = _official("kimi-linear-48b")
K3_040B = _official("kimi-k3-0.40b")

PRESETS = {
    "kimi-k3": KIMI_K3,
    "k3-random": K3_TINY,  # the sizes of the trained one, its numbers drawn from a seed
    "kimi-linear-48b": KIMI_LINEAR,
    "kimi-k3-0.40b": K3_040B,
}
# checkpoints that ship with the program
TRAINED = {name: MODELS / name for name in ("k3-tiny", "k3-recall")}
# no files of their own: they read text as another model does
READS_AS = {"k3-random": "k3-tiny"}
# no weights at hand and too large to draw at random: shapes and counts, never a forward with numbers
META_ONLY = ("kimi-k3", "kimi-linear-48b", "kimi-k3-0.40b")
DRAWN = ("kimi-k3", "k3-tiny", "k3-recall", "k3-random", "kimi-linear-48b", "kimi-k3-0.40b")


# what may differ in a config of the release's sizes: ids, how numbers are stored, and the vision half
FREE = ("bos", "eos", "pad", "media_pad", "init_std", "max_positions", "stored", "quantization", "vision")


def with_release_padding(c: Config) -> Config:
    """A config of Kimi K3's sizes, with A_log as long as the release stores it: no config.json says so."""
    free = {name: getattr(c, name) for name in FREE}
    return replace(c, a_log_stored=KIMI_K3.a_log_stored) if replace(_RELEASED, **free) == c else c


def preset(name: str) -> Config:
    """The Config of a named model. ValueError lists the names there are."""
    models = PRESETS | {"k3-tiny": K3_TINY, "k3-recall": K3_RECALL}
    if name not in models:
        close = difflib.get_close_matches(name, models, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"there is no model named {name!r}; known: {', '.join(models)}{hint}")
    return models[name]
