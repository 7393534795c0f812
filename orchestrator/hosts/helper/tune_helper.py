#!/usr/bin/python3 -I
"""tune-helper: the part of `tune` that runs on the GPU host, as root.

It holds the acts that must happen in one step, or without the ops box: hold the host record, put a trial unit in
place, start, stop, prove that everything was let go, and put production back. Standard library only, no shell, no
network. It reads one JSON object (standard input, or just a service name as argument), does one verb, and prints
one JSON line. Exit codes: 0 done, 1 a fault of its own, 2 bad request, 3 somebody else holds the host, 4 the
caller's token is no longer valid, 5 the unit is not accepted, 6 the host failed.

What it touches, and nothing else:
    /var/lib/tune/SERVICE/record.json       who holds the service, since when, until when (0600)
    /var/lib/tune/SERVICE/restore.json      how the last restore went
    /run/systemd/system/NAME-trial.service  the trial unit: gone after a reboot, and then production is back
    /run/tune-restore-SERVICE.json          the same, when it cannot be written there
    /run/tune/SERVICE/                      the files that give a trial its secrets (0600); they go with the trial
    /run/systemd/system/tune-verify-*       there for a moment, so that systemd says how it understands a text
    tune-expire-SERVICE, tune-restore-SERVICE, tune-ask-*   transient units of its own
    production: `systemctl stop` and `systemctl start`; a trial never writes its files
    /etc/systemd/system/UNIT                production's own unit, whole: by a deploy (`place`) and on its way back
    /etc/systemd/system/tune-guard-SERVICE.service, and its link in multi-user.target.wants: while a deploy is under way
    /var/lib/tune/SERVICE/releases/*.json   what was put in service: unit, flags, who, when, why, how it ended (0600)
    /var/lib/tune/SERVICE/audit.jsonl       one line before and one after each act; only ever appended to
    /var/lib/tune/SERVICE/secrets/          the files that give production its secrets (0600)
It never kills by name or pid: processes end because systemd stops their unit. Every act is written to the journal.
A unit can run any program as any user, so being allowed to run this file is as good as being root.

    questions            version record survey verify ask teardown watch restoring releases verify-release
    acts (need a token)  renew install stop start restore free
    a deploy (token)     adopt-found stage stage-copy place conclude
    reveal               a file of secrets that only root may read
    take                 begins to hold; `break SERVICE` is for people: it ends somebody's hold, production first
    by systemd itself    expire (the dead man's switch), restore-now, guard (at boot, after a deploy broken by a reboot)

The process manager imports this file too: it asks the same questions about processes, port and GPUs, and keeps the same
record elsewhere, with the first part, up to "systemd":
    take(folder, *, service, owner, run, purpose, ttl_s, look, restore, now=read_clock) -> record with its token
    renew(folder, token, ttl_s, *, now=read_clock)      free(folder, token, *, clear, now=read_clock)
    held(folder, token, *, now=read_clock) -> context with the record, under the lock, its token checked
    make_temporary(folder, record)   settle(folder, *, now=read_clock)   read(folder)   shown(record)   locked(folder)
`folder` is STATE_ROOT/SERVICE; all services of one STATE_ROOT share a lock, and at most one of them is held.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import hmac
import json
import os
import pathlib
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
import syslog
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

VERSION = "1"
STATE_ROOT = "/var/lib/tune"
UNIT_FOLDER = "/run/systemd/system"
SECRETS_ROOT = "/run/tune"
SECRET_FILES = {"environment", "engine.yaml"}
MARKER = "# tune: trial "  # first line of every unit of ours; a unit without it is somebody else's

LOCK_WAIT_S = 60.0
START_WAIT_S = 60.0
STOP_BOUND_S = 300.0  # restore: how long the trial may take to stop (its own TimeoutStopSec is shorter) ...
CLEAR_BOUND_S = 180.0  # ... and the driver to give the GPUs back
RESTORE_BOUND_S = STOP_BOUND_S + CLEAR_BOUND_S + START_WAIT_S
RESTORE_TRIES = 5  # by the dead man's switch; then a person has to look
REQUEST_BYTES = 8 << 20
ANSWER_BYTES = 1 << 20  # of what a program says when it is asked
SLOW = "the engine's python did not answer within {:.0f} s and was ended: a busy host, or a slow disk under it"
JOURNAL_LINES, JOURNAL_BYTES, JOURNAL_LINE, JOURNAL_TAIL = 2000, 256 * 1024, 8192, 300  # a look's bounds

Record = dict[str, Any]  # what record.json holds
Request = dict[str, Any]  # the fields of a request, each checked against FIELDS
Answer = dict[str, Any]

EXIT_CODES = {"bad-request": 2, "locked": 3, "lease-lost": 4, "unit": 5, "temporary": 6, "host": 6}


class Refused(Exception):
    """A verb that was not done. ``kind`` is a key of ``EXIT_CODES``; ``evidence`` are lines that show the fact."""

    def __init__(self, kind: str, fact: str, evidence: Sequence[str] = (), **details: Any) -> None:
        super().__init__(fact)
        self.kind = kind
        self.answer: Answer = {"ok": False, "kind": kind, "fact": fact, "evidence": list(evidence), **details}


# --- the record: lease, lock, dead man's switch and resume point in one --------------------------------------------


class Now(NamedTuple):
    """``wall`` (s since 1970) is for people; ``steady`` (s, never steps, counts while suspended) decides."""

    wall: float
    steady: float
    boot: str


def read_clock() -> Now:
    """This moment on this host."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return Now(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), file.read().strip())


def is_live(record: Record, now: Now) -> bool:
    """Still held: its deadline has not passed. A reboot ends every hold, since it has put production back."""
    return bool(record["boot_id"] == now.boot and now.steady < record["deadline_steady"])


def take(
    folder: str,
    *,
    service: str,
    owner: str,
    run: str,
    purpose: str,
    ttl_s: float,
    look: Callable[[], dict[str, Any]],
    restore: Callable[[Record], None],
    now: Callable[[], Now] = read_clock,
) -> Record:
    """Begin to hold. ``look()`` says what production is, ``restore(record)`` puts it back and returns when it is.

    A record of another run that is still live is refused with kind *locked*. One that ran out, that a reboot ended,
    or that is this run's own (a resume) is taken over; if it was *temporary* production is restored first, which
    ``restored_first`` in the record tells, and ``rebooted`` that a reboot had ended it. The new token is in the record;
    nobody else is ever shown it.
    """
    with locked(folder):
        moment = now()
        old = read(folder)
        if old is not None and old["run"] != run and is_live(old, moment):
            raise locked_by(old)
        refuse_others(folder, moment)
        unfinished = old is not None and old["state"] == "temporary"
        record: Record = {
            "service": service,
            "owner": owner,
            "run": run,
            "token": secrets.token_hex(16),
            "purpose": purpose,
            "since": stamp(moment.wall),
            "ttl_s": ttl_s,
            "boot_id": moment.boot,
            "state": "temporary" if unfinished else "production",
            "production": old["production"] if old is not None and unfinished else look(),
            "restored_first": unfinished,
            "rebooted": old is not None and unfinished and old["boot_id"] != moment.boot,
        }
        if old is not None and unfinished and "deploy" in old:
            record["deploy"] = old["deploy"]
        set_deadline(record, moment, ttl_s + (RESTORE_BOUND_S if unfinished else 0.0))
        os.makedirs(folder, mode=0o700, exist_ok=True)
        write(folder, record)
    if unfinished:
        try:
            restore(record)
        except Exception:
            with held(folder, record["token"], now=now, restoring=True) as record:
                set_deadline(record, now(), 0.0)  # nobody holds it then, and whoever comes next tries again
                write(folder, record)
            raise
        with held(folder, record["token"], now=now, restoring=True) as record:
            record.update(state="production", production=look())
            set_deadline(record, now(), ttl_s)
            write(folder, record)
    return record


def renew(folder: str, token: str, ttl_s: float, *, now: Callable[[], Now] = read_clock) -> Record:
    """Move the deadline to ``ttl_s`` from now."""
    with held(folder, token, now=now, restoring=True) as record:
        record["ttl_s"] = ttl_s
        set_deadline(record, now(), ttl_s)
        write(folder, record)
        return record


def free(
    folder: str,
    token: str,
    *,
    clear: Callable[[Record], None] = lambda _: None,
    now: Callable[[], Now] = read_clock,
) -> None:
    """Stop holding. Refused with kind *temporary* while production is not in place; ``clear(record)`` tidies up."""
    with held(folder, token, now=now, restoring=True) as record:
        if record["state"] == "temporary":
            raise Refused("temporary", f"{record['service']} is in state temporary: restore production first")
        clear(record)
        drop(folder)


@contextlib.contextmanager
def held(folder: str, token: str, *, now: Callable[[], Now] = read_clock, restoring: bool = False) -> Iterator[Record]:
    """The record under the lock, once ``token`` is proved to be its token; else kind *lease-lost*.

    The token decides, not the deadline: who comes late but before anybody took over still holds. Unless
    ``restoring``, it is refused while the host puts production back, for nobody may change anything then.
    """
    with locked(folder):
        record = read(folder)
        if record is None:
            raise Refused("lease-lost", "nobody holds the record any more: it ran out and the host cleaned up")
        if not hmac.compare_digest(record["token"].encode(), token.encode()):
            raise Refused("lease-lost", f"taken over: {who(record)}", record=shown(record))
        if record["boot_id"] != now().boot:
            raise Refused("lease-lost", "the host was rebooted, which ended the hold and the trial")
        if record.get("restoring") == "expiry":
            raise Refused("lease-lost", "the deadline passed without a sign of life: the host is restoring by itself")
        if record.get("restoring") and not restoring:
            raise Refused("host", "the host is putting production back: nothing else can be done until it has")
        yield record


