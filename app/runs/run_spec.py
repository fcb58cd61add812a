"""What a run is: a model, its weights, a prompt tokens, images and changes; and the id that follows."""

import base64
import hashlib
import json
from dataclasses import asdict, dataclass

OPTIONAL = ("images", "changes", "more")  # what a run without them does not name, so that its id stays


@dataclass(frozen=True)
class RunSpec:
    """All that a run depends on. `weights` is the short hash of the weights."""

    model: str
    weights: str
    prompt: str
    images: tuple[str, ...] = ()  # sha256 of the files, in the order of the prompt
    changes: str = ""  # interventions, as `model.intervene.dumps` writes them
    more: tuple[int, ...] = ()  # ids of tokens after the prompt, chosen one by one

    @classmethod
    def read(cls, canonical: str) -> "RunSpec":
        values = json.loads(canonical)
        return cls(**values | {name: tuple(values.get(name, ())) for name in ("images", "more")})

    @property
    def canonical(self) -> str:
        """The same text for the same run, on every machine. What a run lacks is not named."""
        values = {name: value for name, value in asdict(self).items() if name not in OPTIONAL or value}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @property
    def id(self) -> str:
        digest = hashlib.sha256(self.canonical.encode()).digest()
        return base64.b32encode(digest)[:12].decode().lower()
