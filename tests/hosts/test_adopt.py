"""``tune adopt`` on real hosts: hand-written units under a real systemd, read over real ssh."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from orchestrator.core.adopt import expand
from orchestrator.hosts.ssh import SshHost
from orchestrator.project import Project
from tests.bed import BedHost
from tests.core.adopting import CASES as FOLDER
from tests.core.adopting import Recorder, outcome
from tests.hosts import handwritten
from tests.hosts.adopt_cases import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hand_written_unit_gives_its_whole_entry_or_a_refusal_twice_the_same(gpu1: BedHost, case: Case) -> None:
    entry = case.arrange(gpu1) or gpu1.entry
    before = gpu1.sh(_EVERYTHING)
    host = Recorder(SshHost(entry))
    try:
        first = outcome(host, entry, case.unit)
        second = outcome(SshHost(entry), entry, case.unit)
    finally:
        host.close()
    expected = FOLDER / f"{case.name}.txt"
    if os.environ.get("TUNE_RECORD"):
        expected.write_text(first)
        recorded = {"host": entry.name, "unit": case.unit, "answers": host.answers}
        (FOLDER / f"{case.name}.json").write_text(json.dumps(recorded, indent=1) + "\n")
    assert first == expected.read_text()
    assert second == first
    assert gpu1.sh(_EVERYTHING) == before
    assert handwritten.KEY not in first


_EVERYTHING = (
    "find /etc /srv /opt /home /run/systemd/system /run/systemd/transient -newermt 2000-01-01 -printf '%p %s %T@\\n' "
    "2>/dev/null | grep -v -e '/run/systemd/transient ' -e /session-  | sort; "
    "systemctl list-units --type=service --no-legend --plain | grep -v -e session -e user@ -e user-runtime | sort"
)
"""Every file with its size and time, and every unit: what adopt must leave alone."""

_DUMP = """\
import json, os, sys
with open("/var/tmp/seen.json", "w") as file:
    json.dump({"argv": sys.argv[1:], "environment": dict(os.environ)}, file)
"""

_NASTY = r"""
# a comment
; another
PLAIN=one
SPREAD=--a 1  "--b two" 'c d'e\ f "open
QUOTED="with \"quotes\" \$X \n kept" # and more
SINGLE='a\b'@@
JOINED="a"'b' c
CONTINUED=first \
  second
  INDENTED =  spaced out@@@
export NOT=exported
EMPTY=
LAST=early
LAST=late""".replace("@", " ")


def test_words_and_environment_are_expanded_exactly_as_systemd_does(gpu1: BedHost) -> None:
    gpu1.write("/opt/dump.py", _DUMP)
    gpu1.write("/etc/nasty.env", _NASTY)
    gpu1.write("/etc/later.env", "LAST=latest\n")
    words = ["$SPREAD", "${SPREAD}", "x${PLAIN}y$PLAIN", "$$PLAIN", "a$$b", "$UNSET", "${UNSET}", "$EMPTY", "${LAST}"]
    words += [
        "${QUOTED}",
        "$QUOTED",
        "${SINGLE}",
        "${JOINED}",
        "${CONTINUED}",
        "${INDENTED}",
        "${PLAIN:-x}",
        "$PLAIN:x",
    ]
    words += ["${HOME}", "${OWN}", "$OWN"]
    text = (
        "[Service]\nType=oneshot\nUser=root\nEnvironment=LAST=unit PLAIN=unit \"OWN=a  'b c'\"\n"
        "EnvironmentFile=/etc/nasty.env\nEnvironmentFile=-/etc/none.env\nEnvironmentFile=/etc/later.env\n"
        f"ExecStart=/usr/bin/python3 /opt/dump.py {' '.join(words)}\n"
    )
    handwritten.install_unit(gpu1, "dump.service", text, start=True)
    seen = json.loads(gpu1.read("/var/tmp/seen.json"))

    own = expand.assignments(["LAST=unit", "PLAIN=unit", "OWN=a  'b c'", "HOME=/root"], "Environment=")
    for path in ("/etc/nasty.env", "/etc/later.env"):
        values = expand.read_environment(gpu1.read(path)).values
        own |= expand.assignments([f"{name}={value}" for name, value in values.items()], path)
    expansion = expand.expand(words, own)

    assert [word.text for word in expansion.words] == seen["argv"]
    assert {name: variable.value for name, variable in own.items()} == {
        name: seen["environment"].get(name) for name in own
    }
    assert not set(seen["environment"]) & {"NOT", "export NOT"}
    assert expansion.unset == ("UNSET", "PLAIN:x")


def test_the_command_adopts_over_ssh_and_says_no_with_exit_2(gpu1: BedHost, tmp_path: Path) -> None:
    gpu1.install_sim_engine()
    gpu1.write_production(start=True, flags=("--trust-remote-code", "--pp-size 8", "--house-rule 7"))
    (tmp_path / "inventory.yaml").write_text(
        f"# our boxes\nhosts:\n  gpu1: {{ssh-config: {gpu1.ssh_config}, gpus: {{count: 8}}}}\nservices: {{}}\n"
    )
    assert run(["-C", str(tmp_path), "adopt", "gpu1", "sglang-sim.service"]) == 0
    entry = Project.open(tmp_path).inventory.services["sglang-sim"]
    assert (entry.engine_folder, entry.port, entry.flags["pp-size"]) == ("/opt/sglang-sim", 30000, 8)
    assert entry.extra_args == ("--house-rule", "7")
    before = (tmp_path / "inventory.yaml").read_bytes()
    assert before.startswith(b"# our boxes\nhosts:\n  gpu1: {ssh-config:")
    assert run(["-C", str(tmp_path), "adopt", "gpu1", "sglang-sim"]) == 0
    assert run(["-C", str(tmp_path), "adopt", "gpu1", "ssh.service"]) == 2
    assert run(["-C", str(tmp_path), "adopt", "gpu1", "nothing-there"]) == 2
    assert (tmp_path / "inventory.yaml").read_bytes() == before
