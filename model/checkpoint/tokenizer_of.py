"""Which tokenizer belongs to a model."""

from pathlib import Path

from k3scope.model.checkpoint.model_registry import folder_of
from k3scope.model.presets import READS_AS
from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.tokenizers.tiktoken_file import FILE, TiktokenTokenizer
from k3scope.model.tokenizers.tokenizer import Tokenizer

OWN = "tokenizer.json"


def tokenizer_of(source: str | Path, vocab: int) -> Tokenizer:
    """The tokenizer in a model's folder, or in that of the model it reads as.

    ValueError when there is none, or when it has ids that a model of `vocab` rows does not know.
    """
    folder = folder_of(READS_AS.get(str(source), source))
    if (folder / FILE).exists():
        tokenizer = TiktokenTokenizer.load(folder)
    elif (folder / OWN).exists():
        tokenizer = BpeTokenizer.load(folder / OWN)
    else:
        raise ValueError(
            f"{source} has no tokenizer here ({FILE} or {OWN} in its folder; vocabulary {vocab:,}); give ids"
        )
    if tokenizer.vocab > vocab:
        raise ValueError(f"{source}: the tokenizer has {tokenizer.vocab:,} ids; the model knows {vocab:,}")
    return tokenizer
