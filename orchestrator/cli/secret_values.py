"""The values behind an entry's ``secrets``: from files and variables here, and from environment files on the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from orchestrator.core.adopt.expand import read_environment
from orchestrator.core.inventory import SecretRef, ServiceEntry
from orchestrator.core.secrets import check
from orchestrator.errors import InputRefused


def read_values(entry: ServiceEntry, folder: Path, reveal: Callable[[str], str]) -> dict[str, str]:
    """Each secret's value by its name. Relative paths are below ``folder``; ``reveal`` reads a file on the host.

    Raises ``InputRefused`` with every secret that cannot be read or used, ``HostFault`` when the host does not let us
    read its file; no value is in a message.
    """
    values: dict[str, str] = {}
    faults: list[str] = []
    for secret in entry.secrets:
        try:
            value = _read(secret, folder, reveal)
            values[secret.name] = check(secret.name, value, is_flag=secret.flag is not None)
        except InputRefused as refused:
            faults.append(f"services.{entry.name}.secrets.{secret.name}: {refused.fact}")
    if faults:
        raise InputRefused("the secrets of this service cannot be used. Nothing has been touched.", faults=faults)
    return values


def _read(secret: SecretRef, folder: Path, reveal: Callable[[str], str]) -> str:
    if secret.env is not None:
        if secret.env not in os.environ:
            raise InputRefused(f"the variable {secret.env} is not set in tune's own environment")
        return os.environ[secret.env]
    if secret.file is not None:
        path = folder / Path(secret.file).expanduser()
        try:
            return path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputRefused(f"{secret.file} cannot be read: {_why(error)}") from error
    assert secret.host_file is not None  # one of the three is there
    assert secret.variable is not None
    found = read_environment(reveal(secret.host_file)).values
    if secret.variable not in found:
        raise InputRefused(f"{secret.host_file} on the host does not set {secret.variable}")
    return found[secret.variable]


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is no text"
