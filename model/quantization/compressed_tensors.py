"""Read `quantization_config` as compressed-tensors writes it, the way of Kimi K3 itself."""

from reprlib import repr as short

from k3scope.model.quantization.compressed_scheme import (
    FLOAT_PACKS,
    FORMATS,
    Arguments,
    CompressedScheme,
)
from k3scope.model.quantization.config_object import ConfigObject, unknown
from k3scope.model.quantization.rules import REGEX, Rules, compiled, names
from k3scope.model.quantization.scheme import Scheme

STRATEGIES = ("tensor", "channel", "group", "block", "token", "tensor_group", "attn_head")
# the format of a config whose groups have several, and what stands for "look at the groups"
OPEN = ("mixed-precision", "fakequant")
STORED = ("compressed", "frozen")  # states in which tensors are stored as the format says
STATES = ("initialized", "calibration", "frozen", "compressed", "decompressed")
BITS = {"mxfp4-pack-quantized": (4,), "nvfp4-pack-quantized": (4,), "mxfp6-pack-quantized": (6,),
        "mxfp8-quantized": (8,), "pack-quantized": tuple(range(1, 9))}  # fmt: skip


def read(config: ConfigObject) -> Rules:
    """The schemes by target. ValueError names the key that is missing, contradictory or unknown."""
    state = config.one_of("quantization_status", STATES, "compressed")
    if state not in STORED:
        raise ValueError(
            f"{config.where('quantization_status')} is {state!r}: such tensors are not stored as a format "
            f"says; expected {' or '.join(map(repr, STORED))}"
        )
    _not_sparse(config)
    config.inside("kv_cache_scheme")
    overall = config.get("format", str)
    if overall is not None and overall not in (*FORMATS, *OPEN, "dense"):
        raise unknown(overall, FORMATS)
    listed = config.inside("config_groups")
    if listed is None:
        raise ValueError(
            f"{config.where('config_groups')} is missing; expected groups with targets and weights"
        )
    targets: dict[str, Scheme] = {}
    for name in listed.values:
        group = listed.inside(name)
        if group is None:
            raise ValueError(f"{listed.where(name)} is null; expected an object with targets and weights")
        named = group.strings("targets")
        targets |= dict.fromkeys(named, _scheme(group, overall))
    return _rules(targets, config)


def notes(config: ConfigObject) -> list[str]:
    """What a config says beyond the weights, and is not counted."""
    said = []
    if config.values.get("kv_cache_scheme"):
        said.append("kv_cache_scheme quantises the caches of a server; scales of it are not counted.")
    if config.values.get("transform_config"):
        said.append("The matrices of transform_config are not counted.")
    if config.values.get("moe_sparsity_config"):
        said.append("Experts that moe_sparsity_config leaves out are counted.")
    return said


def _not_sparse(config: ConfigObject) -> None:
    """Sparse files store other tensors."""
    sparsity = config.inside("sparsity_config")
    if sparsity and (form := sparsity.get("format", str, "dense")) != "dense":
        raise ValueError(
            f"{sparsity.where('format')} is {form!r}; sparse tensors are not known here, only 'dense'"
        )


def _rules(targets: dict[str, Scheme], config: ConfigObject) -> Rules:
    key = f"{config.path}.config_groups.targets"
    plain = {t: s for t, s in targets.items() if not t.startswith(REGEX)}
    patterns = tuple(
        (compiled(t.removeprefix(REGEX), key), s) for t, s in sorted(targets.items()) if t.startswith(REGEX)
    )
    ignore = names(config.strings("ignore"), f"{config.path}.ignore")
    return Rules(exact=plain, patterns=patterns, classes=plain, ignore=ignore)


def _scheme(group: ConfigObject, overall: str | None) -> CompressedScheme:
    weights = _arguments(group.inside("weights"))
    inputs, outputs = (_arguments(group.inside(f"{side}_activations")) for side in ("input", "output"))
    form = group.get("format", str)
    if form is not None and form not in (*FORMATS, "dense"):
        raise unknown(form, FORMATS)
    if form and overall and overall not in OPEN and form != overall:
        raise ValueError(
            f"{group.where('format')} is {form!r}, but quantization_config.format is {overall!r}; "
            "they must be equal, or that of all 'mixed-precision'"
        )
    form = form or (None if overall in OPEN else overall)
    form = _inferred(weights, inputs) if form is None else form
    _agree(group, form, weights)
    for side, args in (("input_activations", inputs), ("output_activations", outputs)):
        if args and not args.dynamic and args.strategy not in ("tensor", "group", "tensor_group"):
            raise ValueError(
                f"{group.where(side)}.strategy is {args.strategy!r}; scales that are stored (dynamic false) "
                "are of a tensor, a group or a tensor_group"
            )
    return CompressedScheme(form, weights, inputs, outputs)


