"""What the host does not accept: units systemd would read otherwise, and names that are somebody else's."""

from __future__ import annotations

import dataclasses
import json

import pytest

from orchestrator.core.units import Lease, TrialUnit
from orchestrator.errors import HostFault, UnitRefused
from orchestrator.hosts.systemd import SystemdService
from tests.bed import BedHost
from tests.hosts.stand_in import PORT, TRIAL, UNIT, furnish, service, soon, state, tell, trial

WORDS = (
    "100%",
    "%h/models",
    "%%",
    "a$HOME",
    "${X}",
    "$",
    "$$PATH",
    "C:\\new",
    "ends in \\",
    "it's",
    'say "no"',
    "one with  spaces",
    '{"a": {"b": [1, 2]}}',
    "",
    "--flag=Ünï ☃ 模型",
    "-v",
    "@x",
    ";",
    "a ; b",
    "#no comment",
    " blank",
    "a --b",
    "*?[x]~&|<>",
)


@pytest.fixture
def held(gpu1: BedHost) -> tuple[SystemdService, Lease]:
    furnish(gpu1)
    door = service(gpu1.entry)
    return door, door.take(run="7f3c", purpose="sweep", ttl_s=600)


def altered(unit: TrialUnit, old: str, new: str) -> TrialUnit:
    assert old in unit.text
    return dataclasses.replace(unit, text=unit.text.replace(old, new))


def test_every_word_and_variable_arrives_at_the_engine_as_it_was_meant(
    gpu1: BedHost, held: tuple[SystemdService, Lease]
) -> None:
    door, lease = held
    environment = {f"TEST_{n}": word for n, word in enumerate(WORDS)}
    unit = trial(gpu1.entry, extra_args=WORDS, environment=environment)
    door.verify(unit)
    door.stop(lease, "production", deadline_s=30)
    door.install(lease, unit)
    door.start(lease, "trial")
    soon(lambda: any(line.startswith("environ ") for line in door.watch("trial").lines))
    seen = door.watch("trial")
    assert seen.argv == unit.argv
    printed = {
        line.split()[0]: json.loads(line.split(" ", 1)[1])
        for line in seen.lines
        if line.startswith(("argv ", "environ "))
    }
    assert printed["argv"] == list(unit.argv[3:])
    assert printed["environ"] == environment


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "TimeoutStartSec=120",
            "TimeoutStartSec=20 parsecs",
            "Failed to parse TimeoutStartSec= parameter, ignoring: 20 parsecs",
        ),
        ("Restart=no", "Restart=no\nStartLimitIntervalSec=0", "Unknown key .?StartLimitIntervalSec.? in section"),
        ("[Service]", "[Servise]\nA=1\n[Service]", "Unknown section 'Servise'"),
        ("/opt/engine/bin/python", "/opt/engine/bin/pythom", "/opt/engine/bin/pythom is not executable"),
        ("--pp-size 2", "--pp-size 2 ; /bin/true", "more than one ExecStart"),
        ('Environment="HOME=/root"', "User=nobody-here", "there is no account nobody-here on this host"),
        ("Restart=no", "Restart=no\nWorkingDirectory=/srv/none", "there is no folder /srv/none on this host"),
    ],
)
def test_what_systemd_would_ignore_is_refused_in_its_own_words(
    gpu1: BedHost, held: tuple[SystemdService, Lease], old: str, new: str, line: str
) -> None:
    door, lease = held
    unit = altered(trial(gpu1.entry), old, new)
    with pytest.raises(UnitRefused, match=line):
        door.verify(unit)
    with pytest.raises(UnitRefused, match=line):
        door.install(lease, unit)
    assert gpu1.attempt(f"ls /run/systemd/system/{TRIAL}").returncode != 0
    assert state(gpu1, UNIT) == "active"


def test_faults_of_other_units_are_not_ours(gpu1: BedHost, held: tuple[SystemdService, Lease]) -> None:
    door, _ = held
    gpu1.write("/etc/systemd/system/other.service", "[Service]\nBogus=1\nExecStart=/bin/true\n")
    door.verify(trial(gpu1.entry, kept=("Wants=other.service",)))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("--pp-size 2", "--pp-size 4", "word 6: meant '2', systemd has '4'"),
        ("--pp-size 2", "--pp-size $PP", "word 6: meant '2', systemd has '$PP'"),
        ("--pp-size 2", "--pp-size 2 --more", "words meant, systemd has"),
    ],
)
def test_another_command_line_than_meant_is_taken_away_again(
    gpu1: BedHost, held: tuple[SystemdService, Lease], old: str, new: str, says: str
) -> None:
    door, lease = held
    unit = altered(trial(gpu1.entry), old, new)
    with pytest.raises(UnitRefused, match="understood another command") as refused:
        door.verify(unit)
    assert any(says in line for line in refused.value.evidence), refused.value.evidence
    with pytest.raises(UnitRefused, match="understood another command"):
        door.install(lease, unit)
    assert gpu1.attempt(f"systemctl cat {TRIAL}").returncode != 0
    assert gpu1.sh("ls -A /run/systemd/system; systemctl list-units --all --no-legend 'tune-verify*'") == ""


