"""Where a number on the page comes from: its formula filled in, the terms it is the sum of, or its source."""

from calendar import month_name
from dataclasses import dataclass

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.records import BlockFacts
from k3scope.diagrams.spec import block_spec, formula
from k3scope.diagrams.spec.citations import REPORT, REPOSITORY, REVISION, TREE, Citation, citation_of
from k3scope.model.count_notes import rule_note


@dataclass(frozen=True)
class Provenance:
    """An answer to "where does this number come from?"."""

    value: str
    text: str
    formula: str = ""
    filled: str = ""
    terms: tuple[tuple[str, int], ...] = ()  # they add up to the value
    tensors: tuple[str, ...] = ()
    source: Citation | None = None


@dataclass(frozen=True)
class Headline:
    """One line of the facts of a model: what it is, its value, and where that comes from."""

    label: str
    value: str
    provenance: Provenance


def of_block(facts: Facts, block: BlockFacts, layer: int | None = None) -> Provenance:
    """The parameters of a block, or of its instance in a layer: counted on its tensors or summed."""
    if block.group:
        alone = layer is not None and block.layers == [layer]
        text = f"The sum of the blocks inside, {'in this layer' if alone else 'over all their instances'}."
        return Provenance(f"{block.total:,}", text, terms=_inside(facts, block.id, layer if alone else None))
    many = f"{block.per_instance:,} in each of {block.count} instances, {block.where}"
    return Provenance(
        value=f"{block.total:,}",
        text=f"Counted on the tensors: {many if block.count > 1 else block.where}.",
        formula=block.params_formula,
        filled=f"{block.params_filled} = {block.per_instance:,}",
        tensors=tuple(name for name, _, _ in block.tensors),
    )


def of_share(facts: Facts, block: BlockFacts) -> Provenance:
    total = facts.totals.total
    return Provenance(
        value=f"{100 * block.share:.4g}%",
        text="The parameters of the block over those of the whole model, vision half included.",
        filled=f"{block.total:,} / {total:,}",
    )


def of_bytes(facts: Facts, block_id: str) -> Provenance:
    """What a block takes in a checkpoint: its tensors by type, each type's width times its elements."""
    stored = facts.layout.storage(facts.own(block_id))
    kinds = ", ".join(f"{n:,} {dtype}" for dtype, n in stored.by_dtype.items())
    kind = " and ".join(stored.labels)
    scales = f" {stored.scale_bytes:,} bytes of them are {kind} scales." if stored.scale_bytes else ""
    if stored.labels and (note := rule_note(facts.layout)) in facts.notes:
        scales += f" {note}"
    tensors = f"{stored.tensors:,} tensor{'s' * (stored.tensors != 1)}"
    return Provenance(
        value=f"{stored.bytes:,}",
        text=f"{tensors} in the official layout, each by shape and type: {kinds}.{scales}",
        source=_index(facts, "total_size, the sum of all rows"),
    )


def kinds(facts: Facts) -> str:
    """How many layers have which attention: "69 KDA + 24 MLA"."""
    return " + ".join(f"{n} {kind.upper()}" for kind, n in facts.kinds.items() if n)


def headlines(facts: Facts) -> list[Headline]:
    """The facts of a model, each with its provenance; of parts that it lacks there are none."""
    totals, c = facts.totals, facts.config
    rows = [
        ("", "parameters", f"{totals.total:,}", total),
        ("", "active for one token", f"{totals.active:,}", active),
        ("", "layers", f"{c.layers} = {kinds(facts)}", layers),
        ("moe_layers", "routed experts", f"{c.experts}, {c.top_k} per token", experts),
        ("", "context", f"{c.max_positions:,} tokens", context),
        ("mla_layers", "cache of a token", f"{_cache(facts):,} bytes", cache),
        ("kda_layers", "state of a sequence", f"{_state(facts):,} bytes", state),
        ("", "checkpoint", f"{totals.storage.bytes:,} bytes", checkpoint),
    ]
    return [Headline(title, text, told(facts)) for needed, title, text, told in rows if facts.has(needed)]


def total(facts: Facts) -> Provenance:
    t = facts.totals
    terms = (("text", t.text), *((("vision tower and projector", t.vision),) if t.vision else ()))
    inside = [(what, n) for what, n in (("padding of A_log", t.padding), ("never used", t.unused)) if n]
    stored = "; of the text " + " and ".join(f"{n:,} are {what}" for what, n in inside) if inside else ""
    return Provenance(
        value=f"{t.total:,}",
        text=f"Counted on the module tree, which has every shape and no weights{stored}. "
        f"Packed bytes and scales are no parameters.{_notes(facts)}",
        terms=terms,
        source=_index(facts, "names of all tensors and their size in all"),
    )


def active(facts: Facts) -> Provenance:
    """What works on one token: all but the lookup table and the experts that were not chosen."""
    c, t = facts.config, facts.totals
    less, terms = [], [("text", t.text)]
    if c.own_head:
        less.append("the lookup table (a token reads one row of it)")
        terms.append(("token embedding", -facts.own_total(facts.blocks["token_embedding"])))
    if facts.has("moe_layers"):
        routed = facts.own_total(facts.blocks["moe_experts"])
        less.append("the experts that were not chosen")
        idle = routed - routed // c.experts * c.top_k
        terms.append((f"{c.experts - c.top_k} of {c.experts} experts, in every MoE layer", -idle))
    return Provenance(
        value=f"{t.active:,}",
        text=f"All text parameters{''.join(', less ' + part for part in less)}. The LM head is counted.",
        terms=tuple(terms),
        source=_official(facts, {"report": "model table", "for": "104.2B activated", "mark": "A"}),
    )


