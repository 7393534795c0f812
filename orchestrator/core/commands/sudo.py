"""What a host is told about sudo: who we are there, whether we may become root, and the one line for a login.

The line names the helper alone (``sudoers_line``). It lies in a file of its own below ``/etc/sudoers.d``, whose
names may hold no dot (sudoers(5)); visudo reads it before it is put there, and all of sudoers afterwards.
"""

from __future__ import annotations

import re

from orchestrator.core.commands import Command, Reply
from orchestrator.core.commands.helper import HELPER_PATH, sudoers_line
from orchestrator.errors import HostFault, InputRefused

SUDOERS_FOLDER = "/etc/sudoers.d"
ROOT = ("sudo", "-n")
"""Never asks: a login whose sudo wants a password is told so."""

_LOGIN = re.compile(r"[a-z_][a-z0-9_.-]{0,31}\$?", re.IGNORECASE)
_ALIAS = re.compile(r"[A-Z][A-Z0-9_]*")


def sudoers_path(user: str) -> str:
    """The file of a login's line."""
    return f"{SUDOERS_FOLDER}/tune-{user.replace('.', '%2e')}"


def check_login(user: str) -> None:
    """Raise ``InputRefused`` for a name that sudoers would not read as that login's."""
    if user == "root":
        raise InputRefused("root needs no line in sudoers", remedy="leave --user out")
    if not _LOGIN.fullmatch(user) or _ALIAS.fullmatch(user):
        raise InputRefused(
            f'--user: read "{user}", accepted: a login of letters, digits, "_", "-" and "."',
            cause="in capitals throughout it would be the name of an alias in sudoers"
            if _ALIAS.fullmatch(user)
            else None,
        )


def who() -> Command[str]:
    """Our login on the host."""
    return Command(argv=("id", "-u", "-n"), parse=lambda reply: reply.text.strip())


def may_become_root() -> Command[str | None]:
    """None when sudo lets this login do anything without a password, else what it said instead."""

    def parse(reply: Reply) -> str | None:
        if reply.returncode == 0 and reply.text.strip() == "0":
            return None
        return _said(reply) or f"exit status {reply.returncode}"

    return Command(argv=(*ROOT, "id", "-u"), parse=parse)


def is_known(user: str) -> Command[bool]:
    """Whether the host has such a login."""
    return Command(argv=("getent", "passwd", "--", user), parse=lambda reply: reply.returncode == 0)


def read_line(user: str, prefix: tuple[str, ...]) -> Command[str | None]:
    """What the login's file says, or None where there is none."""
    return Command(
        argv=(*prefix, "cat", "--", sudoers_path(user)),
        parse=lambda reply: reply.text if reply.returncode == 0 else None,
    )


def check_line(user: str, prefix: tuple[str, ...]) -> Command[str | None]:
    """visudo's complaint about the line by itself, or None."""
    content = f"{sudoers_line(user)}\n".encode()
    return Command(argv=(*prefix, "visudo", "-c", "-q", "-f", "-"), stdin=content, parse=_complaint)


def check_all(prefix: tuple[str, ...]) -> Command[str | None]:
    """visudo's complaint about everything sudo reads, or None."""
    return Command(argv=(*prefix, "visudo", "-c", "-q"), parse=_complaint)


def try_line(user: str, prefix: tuple[str, ...]) -> Command[str | None]:
    """Do as the login what a sweep does first: None when sudo lets it reach the helper, else what was said."""

    def parse(reply: Reply) -> str | None:
        return None if reply.returncode == 0 and '"ok": true' in reply.text else _said(reply) or "no answer"

    argv = (*prefix, "runuser", "-u", user, "--", "env", "--chdir=/", *ROOT, HELPER_PATH, "version")
    return Command(argv=argv, parse=parse)


def lines_of_ours(prefix: tuple[str, ...]) -> Command[list[str]]:
    """Every file that holds nothing but one line of ours, whoever's."""
    pattern = f"^[^ ]* ALL=(root) NOPASSWD: {HELPER_PATH}$"
    search = ("find", SUDOERS_FOLDER, "-maxdepth", "1", "-name", "tune-*", "-type", "f", "-size", "-2", "-exec")
    return Command(
        argv=(*prefix, *search, "grep", "-l", "-x", "-e", pattern, "{}", "+"),
        parse=lambda reply: sorted(reply.text.splitlines()),
    )


def remove(path: str, prefix: tuple[str, ...]) -> Command[None]:
    """Remove a file or an empty folder; one that is not there is none."""

    def parse(reply: Reply) -> None:
        if reply.returncode != 0:
            raise HostFault(f"{path} could not be removed: {_said(reply)}")

    return Command(argv=(*prefix, "rm", "-df", "--", path), parse=parse)


def _complaint(reply: Reply) -> str | None:
    return None if reply.returncode == 0 else _said(reply) or f"exit status {reply.returncode}"


def _said(reply: Reply) -> str:
    lines = reply.stderr.decode("utf-8", "replace").strip().splitlines()
    return " ".join(line.strip() for line in lines[-3:])
