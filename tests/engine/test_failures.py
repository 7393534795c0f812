"""Ways in which a real engine fails or is failed: each named for what it was, with evidence, and production is back."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from orchestrator.errors import BadAnswer, HostFault
from tests.bed import BedHost
from tests.engine.engine import RealEngine
from tests.engine.stage import HOME, PORT, START_S, TRIAL, UNIT, answers
from tests.integration.line import Going, Line

LOAD = """\
workload:
  prompts: [quicksort]
  output-tokens: {fixed: 240}
  concurrency: [2]
  requests-per-stream: 2
order: as-listed
reference: none
"""
LONG_S = 1200.0


def in_the_unit(host: BedHost, words: str) -> list[int]:
    """Processes in the trial's cgroup whose name says ``words``, as the host numbers them."""
    listed = host.sh(f"cat /sys/fs/cgroup$(systemctl show -P ControlGroup {TRIAL})/cgroup.procs").split()
    names = host.sh(f"ps -o pid=,args= -p {','.join(listed)}").splitlines()
    return [int(line.split()[0]) for line in names if words in line]


def failed(line: Line) -> list[dict[str, Any]]:
    """The latest run's failed launches in their order; shown with ``-s`` as a person would read them."""
    found = [launch for trial in line.show()["trials"] for launch in trial["launches"] if launch["failure_class"]]
    for launch in found:
        print(f"{launch['launch']}: {launch['failure_class']} ({launch['verdict']}): {launch['explanation']}")
        print(f"  next: {launch['next_step']}")
        for row in launch["evidence"]:
            print(f"  | {row[:160]}")
    return found


def is_back(line: Line, run: Going) -> None:
    """Production serves, by the gate's word and by ours."""
    assert f"{UNIT} is ready again" in run.text
    assert line.production()["ActiveState"] == "active"
    answers(line, timeout_s=START_S)


def sweep(line: Line, going: list[Going], name: str, text: str) -> Going:
    (line.folder / "sweeps" / f"{name}.yaml").write_text(text)
    run = line.start("sweep", f"sweeps/{name}.yaml", "--yes")
    going.append(run)
    return run


def in_mid_level(line: Line, run: Going, slug: str) -> None:
    """Return while the level at C=2 is under way: its requests decode."""
    run.until(f"{slug} C=2: ", timeout_s=LONG_S)
    time.sleep(3)  # the warm-up's lines are older than what is looked for
    line.host.wait_until(f"journalctl -u {TRIAL} -o cat --since=-2s | grep -q 'Decode batch'", timeout_s=120)


def test_what_ends_an_engine_under_load_is_told_apart(line: Line, going: list[Going]) -> None:
    """Of a killed scheduler the other speaks, or their parent before it kills itself. Stopped by hand, the engine
    answers what it has begun and exits with 0: no crash, no config to blame, and whoever stopped it has the last word.
    """
    run = sweep(line, going, "ends", f"service: real\ngrid: {{pp-size: [2], pp-async-batch-depth: [0, 1]}}\n{LOAD}")
    in_mid_level(line, run, "d0")
    line.host.sh(f"kill -KILL {in_the_unit(line.host, 'sglang::scheduler')[-1]}")
    began = time.monotonic()
    run.until("child-died", timeout_s=180)
    print(f"told {time.monotonic() - began:.1f} s after the kill")
    in_mid_level(line, run, "d1")
    line.host.sh(f"systemctl stop {TRIAL}", timeout_s=180)
    assert run.wait(timeout_s=LONG_S) == HostFault.exit_code
    print(run.text)
    found = failed(line)
    died, stopped = found
    assert (died["failure_class"], died["verdict"]) == ("child-died", "unknown")
    assert re.search(r"crashed with exit code -9|Connection closed by peer", "\n".join(died["evidence"]))
    assert (stopped["failure_class"], stopped["verdict"]) == ("stopped", "environment")
    assert stopped["evidence"][0].startswith(f"Stopping {TRIAL}")
    assert any(re.search(r"SIGTERM received|Gracefully exiting", row) for row in stopped["evidence"])
    assert "somebody stopped the trial in mid-run" in run.text
    is_back(line, run)


_SQUATTER = """\
import pathlib, socket, sys, time
while True:
    taken = socket.socket()
    if "listen" in sys.argv:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(("0.0.0.0", int(sys.argv[1])))
        break
    except OSError:  # what is left of connections of an engine before
        taken.close()
        time.sleep(0.1)
if "listen" in sys.argv:
    taken.listen()
pathlib.Path("/run/squats").touch()
time.sleep(3000)
"""


@contextmanager
def taken_port(host: BedHost, *, listens: bool) -> Iterator[None]:
    """Somebody else has the port: listening on it, or only bound to it, which no list of listeners shows."""
    host.write("/opt/squatter.py", _SQUATTER)
    words = f"/usr/bin/python3 /opt/squatter.py {PORT} {'listen' if listens else 'bind'}"
    host.sh(f"rm -f /run/squats; systemd-run --quiet --unit=squatter {words}")
    host.wait_until("test -e /run/squats", timeout_s=90)
    yield
    host.sh("systemctl stop squatter")


def test_a_missing_model_and_a_taken_port_are_told_apart(line: Line, going: list[Going], engine: RealEngine) -> None:
    """For a missing folder the engine has only words about repositories. With its port taken it loads everything,
    says so, and hangs; where somebody listens there, that is seen long before.
    """
    gone, there = f"{{model-path: {HOME}/models/gone}}", f"{{model-path: {HOME}/{engine.model}}}"
    run = sweep(line, going, "lost", f"service: real\ngrid:\n  case:\n    - {gone}\n    - {there}\n{LOAD}")
    run.until("model-missing", timeout_s=LONG_S)
    run.until("process start", timeout_s=LONG_S)
    with taken_port(line.host, listens=True):
        run.until("foreign-listener", timeout_s=120)
    run.until("process start", timeout_s=LONG_S)
    with taken_port(line.host, listens=False):
        run.until("port-in-use", timeout_s=LONG_S)
        state = line.host.attempt(f"systemctl is-active {TRIAL}").stdout.strip()
        assert state in {"active", "deactivating"}  # it hangs, it does not end by itself
    assert run.wait(timeout_s=LONG_S) == BadAnswer.exit_code
    print(run.text)
    found = failed(line)
    named = [(launch["failure_class"], launch["verdict"]) for launch in found]
    assert named == [
        ("model-missing", "infeasible"),
        ("foreign-listener", "environment"),
        ("port-in-use", "environment"),
    ]
    assert any(f"{HOME}/models/gone" in row for row in found[0]["evidence"])
    assert "/opt/squatter.py" in found[1]["explanation"]
    assert any("address already in use" in row for row in found[2]["evidence"])
    is_back(line, run)
