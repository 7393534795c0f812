"""What a host is asked once after a launch has failed: the last words of the invocation, and the kernel log.

Both are read as root: a login need not be in ``adm`` or ``systemd-journal``, and dmesg may be restricted. The state of
the GPUs, asked at the same time, is ``nvidia.state``.
"""

from __future__ import annotations

import re

from orchestrator.core.commands import Command, Reply
from orchestrator.core.units import KernelLog

LAST_WORDS = 1000  # journal lines of the failed invocation
KERNEL_LINES = 3000  # the newest ones of the time asked for
KEPT = 60  # of those that matter: a flapping PCIe link writes thousands
MARGIN_S = 5  # before the start: what the kernel said while it was ordered

_JOURNALCTL = ("journalctl", "--quiet", "--no-pager", "--all")
_MATTERS = re.compile(
    r"NVRM|\bXid\b|fallen off the bus|oom-kill|[Oo]ut of memory|Killed process|\bAER\b|\bDPC\b|PCIe Bus Error"
    r"|blocked for more than"
)
_LINE = re.compile(r"\S+T(?P<time>[\d:]{8})\S* \S+ kernel: (?P<text>.*)")


def last_words(invocation_id: str) -> Command[tuple[str, ...]]:
    """The end of one invocation's journal, systemd's words about it included; empty when it was not kept."""
    about = ("_PID=1", f"INVOCATION_ID={invocation_id}")
    argv = (*_JOURNALCTL, "--output=cat", f"--lines={LAST_WORDS}", f"_SYSTEMD_INVOCATION_ID={invocation_id}", "+")
    return Command(argv=(*argv, *about), parse=lambda reply: tuple(reply.text.splitlines()))


def kernel_log(since_s: float) -> Command[KernelLog]:
    """What the kernel said in the last ``since_s`` seconds of this boot.

    A length of time, not a time of day: the clocks of the host and of who asks need not agree.
    """
    since = f"--since=-{since_s + MARGIN_S:.0f}s"
    argv = (*_JOURNALCTL, "--dmesg", "--utc", "--output=short-iso", since, f"--lines={KERNEL_LINES}")
    return Command(argv=argv, parse=_kernel)


def is_kernel_log_kept() -> Command[bool]:
    """The journal holds kernel messages of this boot at all, so that silence in it means something."""
    argv = (*_JOURNALCTL, "--dmesg", "--output=cat", "--lines=1")
    return Command(argv=argv, parse=lambda reply: reply.returncode == 0 and bool(reply.text.strip()))


def _kernel(reply: Reply) -> KernelLog:
    """``2026-11-30T03:06:01+0000 k26 kernel: NVRM: Xid (PCI:0000:3b:00): 79, ...``"""
    if reply.returncode != 0 and not reply.stdout:
        said = reply.stderr.decode("utf-8", "replace").strip().splitlines()
        return KernelLog(problem=said[-1] if said else f"journalctl: exit status {reply.returncode}")
    found = []
    for line in reply.text.splitlines():
        match = _LINE.match(line)
        if match and _MATTERS.search(match["text"]):
            found.append(f"kernel {match['time']}: {match['text']}")
    # Of a flood the beginning names the cause, and the end what came of it.
    kept = found if len(found) <= KEPT else [*found[: KEPT // 2], *found[-KEPT // 2 :]]
    return KernelLog(lines=tuple(kept))