def make_temporary(folder: str, record: Record) -> None:
    """Write down that production is about to be touched, before it is. Call it inside ``held``."""
    if record["state"] != "temporary":
        record["state"] = "temporary"
        write(folder, record)


def settle(folder: str, *, now: Callable[[], Now] = read_clock) -> None:
    """Production is back: state *production*; a hold whose deadline has passed, or cannot be written, ends with it."""
    with locked(folder):
        record = read(folder)
        if record is not None:
            record["state"] = "production"
            record.pop("restoring", None)
            record.pop("deploy", None)
            if not is_live(record, now()) or not note(folder, record):
                with contextlib.suppress(OSError):  # a disk that cannot be written at all keeps it
                    drop(folder)


def read(folder: str) -> Record | None:
    """The record with its token, or None when nobody holds the service."""
    return read_json(os.path.join(folder, "record.json"))


def write(folder: str, record: Record) -> None:
    """Replace the record whole. Call it under the lock."""
    write_whole(os.path.join(folder, "record.json"), json.dumps(record, indent=1).encode(), 0o600)


def note(folder: str, record: Record) -> bool:
    """As ``write``, where it must not stop a restore: False when it cannot be written (a full or failing disk)."""
    try:
        write(folder, record)
    except OSError as error:
        syslog.syslog(syslog.LOG_ERR, f"cannot write the record of {folder}: {error}")
        return False
    return True


def shown(record: Record) -> Record:
    """The record as others may see it: without the token."""
    return {key: value for key, value in record.items() if key not in {"token", "deadline_steady"}}


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """The lock of the state root that ``folder`` is in; held for moments only, so waiting for it is bounded."""
    root = os.path.dirname(folder)
    os.makedirs(root, mode=0o700, exist_ok=True)
    path = os.path.join(root, "lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        for _ in until(LOCK_WAIT_S, every_s=0.05):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
        else:
            raise Refused("host", f"{path} has been locked for {LOCK_WAIT_S:.0f} s by another process")
        yield
    finally:
        os.close(descriptor)


def write_whole(path: str, content: bytes, mode: int) -> None:
    """A file that is there whole or not at all, also after a power cut."""
    folder, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(folder)


def refuse_others(folder: str, now: Now) -> None:
    """One hold on all of the host's GPUs: two services measured side by side would measure each other."""
    root, own = os.path.split(folder)
    for name in sorted(os.listdir(root)):
        other = read_json(os.path.join(root, name, "record.json")) if name != own else None
        if other is not None and is_live(other, now):
            raise locked_by(other)


def locked_by(record: Record) -> Refused:
    """Somebody else holds it."""
    return Refused("locked", f"{record['service']} is held: {who(record)}", record=shown(record))


def who(record: Record) -> str:
    """Who holds it, why, since when, until when."""
    person = f"{record['owner']}, run {record['run']} ({record['purpose']})"
    return f"{person}, since {record['since']} until {record['deadline']}"


def set_deadline(record: Record, now: Now, ttl_s: float) -> None:
    """The hold lasts ``ttl_s`` from now."""
    record.update(deadline=stamp(now.wall + ttl_s), deadline_steady=now.steady + ttl_s)


def drop(folder: str) -> None:
    """Nobody holds it any more. Call it under the lock."""
    os.unlink(os.path.join(folder, "record.json"))
    sync_folder(folder)


def read_json(path: str) -> dict[str, Any] | None:
    """A file that ``write_whole`` wrote; None when there is none, refused when it is torn."""
    try:
        with open(path, encoding="utf-8") as file:
            content: dict[str, Any] = json.load(file)
            return content
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise Refused("host", f"{path} cannot be read ({error}): look at it, then remove it by hand") from error


def sync_folder(folder: str) -> None:
    """Make a rename or removal in it last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def stamp(wall: float) -> str:
    """UTC, as people and ``datetime.fromisoformat`` read it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall))


def until(bound_s: float, *, every_s: float) -> Iterator[None]:
    """Bounded polling: yields at once, then every ``every_s``, until ``bound_s`` have passed."""
    end = time.monotonic() + bound_s
    while True:
        yield
        if time.monotonic() + every_s > end:
            return
        time.sleep(every_s)


# --- systemd -----------------------------------------------------------------------------------------------------

STATE = "LoadState,ActiveState,SubState,Result,InvocationID,MainPID,NRestarts,ExecMainCode,ExecMainStatus"
BUS = "org.freedesktop.systemd1"
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "SYSTEMD_COLORS": "0",
    "SYSTEMD_PAGER": "",
}


def run(*argv: str, deadline_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """A program to its end, whatever comes of it; its environment is ours, not the caller's."""
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=deadline_s,
            check=False,
            env=ENVIRONMENT,
        )
    except subprocess.TimeoutExpired as error:
        raise Refused("host", f"{' '.join(argv)} did not end within {deadline_s:.0f} s") from error


def must(*argv: str, deadline_s: float = 60.0) -> str:
    """As ``run``, but it has to succeed; returns its standard output."""
    done = run(*argv, deadline_s=deadline_s)
    if done.returncode != 0:
        raise Refused("host", f"{' '.join(argv)} failed ({done.returncode})", done.stderr.splitlines()[-5:])
    return done.stdout


def show(unit: str, *more: str) -> dict[str, str]:
    """What systemd says of a unit, under its own property names."""
    wanted = ",".join((STATE, "Job", "CPUUsageNSec", *more))
    lines = must("systemctl", "show", f"--property={wanted}", "--", unit).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def state_of(seen: dict[str, str]) -> Answer:
    """The part of it that callers are told."""
    return {name: seen.get(name, "") for name in STATE.split(",")}


def is_stopped(seen: dict[str, str]) -> bool:
    """Nothing runs, and no job is queued that would change that."""
    return seen["ActiveState"] in {"inactive", "failed"} and seen["Job"] in {"", "0"}


def is_up(seen: dict[str, str]) -> bool:
    """It runs, or is on its way there."""
    return seen["ActiveState"] in {"active", "activating", "reloading"}


def bus_property(unit: str, name: str) -> Any:
    """A property as the manager holds it. Not the text of ``show``, which joins argv words with blanks."""
    path = "/org/freedesktop/systemd1/unit/" + re.sub(r"[^A-Za-z0-9]|^[0-9]", lambda c: f"_{ord(c[0]):02x}", unit)
    return json.loads(must("busctl", "get-property", BUS, path, f"{BUS}.Service", name, "--json=short"))["data"]


def commands_of(unit: str) -> list[list[str]]:
    """Every ExecStart of a unit as argv words; ``$`` is still doubled in them."""
    return [list(command[1]) for command in bus_property(unit, "ExecStart")]


def trial_of(production: str) -> str:
    """The one name trials of a production unit may have."""
    return production[: -len(".service")] + "-trial.service"


def trial_path(trial: str) -> str:
    """Where a trial unit lies."""
    return os.path.join(UNIT_FOLDER, trial)


def is_ours(path: str) -> bool:
    """A plain file that begins as our units do."""
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.readline().startswith(MARKER.encode())


def refuse_foreign(trial: str) -> None:
    """A masked, symlinked or foreign unit of that name, or drop-ins for it, is somebody's intention: name it."""
    for folder in must("systemctl", "show", "--property=UnitPath", "--value").split():
        path = os.path.join(folder, trial)
        for drop_ins in (f"{path}.d", f"{path[: -len('trial.service')]}.service.d"):  # production has neither
            if os.path.lexists(drop_ins):
                raise Refused("unit", f"{drop_ins} would change what a trial measures: remove it first")
        if not os.path.lexists(path) or (folder == UNIT_FOLDER and is_ours(path)):
            continue
        what = "is not a trial unit of tune"
        if os.path.islink(path):
            target = os.readlink(path)
            what = "is masked" if target == "/dev/null" else f"is a symbolic link to {target}"
        raise Refused("unit", f"{path} {what}: it is not overwritten")


def check_text(trial: str, text: str) -> None:
    """systemd's own verdict on a unit text, before anything is changed.

    ``systemd-analyze verify`` exits 0 on unknown keys and on values it cannot parse, and it also speaks of other
    units: any line that names our file is a failure, and nothing else is.
    """
    if not text.startswith(MARKER):
        raise Refused("unit", f"{trial} does not begin with {MARKER!r}, by which trial units are known")
    refuse_foreign(trial)
    check_lines(trial, text)


def check_lines(unit: str, text: str) -> None:
    """The rest of it: accounts, folders, and what systemd says of each line."""
    for line in text.splitlines():  # these two it would only find out at start
        name, _, value = line.partition("=")
        if name == "User" and not value.isdigit() and not account_exists(value):
            raise Refused("unit", f"{unit}: there is no account {value} on this host")
        if name == "WorkingDirectory" and value.startswith("/") and not os.path.isdir(value.replace("%%", "%")):
            raise Refused("unit", f"{unit}: there is no folder {value} on this host")
    with tempfile.TemporaryDirectory(prefix="tune-verify-") as folder:
        path = os.path.join(folder, unit)
        write_whole(path, text.encode(), 0o644)
        done = run("systemd-analyze", "verify", "--man=no", path)
    said = [line.replace(f"{folder}/", "") for line in done.stderr.splitlines()]
    ours = [line for line in said if unit in line]
    if ours:
        raise Refused("unit", f"systemd does not accept {unit} as it is meant: {ours[0]}", ours)
    if done.returncode != 0 and any(line.startswith("Failed to") for line in said):
        raise Refused("host", "systemd-analyze verify does not work on this host", said)


