"""The code behind a block: the source of the class that runs, with the lines that concern it."""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from torch import nn

from k3scope.diagrams.facts.instances import instances
from k3scope.diagrams.spec.block_spec import Block
from k3scope.model.kernels import ops, reference
from k3scope.model.kimi_k3 import KimiK3

# operators have no class of their own: the readable reference is shown beside the module that calls it
OPERATORS = {
    "DeltaRule": reference.kda,
    "Experts": reference.experts,
    "Combine": reference.combine,
    "AttnResMix": reference.mix,
    "SituMLP": reference.situ_glu,
}
PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Listing:
    """One excerpt of source: where it is from, the text, and line numbers (from 1) to mark."""

    label: str
    text: str
    marked: tuple[int, ...] = ()


def listings(model: KimiK3, block: Block) -> list[Listing]:
    """Source of the block's class, of the class that uses it, and of the operator it calls."""
    path = instances(model, block)[0]
    own = [_class_of(model, name) for name in block.of]
    shown = list(dict.fromkeys(c for cls in own for c in _with_bases(cls)))
    excerpts = [_listing(cls, _own_attributes(block)) for cls in shown]
    if path and len(own) == 1:
        excerpts += _call_site(model, path, own[0])
    for cls in own:
        if operator := OPERATORS.get(cls.__name__):
            excerpts.append(
                _listing(operator, (), f"reference operator, the path that runs: {ops.path_in_use()}")
            )
    return excerpts


def lines_about(source: str, attributes: tuple[str, ...]) -> tuple[int, ...]:
    """Lines of simple statements that mention `self.<attribute>` for any of the attributes."""
    lines = set()
    for statement in ast.walk(ast.parse(source)):
        if not isinstance(statement, ast.stmt) or hasattr(statement, "body"):
            continue
        mentioned = {
            n.attr
            for n in ast.walk(statement)
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self"
        }
        if mentioned & set(attributes):
            lines |= set(range(statement.lineno, statement.end_lineno + 1))
    return tuple(sorted(lines))


def config_names(text: str) -> list[str]:
    """Config fields that a source mentions as `c.name`, or `vit.name` for the sizes of the vision half."""
    matches = re.findall(r"\b(c|vit)\.([a-z_0-9]+)", text)
    return list(dict.fromkeys(name if owner == "c" else f"vit_{name}" for owner, name in matches))


def summary_of(model: KimiK3, block: Block) -> str:
    """First line of the class docstring."""
    return (inspect.getdoc(_class_of(model, block.of[0])) or "").split("\n")[0]


def file_of(thing: type | Callable) -> str:
    """The file of a class or function below the package, "model/kda.py"; of one that is not ours its module.

    Read off the module's name: the same in a checkout and where the package is installed.
    """
    package, _, path = thing.__module__.partition(".")
    if package != PACKAGE:
        return thing.__module__
    inside = "/__init__" if hasattr(sys.modules.get(thing.__module__), "__path__") else ""
    return f"{path.replace('.', '/')}{inside}.py"


def _own_attributes(block: Block) -> tuple[str, ...]:
    """Attributes of the class that are this block's; empty when the whole class is the block."""
    inside = [leaf.split(".")[0] for leaf in (*block.leaves, *block.out) if not leaf.startswith(".")]
    return tuple(dict.fromkeys(inside))


def _with_bases(cls: type) -> list[type]:
    """The class that runs, then those of ours that it takes methods from."""
    return [cls, *[c for c in cls.__mro__[1:] if c.__module__.startswith("k3scope.model.")]]


def _call_site(model: KimiK3, path: str, own: type) -> list[Listing]:
    """The method that calls this module, for modules whose class says little about their role."""
    owner, _, attribute = path.rpartition(".")
    user = type(model.get_submodule(owner))
    if issubclass(user, nn.ModuleList) or not user.__module__.startswith("k3scope.model.") or user is own:
        return []
    users = [c for c in _with_bases(user) if lines_about(_source(c), (attribute,))] or [user]
    return [_listing(cls, (attribute,), "used in") for cls in users]


@cache
def _source(thing) -> str:
    return textwrap.dedent(inspect.getsource(thing))


def _listing(thing, attributes: tuple[str, ...], note: str = "") -> Listing:
    text = _source(thing)
    name = f"{note} {thing.__name__}" if note == "used in" else thing.__name__
    label = f"{name} · {file_of(thing)}" + (f" · {note}" if note and note != "used in" else "")
    return Listing(label, text, lines_about(text, attributes))


def _class_of(model: KimiK3, name: str) -> type:
    """The class of that name, or the one of this model that extends it."""
    return next(type(m) for m in model.modules() if name in (c.__name__ for c in type(m).__mro__))
