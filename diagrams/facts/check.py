"""Hold every description against the module tree: what does not match, as sentences."""

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import exists, parameters, probes, resolve
from k3scope.diagrams.spec import block_spec, formula


def problems(facts: Facts) -> list[str]:
    """Each mismatch between the YAML files and the live model, with file and field."""
    sentences = []
    for block in facts.blocks.values():
        try:
            sentences += _block(facts, block)
        except ValueError as error:
            sentences.append(str(error))
    return sentences + _coverage(facts)


def _block(facts: Facts, block: block_spec.Block) -> list[str]:
    sentences = []
    counted = facts.per_instance(block)
    stated = formula.evaluate(block.params, facts.sizes)
    if block.leaves and counted != stated:
        sentences.append(f"{block.id}.yaml: params gives {stated:,}; the tensors have {counted:,}")
    path = facts.instances(block)[-1]
    for point, text in block.out.items():
        formula.shape(text, facts.sizes)
        if not exists(facts.model, resolve(path, point)):
            sentences.append(
                f"{block.id}.yaml: out names {point!r}, which is no module at {path or 'the root'}"
            )
    for symbol in block.symbols:
        defined = symbol.is_ == "local" or symbol.is_ in facts.sizes
        if not defined and not exists(facts.model, resolve(path, symbol.is_)):
            sentences.append(
                f"{block.id}.yaml: symbol {symbol.symbol} is {symbol.is_!r}: no point, parameter or size"
            )
    return sentences


def _coverage(facts: Facts) -> list[str]:
    """Every parameter and every probe has exactly one block."""
    owned: dict[str, str] = {}
    sentences = []
    for block in facts.blocks.values():
        for path in facts.instances(block):
            own = {resolve(path, leaf) for leaf in block.leaves} & probes(facts.model)
            for leaf in own | parameters(facts.model, block, path).keys():
                if leaf in owned:
                    sentences.append(f"{leaf} belongs to both {owned[leaf]}.yaml and {block.id}.yaml")
                owned[leaf] = block.id
    everything = {name for name, _ in facts.model.named_parameters()} | probes(facts.model)
    return sentences + [f"{leaf} belongs to no block" for leaf in sorted(everything - owned.keys())]