def account_exists(name: str) -> bool:
    """Whether a login of that name is known here."""
    with contextlib.suppress(KeyError):
        return bool(pwd.getpwnam(name))
    return False


def prove(unit: str, argv: Sequence[str], environment: dict[str, str], path: str = "") -> None:
    """What systemd understood is what was meant: one command, word by word, and every variable.

    ``path``: where it has to lie; a trial's place by default.
    """
    seen = show(unit, "FragmentPath")
    if seen["LoadState"] != "loaded" or seen["FragmentPath"] != (path or trial_path(unit)):
        raise Refused("unit", f"systemd loaded {unit} from {seen['FragmentPath'] or 'nowhere'} ({seen['LoadState']})")
    commands = commands_of(unit)
    words = [word.replace("$$", "$") for command in commands for word in command]
    if len(commands) != 1 or words != list(argv):
        raise Refused("unit", "systemd understood another command than was meant", differences(argv, words))
    if any("$" in word.replace("$$", "") for word in commands[0]):
        raise Refused("unit", "there is a single $ in ExecStart, which systemd would expand", commands[0])
    variables = dict(assignment.split("=", 1) for assignment in bus_property(unit, "Environment"))
    wrong = [name for name, value in environment.items() if variables.get(name) != value]
    if wrong:
        raise Refused("unit", f"systemd understood another value of {', '.join(wrong)} than was meant")


def prove_beforehand(text: str, argv: Sequence[str], environment: dict[str, str], drop_ins: Sequence[str] = ()) -> None:
    """The same before anything is in place: systemd reads the text once, under a name that nobody uses.

    ``drop_ins`` are files that will change it under its real name, and so have to change it here.
    """
    unit = f"tune-verify-{secrets.token_hex(6)}.service"
    folder = f"{trial_path(unit)}.d"
    try:
        write_whole(trial_path(unit), text.encode(), 0o644)
        if drop_ins:
            os.mkdir(folder, mode=0o755)
        for path in drop_ins:
            shutil.copyfile(path, os.path.join(folder, os.path.basename(path)))
        prove(unit, argv, environment)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(trial_path(unit))


def differences(meant: Sequence[str], understood: Sequence[str]) -> list[str]:
    """The first words that differ, for a message."""
    both = range(min(len(meant), len(understood)))
    wrong = [at for at in both if meant[at] != understood[at]][:4]
    lines = [f"word {at}: meant {meant[at]!r}, systemd has {understood[at]!r}" for at in wrong]
    return [*lines, f"{len(meant)} words meant, systemd has {len(understood)}"]


SECRET = re.compile(r"(--([a-z0-9-]+-)?(key|token|password|secret))(=.*)?", re.DOTALL)


def hide_secrets(words: Sequence[str]) -> list[str]:
    """An argv that may leave the host: the values of ``--api-key`` and the like are starred."""
    hidden: list[str] = []
    follows = False
    for word in words:
        match = SECRET.fullmatch(word)
        hidden.append("***" if follows else f"{match[1]}=***" if match and match[4] else word)
        follows = match is not None and not match[4] and not follows
    return hidden


# --- processes, port, GPUs: who holds what the next start needs ---------------------------------------------------


def processes() -> list[int]:
    """Every process there is now."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def processes_of(unit: str) -> list[int]:
    """The living processes in a unit's cgroup or below it.

    Read from each process, so that it is the same under cgroup v1, v2 and both, and still right when systemd has
    let go of a unit whose last process cannot die. A user's own manager may run a unit of the same name: not ours.
    """
    found = []
    for pid in processes():
        parts = {part for line in proc(pid, "cgroup").splitlines() for part in line.split("/")}
        if unit in parts and not any(part.startswith("user@") for part in parts) and is_alive(pid):
            found.append(pid)
    return found


def proc(pid: int, name: str) -> str:
    """A file of /proc/PID, empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""


def stat_of(pid: int) -> list[str]:
    """/proc/PID/stat from its third field (the state) on; empty when the process is gone."""
    return proc(pid, "stat").rpartition(")")[2].split()


def is_alive(pid: int) -> bool:
    """It exists and does not merely wait to be reaped."""
    return stat_of(pid)[:1] not in ([], ["Z"])


def name_of(pid: int) -> str:
    """A process in a few words; never its whole command line, which may hold a key."""
    words = proc(pid, "cmdline").split("\0")
    return " ".join(" ".join(hide_secrets(words)[:3]).split())[:120] or proc(pid, "comm").strip() or "unknown"


def listeners(port: int) -> list[Answer]:
    """Who listens on a TCP port: pid and name; pid 0 for a socket that belongs to no process we can see."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/net/{table}", encoding="ascii") as file:
            for fields in [line.split() for line in file][1:]:
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:  # 0A: LISTEN
                    sockets.add(f"socket:[{fields[9]}]")
    found = [pid for pid in processes() if sockets and not sockets.isdisjoint(open_files(pid))]
    return [{"pid": pid, "command": name_of(pid)} for pid in found or ([0] if sockets else [])]


def open_files(pid: int) -> set[str]:
    """What the descriptors of a process point to."""
    files = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                files.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    return files


def nvidia_smi(query: str) -> list[list[str]] | None:
    """Rows of one query, or None on a host without nvidia-smi. Raises when it is there and does not answer."""
    try:
        text = must("nvidia-smi", f"--query-{query}", "--format=csv,noheader,nounits", deadline_s=20.0)
    except FileNotFoundError:
        return None
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]


def mib(cell: str) -> int | None:
    """A memory figure; nvidia-smi writes [N/A] where it cannot tell."""
    return int(float(cell)) if re.fullmatch(r"[0-9.]+", cell) else None


def compute_apps() -> list[Answer]:
    """Processes with a context on a GPU; ``began`` (kernel ticks) tells them from a later one with the same pid."""
    gpus = nvidia_smi("gpu=index,uuid") or []
    indexes = {row[1]: int(row[0]) for row in gpus if len(row) == 2 and row[0].isdigit()}
    if len(indexes) != len(gpus):
        raise Refused("host", "nvidia-smi does not list its GPUs as it should", [", ".join(row) for row in gpus[:5]])
    apps = []
    for row in nvidia_smi("compute-apps=gpu_uuid,pid,process_name,used_memory") or []:
        if len(row) >= 4 and row[1].isdigit():  # else it says in words that there are none
            app = {"what": "gpu", "pid": int(row[1]), "began": "".join(stat_of(int(row[1]))[19:20])}
            apps.append({**app, "command": ",".join(row[2:-1]), "gpu": indexes.get(row[0]), "memory_mib": mib(row[-1])})
    return apps


def gpu_memory() -> list[int] | None:
    """MiB used per GPU, by index; None when it is not known of every one."""
    used = [mib(row[0]) for row in nvidia_smi("gpu=memory.used") or []]
    return [figure for figure in used if figure is not None] if used and None not in used else None


def card_memory(gpus: Sequence[Sequence[str]]) -> list[int] | None:
    """MiB each GPU has, from rows that end in it; None when it is not known of every one."""
    sizes = [mib(row[-1]) for row in gpus]
    return [size for size in sizes if size is not None] if None not in sizes else None


def holders(units: Sequence[str], port: int, foreign: Sequence[Answer] | None) -> list[Answer]:
    """Whoever is in the way of the next start. ``foreign``: on the GPUs before the hold began, and so tolerated.

    With ``foreign`` None the GPUs are not asked.
    """
    tolerated = {(app["pid"], app["began"]) for app in foreign or ()}
    apps = [] if foreign is None else compute_apps()
    inside = [{"what": "process", "pid": pid, "command": name_of(pid)} for unit in units for pid in processes_of(unit)]
    on_port = [{"what": "port", **listener} for listener in listeners(port)]
    return [*inside, *on_port, *(app for app in apps if (app["pid"], app["began"]) not in tolerated)]


def in_words(holder: Answer) -> str:
    """One holder for a message."""
    where = {"process": "is left in the unit", "port": "listens on the port", "gpu": f"is on GPU {holder.get('gpu')}"}
    memory = f" with {holder['memory_mib']} MiB" if holder.get("memory_mib") is not None else ""
    return f"pid {holder['pid']} ({holder['command']}) {where[holder['what']]}{memory}"


def progress(own: Sequence[int], cpu_ns: str) -> Answer:
    """Counters that move only while something happens; ``cpu_ns`` is systemd's, where it accounts for it."""
    ticks = sum(int(field) for pid in own for field in stat_of(pid)[11:15])  # utime stime cutime cstime
    counted = int(cpu_ns) if cpu_ns.isdigit() and int(cpu_ns) < 1 << 63 else ticks * 10**9 // os.sysconf("SC_CLK_TCK")
    # read_bytes are the pages of a mapped weight file, which no read() call ever sees
    lines = [line.split() for pid in own for line in proc(pid, "io").splitlines()]
    io_bytes = sum(int(count) for name, count in lines if name in {"rchar:", "wchar:", "read_bytes:"})
    memory = None
    with contextlib.suppress(Refused):  # a look that nvidia-smi does not answer is a look without that counter
        memory = gpu_memory()
    return {"cpu_ns": counted, "io_bytes": io_bytes, "gpu_memory_mib": None if memory is None else sum(memory)}


