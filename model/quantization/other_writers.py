"""Read `quantization_config` of DeepSeek's FP8, of Model Optimizer, GPTQ and AWQ."""

import fnmatch
import re

from k3scope.model.quantization.compressed_tensors import notes as compressed_notes
from k3scope.model.quantization.config_object import ConfigObject, unknown
from k3scope.model.quantization.other_schemes import MODELOPT, Fp8Blocks, ModelOpt, Transposed
from k3scope.model.quantization.rules import Names, Rules, compiled

# left as they are by whoever quantises a model by its classes: the head, and what is no text
USUALLY_KEPT = (re.compile(r".*\blm_head$"),)
# the mixing projections have one row, which fills no word
OUTSIDE = (*USUALLY_KEPT, *(re.compile(p) for p in (r"vision_tower\.", r"mm_projector\.", r".*_res_proj$")))
PATHS = "language_model.model."  # of the release; loaders shorten it to "model." or nothing


def fp8(config: ConfigObject) -> Rules:
    """Every Linear but the head, and those of `modules_to_not_convert` (`ignored_layers`)."""
    if config.one_of("expert_dtype", ("fp8", "fp4"), "fp8") == "fp4":
        raise unknown("fp8 with expert_dtype fp4", ("fp8 with weight_block_size",))
    block = config.pair("weight_block_size")
    if block is None:
        raise ValueError(
            f"{config.where('weight_block_size')} is missing; expected two sizes such as [128, 128]"
        )
    scale = config.one_of("scale_fmt", ("float", "ue8m0"), "float")
    static = config.one_of("activation_scheme", ("dynamic", "static"), "dynamic") == "static"
    scheme = Fp8Blocks("fp8", block, "F32" if scale == "float" else "F8_E8M0", static)
    key = "modules_to_not_convert"
    if config.values.get(key) is None:
        key = "ignored_layers"
    listed = config.strings(key)
    if not listed:
        return Rules(classes={"Linear": scheme}, ignore=Names(patterns=USUALLY_KEPT))
    return Rules(classes={"Linear": scheme}, ignore=_boundaries(listed, f"{config.path}.{key}"))


def _boundaries(listed: list[str], key: str) -> Names:
    """As transformers matches: the beginning of a name up to a point, or the end; patterns too."""
    plain = {p.removesuffix(".") for p in listed if re.fullmatch(r"[\w.]+", p)}
    patterns = (compiled(p, key).pattern for p in listed if not re.fullmatch(r"[\w.]+", p))
    bounded = tuple(re.compile(rf"(?:{p})(?:(?<=\.)|(?=\.|$))") for p in patterns)
    return Names(modules=frozenset(plain), ends=frozenset(listed), patterns=bounded)


def modelopt(config: ConfigObject) -> Rules:
    """One `quant_algo` for every Linear that is not excluded, or one for each of `quantized_layers`."""
    algo = config.get("quant_algo", str)
    size = config.whole("group_size", None, 1, 2**20)
    if size is None:
        size = _group(config)
    key = "ignore" if config.values.get("ignore") is not None else "exclude_modules"
    if algo != "MIXED_PRECISION":
        listed = config.strings(key)
        excluded = _wildcards(listed, f"{config.path}.{key}") if listed else Names(patterns=USUALLY_KEPT)
        return Rules(classes={"Linear": _algo(algo, size)}, ignore=excluded)
    layers = config.inside("quantized_layers")
    if layers is None:
        raise ValueError(f"{config.where('quantized_layers')} is missing; MIXED_PRECISION needs it")
    below = {}
    for name in layers.values:
        layer = layers.inside(name) or ConfigObject({}, f"{layers.path}.{name}")
        below[_official(name)] = _algo(
            layer.get("quant_algo", str), layer.whole("group_size", size, 1, 2**20)
        )
    return Rules(below=below)


def _wildcards(listed: list[str], key: str) -> Names:
    """Names with `*` for anything, as Model Optimizer lists what it leaves out."""
    names: dict[str, set[str]] = {"exact": set(), "starts": set(), "ends": set(), "within": set()}
    patterns = []
    for listed_name in listed:
        name = _official(listed_name)
        inner = name.strip("*")
        if re.search(r"[*?\[]", inner):
            patterns.append(compiled(fnmatch.translate(name), key))
        else:
            place = {(0, 0): "exact", (0, 1): "starts", (1, 0): "ends", (1, 1): "within"}
            names[place[name.startswith("*"), name.endswith("*")]].add(inner)
    within = tuple(names.pop("within"))
    sets = {place: frozenset(of_place) for place, of_place in names.items()}
    return Names(**sets, within=within, patterns=tuple(patterns))


def _group(config: ConfigObject) -> int | None:
    """The group size that Model Optimizer also writes in the style of compressed-tensors."""
    for name in config.get("config_groups", dict) or {}:
        weights = ConfigObject(config.values["config_groups"], f"{config.path}.config_groups").inside(name)
        if weights and (inner := weights.inside("weights")):
            return inner.whole("group_size", None, 1, 2**20)
    return None


def _algo(algo: str | None, size: int | None) -> ModelOpt:
    if algo not in MODELOPT:
        raise unknown(algo, tuple(MODELOPT))
    return ModelOpt("modelopt", algo, size or (32 if algo == "MXFP8" else 16))


def _official(name: str) -> str:
    """The official name of a module that is listed under a loader's: K3's converter lists all of them."""
    short = name.replace(".mlp.experts", ".block_sparse_moe.experts")
    return PATHS + short.removeprefix("model.") if short.startswith(("model.layers.", "layers.")) else short


def gptq(config: ConfigObject) -> Rules:
    """Every Linear of the layers; the head and the embedding stay."""
    form = (config.get("checkpoint_format", str) or config.get("format", str, "gptq")).lower()
    if form not in ("gptq", "gptq_v2"):
        raise unknown(f"gptq with format {form}", ("gptq", "gptq_v2"))
    if config.values.get("dynamic") or config.values.get("modules_in_block_to_quantize"):
        raise ValueError(f"{config.where('dynamic')} has rules for single modules; expected one rule for all")
    scheme = _transposed("gptq", config)
    return Rules(classes={"Linear": scheme}, ignore=Names(patterns=OUTSIDE))


def awq(config: ConfigObject) -> Rules:
    """Every Linear of the layers whose name has none of `modules_to_not_convert` in it."""
    form = (config.get("version", str) or config.get("format", str, "gemm")).lower()
    if form != "gemm":
        raise unknown(f"awq with version {form}", ("gemm",))
    kept = Names(within=tuple(config.strings("modules_to_not_convert")), patterns=OUTSIDE)
    return Rules(classes={"Linear": _transposed("awq", config)}, ignore=kept)


def _transposed(form: str, config: ConfigObject) -> Transposed:
    key = "bits" if config.values.get("bits") is not None else "w_bit"
    bits = config.whole(key, 4, 2, 8)
    if bits not in (2, 4, 8):
        raise ValueError(f"{config.where(key)} is {bits}; expected 2, 4 or 8, which fill words of 32 bits")
    size = config.whole(
        "group_size" if config.values.get("group_size") is not None else "q_group_size", 128, -1, 2**20
    )
    if size == 0:
        raise ValueError(f"{config.where('group_size')} is 0; expected a size, or -1 for one group")
    return Transposed(form, bits, size)


notes = compressed_notes  # kv_cache_scheme has the same name everywhere
