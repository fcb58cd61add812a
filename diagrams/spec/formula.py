"""Formulas over Config names: one text, read as a number, as LaTeX or with the numbers filled in."""

import ast
import difflib
import re
from collections.abc import Mapping

Number = int | float


def evaluate(text: str, values: Mapping[str, Number]) -> Number:
    """The number a formula gives. Only names of `values`, numbers, + - * and parentheses; else ValueError."""
    return _number(_parse(text), values, text)


def latex(text: str) -> str:
    """The formula as LaTeX, names upright."""
    return _write(_parse(text), lambda name: r"\mathrm{" + name.replace("_", r"\_") + "}", r" \cdot ")


def filled(text: str, values: Mapping[str, Number]) -> str:
    """The formula with the numbers in place of the names: "7,168 × 128"."""
    return _write(_parse(text), lambda name: f"{_lookup(name, values, text):,}", " × ")


def names(text: str) -> list[str]:
    """Names in a formula, in order of appearance."""
    return list(dict.fromkeys(n.id for n in ast.walk(_parse(text)) if isinstance(n, ast.Name)))


def shape_terms(text: str) -> list[str]:
    """The axes of "[B, T, heads*v_dim]" as texts."""
    inner = text.strip()
    if not (inner.startswith("[") and inner.endswith("]")):
        raise ValueError(f"{text!r} is no shape; expected axes in brackets such as '[B, T, d]'")
    return [term.strip() for term in inner[1:-1].split(",") if term.strip()]


def shape(text: str, values: Mapping[str, Number]) -> tuple[int, ...]:
    """The sizes of a shape expression."""
    return tuple(int(evaluate(term, values)) for term in shape_terms(text))


def fill_braces(text: str, values: Mapping[str, Number]) -> str:
    """Replace each {formula} in a sentence by its number, with thousands separators."""
    return re.sub(r"\{([^{}]+)\}", lambda m: f"{evaluate(m[1], values):,}", text)


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(str(text).strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(
            f"{text!r} is no formula; expected names, numbers, +, -, * and parentheses"
        ) from None


def _lookup(name: str, values: Mapping[str, Number], text: str) -> Number:
    if name not in values:
        close = difflib.get_close_matches(name, values, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{text!r}: there is no size named {name!r}{hint}")
    return values[name]


def _number(node: ast.expr, values: Mapping[str, Number], text: str) -> Number:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return _lookup(name, values, text)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_number(inner, values, text)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            a, b = _number(left, values, text), _number(right, values, text)
            return a + b if isinstance(op, ast.Add) else a - b if isinstance(op, ast.Sub) else a * b
    raise ValueError(f"{text!r} has {ast.unparse(node)!r}; expected only names, numbers, +, - and *")


def _write(node: ast.expr, name_of, times: str, inside_product: bool = False) -> str:
    match node:
        case ast.Constant(value=value):
            return f"{value:,}" if times == " × " else str(value)
        case ast.Name(id=name):
            return name_of(name)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return "-" + _write(inner, name_of, times, True)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _write(left, name_of, times, True) + times + _write(right, name_of, times, True)
        case ast.BinOp(left=left, op=op, right=right):
            minus = isinstance(op, ast.Sub)
            both = _write(left, name_of, times) + (" - " if minus else " + ")
            both += _write(right, name_of, times, inside_product=minus)
            return f"({both})" if inside_product else both
    raise ValueError(f"{ast.unparse(node)!r}: expected only names, numbers, +, - and *")