def journal(invocation: str, cursor: str, *, tail: bool) -> tuple[list[str], str]:
    """New lines of one invocation (and of systemd about it) and the next cursor; bounded in lines, bytes, time."""
    lines: list[str] = []
    if not invocation:
        return lines, cursor
    argv = ["journalctl", "--quiet", "--no-pager", "--all", "--output=json", "--output-fields=MESSAGE"]
    argv += [f"--after-cursor={cursor}"] if cursor else [f"--lines={JOURNAL_TAIL}"] if tail else []
    argv += [f"_SYSTEMD_INVOCATION_ID={invocation}", "+", "_PID=1", f"INVOCATION_ID={invocation}"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(argv, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, env=ENVIRONMENT) as reader:
        watchdog = threading.Timer(20.0, reader.kill)
        watchdog.start()
        left = JOURNAL_BYTES
        for raw in reader.stdout or ():
            if not raw.endswith(b"\n"):  # cut off by the watchdog
                break
            entry = json.loads(raw)
            message, cursor = entry.get("MESSAGE") or "", entry["__CURSOR"]
            text = bytes(message).decode("utf-8", "replace") if isinstance(message, list) else str(message)
            lines.extend(line[:JOURNAL_LINE] for line in text.split("\n"))
            left -= len(text)
            if left <= 0 or len(lines) >= JOURNAL_LINES:
                break
        watchdog.cancel()
        reader.kill()
    return lines, cursor


# --- questions: they change nothing -------------------------------------------------------------------------------


def folder_of(request: Request) -> str:
    """Where the record of a service lies."""
    return os.path.join(STATE_ROOT, str(request["service"]))


def record_(request: Request) -> Answer:
    """Who holds the service; ``rebooted``: a reboot has ended that hold, and what it had left."""
    record = read(folder_of(request))
    if record is None:
        return {"record": None}
    return {"record": {**shown(record), "rebooted": record["boot_id"] != read_clock().boot}}


def look(unit: str, port: int) -> Answer:
    """What production is now; kept in the record as what a restore has to bring back."""
    seen = show(unit, "UnitFileState", "FragmentPath", "DropInPaths", "NeedDaemonReload", "User")
    if seen["LoadState"] != "loaded":
        raise Refused("unit", f"there is no production unit {unit} on this host (systemd says: {seen['LoadState']})")
    own = {*processes_of(unit), *processes_of(trial_of(unit))}
    return {
        "unit": unit,
        "port": port,
        "was_active": is_up(seen),
        "argv": [hide_secrets(words) for words in commands_of(unit)],
        "invocation": seen["InvocationID"],
        "enabled": seen["UnitFileState"],
        "files": [seen["FragmentPath"], *seen["DropInPaths"].split()],
        "needs_reload": seen["NeedDaemonReload"] == "yes",
        "user": seen["User"],
        "foreign": [app for app in compute_apps() if app["pid"] not in own],
    }


def survey(request: Request) -> Answer:
    """What the host is: production, GPUs, who else is on them, versions."""
    gpus = nvidia_smi("gpu=name,driver_version,memory.total")
    facts = {"kernel": os.uname().release, "systemd": must("systemctl", "--version").split()[1]}
    facts.update({"driver": gpus[0][-2]} if gpus else {})  # no boot id: a number does not depend on it
    return {
        "production": look(request["unit"], request["port"]),
        "state": state_of(show(request["unit"])),
        "gpus": None if gpus is None else [row[0] for row in gpus],
        "card_mib": card_memory(gpus or []),
        "facts": facts,
    }


def verify(request: Request) -> Answer:
    """Would systemd accept this trial unit and understand it as it is meant, and is its name free for us."""
    check_text(trial_of(request["unit"]), request["text"])
    prove_beforehand(request["text"], request["argv"], request["environment"])
    return {}


def ask(request: Request) -> Answer:
    """What a program says that is asked as the service's own user: the engine's interpreter, not as root.

    In a transient unit, so that it has what a unit has, nothing of the caller's, and an end.
    """
    user, bound_s = request["user"], request["deadline_s"]
    if user and not user.isdigit() and not account_exists(user):
        raise Refused("unit", f"there is no account {user} on this host")
    argv = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--unit=tune-ask-{secrets.token_hex(6)}"]
    argv += [f"--property=RuntimeMaxSec={bound_s}", "--property=TimeoutStopSec=2", "--property=LogLevelMax=notice"]
    argv += [f"--uid={user}"] if user else []
    argv += ["--", *(word.replace("$", "$$") for word in request["argv"])]
    began = time.monotonic()
    try:
        given = request["stdin"].encode()
        done = subprocess.run(
            argv, input=given, capture_output=True, timeout=bound_s + 15, check=False, env=ENVIRONMENT
        )
    except subprocess.TimeoutExpired as error:
        raise Refused("host", SLOW.format(bound_s)) from error
    if done.returncode != 0 and time.monotonic() - began >= bound_s:
        raise Refused("host", SLOW.format(bound_s))
    out, said = (stream.decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
    return {"code": done.returncode, "stdout": out[:ANSWER_BYTES], "stderr": said[-ANSWER_BYTES:]}


def teardown(request: Request) -> Answer:
    """Is everything let go that the next start needs."""
    record = read(folder_of(request))
    foreign = record["production"]["foreign"] if record else []
    units = (request["unit"], trial_of(request["unit"]))
    return {"holders": holders(units, request["port"], foreign), "gpu_memory_mib": gpu_memory()}


def watch(request: Request) -> Answer:
    """One look at a unit: state, new journal lines, counters, who listens, what the main process was started with."""
    unit = unit_of(request, request["unit"])
    seen = show(unit)
    if is_stopped(seen):
        run("journalctl", "--sync")  # the last words of a process that has just died
    lines, cursor = journal(seen["InvocationID"], request["cursor"], tail=request["role"] == "production")
    own = processes_of(unit)
    listening = [{**listener, "ours": listener["pid"] in own} for listener in listeners(request["port"])]
    return {
        "state": state_of(seen),
        "lines": lines,
        "cursor": cursor,
        "progress": progress(own, seen.get("CPUUsageNSec", "")),
        "listener": min(listening, key=lambda listener: listener["ours"], default=None),  # a foreign one first
        "argv": hide_secrets(proc(int(seen["MainPID"]), "cmdline").split("\0")[:-1]),
    }


def restoring(request: Request) -> Answer:
    """How far the host is with putting production back."""
    folder, worker = folder_of(request), restore_unit(request["service"])
    told = last_told(folder)
    if told is None:
        return {"phase": "nothing-to-restore", "detail": "", "state": None}
    switch = expire_timer(request["service"]).replace(".timer", ".service")  # it may have had to do it itself
    ended = is_stopped(show(worker)) and is_stopped(show(switch))
    told = last_told(folder) or told  # as it was left, if it has ended
    abandoned = ended and told["phase"] == "restoring"
    production = show(told["unit"])
    if abandoned and told["boot_id"] != read_clock().boot:
        back = is_up(production) or not told["was_active"]
        detail = f"the host was rebooted meanwhile; {told['unit']} is {production['ActiveState']}"
        told.update(phase="restored" if back else "failed", detail=detail)
    elif abandoned:
        told.update(phase="failed", detail=f"the restore ended without a word: journalctl -u {worker}")
    return {**told, "state": state_of(production)}


# --- acts ---------------------------------------------------------------------------------------------------------


def unit_of(request: Request, production: str) -> str:
    """The unit that plays the role."""
    return production if request["role"] == "production" else trial_of(production)


def take_(request: Request) -> Answer:
    """Begin to hold the service, and arm the dead man's switch."""
    service, ttl_s, folder = request["service"], request["ttl_s"], folder_of(request)

    def look_first() -> Answer:
        production = look(request["unit"], request["port"])
        if production["needs_reload"]:
            raise Refused(
                "unit",
                f"{request['unit']} was changed on disk and not reloaded: a restore would start something else than "
                "what runs now; look at the change, then systemctl daemon-reload",
            )
        return production

    def restore_first(record: Record) -> None:
        arm(service, ttl_s, trial_of(request["unit"]))
        with locked(folder):
            order_restore(folder, record, "take-over")
        for _ in until(RESTORE_BOUND_S, every_s=0.5):
            told = restoring(request)
            if told["phase"] == "failed":
                raise Refused("host", f"what an earlier run left could not be put back: {told['detail']}")
            if told["phase"] != "restoring":
                return
        raise Refused("host", f"what an earlier run left was not put back within {RESTORE_BOUND_S:.0f} s")

    who = {name: request[name] for name in ("service", "owner", "run", "purpose", "ttl_s")}
    record = take(folder, **who, look=look_first, restore=restore_first)
    arm(service, ttl_s, trial_of(request["unit"]))
    told = {name: record[name] for name in ("token", "restored_first", "rebooted")}
    return {**told, "record": shown(record)}


def renew_(request: Request) -> Answer:
    """A sign of life of the run."""
    return {"record": shown(renew(folder_of(request), request["token"], request["ttl_s"]))}


def free_(request: Request) -> Answer:
    """Stop holding; what is left of a trial goes, the switch is disarmed."""
    free(folder_of(request), request["token"], clear=clear_up)
    return {}


def install(request: Request) -> Answer:
    """Put the trial unit in place and prove that systemd understood it; else it is taken away again."""
    with held(folder_of(request), request["token"]) as record:
        trial = trial_of(record["production"]["unit"])
        if not is_stopped(show(trial)):
            raise Refused("host", f"{trial} is running: it has to be stopped before another one is installed")
        check_text(trial, request["text"])
        write_whole(trial_path(trial), request["text"].encode(), 0o644)
        try:
            must("systemctl", "daemon-reload")
            prove(trial, request["argv"], request["environment"])
            write_secrets(request["service"], request["secrets"])
        except BaseException:
            remove_trial(trial)
            remove_secrets(request["service"])
            raise
    return {}


def reveal(request: Request) -> Answer:
    """The text of an environment file that only root may read: the run has to know which values to keep silent about.

    It tells nothing that whoever may install a unit could not find out.
    """
    with open(request["path"], encoding="utf-8", errors="replace") as file:
        text = file.read(ANSWER_BYTES + 1)
    if len(text) > ANSWER_BYTES:
        raise Refused("host", f"{request['path']} is longer than an environment file can reasonably be")
    return {"text": text}


def check_secrets(files: dict[str, str]) -> None:
    """Only files of these names."""
    if not files.keys() <= SECRET_FILES:
        raise Refused("bad-request", f"secret files are called {', '.join(sorted(SECRET_FILES))}")


def write_secrets(service: str, files: dict[str, str]) -> None:
    """Exactly these files for the service's trial, readable by root alone; systemd hands on what they hold."""
    remove_secrets(service)
    if not files:
        return
    check_secrets(files)
    folder = os.path.join(SECRETS_ROOT, service)
    os.makedirs(folder, mode=0o700)
    for name, text in files.items():
        write_whole(os.path.join(folder, name), text.encode(), 0o600)


def remove_secrets(service: str) -> None:
    """The trial is over, and needs them no more."""
    shutil.rmtree(os.path.join(SECRETS_ROOT, service), ignore_errors=True)
    with contextlib.suppress(OSError):  # another service's are still there, or there never were any
        os.rmdir(SECRETS_ROOT)


def stop(request: Request) -> Answer:
    """Stop a unit and wait until it is; the record says *temporary* before production is touched."""
    with held(folder_of(request), request["token"]) as record:
        unit = unit_of(request, record["production"]["unit"])
        if request["role"] == "production":
            make_temporary(folder_of(request), record)
        set_deadline(record, read_clock(), record["ttl_s"] + request["deadline_s"])  # who waits cannot renew meanwhile
        write(folder_of(request), record)
        order_stop(unit)
    stopped = wait_stopped(unit, request["deadline_s"])
    with held(folder_of(request), request["token"], restoring=True) as record:
        set_deadline(record, read_clock(), record["ttl_s"])
        write(folder_of(request), record)
    if not stopped:
        left = [f"pid {pid} ({name_of(pid)})" for pid in processes_of(unit)]
        raise Refused("host", f"{unit} did not stop within {request['deadline_s']:.0f} s", left)
    if request["role"] == "trial":
        remove_secrets(request["service"])
    return {"state": state_of(show(unit))}


def start(request: Request) -> Answer:
    """Start a unit and say which invocation that is; whether it gets ready is not waited for."""
    with held(folder_of(request), request["token"]) as record:
        unit = unit_of(request, record["production"]["unit"])
        if request["role"] == "trial" and not is_ours(trial_path(unit)):
            raise Refused("host", f"{unit} is not installed")
        make_temporary(folder_of(request), record)
        before = order_start(unit)
    seen = wait_started(unit, before)
    if seen["InvocationID"] in {"", before}:
        raise Refused("host", f"{unit} was not started within {START_WAIT_S:.0f} s ({seen['ActiveState']})")
    return {"state": state_of(seen)}


def restore(request: Request) -> Answer:
    """Order production back. The host does it by itself from here on, whatever becomes of the caller."""
    with held(folder_of(request), request["token"], restoring=True) as record:
        if record["state"] == "production":
            tell(folder_of(request), record, "nothing-to-restore", "production was not touched")
        else:
            order_restore(folder_of(request), record, "run")
    return {}


def order_stop(unit: str) -> None:
    """Queue a stop; stopping what is stopped, or was never there, changes nothing."""
    if not is_stopped(show(unit)):
        must("systemctl", "stop", "--no-block", "--", unit)


def wait_stopped(unit: str, bound_s: float) -> bool:
    """Until nothing of the unit runs; False when the bound came first."""
    return any(is_stopped(show(unit)) for _ in until(bound_s, every_s=0.2))


def order_start(unit: str) -> str:
    """Queue a start and return the invocation before it, "" for none. What runs already is left running."""
    run("systemctl", "reset-failed", "--", unit)  # the start limit must not block a start that is meant
    seen = show(unit)
    if is_up(seen) and seen["MainPID"] != "0":
        return ""
    must("systemctl", "start", "--no-block", "--", unit)
    return seen["InvocationID"]


def wait_started(unit: str, before: str) -> dict[str, str]:
    """Until a new invocation has a main process or has ended; returns the last look."""
    seen = show(unit)
    for _ in until(START_WAIT_S, every_s=0.1):
        seen = show(unit)
        if seen["InvocationID"] not in {"", before} and (seen["MainPID"] != "0" or is_stopped(seen)):
            break
    return seen


def remove_trial(trial: str) -> None:
    """Take our trial unit away; anything else under its name is left alone."""
    if is_ours(trial_path(trial)):
        os.unlink(trial_path(trial))
        must("systemctl", "daemon-reload")


def clear_up(record: Record) -> None:
    """A hold ends with production in place: nothing of ours stays."""
    trial = trial_of(record["production"]["unit"])
    if is_stopped(show(trial)):
        remove_trial(trial)
    remove_secrets(record["service"])
    end_deploy(record, "abandoned", "it ended before production was stopped")
    disarm(record["service"])


# --- without the ops box ------------------------------------------------------------------------------------------


def expire_timer(service: str) -> str:
    """The dead man's switch of a service."""
    return f"tune-expire-{service}.timer"


def restore_unit(service: str) -> str:
    """The unit in which the host restores it."""
    return f"tune-restore-{service}.service"


def arm(service: str, ttl_s: float, trial: str) -> None:
    """Have systemd look at the deadline again and again; it may be late by at most a minute, or a quarter of ``ttl_s``.

    Not once, at the deadline: that moves with every renewal, and systemd counts ``OnActiveSec`` from the last
    daemon-reload. ``After=`` makes it remember how the trial ended; a unit nobody refers to is forgotten at once.
    """
    every_s = min(60.0, max(1.0, ttl_s / 4))
    unit = expire_timer(service).replace(".timer", ".service")
    run("systemctl", "stop", expire_timer(service), unit)
    run("systemctl", "reset-failed", unit)
    timer = [f"--on-active={every_s}", f"--on-unit-inactive={every_s}", "--timer-property=AccuracySec=1s"]
    timer.append(f"--timer-property=After={trial}")
    quiet = ["--property=LogLevelMax=notice", "--property=StartLimitIntervalSec=0"]
    must("systemd-run", "--quiet", f"--unit={unit}", *timer, *quiet, os.path.realpath(__file__), "expire", service)


def disarm(service: str) -> None:
    """Forget the switch."""
    run("systemctl", "stop", "--no-block", expire_timer(service))


def expire(request: Request) -> Answer:
    """The switch looks: nothing before the deadline; then production comes back, or a hold that left it alone ends."""
    folder = folder_of(request)
    with locked(folder):
        record = read(folder)
        if record is None:
            disarm(request["service"])
            return {"did": "nothing: nobody holds it"}
        unfinished = "restoring" in record and is_stopped(show(restore_unit(request["service"])))
        if is_live(record, read_clock()) and not unfinished:
            return {"did": f"nothing: held until {record['deadline']}"}
        if record["state"] == "production":
            clear_up(record)
            drop(folder)
            return {"did": "ended a hold that had not touched production"}
        record["tries"] = record.get("tries", 0) + 1
        if record["tries"] > RESTORE_TRIES:
            disarm(request["service"])
            return {"did": f"gave up after {RESTORE_TRIES} tries: see restore.json, then `break {request['service']}`"}
        if not unfinished:
            order_restore(folder, record, "expiry")
            return {"did": "ordered production back"}
        note(folder, record)
    return restore_now(request)  # it was ordered, and either could not be started or died on the way


def break_(request: Request) -> Answer:
    """For people: let somebody's hold run out now."""
    folder = folder_of(request)
    with locked(folder):
        record = read(folder)
        if record is not None:
            record.pop("tries", None)
            set_deadline(record, read_clock(), 0.0)
            write(folder, record)
    return expire(request)


def order_restore(folder: str, record: Record, why: str) -> None:
    """Have systemd run ``restore-now``; called under the lock. Ordering what is under way changes nothing."""
    unit = restore_unit(record["service"])
    if not is_stopped(show(unit)):
        return
    record["restoring"] = why
    note(folder, record)
    tell(folder, record, "restoring", "ordered")
    run("systemctl", "reset-failed", "--", unit)
    command = (os.path.realpath(__file__), "restore-now", record["service"])
    order = ("systemd-run", "--quiet", "--no-block", f"--unit={unit}", "--property=Type=exec", *command)
    if run(*order).returncode != 0:  # /run may be full; the switch is loaded already, and does it itself
        must("systemctl", "start", "--no-block", expire_timer(record["service"]).replace(".timer", ".service"))


def restore_now(request: Request) -> Answer:
    """Stop the trial, see that it let go, start production if it ran before. Run by systemd, alone."""
    folder = folder_of(request)
    record = read(folder)
    if record is None or record["state"] != "temporary":
        return {"did": "nothing: production was not touched"}
    try:
        detail = put_back(record, lambda text: tell(folder, record, "restoring", text))
    except (Refused, OSError) as error:
        said = error.answer["evidence"] if isinstance(error, Refused) else []
        tell(folder, record, "failed", ": ".join((str(error), *(line for line in said if line not in str(error)))))
        with locked(folder):
            again = read(folder)
            if again is not None:
                again.pop("restoring", None)
                note(folder, again)
        raise
    end_deploy(record, "rolled back", f"{detail}; not verified")
    settle(folder)
    tell(folder, record, "restored", detail)
    return {"did": detail}


def put_back(record: Record, say: Callable[[str], None]) -> str:
    """The work of a restore; returns how production was left. Raises when it does not run although it did."""
    production = record["production"]
    unit, trial = production["unit"], trial_of(production["unit"])
    if "deploy" in record:
        say(put_text_back(record))  # first of all: whatever comes next, a reboot ends with it
        trial = unit  # what has to go is the new version, under production's own name
    say(f"stopping {trial}")
    order_stop(trial)
    if not wait_stopped(trial, STOP_BOUND_S):
        raise Refused("host", f"{trial} did not stop within {STOP_BOUND_S:.0f} s")
    left: list[Answer] = []
    blind = ""
    if is_stopped(show(unit)):  # else somebody has started it by hand, and it holds what it needs
        say("waiting until port and GPUs are free")
        for _ in until(CLEAR_BOUND_S, every_s=1.0):
            try:
                left = holders((trial,), production["port"], production["foreign"])
            except Refused as refused:  # nvidia-smi hangs or makes no sense: the more reason to have production back
                blind = f"; what is on the GPUs is not known: {refused}"
                left = holders((trial,), production["port"], None)
            if not left:
                break
    on_port = [in_words(holder) for holder in left if holder["what"] == "port"]
    if on_port:
        raise Refused("host", f"{unit} cannot start: {on_port[0]}", on_port)
    # What is left on a GPU may or may not leave room: production that tries is better than production that is down.
    beside = "".join(f"; {in_words(holder)}" for holder in left) + blind
    try:
        remove_trial(trial_of(unit))
        remove_secrets(record["service"])
    except (Refused, OSError) as error:  # systemd reloads nothing while /run is full, but it starts what it knows
        syslog.syslog(syslog.LOG_ERR, f"{trial} could not be taken away whole: {error}")
    run("systemctl", "reset-failed", "--", trial)
    if not production["was_active"]:
        return f"{unit} is stopped, as it was before{beside}"
    say(f"starting {unit}")
    seen = wait_started(unit, order_start(unit))
    if not is_up(seen):
        raise Refused("host", f"{unit} was started and is {seen['ActiveState']} ({seen['Result']}){beside}")
    changed = [hide_secrets(words) for words in commands_of(unit)] != production["argv"] and "deploy" not in record
    return f"{unit} was started{', with another command line than before' if changed else ''}{beside}"


def told_in(folder: str) -> tuple[str, str]:
    """Where a restore leaves word: beside the record, or where a disk that is full or failing does not matter."""
    return os.path.join(folder, "restore.json"), f"/run/tune-restore-{os.path.basename(folder)}.json"


def last_told(folder: str) -> Answer | None:
    """The last word of a restore."""
    words = [told for path in told_in(folder) if (told := read_json(path)) is not None]
    return max(words, key=lambda told: float(told.get("wall", 0)), default=None)


def tell(folder: str, record: Record, phase: str, detail: str) -> None:
    """Leave word of a restore. A full disk must not keep production down: then the word is left elsewhere."""
    known = {name: record["production"][name] for name in ("unit", "was_active")}
    moment = read_clock()
    content = {"phase": phase, "detail": detail, "run": record["run"], **known}
    content.update(why=record.get("restoring", ""), at=stamp(moment.wall), boot_id=moment.boot, wall=moment.wall)
    for path in told_in(folder):
        try:
            write_whole(path, json.dumps(content).encode(), 0o600)
            break
        except OSError as error:
            syslog.syslog(syslog.LOG_ERR, f"cannot write {path}: {error}")
    syslog.syslog(syslog.LOG_NOTICE, f"{phase}: {detail}")


# --- releases: what deploy and rollback put in service -------------------------------------------------------------

ETC = "/etc/systemd/system"
KEPT_RELEASES = 30
GOOD = {"adopted", "deployed"}  # these passed the gate, or ran when we came; the newest of them is last-good
IN_PLACE = {*GOOD, "failed"}  # the newest of these is what the unit file should be; others never were, or were undone
SILENT = re.compile(
    r"((?:--(?:[a-z0-9-]+-)?(?:key|token|password|secret)(?:[ =]|\\\n\s*)+)"
    r"|(?:\b[A-Z0-9_]*(?:KEY|TOKEN|PASSWORD|SECRET)=))(\"[^\"]*\"|\S+)"
)


def release_path(folder: str, number: int) -> str:
    """Where a release is kept."""
    return os.path.join(folder, "releases", f"{number:06d}.json")


def all_releases(folder: str) -> list[Record]:
    """Every release that is kept, oldest first."""
    with contextlib.suppress(FileNotFoundError):
        names = sorted(
            name for name in os.listdir(os.path.join(folder, "releases")) if re.fullmatch(r"\d{6}\.json", name)
        )
        return [found for name in names if (found := read_json(os.path.join(folder, "releases", name))) is not None]
    return []


def newest(known: Sequence[Record], outcomes: set[str]) -> Record | None:
    """The newest release that ended in one of these ways."""
    return next((release for release in reversed(known) if release["outcome"] in outcomes), None)


def write_release(folder: str, release: Record) -> None:
    """A release whole; the oldest are forgotten beyond ``KEPT_RELEASES``, never the last good one."""
    os.makedirs(os.path.join(folder, "releases"), mode=0o700, exist_ok=True)
    write_whole(release_path(folder, release["number"]), json.dumps(release, indent=1).encode(), 0o600)
    known = all_releases(folder)
    good = newest(known, GOOD)
    for old in known[:-KEPT_RELEASES]:
        if good is None or old["number"] != good["number"]:
            os.unlink(release_path(folder, old["number"]))


def audit(service: str, verb: str, what: str) -> None:
    """One line, only ever appended. A disk that cannot be written must not keep production down."""
    folder = os.path.join(STATE_ROOT, service)
    line = {"at": stamp(time.time()), "by": caller(), "verb": verb, "what": what}
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(
            os.path.join(folder, "audit.jsonl"),
            os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
            0o600,
        )
        try:
            os.write(descriptor, (json.dumps(line) + "\n").encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        syslog.syslog(syslog.LOG_ERR, f"cannot write the audit of {service}: {error}")


def audited(service: str) -> list[str]:
    """The end of the audit; as much as may be answered."""
    with contextlib.suppress(FileNotFoundError), open(os.path.join(STATE_ROOT, service, "audit.jsonl"), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 32768))
        return file.read().decode("utf-8", "replace").splitlines()[-100:]
    return []


def caller() -> str:
    """The login on whose behalf we are root."""
    return os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name


def silent(text: str) -> str:
    """A unit text that may leave the host: values that look like keys are starred."""
    return SILENT.sub(r"\1***", text)


def digest(text: str) -> str:
    """Tells one text from another."""
    return hashlib.sha256(text.encode()).hexdigest()


def refuse_elsewhere(unit: str) -> str:
    """The path of a production unit that deploy may write: a plain file in /etc. Others are somebody's intention."""
    path = os.path.join(ETC, unit)
    seen = show(unit, "FragmentPath")
    if os.path.islink(path):
        target = os.readlink(path)
        what = "is masked" if target == "/dev/null" else f"is a symbolic link to {target}"
        raise Refused("unit", f"{path} {what}: it is not overwritten")
    if seen["LoadState"] != "loaded" or seen["FragmentPath"] != path:
        where = seen["FragmentPath"] or "no file"
        raise Refused("unit", f"{unit} comes from {where} ({seen['LoadState']}); deploy writes {path} and nothing else")
    return path


def read_text(path: str) -> str:
    """A unit file or drop-in; bounded."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read(ANSWER_BYTES + 1)
    if len(text) > ANSWER_BYTES:
        raise Refused("unit", f"{path} is longer than a unit can reasonably be")
    return text


def drop_ins_of(unit: str) -> list[str]:
    """Drop-ins for this unit; those for every service apply to whatever is written anyway."""
    paths = show(unit, "DropInPaths")["DropInPaths"].split()
    return [path for path in paths if os.path.basename(os.path.dirname(path)) != "service.d"]


def refuse_drift(folder: str, path: str) -> None:
    """Deploy follows on what it knows: a unit that somebody has edited since is not overwritten silently."""
    expected = newest(all_releases(folder), IN_PLACE)
    if expected is not None and digest(read_text(path)) != expected["digest"]:
        raise Refused(
            "unit", f"{path} was edited since release {expected['number']}: it is not overwritten", drift=True
        )


def shown_release(release: Record) -> Answer:
    """A release as it may leave the host."""
    hidden = {"text": silent(release["text"]), "argv": hide_secrets(release["argv"]), "commands": [], "secrets": {}}
    return {**release, **hidden}


def releases(request: Request) -> Answer:
    """What was put in service, the unit as it lies there now, what runs, and who did what."""
    unit, folder = request["unit"], folder_of(request)
    seen = show(unit, "FragmentPath", "NeedDaemonReload", "UnitFileState", "ActiveEnterTimestamp")
    known = all_releases(folder)
    there = os.path.isfile(seen["FragmentPath"])
    text = read_text(seen["FragmentPath"]) if there else ""
    commands = commands_of(unit) if seen["LoadState"] == "loaded" else []
    record = read(folder)
    return {
        "releases": [shown_release(release) for release in known],
        "path": seen["FragmentPath"],
        "text": silent(text),
        "digest": digest(text) if there else "",
        "drop_ins": {path: silent(read_text(path)) for path in drop_ins_of(unit)},
        "needs_reload": seen["NeedDaemonReload"] == "yes",
        "enabled": seen["UnitFileState"],
        "since": seen["ActiveEnterTimestamp"],
        "commands": [hide_secrets([word.replace("$$", "$") for word in words]) for words in commands],
        "running": hide_secrets(proc(int(seen["MainPID"]), "cmdline").split("\0")[:-1]),
        "state": state_of(seen),
        "record": None if record is None else {**shown(record), "rebooted": record["boot_id"] != read_clock().boot},
        "told": last_told(folder),
        "audit": audited(request["service"]),
    }


def verify_release(request: Request) -> Answer:
    """Would systemd accept this production unit, drop-ins included, and understand it as it is meant."""
    unit = request["unit"]
    refuse_elsewhere(unit)
    check_lines(unit, request["text"])
    prove_beforehand(request["text"], request["argv"], request["environment"], drop_ins_of(unit))
    return {}


def adopt_found(request: Request) -> Answer:
    """Record production as it was found, so that there is a last good release; what is known already stays one."""
    folder = folder_of(request)
    with held(folder, request["token"]) as record:
        unit = record["production"]["unit"]
        path = refuse_elsewhere(unit)
        text, known = read_text(path), all_releases(folder)
        before = newest(known, IN_PLACE)
        if before is not None and before["digest"] == digest(text) and before["outcome"] in GOOD:
            return {"number": before["number"]}
        commands = commands_of(unit)
        argv = [word.replace("$$", "$") for words in commands for word in words]
        release = new_release(known, request["about"], unit, text=text, argv=argv, commands=commands)
        release.update(outcome="adopted", ended=release["at"], detail="found on the host")
        write_release(folder, release)
        return {"number": release["number"]}


def new_release(known: Sequence[Record], about: dict[str, str], unit: str, **what: Any) -> Record:
    """The next release, not yet in service."""
    return {
        "number": known[-1]["number"] + 1 if known else 1,
        "at": stamp(time.time()),
        "about": about,
        "unit": unit,
        "outcome": "deploying",
        "detail": "",
        "ended": None,
        "environment": {},
        "secrets": {},
        "commands": [],
        "copy_of": None,
        "digest": digest(what["text"]),
        "drop_ins": {path: digest(read_text(path)) for path in drop_ins_of(unit)},
        **what,
    }


def stage(request: Request) -> Answer:
    """Write down what is about to be put in service, and what to return to. Production is not touched yet."""
    check_secrets(request["secrets"])
    what = {name: request[name] for name in ("text", "argv", "environment", "secrets")}
    return put_on_stage(request, lambda _: what)


def stage_copy(request: Request) -> Answer:
    """The same with an earlier release's unit, word for word."""

    def copied(known: Sequence[Record]) -> Answer:
        for release in known:
            if release["number"] == int(request["number"]):
                names = ("text", "argv", "environment", "secrets", "commands")
                return {**{name: release[name] for name in names}, "copy_of": release["copy_of"] or release["number"]}
        raise Refused("unit", f"there is no release {request['number']:.0f} on this host")

    return put_on_stage(request, copied)


def put_on_stage(request: Request, what: Callable[[Sequence[Record]], Answer]) -> Answer:
    """One release is under way at a time; the guard has to be there before anything is stopped."""
    folder = folder_of(request)
    with held(folder, request["token"]) as record:
        unit = record["production"]["unit"]
        refuse_drift(folder, refuse_elsewhere(unit))
        for left in [release for release in all_releases(folder) if release["outcome"] == "deploying"]:
            write_release(
                folder, {**left, "outcome": "abandoned", "detail": "broken off before production was stopped"}
            )
        known = all_releases(folder)
        good = newest(known, GOOD)
        if good is None:
            raise Refused("host", "there is no release to return to: what is found has to be recorded first")
        release = new_release(known, request["about"], unit, **what(known))
        write_guard(request["service"], unit)  # first: it does nothing while no deploy is in the record
        write_release(folder, release)
        record["deploy"] = {"number": release["number"], "last_good": good["number"]}
        write(folder, record)
    return {"number": release["number"], "last_good": good["number"]}


def place(request: Request) -> Answer:
    """Put the staged unit where production's is, whole, and prove that systemd understood it."""
    folder = folder_of(request)
    with held(folder, request["token"]) as record:
        unit = record["production"]["unit"]
        release = read_json(release_path(folder, record["deploy"]["number"])) if "deploy" in record else None
        if release is None:
            raise Refused("host", "nothing is staged")
        path = refuse_elsewhere(unit)
        if read_text(path) != release["text"]:  # else it was placed already, and the answer was lost
            refuse_drift(folder, path)
            if not is_stopped(show(unit)):
                raise Refused("host", f"{unit} is running: it has to be stopped before another one takes its place")
            make_temporary(folder, record)
            give_secrets(request["service"], release["secrets"])
            write_whole(path, release["text"].encode("utf-8", "surrogateescape"), 0o644)
        must("systemctl", "daemon-reload")
        if release["commands"]:
            if commands_of(unit) != release["commands"]:
                raise Refused("unit", f"systemd no longer understands release {release['number']} as it did then")
        else:
            prove(unit, release["argv"], release["environment"], path)
    return {}


def give_secrets(service: str, files: dict[str, str]) -> None:
    """The files that give production its secrets; those of an earlier release stay where none are given."""
    folder = os.path.join(STATE_ROOT, service, "secrets")
    for name, text in files.items():
        os.makedirs(folder, mode=0o700, exist_ok=True)
        write_whole(os.path.join(folder, name), text.encode(), 0o600)


def conclude(request: Request) -> Answer:
    """How a deploy ended: *deployed* (the gate was passed), *failed* (and left so), or a way back *verified*."""
    folder, outcome = folder_of(request), request["outcome"]
    with held(folder, request["token"], restoring=True) as record:
        release = read_json(release_path(folder, int(request["number"])))
        if release is None:
            raise Refused("host", f"there is no release {request['number']:.0f} on this host")
        if outcome == "verified":
            write_release(folder, {**release, "detail": request["detail"], "ended": stamp(time.time())})
            return {}
        if record.get("deploy", {}).get("number") != release["number"]:
            raise Refused("host", f"release {release['number']} is not under way")
        release.update(outcome=outcome, detail=request["detail"], ended=stamp(time.time()))
        write_release(folder, release)
        record.update(state="production", production=look(record["production"]["unit"], record["production"]["port"]))
        record.pop("deploy")
        write(folder, record)
        remove_guard(record["service"])
    return {}


def end_deploy(record: Record, outcome: str, detail: str) -> None:
    """A deploy that did not come through is over. A disk that cannot be written must not keep production down."""
    if "deploy" not in record:
        return
    folder = os.path.join(STATE_ROOT, record["service"])
    try:
        release = read_json(release_path(folder, record["deploy"]["number"]))
        if release is not None and release["outcome"] == "deploying":
            to = f" to release {record['deploy']['last_good']}" if outcome == "rolled back" else ""
            words = f"returned{to}: {detail}" if to else detail
            write_release(folder, {**release, "outcome": outcome, "detail": words, "ended": stamp(time.time())})
        remove_guard(record["service"])
    except (OSError, Refused) as error:
        syslog.syslog(syslog.LOG_ERR, f"cannot write how the deploy of {record['service']} ended: {error}")


def put_text_back(record: Record) -> str:
    """The last good release's unit, word for word, where production's is; returns what was done."""
    folder, deploy = os.path.join(STATE_ROOT, record["service"]), record["deploy"]
    unit = record["production"]["unit"]
    path = os.path.join(ETC, unit)
    good, new = (read_json(release_path(folder, deploy[name])) for name in ("last_good", "number"))
    if good is None:
        raise Refused("host", f"release {deploy['last_good']} is not on this host any more")
    if os.path.islink(path):
        raise Refused("unit", f"{path} was made a link to {os.readlink(path)} meanwhile: it is not overwritten")
    found = read_text(path) if os.path.exists(path) else None
    if found != good["text"]:
        if found is not None and (new is None or found != new["text"]):  # somebody's work is not lost
            kept = os.path.join(folder, f"edited-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.service")
            write_whole(kept, found.encode("utf-8", "surrogateescape"), 0o600)
            syslog.syslog(syslog.LOG_WARNING, f"{path} was edited in mid-deploy; that text is in {kept}")
        give_secrets(record["service"], good["secrets"])
        write_whole(path, good["text"].encode("utf-8", "surrogateescape"), 0o644)
    must("systemctl", "daemon-reload")
    return f"release {good['number']} is in {path} again"


def guard_unit(service: str) -> str:
    """What ends, at the next boot, a deploy that a reboot has broken."""
    return f"tune-guard-{service}.service"


def write_guard(service: str, unit: str) -> None:
    """Enabled for boot and ordered before production; systemd reads it at the next boot, not before."""
    helper, name = os.path.realpath(__file__), guard_unit(service)
    text = (
        f"# tune: guard of {unit}; it is taken away when the deploy that is under way has ended\n"
        f"[Unit]\nDescription=tune: end a deploy of {unit} that a reboot has broken\nBefore={unit}\n"
        f"RequiresMountsFor={STATE_ROOT}/{service} {helper}\n"
        f"ConditionPathExists={STATE_ROOT}/{service}/record.json\n"
        f"[Service]\nType=oneshot\nTimeoutStartSec=90\nExecStart={helper} guard {service}\n"
    )
    wants = os.path.join(ETC, "multi-user.target.wants")
    os.makedirs(wants, mode=0o755, exist_ok=True)
    os.chmod(wants, 0o755)
    write_whole(os.path.join(ETC, name), text.encode(), 0o644)
    if not os.path.lexists(os.path.join(wants, name)):
        os.symlink(os.path.join(ETC, name), os.path.join(wants, name))
    sync_folder(wants)


def remove_guard(service: str) -> None:
    """No deploy is under way any more."""
    name = guard_unit(service)
    for path in (os.path.join(ETC, "multi-user.target.wants", name), os.path.join(ETC, name)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def guard(request: Request) -> Answer:
    """At boot, before production: a deploy that the reboot has broken ends in the last good release."""
    folder = folder_of(request)
    with locked(folder):
        record = read(folder)
        if record is None or "deploy" not in record or record["boot_id"] == read_clock().boot:
            return {"did": "nothing: no deploy was broken by a reboot"}
        touched = record["state"] == "temporary"
        detail = put_text_back(record) if touched else "the host was rebooted before production was stopped"
        end_deploy(record, "rolled back" if touched else "abandoned", f"{detail} after a reboot; not verified")
        drop(folder)
    if touched:
        tell(folder, record, "restored", f"{detail} after a reboot; not verified")
    if record["production"]["was_active"]:
        run("systemctl", "start", "--no-block", "--", record["production"]["unit"])
    return {"did": detail}


# --- the door -----------------------------------------------------------------------------------------------------

FIELDS: dict[str, Any] = {  # pattern of a text, range of a number, or the type of a container of text
    "service": r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
    "unit": r"[A-Za-z0-9][A-Za-z0-9:_.@\\-]{0,200}\.service",
    "port": (1, 65535),
    "role": r"production|trial",
    "token": r"[0-9a-f]{32}",
    "owner": r"[^\x00-\x1f\x7f]{1,200}",
    "run": r"[A-Za-z0-9._-]{1,64}",
    "purpose": r"[^\x00-\x1f\x7f]{1,200}",
    "ttl_s": (1, 86400),
    "deadline_s": (1, 3600),
    "text": r"[\s\S]{1,262144}",
    "argv": list,
    "environment": dict,
    "secrets": dict,
    "path": r"/[^\x00-\x1f\x7f]{1,4000}",
    "user": r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\$?|",
    "stdin": r"[\s\S]{0,4194304}",
    "cursor": r"[A-Za-z0-9=;_-]{0,400}",
    "number": (1, 999999),
    "about": dict,
    "outcome": r"deployed|failed|verified",
    "detail": r"[^\x00-\x08\x0b-\x1f\x7f]{0,4000}",
}
QUESTIONS: dict[str, tuple[Callable[[Request], Answer], str]] = {  # verb: what it does, the fields it needs
    "record": (record_, "service"),
    "survey": (survey, "service unit port"),
    "verify": (verify, "service unit text argv environment"),
    "ask": (ask, "service user argv stdin deadline_s"),
    "teardown": (teardown, "service unit port"),
    "watch": (watch, "service unit port role cursor"),
    "restoring": (restoring, "service"),
    "releases": (releases, "service unit"),
    "verify-release": (verify_release, "service unit text argv environment"),
}
ACTS: dict[str, tuple[Callable[[Request], Answer], str]] = {
    "take": (take_, "service unit port owner run purpose ttl_s"),
    "renew": (renew_, "service token ttl_s"),
    "free": (free_, "service token"),
    "install": (install, "service token text argv environment secrets"),
    "stop": (stop, "service token role deadline_s"),
    "start": (start, "service token role"),
    "restore": (restore, "service token"),
    "adopt-found": (adopt_found, "service token about"),
    "stage": (stage, "service token text argv environment secrets about"),
    "stage-copy": (stage_copy, "service token number about"),
    "place": (place, "service token"),
    "conclude": (conclude, "service token number outcome detail"),
    "reveal": (reveal, "service path"),
    "break": (break_, "service"),
    "expire": (expire, "service"),
    "restore-now": (restore_now, "service"),
    "guard": (guard, "service"),
}
UNAUDITED = {"renew", "reveal", "expire"}  # signs of life, a look, and a switch that looks once a minute


def check_field(name: str, value: Any) -> bool:
    """Whether a field has the form that is accepted."""
    form = FIELDS[name]
    if isinstance(form, str):
        return isinstance(value, str) and re.fullmatch(form, value) is not None
    if isinstance(form, tuple):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and form[0] <= value <= form[1]
    words = [*value, *value.values()] if isinstance(value, dict) else value
    return isinstance(value, form) and all(isinstance(word, str) for word in words)


def read_request(arguments: Sequence[str], needed: Sequence[str]) -> Request:
    """``SERVICE`` as an argument, or a JSON object on standard input, with exactly the fields a verb needs."""
    raw = json.dumps({"service": arguments[0]}).encode() if arguments else sys.stdin.buffer.read(REQUEST_BYTES + 1)
    try:
        fields = json.loads(raw) if len(raw) <= REQUEST_BYTES else None
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise Refused("bad-request", f"not a JSON object of at most {REQUEST_BYTES} bytes")
    wrong = [name for name in needed if name not in fields or not check_field(name, fields[name])]
    wrong += [name for name in fields if name not in needed]
    if wrong:
        raise Refused("bad-request", f"missing, unknown or not in the accepted form: {', '.join(wrong)}")
    return fields


def refuse_unsafe_file() -> None:
    """Root does not run a file that somebody else could have written.

    Further up, group-writable folders pass: on older Debian systems /usr/local belongs to the group staff, whose
    members are as good as root there.
    """
    path = os.path.realpath(__file__)
    for depth, place in enumerate((path, *(str(parent) for parent in pathlib.Path(path).parents))):
        status = os.stat(place)
        if status.st_uid != 0 or status.st_mode & (0o022 if depth < 2 else 0o002):
            raise Refused("host", f"{place} can be changed by others than root: the helper does not run from there")


def answer(verb: str, arguments: Sequence[str]) -> Answer:
    """Do one verb."""
    if verb == "version":
        with open(__file__, "rb") as file:
            return {"version": VERSION, "sha256": hashlib.sha256(file.read()).hexdigest()}
    if verb not in QUESTIONS and verb not in ACTS:
        raise Refused("bad-request", f"unknown verb {verb!r}; known: version {' '.join((*QUESTIONS, *ACTS))}")
    if os.geteuid() != 0:
        raise Refused("host", "the helper works on system units and has to be root")
    refuse_unsafe_file()
    do, needed = {**QUESTIONS, **ACTS}[verb]
    request = read_request(arguments, needed.split())
    if verb in ACTS and verb != "expire":
        what = " ".join((verb, request["service"], *([request["role"]] if "role" in request else [])))
        syslog.syslog(syslog.LOG_NOTICE, f"{what} for {caller()}")
    return do(request) if verb in QUESTIONS or verb in UNAUDITED else do_audited(verb, do, request)


def do_audited(verb: str, do: Callable[[Request], Answer], request: Request) -> Answer:
    """An act, with a line of the audit before it and one after."""
    names = ("role", "outcome", "owner", "run", "purpose", "number")
    audit(
        request["service"],
        verb,
        " ".join(["begins", *(f"{name}={request[name]}" for name in names if name in request)]),
    )
    try:
        done = do(request)
    except (Refused, OSError) as error:
        audit(request["service"], verb, f"failed: {error}")
        raise
    audit(
        request["service"], verb, " ".join(["done", *(str(done[name]) for name in ("did", "number") if name in done)])
    )
    return done


def main() -> int:
    """One verb, one line, one exit code."""
    os.umask(0o077)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # an act is finished also when the caller's line drops
    syslog.openlog("tune-helper")
    verb, *arguments = sys.argv[1:] or ["version"]
    try:
        told, code = {"ok": True, **answer(verb, arguments)}, 0
    except Refused as refused:
        told, code = refused.answer, EXIT_CODES[refused.kind]
    except OSError as error:
        told, code = Refused("host", f"{error.strerror}: {error.filename or ''}").answer, EXIT_CODES["host"]
    if code and verb in ACTS:
        syslog.syslog(syslog.LOG_WARNING, f"{verb}: {told['fact']}")
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(told), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