def _inferred(weights: Arguments | None, inputs: Arguments | None) -> str:
    """The format that compressed-tensors chooses when none is said."""
    if weights is None:
        return "dense"
    w = weights
    if w.type == "float":
        packs = {
            (4, 32): "mxfp4-pack-quantized",
            (6, 32): "mxfp6-pack-quantized",
            (4, 16): "nvfp4-pack-quantized",
        }
        if (w.bits, w.group) in packs:
            return packs[w.bits, w.group]
        if (w.bits, w.group, w.scale_dtype) == (8, 32, "U8"):
            return "mxfp8-quantized"
        return "float-quantized" if inputs else "naive-quantized"
    return "int-quantized" if inputs else "pack-quantized" if w.bits <= 8 else "naive-quantized"


def _agree(group: ConfigObject, form: str, weights: Arguments | None) -> None:
    """A format that contradicts the numbers beside it is not counted either way."""
    where = f"{group.path}: format {form!r}"
    if (form == "dense") != (weights is None):
        raise ValueError(
            f"config.json: {where} with {'' if weights else 'no '}weights; they contradict each other"
        )
    if weights is None:
        return
    kind = {"pack-quantized": "int", "int-quantized": "int", "naive-quantized": weights.type}.get(
        form, "float"
    )
    bits = BITS.get(form, (8,) if kind == "float" else tuple(range(1, 17)))
    if weights.type != kind or weights.bits not in bits:
        expected = f"{bits[0]}" if len(bits) == 1 else f"{bits[0]} to {bits[-1]}"
        raise ValueError(
            f"config.json: {where} with weights of {weights.bits} bits and type {weights.type!r}; "
            f"expected {expected} bits and type {kind!r}"
        )
    if form in FLOAT_PACKS and (not weights.symmetric or weights.strategy not in ("group", "tensor_group")):
        raise ValueError(
            f"config.json: {where} with strategy {weights.strategy!r} and symmetric "
            f"{str(weights.symmetric).lower()}; expected groups, symmetric"
        )
    if weights.dynamic or weights.strategy in ("token", "attn_head"):
        raise ValueError(
            f"config.json: {where} with weights that are scaled while it runs; expected stored scales"
        )


def _arguments(args: ConfigObject | None) -> Arguments | None:
    if args is None:
        return None
    group = args.whole("group_size", None, -1, 2**20)
    block = args.pair("block_structure")
    strategy = args.one_of("strategy", STRATEGIES)
    if strategy is None:
        strategy = "tensor" if group is None else "channel" if group == -1 else "group"
    if (strategy in ("group", "tensor_group")) != bool(group and group > 0):
        raise ValueError(
            f"{args.where('group_size')} is {group} with strategy {strategy!r}; groups need a size"
        )
    if (strategy == "block") != (block is not None):
        raise ValueError(
            f"{args.where('block_structure')} is {block} with strategy {strategy!r}; they belong together"
        )
    dynamic = args.values.get("dynamic") or False
    if dynamic not in (True, False, "local") or (dynamic == "local" and strategy != "tensor_group"):
        raise ValueError(
            f"{args.where('dynamic')} is {short(dynamic)}; "
            "expected true, false, or 'local' for a tensor_group"
        )
    order = args.values.get("actorder")
    return Arguments(
        bits=args.whole("num_bits", 8, 1, 16),
        type=args.one_of("type", ("int", "float"), "int"),
        strategy=strategy,
        symmetric=args.get("symmetric", bool, True),
        group=group,
        block=block,
        dynamic=dynamic,
        scale_dtype=args.dtype("scale_dtype"),
        zero_dtype=args.dtype("zp_dtype"),
        reordered=isinstance(order, str) and order.lower() in ("group", "dynamic"),
    )
