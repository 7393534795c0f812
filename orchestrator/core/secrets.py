"""How secret values reach a unit, and how every text is kept free of them.

Variables come from an ``EnvironmentFile=``, flags from a ``--config`` file (all versions of SGLang take one; the
command line wins over it) that systemd hands to the unit's user as a credential. Both files are root's alone; those
of a trial lie below ``/run`` and go with it, those of production stay. The unit's text and argv name the files and
never hold a value.

An engine that is a child process gets its variables through a pipe, and nothing of them lies on a disk.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.units import Role
from orchestrator.errors import InputRefused

SHOWN = "(not shown)"
SHORTEST = 8
"""A shorter value could not be told from ordinary words, and so not be kept out of text."""

VARIABLES, CONFIG = "environment", "engine.yaml"  # SGLang wants the ending .yaml
_FOLDERS: Mapping[Role, str] = {"trial": "/run/tune/{name}", "production": "/var/lib/tune/{name}/secrets"}
_CREDENTIALS = "/run/credentials"

Anything = TypeVar("Anything")


def unit_lines(entry: ServiceEntry, role: Role = "trial") -> tuple[str, ...]:
    """The lines of [Service] that give a unit its secrets; none for a service without."""
    if entry.host.manager == "process":
        return ()
    folder, lines = _FOLDERS[role].format(name=entry.name), []
    if any(secret.flag is None for secret in entry.secrets):
        lines.append(f"EnvironmentFile={folder}/{VARIABLES}")
    if any(secret.flag is not None for secret in entry.secrets):
        lines.append(f"LoadCredential={CONFIG}:{folder}/{CONFIG}")
    return tuple(lines)


def config_words(entry: ServiceEntry, role: Role = "trial") -> tuple[str, ...]:
    """The words of the command line that give the engine its secret flags."""
    if all(secret.flag is None for secret in entry.secrets):
        return ()
    unit = entry.unit if role == "production" else entry.trial_unit
    return ("--config", f"{_CREDENTIALS}/{unit}/{CONFIG}")


def files(entry: ServiceEntry, values: Mapping[str, str]) -> dict[str, str]:
    """The files that ``unit_lines`` speak of, with their text. ``values``: the value of each secret, by its name."""
    made: dict[str, str] = {}
    for secret in entry.secrets:
        value = values[secret.name]
        if secret.flag is None:
            made[VARIABLES] = made.get(VARIABLES, "") + f'{secret.name}="{_escaped(value)}"\n'
        else:  # a JSON text is a YAML one
            made[CONFIG] = made.get(CONFIG, "") + f"{secret.flag}: {json.dumps(value)}\n"
    return made


def variables(entry: ServiceEntry, values: Mapping[str, str]) -> dict[str, str]:
    """The secrets that are environment variables of the engine, by name."""
    return {secret.name: values[secret.name] for secret in entry.secrets if secret.flag is None}


def obstacles(entry: ServiceEntry) -> tuple[str, ...]:
    """Why the secrets of a service could not be given to its trials, in sentences."""
    if not entry.secrets:
        return ()
    names = ", ".join(secret.name for secret in entry.secrets if secret.flag is not None)
    if names and entry.host.manager == "process":
        host = entry.host.name
        return (f"secrets ({names}) of flags are given to units of systemd only, and {host} has manager: process",)
    if names and "config" in entry.flags:
        return (f"secrets ({names}) of flags go into a --config file, and SGLang takes one: flags has config already",)
    return ()


def check(name: str, value: str, *, is_flag: bool) -> str:
    """The value. Raises ``InputRefused``, which does not quote it, for one that cannot be kept or delivered."""
    problem = None
    if not value:
        problem = "is empty"
    elif not (value.isascii() and value.isprintable()):
        problem = "holds line ends, control characters or characters outside ASCII"
    elif len(value) < SHORTEST:
        problem = f"has fewer than {SHORTEST} characters: it could not be kept out of logs"
    elif is_flag and value.startswith("-"):
        problem = "begins with a dash, and SGLang's parser would take it for a flag"
    if problem is not None:
        raise InputRefused(f"the secret {name} {problem}", remedy="look at the file or variable it was read from")
    return value


def _escaped(value: str) -> str:
    """Inside double quotes of an environment file; nothing else is special there (systemd.exec(5))."""
    return "".join(f"\\{character}" if character in '"\\`$' else character for character in value)


class Redactor:
    """Takes known values out of texts, whatever they were written into: JSON, an address, another program's quotes."""

    def __init__(self) -> None:
        self._known: tuple[str, ...] = ()

    def learn(self, values: Iterable[str]) -> None:
        """From here on these values are taken out."""
        forms = {form for value in values for form in (value, json.dumps(value)[1:-1], quote(value, safe=""))}
        self._known = tuple(sorted({*self._known, *forms}, key=len, reverse=True))

    def text(self, text: str) -> str:
        """The text without any known value."""
        for value in self._known:
            text = text.replace(value, SHOWN)
        return text

    def anything(self, content: Anything) -> Anything:
        """The same with every text in it redacted: mappings, sequences and dataclasses are gone through."""
        return self._redacted(content) if self._known else content

    def error(self, error: BaseException) -> None:
        """Redact, in place, everything an error says."""
        if not self._known:
            return
        for name, said in vars(error).items():
            setattr(error, name, self.anything(said))
        error.args = self.anything(error.args)

    def _redacted(self, content: Any) -> Any:
        if isinstance(content, str):
            return self.text(content)
        if isinstance(content, Mapping):
            return {self._redacted(key): self._redacted(value) for key, value in content.items()}
        if isinstance(content, tuple | list):
            made = [self._redacted(item) for item in content]
            return made if isinstance(content, list) else tuple(made)
        if dataclasses.is_dataclass(content) and not isinstance(content, type):
            said = {field.name: getattr(content, field.name) for field in dataclasses.fields(content)}
            changed = {name: after for name, value in said.items() if (after := self._redacted(value)) != value}
            return dataclasses.replace(content, **changed) if changed else content
        return content
