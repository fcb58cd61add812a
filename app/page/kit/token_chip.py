"""Tokens as the browser draws them."""

from k3scope.model.tokenizers.tokenizer import Token


def chip(token: Token) -> list:
    """[id, visible text, kind]: kind is special, space, byte (not a character by itself) or empty."""
    if token.special:
        return [token.id, token.text, "special"]
    if token.raw.isspace():
        return [token.id, token.text.replace(" ", "␣"), "space"]
    return [token.id, token.text, "byte" if token.part else ""]
