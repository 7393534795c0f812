"""Findings about one service of the inventory on its host."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.core.doctor.facts import Engine, Finding, Level, ModelFolder, Service
from orchestrator.core.doctor.machine import GIB, size


def service(facts: Service, host: str) -> Iterator[Finding]:
    """Unit, user, folders, engine, model, port, and who holds it."""

    def finding(level: Level, text: str, remedy: str | None = None) -> Finding:
        return Finding(group=f"service {facts.name}", level=level, text=text, remedy=remedy)

    for level, text, remedy in (
        *_unit(facts),
        *_account(facts),
        *(row for engine in facts.engines for row in _engine(engine, facts)),
        *_parser(facts),
        *_model(facts),
        *_port(facts),
        *_hold(facts, host),
    ):
        yield finding(level, text, remedy)
    for failure in facts.unanswered:
        yield finding("warning", f"not answered: {failure.fact}", failure.remedy)


Row = tuple[Level, str, str | None]


def _unit(facts: Service) -> Iterator[Row]:
    unit, seen = facts.unit, facts.production
    if seen is None:
        return
    if seen.load == "masked":
        yield "fault", f"{unit} is masked: nothing can start it", f"systemctl unmask {unit}"
        return
    if seen.load != "loaded":
        yield "fault", f"there is no unit {unit} ({seen.load})", "correct unit in inventory.yaml, or tune adopt"
        return
    if seen.needs_reload:
        text = f"{unit} was changed on disk and not reloaded: a restore would start something else than what runs"
        yield "fault", text, f"look at the change (systemctl cat {unit}), then systemctl daemon-reload"
    is_kept = seen.enabled in {"enabled", "enabled-runtime", "linked", "static", "generated", "indirect", "alias"}
    is_away = facts.hold is not None and facts.hold.is_temporary and not facts.hold.is_over  # the record says so
    if seen.active != "active" and not is_away:
        remedy = f"journalctl -u {unit} -n 50; a sweep would leave it stopped, as it was"
        yield "warning", f"{unit} is {seen.active}: production does not serve", remedy
    if not is_kept:
        remedy = f"systemctl enable {unit}, if it shall come back after a reboot"
        yield "warning", f"{unit} is {seen.enabled or 'not enabled'}: a reboot ends without production", remedy
    if seen.active == "active" and is_kept:
        yield "ok", f"{unit} is active and {seen.enabled}", None


def _account(facts: Service) -> Iterator[Row]:
    if facts.has_user is False:
        yield "fault", f"there is no account {facts.user}", "correct user in inventory.yaml, or make the account"
    elif facts.has_user:
        yield "ok", f"runs as {facts.user}", None
    if facts.has_folder is False:
        remedy = "correct working-directory in inventory.yaml, or make the folder"
        yield "fault", f"there is no folder {facts.working_directory}", remedy


def _engine(engine: Engine, facts: Service) -> Iterator[Row]:
    if engine.version is None:
        text = f"{engine.folder}: no engine could be asked: {engine.fault or 'no answer'}"
        yield "fault", text, f"{engine.folder}/bin/python -c 'import sglang' on the host, as {facts.user or 'root'}"
    elif engine.version != engine.expected:
        text = f"{engine.folder} has engine {engine.version}, the inventory says {engine.expected}"
        yield "fault", text, f'write "{engine.version}" in inventory.yaml, or install {engine.expected} there'
    else:
        simulated = ", simulated" if engine.is_simulated else ""
        yield "ok", f"engine {engine.version}{simulated} in {engine.folder}", None


def _parser(facts: Service) -> Iterator[Row]:
    if facts.parser_fault is not None:
        yield "fault", facts.parser_fault, "the environment is not complete: install the engine again"
    elif facts.parser_asked:
        yield "ok", "the engine can be imported, and its parser answers", None


def _model(facts: Service) -> Iterator[Row]:
    seen, path = facts.model, facts.model_path
    if path is None or seen is None:
        if path is not None and any(engine.is_simulated for engine in facts.engines):
            yield "ok", f"{path}: a simulated engine reads no model", None
        return
    if seen.folder is None:
        where = f"the model {path} is not on the host"
        if path.startswith("/"):
            yield "fault", where, "correct model-path; the engine's own message would not say so"
        elif facts.is_offline:
            yield "fault", f"{where}, and HF_HUB_OFFLINE forbids to get it", f"hf download {path}, as {facts.user}"
        elif seen.free is not None and facts.weights_gib is not None and seen.free < facts.weights_gib * GIB:
            text = f"{where}: its {facts.weights_gib:.0f} GiB do not fit the {size(seen.free)} that are free there"
            yield "fault", text, "make room, or name another place with HF_HOME"
        else:
            text = f"{where}: the first start would download it"
            yield "warning", text, f"hf download {path}, as {facts.user or 'root'}, before the night"
        return
    yield from _files(seen, path, facts.reads_weights)


def _files(seen: ModelFolder, path: str, reads_weights: bool) -> Iterator[Row]:
    again = "download it again; a start would end with a message that does not say this"
    if not seen.has_config:
        yield "fault", f"{seen.folder} has no config.json", again
    elif not reads_weights:
        yield "ok", f"model {path}: with load-format dummy no weights are read", None
    if not reads_weights:
        return
    if seen.missing:
        some = ", ".join(seen.missing[:3]) + (f" and {len(seen.missing) - 3} more" if len(seen.missing) > 3 else "")
        yield "fault", f"{seen.folder} is not complete: {some}", again
    elif not seen.files:
        yield "fault", f"{seen.folder} has no weights", again
    if seen.is_loading:
        yield "warning", f"a download of {path} is not complete", "wait for it, or run it again"
    if seen.has_config and seen.files and not seen.missing:
        yield "ok", f"model {path}: {seen.files} files, {size(seen.size)}, complete", None


def _port(facts: Service) -> Iterator[Row]:
    who = facts.listener
    if not facts.port_asked:
        return
    is_running = facts.production is not None and facts.production.active == "active"
    if who is None:
        held = facts.hold is not None and not facts.hold.is_over
        if is_running and not held:
            text = f"port {facts.port}: nobody listens, though {facts.unit} is active: it is loading, or hangs"
            yield "warning", text, f"journalctl -u {facts.unit} -f"
        else:
            yield "ok", f"port {facts.port} is free", None
    elif who.is_ours:
        yield "ok", f"port {facts.port} is production's own", None
    elif who.is_ours is None:
        text = f"port {facts.port}: somebody listens, and this login is not shown who"
        yield "warning", text, "tune host setup, or look as root: ss -ltnp"
    elif facts.hold is None or facts.hold.is_over:
        text = f"port {facts.port} is held by pid {who.pid} ({who.command}), not by {facts.unit}"
        yield "fault", text, "end it, or give the service another port: a trial could not listen"


def _ended_by_reboot(facts: Service, host: str, whose: str) -> Row:
    """The record stays until the next run takes it over; what counts is what the reboot has started."""
    seen = facts.production
    if seen is None or seen.active in {"active", "activating", "reloading"}:
        back = "; production came back with it" if seen is not None else ""
        return "ok", f"a reboot ended the hold of {whose}{back}: the next run clears its record", None
    return (
        "fault",
        f"a reboot ended the hold of {whose}, and {facts.unit} is {seen.active}",
        f"ssh {host} sudo systemctl start {facts.unit}, if it is meant to serve; the next run clears the record",
    )


def _hold(facts: Service, host: str) -> Iterator[Row]:
    hold = facts.hold
    if hold is None:
        if facts.hold_asked:
            yield "ok", "nobody holds it", None
        return
    whose = f"{hold.owner}, run {hold.run}"
    if hold.rebooted:
        yield _ended_by_reboot(facts, host, whose)
    elif not hold.is_over:
        away = "production is away" if hold.is_temporary else "production is in place"
        yield "warning", f"held by {whose} until {hold.until}; {away}", "wait for it: a sweep would be refused"
    else:
        text = f"a record of {whose} ran out at {hold.until} and was not cleared"
        yield "fault", text, f"ssh {host} sudo /usr/local/libexec/tune/tune-helper break {facts.name}"
