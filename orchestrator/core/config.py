"""A config: one full set of server flags and tunable environment, in canonical names.

Its id is the hash of exactly that and keys history, so neither a version's spelling nor where the engine
listens may change it. Deployment keys (``flags.DEPLOYMENT``) are therefore never part of a config.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

FlagValue = bool | int | float | str | tuple[int, ...] | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Canonical flag names (no leading dashes) to typed values; environment tunables to text."""

    flags: Mapping[str, FlagValue]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Twelve hex digits: SHA-256 of flags and environment in sorted order."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()[:12]

    def canonical_json(self) -> str:
        """The text that is hashed: keys sorted, no blanks, tuples as lists."""
        content = {"environment": dict(self.environment), "flags": dict(self.flags)}
        return json.dumps(content, sort_keys=True, separators=(",", ":"))


def config_from_json(text: str) -> Config:
    """The inverse of ``Config.canonical_json``."""
    content = json.loads(text)
    flags = {k: tuple(v) if isinstance(v, list) else v for k, v in content["flags"].items()}
    return Config(flags=flags, environment=content["environment"])
