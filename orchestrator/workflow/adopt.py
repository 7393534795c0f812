"""Ask a host everything about one unit, in the order in which the answers raise questions. Changes nothing there."""

from __future__ import annotations

import re

from orchestrator.core import adopt
from orchestrator.core.commands import nvidia
from orchestrator.core.commands import systemd as ask
from orchestrator.core.inventory import HostEntry
from orchestrator.core.nearest import nearest
from orchestrator.core.ports import Host
from orchestrator.errors import HostFault

PARSER_DEADLINE_S = 180.0
"""SGLang imports its whole stack before it answers ``--help``."""

_FOR_PYTHON = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_FIRST_PERSON, _NOBODY, _MOST_PEOPLE = 1000, 65534, 400


def adopt_unit(host: Host, entry: HostEntry, unit: str, *, name: str | None = None) -> adopt.Adoption:
    """The entry of a unit on ``host``. Raises ``InputRefused`` with every reason why there can be none."""
    unit = unit if unit.endswith(".service") else f"{unit}.service"
    state = host.run(ask.unit_state(unit))
    if state["LoadState"] == "not-found":
        raise adopt.refuse_elsewhere(_elsewhere(host, entry, unit))
    loaded = ask.loaded_unit(state, host.run(ask.service_state(unit)))
    reading = adopt.read_unit(_facts(host, entry, loaded))
    engine = _engine(host, reading)
    return adopt.write(reading, engine, name=name, is_local=entry.connection == "local", gpus=_gpus(host))


def _gpus(host: Host) -> int | None:
    """How many; None where nvidia-smi is absent or ill, which is no reason against an entry."""
    try:
        found = host.run(nvidia.gpus())
    except HostFault:
        return None
    return len(found) if found else None


def _facts(host: Host, entry: HostEntry, loaded: adopt.LoadedUnit) -> adopt.Facts:
    paths = [path for path in (loaded.fragment, *loaded.drop_ins) if path]
    pids = host.run(ask.unit_pids(loaded.id)) if loaded.control_group else ()
    sockets = host.run(ask.listening_sockets())
    listening = {pid for socket in sockets for pid in socket.pids} & set(pids)
    looked_at = sorted(listening | ({loaded.main_pid} if loaded.main_pid else set()))
    return adopt.Facts(
        unit=loaded.id,
        host=entry.name,
        loaded=loaded,
        files=tuple(host.run(ask.read_file(path)) for path in paths),
        environment_files=tuple(host.run(ask.read_file(path)) for path, _ in loaded.environment_files),
        manager_environment=host.run(ask.manager_environment()),
        account=host.run(ask.account(loaded.user)) if loaded.user and not loaded.dynamic_user else None,
        pids=pids,
        processes=tuple(_process(host, pid) for pid in looked_at),
        sockets=sockets,
    )


def _process(host: Host, pid: int) -> adopt.Process:
    return adopt.Process(pid=pid, argv=host.run(ask.command_line(pid)), virtual_env=host.run(ask.virtual_env(pid)))


def _engine(host: Host, reading: adopt.Reading) -> adopt.Engine:
    """The installed engine, asked through the unit's own interpreter, from the unit's folder, as the unit's user."""
    is_root = host.run(ask.our_uid()) == 0
    variables = tuple(
        f"{name}={variable.value}" for name, variable in reading.environment.items() if name in _FOR_PYTHON
    )
    setting = ask.Setting(
        python=reading.python,
        folder=reading.working_directory,
        variables=variables,
        person=reading.facts.account if is_root else None,
    )
    answer = host.run(ask.engine_version(setting, reading.launch.kind))
    if isinstance(answer, str):
        raise adopt.refuse_engine(reading, answer)
    version, origin = answer
    wanted = adopt.questions(reading)
    text = host.run(ask.parser_help(setting), deadline_s=PARSER_DEADLINE_S) if wanted else None
    known = frozenset(
        option for option in wanted if text and re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text)
    )
    return adopt.Engine(version=version, origin=origin, options=known, parser_asked=text is not None)


def _elsewhere(host: Host, entry: HostEntry, unit: str) -> adopt.Elsewhere:
    """Whoever else may know the name: units of users, and names like it."""
    people = host.run(ask.accounts())
    at_home = tuple(person for person in people if person.uid == 0 or _FIRST_PERSON <= person.uid < _NOBODY)
    places = ask.user_unit_places(unit, at_home[:_MOST_PEOPLE])
    found, refused = host.run(ask.existing(tuple(places)))
    units = []
    for path in found:
        text = host.run(ask.read_file(path)).text
        units.append(adopt.UserUnit(user=places[path], path=path, text=text))
    names = host.run(ask.services_like(unit))
    return adopt.Elsewhere(
        unit=unit,
        host=entry.name,
        user_units=tuple(units),
        unread=tuple(sorted({path.rsplit("/.", 1)[0] for path in refused})),
        known=(near,) if (near := nearest(unit, names)) else (),
    )
