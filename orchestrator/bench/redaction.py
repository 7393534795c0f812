"""Blotting secrets out of what an engine says of itself: by value, wherever the value stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

BLOT = "***"
MIN_INSIDE = 6  # characters; a shorter secret is blotted where it stands alone, not inside other words

_SECRET_KEY = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|password|passwd|secret|auth[_-]?token|access[_-]?token|hf[_-]?token)$"
)
_ON_COMMAND_LINE = re.compile(r"--[\w-]*(?:api-key|password|secret|token)[= ](?!--)(\S+)")


def redacted(settings: Mapping[str, Any], *known: str | None) -> dict[str, Any]:
    """A copy of ``settings`` without secrets: those ``known``, and those its own keys and command lines give away."""
    secrets = {secret for secret in (*known, *_given_away(settings)) if secret}
    # Longest first, so that a secret that contains another one is not left half readable.
    return {key: _blotted(value, sorted(secrets, key=len, reverse=True)) for key, value in settings.items()}


def _given_away(value: object, key: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _given_away(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _given_away(inner, key)
    elif isinstance(value, str):
        if _SECRET_KEY.search(key.lower()):
            yield value
        yield from _ON_COMMAND_LINE.findall(value)


def _blotted(value: object, secrets: list[str]) -> object:
    if isinstance(value, Mapping):
        return {key: _blotted(inner, secrets) for key, inner in value.items()}
    if isinstance(value, list):
        return [_blotted(inner, secrets) for inner in value]
    if not isinstance(value, str):
        return value
    for secret in secrets:
        if value == secret:
            return BLOT
        if len(secret) >= MIN_INSIDE:
            value = value.replace(secret, BLOT)
        else:
            value = re.sub(rf"(?<!\S){re.escape(secret)}(?!\S)", BLOT, value)
    return value
