"""All findings of one host, in the order in which one thing rests on another."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.core.doctor.facts import Entrance, Failure, Finding, HostFacts
from orchestrator.core.doctor.gpus import gpus
from orchestrator.core.doctor.machine import leftovers, machine
from orchestrator.core.doctor.service import service

REACH = "reach"


def examine(facts: HostFacts) -> tuple[Finding, ...]:
    """Every finding; a host that was not reached has exactly one."""
    if facts.unreached is not None:
        return (_unreached(facts.unreached),)
    found = [*(_entrance(facts.name, facts.entrance) if facts.entrance else ())]
    found += machine(facts.machine, facts.services)
    found += gpus(facts.machine, facts.gpus_expected)
    for one in facts.services:
        found += service(one, facts.name)
    found += leftovers(facts.machine, facts.services)
    return tuple(found)


def _unreached(failure: Failure) -> Finding:
    return Finding(group=REACH, level="fault", text=f"{_step(failure.fact)}: {failure.fact}", remedy=failure.remedy)


def _step(fact: str) -> str:
    """Which step of getting in it was, by the words of the error."""
    for words, step in (
        ("ssh configuration", "ssh configuration"),
        ("ssh cannot read", "ssh configuration"),
        ("cannot be resolved", "name"),
        ("host key", "host key"),
        ("revoked key", "host key"),
        ("let in", "login"),
        ("may not log in", "login"),
        ("key is not enough", "login"),
    ):
        if words in fact:
            return step
    return "connection"


def _entrance(name: str, entrance: Entrance) -> Iterator[Finding]:
    where = "this machine" if entrance.is_local else f"reached at {entrance.address}, its host key is known"
    yield Finding(group=REACH, level="ok", text=f"{where}; logged in as {entrance.login}")
    if entrance.manager == "process":
        return
    is_root = entrance.login == "root"
    set_up = f"tune host setup {name}"
    if not is_root:
        set_up = f"tune host setup ROOT --user {entrance.login}, where `ssh ROOT` reaches {name} as root"
    if entrance.helper_fault is None:
        text = f"helper: the one of this tune (version {entrance.helper_version or '?'}), root's alone"
        yield Finding(group=REACH, level="ok", text=text)
    elif is_root:
        text = f"helper: {entrance.helper_fault}; the next sweep puts it right"
        yield Finding(group=REACH, level="warning", text=text, remedy=set_up)
    else:
        yield Finding(group=REACH, level="fault", text=f"helper: {entrance.helper_fault}", remedy=set_up)
    if is_root:
        return
    if entrance.sudo_fault is None:
        yield Finding(group=REACH, level="ok", text=f"sudo: {entrance.login} may run the helper without a password")
    else:
        text = f"sudo does not let {entrance.login} run the helper: {entrance.sudo_fault}"
        yield Finding(group=REACH, level="fault", text=text, remedy=set_up)
