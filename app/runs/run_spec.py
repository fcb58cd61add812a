"""What a run is: model, weights, prompt, images, interventions, generated tokens; and the id of all that."""

import base64
import hashlib
import json
from dataclasses import asdict, dataclass

# Names in the stored text. An id is made of that text, so these never change, whatever the fields are called.
STORED_NAMES = {"interventions": "changes", "generated_ids": "more"}
OPTIONAL = ("images", "interventions", "generated_ids")  # left out when empty: older runs keep their id


@dataclass(frozen=True)
class RunSpec:
    """All that a run depends on. `weights` is the short hash of the model: of its weights, config and
    tokenizer, or in older runs of its weights alone.
    """

    model: str
    weights: str
    prompt: str
    images: tuple[str, ...] = ()  # sha256 of the files, in the order of the prompt
    interventions: str = ""  # canonical JSON, as `interventions.intervention.dumps` writes it
    generated_ids: tuple[int, ...] = ()  # ids of tokens after the prompt, chosen one by one

    @classmethod
    def read(cls, canonical: str) -> "RunSpec":
        """The spec of a stored text."""
        stored = json.loads(canonical)
        values = {
            name: stored[key] for name in cls._names() if (key := STORED_NAMES.get(name, name)) in stored
        }
        return cls(**values | {name: tuple(values.get(name, ())) for name in ("images", "generated_ids")})

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        return tuple(cls.__dataclass_fields__)

    @property
    def canonical(self) -> str:
        """The same text for the same run, on every machine. What a run lacks is not named."""
        values = {
            STORED_NAMES.get(name, name): value
            for name, value in asdict(self).items()
            if name not in OPTIONAL or value
        }
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @property
    def id(self) -> str:
        """Twelve characters of base32: the first 60 bits of the text's sha256."""
        digest = hashlib.sha256(self.canonical.encode()).digest()
        return base64.b32encode(digest)[:12].decode().lower()
