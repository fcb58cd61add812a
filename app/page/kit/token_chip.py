"""Tokens as the browser draws them."""

from k3scope.model.tokenizers.tokenizer import Token


def chip(piece: Token) -> list:
    """[id, visible text, kind]: kind is special, space, byte (not a character by itself) or empty."""
    if piece.special:
        return [piece.id, piece.text, "special"]
    if piece.raw.isspace():
        return [piece.id, piece.text.replace(" ", "␣"), "space"]
    return [piece.id, piece.text, "byte" if piece.part else ""]
