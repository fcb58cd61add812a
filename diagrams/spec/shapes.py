"""The step that shapes are shown for: how many sequences, how many tokens, prefill or decoding."""

import re
from dataclasses import dataclass

PHASES = ("prefill", "decode")
MOST = {"B": 1024, "T": 1_048_576}


@dataclass(frozen=True)
class Step:
    """B sequences of T tokens. Decoding computes one token of each; T is the context it attends to."""

    B: int = 1
    T: int = 17
    phase: str = "prefill"
    types: bool = False  # whether arrows name the type of what they carry

    def __post_init__(self):
        for axis, most in MOST.items():
            if not 1 <= getattr(self, axis) <= most:
                raise ValueError(f"{axis} is {getattr(self, axis):,}; expected 1 to {most:,}")
        if self.phase not in PHASES:
            raise ValueError(f"phase is {self.phase!r}; expected {' or '.join(PHASES)}")

    @property
    def sizes(self) -> dict[str, int]:
        return {"B": self.B, "T": self.T}

    def symbolic(self, shape: str, context: bool = False) -> str:
        """A shape with its T as 1 where decoding computes one token; what comes from a cache keeps its T."""
        one = self.phase == "decode" and not context
        return re.sub(r"\bT\b", "1", shape) if one else shape
