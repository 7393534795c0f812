"""Put the helper on a host, and check on first contact that it is the one this tune speaks to.

Its content is compared by hash, its place by owner and mode: root, and writable by root alone. The check is made
with the host's own programs, since a helper that was altered can say of itself whatever it likes.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path, PurePosixPath

from orchestrator.core.commands import Command, Reply
from orchestrator.core.commands.helper import HELPER_PATH
from orchestrator.core.commands.put import put
from orchestrator.core.ports import Host
from orchestrator.errors import HostFault

_FOLDER = str(PurePosixPath(HELPER_PATH).parent)
_MODES = ["0 41ed", "0 81ed"]  # owner and st_mode: a folder 0755 and a plain file 0755, both root's
_SOURCE = Path(__file__).with_name("tune_helper.py")


def ensure_helper(host: Host) -> tuple[str, ...]:
    """See that the right helper is there and return the words to put in front of it: none for root, or ``sudo -n``.

    A login as root puts it there, or replaces it when it is another one. For others raises ``HostFault`` naming
    ``tune host setup``.
    """
    user = host.run(Command(argv=("id", "-u", "-n"), parse=_text))
    fault = look(host)
    if user != "root":
        if fault is not None:
            raise HostFault(
                f"{host.name}: {fault}",
                cause="only root can put the helper there",
                remedy=f"tune host setup ROOT --user {user}, where `ssh ROOT` reaches {host.name} as root",
            )
        return ("sudo", "-n")
    if fault is not None:
        put_helper(host)
    return ()


def put_helper(host: Host, prefix: tuple[str, ...] = ()) -> None:
    """Put this version's helper there, whole, and see that it lies as it should. ``prefix`` makes us root."""
    folders = ("install", "-d", "-o", "root", "-g", "root", "-m", "0755", str(PurePosixPath(_FOLDER).parent), _FOLDER)
    host.run(Command(argv=(*prefix, *folders), parse=_done))
    whole = put(_SOURCE.read_bytes(), HELPER_PATH, mode=0o755)
    host.run(replace(whole, argv=(*prefix, *whole.argv)))
    fault = look(host)
    if fault is not None:
        raise HostFault(f"{host.name}: the helper was put there, and yet {fault}")


def source_digest() -> str:
    """SHA-256 of this version's helper."""
    return hashlib.sha256(_SOURCE.read_bytes()).hexdigest()


def look(host: Host) -> str | None:
    """What is wrong with the helper on the host, in words; None when it is ours and only root can change it."""
    listing = host.run(Command(argv=("stat", "-c", "%u %f", _FOLDER, HELPER_PATH), parse=_text)).splitlines()
    if listing != _MODES:
        absent = len(listing) < 2
        return f"{HELPER_PATH} is not there" if absent else f"{HELPER_PATH} or its folder is not root's alone"
    digest = host.run(Command(argv=("sha256sum", HELPER_PATH), parse=_text)).split(maxsplit=1)[0]
    if digest != source_digest():
        return f"{HELPER_PATH} is not the one of this version of tune"
    return None


def _text(reply: Reply) -> str:
    return reply.text.strip()


def _done(reply: Reply) -> None:
    if reply.returncode != 0:
        raise HostFault(reply.stderr.decode("utf-8", "replace").strip() or f"{_FOLDER} could not be made")
