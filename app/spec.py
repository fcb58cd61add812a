"""What a run is: a model, its weights and a prompt; and the id that follows from them."""

import base64
import hashlib
import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class RunSpec:
    """All that a run depends on. `weights` is the short hash of the weights."""

    model: str
    weights: str
    prompt: str

    @property
    def canonical(self) -> str:
        """The same text for the same run, on every machine."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @property
    def id(self) -> str:
        digest = hashlib.sha256(self.canonical.encode()).digest()
        return base64.b32encode(digest)[:12].decode().lower()
