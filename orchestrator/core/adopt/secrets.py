"""What is a secret, and how a text is shown without it. A value that might be one is treated as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

FLAGS = ("api-key", "admin-api-key", "hf-token", "ssl-keyfile-password")
"""Engine flags (SGLang, vLLM) whose value is a secret."""

_LAST = frozenset({"key", "token", "secret", "password", "passwd", "passphrase", "apikey", "credential", "credentials"})
_NAMES = frozenset({"aws_access_key_id", "pgpass"})
_SHAPES = re.compile(
    r"""\b(?:sk|pk|rk)-[A-Za-z0-9_-]{8,}     # keys of model services, and what people imitate of them
    | \bhf_[A-Za-z0-9]{8,} | \bgh[pousr]_[A-Za-z0-9]{16,} | \bgithub_pat_\w{16,} | \bglpat-[\w-]{16,}
    | \bnvapi-[\w-]{16,} | \bxox[abprs]-[\w-]{10,} | \bAKIA[0-9A-Z]{16}\b
    | \bBearer\s+[^\s"']+
    | (?<=://)[^/@\s:]+:[^/@\s]+(?=@)       # user:password in an address
    """,
    re.VERBOSE,
)
SHOWN = "(not shown)"
SHORTEST = 4
"""Shorter values are not looked for inside other texts: they would be found everywhere."""


def is_secret_flag(name: str, *, known: bool) -> bool:
    """``name`` without dashes. argparse takes unique prefixes, so ``api-k`` counts; so does an unknown ``…-key``."""
    plain = name.replace("_", "-").lower()
    if plain in FLAGS:
        return True
    if known or not plain:
        return False
    return any(flag.startswith(plain) for flag in FLAGS) or plain.rsplit("-", 1)[-1] in _LAST


def is_secret_variable(name: str, value: str) -> bool:
    """An environment variable whose name or value says that it is nobody's business."""
    plain = name.lower()
    return plain in _NAMES or plain.rsplit("_", 1)[-1] in _LAST or redact(value, ()) != value


def looks_secret(value: str) -> bool:
    """A value in the shape of a well-known kind of key, or an address with a password in it."""
    return _SHAPES.search(value) is not None


def redact(text: str, values: Iterable[str]) -> str:
    """``text`` without the given values and without anything in the shape of a key."""
    for value in sorted(set(values), key=len, reverse=True):
        if len(value) >= SHORTEST:
            text = text.replace(value, SHOWN)
    text = re.sub(r"(--(?:[\w-]*-)?(?:api-?key|token|password|secret)[= ]+)(?!\()[^\s\"']+", rf"\1{SHOWN}", text)
    text = re.sub(r"(\b\w*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)=)(?!\()[^\s\"']+", rf"\1{SHOWN}", text)
    return _SHAPES.sub(SHOWN, text)


def mask_words(words: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """A command line whose secret flags have lost their values. ``known``: names that are certainly something else."""
    names = frozenset(known)
    shown: list[str] = []
    hiding = False
    for word in words:
        if word.startswith("--"):
            name, equals, _ = word[2:].partition("=")
            hiding = is_secret_flag(name, known=name in names)
            shown.append(f"--{name}={SHOWN}" if hiding and equals else redact(word, ()))
        else:
            shown.append(SHOWN if hiding else redact(word, ()))
    return tuple(shown)