def test_a_single_dollar_is_refused_even_when_it_is_meant(gpu1: BedHost, held: tuple[SystemdService, Lease]) -> None:
    door, lease = held
    unit = altered(trial(gpu1.entry), "--pp-size 2", "--pp-size $PP")
    argv = tuple("$PP" if word == "2" else word for word in unit.argv)
    with pytest.raises(UnitRefused, match=r"single \$ in ExecStart"):
        door.install(lease, dataclasses.replace(unit, argv=argv))


def test_another_variable_than_meant_is_refused(gpu1: BedHost, held: tuple[SystemdService, Lease]) -> None:
    door, lease = held
    unit = trial(gpu1.entry, environment={"A": "x%y"})
    with pytest.raises(UnitRefused, match="another value of A"):
        door.install(lease, altered(unit, '"A=x%%y"', '"A=x$$y"'))


@pytest.mark.parametrize(
    ("arrange", "says"),
    [
        (f"ln -s /dev/null /etc/systemd/system/{TRIAL}", f"/etc/systemd/system/{TRIAL} is masked"),
        (f"systemctl mask --runtime --quiet {TRIAL}", f"/run/systemd/system/{TRIAL} is masked"),
        (f"ln -s /opt/x.service /etc/systemd/system/{TRIAL}", "is a symbolic link to /opt/x.service"),
        (f"printf '[Service]\\nExecStart=/bin/true\\n' > /etc/systemd/system/{TRIAL}", "is not a trial unit of tune"),
        (f"printf '[Service]\\nExecStart=/bin/true\\n' > /run/systemd/system/{TRIAL}", "is not a trial unit of tune"),
        (f"printf '# tune: trial\\n[Service]\\n' > /usr/lib/systemd/system/{TRIAL}", "is not a trial unit of tune"),
        (f"mkdir /etc/systemd/system/{TRIAL}.d", f"/etc/systemd/system/{TRIAL}.d would change what a trial measures"),
        ("mkdir /etc/systemd/system/engine-.service.d", "/etc/systemd/system/engine-.service.d would change"),
    ],
)
def test_a_name_that_is_somebody_elses_is_not_touched(
    gpu1: BedHost, held: tuple[SystemdService, Lease], arrange: str, says: str
) -> None:
    door, lease = held
    gpu1.sh(f"{arrange}; systemctl daemon-reload")
    before = gpu1.sh(f"ls -ld /*/systemd/system/{TRIAL}* /usr/lib/systemd/system/{TRIAL}* 2>/dev/null || true")
    unit = trial(gpu1.entry)
    with pytest.raises(UnitRefused, match=says):
        door.verify(unit)
    with pytest.raises(UnitRefused, match=says):
        door.install(lease, unit)
    assert gpu1.sh(f"ls -ld /*/systemd/system/{TRIAL}* /usr/lib/systemd/system/{TRIAL}* 2>/dev/null || true") == before
    door.free(lease)


def test_production_that_is_not_there_or_changed_on_disk_is_not_taken(gpu1: BedHost) -> None:
    furnish(gpu1)
    typo = service(gpu1.entry, unit="engin.service")
    with pytest.raises(UnitRefused, match=r"there is no production unit engin\.service"):
        typo.take(run="7f3c", purpose="sweep", ttl_s=60)
    gpu1.sh(f"sleep 0.01; echo '# changed' >> /etc/systemd/system/{UNIT}")
    door = service(gpu1.entry)
    with pytest.raises(UnitRefused, match="changed on disk and not reloaded"):
        door.take(run="7f3c", purpose="sweep", ttl_s=60)
    assert door.record() is None


def test_a_running_trial_is_not_overwritten(gpu1: BedHost, held: tuple[SystemdService, Lease]) -> None:
    door, lease = held
    door.install(lease, trial(gpu1.entry))
    door.install(lease, trial(gpu1.entry))
    door.start(lease, "trial")
    with pytest.raises(HostFault, match=f"{TRIAL} is running"):
        door.install(lease, trial(gpu1.entry, mode="dies"))


def test_a_full_disk_refuses_before_production_is_touched(gpu1: BedHost, held: tuple[SystemdService, Lease]) -> None:
    door, lease = held
    gpu1.sh("cp -a /var/lib/tune /root/tune-kept")
    gpu1.mount_tmpfs("/var/lib/tune", size="64k")
    gpu1.sh("cp -a /root/tune-kept/. /var/lib/tune/")
    gpu1.attempt("dd if=/dev/zero of=/var/lib/tune/.full bs=1k")
    with pytest.raises(HostFault, match="No space left on device"):
        door.stop(lease, "production", deadline_s=30)
    assert state(gpu1, UNIT) == "active"


@pytest.mark.parametrize(
    "fields",
    [
        {"service": "../k26"},
        {"service": "k26", "more": 1},
        {"service": 7},
        {},
    ],
)
def test_requests_of_another_form_are_refused(gpu1: BedHost, fields: dict[str, object]) -> None:
    furnish(gpu1, start=False)
    service(gpu1.entry).record()
    given = {"service": "k26", **fields} if fields else {"service": ""}
    assert tell(gpu1, "record", **given)["kind"] == "bad-request"


def test_units_of_another_form_are_refused(gpu1: BedHost) -> None:
    furnish(gpu1, start=False)
    service(gpu1.entry).record()
    for unit in ("../x.service", "x.timer", "x", "-x.service", "a/b.service", "x\n.service"):
        assert tell(gpu1, "survey", unit=unit, port=PORT)["kind"] == "bad-request", unit
