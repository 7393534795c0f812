"""One ``tune deploy`` or ``tune rollback`` from the command line to the last line."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from orchestrator.cli.services import open_service
from orchestrator.cli.signals import Signals, heeded
from orchestrator.cli.streams import say
from orchestrator.cli.wiring import REDACTOR, owner, release_doors
from orchestrator.core import flags
from orchestrator.core.config import Config, config_from_json
from orchestrator.core.events import Event
from orchestrator.core.flags import DEPLOYMENT, find
from orchestrator.core.flags.names import meant_by
from orchestrator.core.history import TrialHistory
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.judge.standing import highest
from orchestrator.core.nearest import nearest
from orchestrator.core.release import Asked
from orchestrator.core.secrets import obstacles
from orchestrator.errors import InputRefused
from orchestrator.project import Project
from orchestrator.report import release as report
from orchestrator.store.store import Store
from orchestrator.workflow.deploy import Deploy, Proposal, check_on_host, propose, refuse_drift, run_deploy


@dataclass(frozen=True, kw_only=True)
class Request:
    """The command line."""

    folder: Path
    service: str
    sets: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    source: str | None = None
    best: str | None = None
    engine: str | None = None
    yes: bool = False
    dry_run: bool = False
    no_rollback: bool = False
    adopt: bool = False
    message: str = ""
    back: bool = False
    to: int | None = None


class _Screen:
    """Says what happens, a line each, with secret values taken out."""

    def tell(self, event: Event) -> None:
        """As ``ports.Listen``."""
        text = report.event_text(event)
        if text is not None:
            say(REDACTOR.text(text))


def run_deploy_command(request: Request) -> None:
    """Do it. Raises what ended it; returns when the version serves, or did already."""
    project, entry = open_service(request.folder, request.service)
    sentences = obstacles(entry)
    if sentences:
        raise InputRefused("this service cannot be deployed", faults=sentences)
    asked, starts = _asked(request, entry, project)
    with heeded(_warn) as signals, release_doors(entry, project.state) as (doors, releases):
        job = Deploy(
            run=f"deploy-{secrets.token_hex(3)}",
            entry=entry,
            doors=doors,
            releases=releases,
            asked=asked,
            to=request.to,
            back=request.back,
            who=owner(),
            why=request.message or ("rollback" if request.back else ""),
            rollback=not request.no_rollback,
            adopt=request.adopt,
            listeners=(_Screen(),),
            cancel=signals.cancel,
            abandon=signals.abandon,
            consent=lambda proposal: _consent(request, proposal, signals, starts),
            healthy_s=entry.startup.healthy_for_s,
        )
        proposal = propose(job)
        if proposal.is_noop:
            number = proposal.current.number if proposal.current else 0
            say(f"{entry.name} runs exactly that already: release {number}. Nothing was touched.")
            return
        refuse_drift(job, proposal)
        if request.dry_run:
            check_on_host(job, proposal)
            say(_shown(proposal, starts, entry))
            say("everything was checked on the host. Nothing has been touched (--dry-run).")
            return
        say(run_deploy(job, proposal))
    _about_inventory(entry, proposal)


def _consent(request: Request, proposal: Proposal, signals: Signals, starts: Sequence[float]) -> bool:
    """Show it, and ask. Without a terminal and without --yes the answer is no."""
    say(_shown(proposal, starts, proposal.entry))
    if request.yes:
        return True
    if not sys.stdin.isatty():
        say("nobody can be asked here: repeat with --yes to agree", err=True)
        return False
    try:
        with signals.asking():
            return click.confirm("Roll back?" if request.back else "Deploy?", default=False)
    except (OSError, click.Abort):  # nobody sees the question; the end of the input is no yes
        return False


def _shown(proposal: Proposal, starts: Sequence[float], entry: ServiceEntry) -> str:
    text = report.proposal_text(
        name=entry.name,
        unit=entry.unit,
        before=proposal.current.number if proposal.current else None,
        after=proposal.number,
        changes=proposal.changes,
        diff=proposal.diff,
        drop_ins=tuple(proposal.found.drop_ins),
        notes=(*proposal.drift, *proposal.notes),
        activity=proposal.activity,
        starts_s=starts,
        healthy_s=entry.startup.healthy_for_s,
        returns_to=proposal.returns_to,
        engine=proposal.engine,
        engine_before=proposal.current.engine if proposal.current else entry.engine,
    )
    return _coloured(REDACTOR.text(text))


def _coloured(text: str) -> str:
    """Removed lines red, added ones green; on a terminal only (click takes colours out elsewhere)."""
    colours: dict[str, Callable[[str], str]] = {
        "- ": lambda line: click.style(line, fg="red"),
        "+ ": lambda line: click.style(line, fg="green"),
    }
    done = []
    for line in text.splitlines():
        bare = line.lstrip()
        paint = colours.get(bare[:2]) or (colours.get(f"{bare[:1]} ") if line.startswith("    ") else None)
        done.append(paint(line) if paint else line)
    return "\n".join(done)


def _about_inventory(entry: ServiceEntry, proposal: Proposal) -> None:
    """The inventory is what sweeps hold production against: say where it is behind."""
    if proposal.config is None:
        return
    now = proposal.config
    behind = [
        name for name in sorted({*entry.flags, *now.flags} - DEPLOYMENT) if entry.flags.get(name) != now.flags.get(name)
    ]
    behind += [name for name, value in now.environment.items() if entry.environment.get(name) != value]
    if proposal.engine != entry.engine:
        behind.append("engine")
    if behind:
        say(
            f"inventory.yaml is behind for {', '.join(behind)}: write what runs now there, for sweeps compare with it",
            err=True,
        )


def _warn(text: str) -> None:
    say(
        f"\n{text.replace('stopping the load and putting production back', 'returning to the last good release')}",
        err=True,
    )


# --- what was asked ------------------------------------------------------------------------------------------------


def _asked(request: Request, entry: ServiceEntry, project: Project) -> tuple[Asked, tuple[float, ...]]:
    """The command line as settings, and how long recorded starts took. Raises ``InputRefused`` with every fault."""
    faults: list[str] = []
    raw: dict[str, object] = {}
    for word in request.sets:
        name, sign, value = word.partition("=")
        if not sign or not name:
            faults.append(f'--set: read "{word}"; accepted: FLAG=VALUE')
        elif name in raw:
            faults.append(f"--set {name}: given twice")
        else:
            raw[name] = value
    said = flags.canonical({name: value for name, value in raw.items() if find(name) is not None})
    faults += [f"--set {fault.key}: {fault.text}" for fault in said.faults]
    faults += [_unknown("--set", name) for name in raw if find(name) is None]
    unset = []
    for name in request.unset:
        found = find(name)
        if found is None:
            faults.append(_unknown("--unset", name))
        else:
            unset.append(found.name)
    for name in (*said.flags, *unset):
        if name in DEPLOYMENT:
            faults.append(f"{name}: says where the engine runs, not how; inventory.yaml has it")
    both = sorted({*said.flags, *said.environment} & {*unset})
    faults += [f"{name}: both set and unset" for name in both]
    if request.source and request.best:
        faults.append("--from and --best: one of them")
    if request.engine and request.engine not in entry.engines:
        match = nearest(request.engine, entry.engines)
        hint = f", did you mean {match}?" if match else ""
        faults.append(f'--engine: read "{request.engine}"; accepted: {" or ".join(entry.engines)}{hint}')
    if faults:
        raise InputRefused("this cannot be deployed", faults=faults)
    with Store.open(project.state) as store:
        kept = store.recorded_launch_seconds(entry.name, entry.host.name, rehearsal=False)
        config, engine, source = _of_run(request, entry, store)
    asked = Asked(
        flags=said.flags,
        environment=said.environment,
        unset=tuple(unset),
        engine=request.engine or engine,
        config=config,
        source=source,
    )
    return asked, tuple(seconds for _, _, seconds in kept)


def _unknown(option: str, name: str) -> str:
    meant = meant_by(name)
    return f'{option}: unknown flag "{name}"{f", {meant}" if meant else ""}'


def _of_run(request: Request, entry: ServiceEntry, store: Store) -> tuple[Config | None, str | None, str]:
    """The config that --from or --best means, the engine it ran on where that is one of ours, and its name."""
    reference = request.best or (request.source or "").partition(":")[0]
    if not reference:
        return None, None, ""
    history = store.read(reference)
    if history.run.service != entry.name:
        raise InputRefused(
            "another service's run", faults=[f"run {history.run.run} is of {history.run.service}, not of {entry.name}"]
        )
    if request.best:
        found = highest(history)
        chosen = found.trial if found else None
        if chosen is None:
            raise InputRefused("nothing to deploy", faults=[f"--best: run {history.run.run} has no measured config"])
    else:
        slug = (request.source or "").partition(":")[2]
        chosen = next((trial for trial in history.trials if trial.trial.trial == slug), None)
        if chosen is None:
            known = [trial.trial.trial for trial in history.trials]
            match = nearest(slug, known)
            hint = f"did you mean {match}?" if match else f"accepted: {', '.join(known)}"
            raise InputRefused("no such config", faults=[f'--from: run {history.run.run} has no "{slug}"; {hint}'])
    source = f"run {history.run.run}, {chosen.trial.trial}"
    return config_from_json(chosen.trial.config_json), _engine_of(chosen, entry), source


def _engine_of(trial: TrialHistory, entry: ServiceEntry) -> str | None:
    versions = [launch.launch.build.get("engine") for launch in trial.launches]
    return next((version for version in versions if version in entry.engines), None)