def layers(facts: Facts) -> Provenance:
    c = facts.config
    first = "layer 0" if c.dense_layers == 1 else f"the first {c.dense_layers}"
    dense = {0: "none", c.layers: "all"}.get(c.dense_layers, first)
    return Provenance(
        value=f"{c.layers}",
        text=f"One kind of attention per layer; {dense} with a dense FFN. Official lists count from 1.",
        terms=tuple((f"{kind.upper()} layers", n) for kind, n in facts.kinds.items() if n),
        source=_config(facts, "num_hidden_layers, linear_attn_config, first_k_dense_replace"),
    )


def experts(facts: Facts) -> Provenance:
    c = facts.config
    return Provenance(
        value=f"{c.experts}",
        text=f"In each of {c.layers - c.dense_layers} layers. "
        + (
            f"{c.shared_experts} shared ones always run and are in neither number."
            if c.shared_experts
            else "There is no shared one."
        ),
        source=_config(facts, "num_experts, num_experts_per_token, num_shared_experts"),
    )


def context(facts: Facts) -> Provenance:
    return Provenance(
        value=f"{facts.config.max_positions:,}",
        text="A field of the configuration. Nothing in the text model encodes a position.",
        source=_config(facts, "max_position_embeddings"),
    )


def cache(facts: Facts) -> Provenance:
    text = "mla_layers*(kv_rank + shared_key_dim)*2"
    return Provenance(
        value=f"{_cache(facts):,}",
        text="Latent and shared key of every MLA layer, in bf16 (2 bytes). KDA layers cache no tokens.",
        formula=text,
        filled=formula.filled(text, sizes(facts)),
        source=_config(facts, "kv_lora_rank, qk_rope_head_dim, full_attn_layers"),
    )


def state(facts: Facts) -> Provenance:
    text = "kda_layers*kda_heads*kda_head_dim*kda_head_dim*4"
    return Provenance(
        value=f"{_state(facts):,}",
        text="One matrix per KDA head in float32 (4 bytes), whatever the length of the text; the last inputs "
        "of the convolutions come on top.",
        formula=text,
        filled=formula.filled(text, sizes(facts)),
        source=_config(facts, "linear_attn_config num_heads, head_dim, kda_layers"),
    )


def checkpoint(facts: Facts) -> Provenance:
    storage, difference = facts.totals.storage, facts.totals.difference(facts.name)
    checked = ""
    if difference is not None:
        checked = (
            f" Difference to the official index: {difference.tensors} tensors, {difference.bytes} bytes."
        )
    return Provenance(
        value=f"{storage.bytes:,}",
        text=f"{storage.tensors:,} tensors in the official layout, each by shape and type."
        f"{checked}{_notes(facts)}",
        source=_index(facts, "total_size"),
    )


def by_rule(facts: Facts) -> Provenance | None:
    """That the stored format of a model was counted by its rule alone; None when an index agrees."""
    if (note := rule_note(facts.layout)) not in facts.notes:
        return None
    return Provenance(" and ".join(facts.totals.storage.labels), note)


def snapshot(facts: Facts) -> Provenance | None:
    """Which state of the release everything here was read from; None for a model that is not the release."""
    if facts.name != "kimi-k3":
        return None
    year, month = divmod(int(REPORT.rpartition("/")[2][:4]), 100)  # arXiv numbers begin with both
    return Provenance(
        value=REVISION[:7],
        text=f"The official files at revision {REVISION[:12]}, and the report as of {month_name[month]} "
        f"20{year} ({REPORT.removeprefix('https://')}). Later changes of either are not in here.",
        source=Citation(f"{REPOSITORY} at this revision", TREE, ""),
    )


def sizes(facts: Facts) -> dict[str, int | float]:
    """The sizes of a model with its counts: layers of each kind and parameters."""
    c, t = facts.config, facts.totals
    counts = {"kda_layers": facts.kinds["kda"], "mla_layers": facts.kinds["mla"]}
    counts |= {"moe_layers": c.layers - c.dense_layers, "total": t.total, "active": t.active, "text": t.text}
    return facts.sizes | counts | {"checkpoint_bytes": t.storage.bytes, "tensors": t.storage.tensors}


def _notes(facts: Facts) -> str:
    return "".join(f" {note}" for note in facts.notes)


def _cache(facts: Facts) -> int:
    return int(formula.evaluate("mla_layers*(kv_rank + shared_key_dim)*2", sizes(facts)))


def _state(facts: Facts) -> int:
    return int(formula.evaluate("kda_layers*kda_heads*kda_head_dim*kda_head_dim*4", sizes(facts)))


def _inside(facts: Facts, group: str, layer: int | None) -> tuple[tuple[str, int], ...]:
    children = facts.view.children(None if group == "kimi_k3" else group)
    ids = [i for i in children if i in block_spec.blocks()]
    blocks = [facts.block(i, layer) for i in ids if layer is None or layer in facts.block(i).layers]
    return tuple((f"{b.title} × {b.count}" if b.count > 1 else b.title, b.total) for b in blocks if b.total)


def _config(facts: Facts, keys: str) -> Citation | None:
    return _official(facts, {"file": "config.json", "for": keys})


def _index(facts: Facts, what: str) -> Citation | None:
    return _official(facts, {"file": "model.safetensors.index.json", "for": what})


def _official(facts: Facts, raw: dict) -> Citation | None:
    """Only the release itself has official files."""
    return citation_of(raw) if facts.name == "kimi-k3" else None
