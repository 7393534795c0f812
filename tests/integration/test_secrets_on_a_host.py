"""Secrets against a real host: they reach production and trials, and nothing that we leave behind."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.bed import BedHost
from tests.integration.line import SWEEP, TRIAL, UNIT, Going, Line, lay

API_KEY = 'sk-Dist!nctive"k$y\\7f3c'
TOKEN = "hf_distinctive7f3cToken"
TWO = "".join(line for line in SWEEP.splitlines(keepends=True) if "depth: 2" not in line)


def guarded(host: BedHost, folder: Path) -> Line:
    """Production that asks for a key; its adopted entry, with a token from a file here besides."""
    line = lay(host, folder, sweep=TWO, api_key=API_KEY)
    inventory = (folder / "inventory.yaml").read_text()
    assert "host-file: /etc/sglang-sim.env" in inventory
    assert API_KEY not in inventory
    (folder / "token").write_text(f"{TOKEN}\n")
    fresh = inventory.replace("    secrets:\n", "    secrets:\n      HF_TOKEN: {file: token}\n")
    assert fresh != inventory
    (folder / "inventory.yaml").write_text(fresh)
    return line


def leaks(line: Line) -> list[str]:
    """Files that hold a value: here, and on the host outside the places where a person put them."""
    parts = ("Dist!nctive", "distinctive7f3c")
    found = [
        str(path)
        for path in (line.folder / ".tune").rglob("*")
        if path.is_file() and any(part.encode() in path.read_bytes() for part in parts)
    ]
    line.host.write("/etc/sglang-sim.words", "\n".join(parts))  # a command line may be logged
    words = "grep -aF -f /etc/sglang-sim.words"
    told = line.host.attempt(f"{words} -rl --exclude-dir=journal /run /etc /var/lib/tune /var/log").stdout.split()
    found += [path for path in told if not path.startswith("/etc/sglang-sim.")]
    # Production's own command line holds its key, as its author wrote it, and the journal notes command lines.
    fields = "MESSAGE,_CMDLINE,_SYSTEMD_UNIT"
    journal = f"journalctl --output=json --output-fields={fields} | {words} | grep -vF '\"{UNIT}\"'"
    return found + line.host.attempt(journal).stdout.splitlines()


def test_trials_have_their_secrets_and_nothing_is_left_of_them(gpu1: BedHost, tmp_path: Path) -> None:
    line = guarded(gpu1, tmp_path)
    done = line.tune("sweep", "sweeps/three.yaml", "--yes")
    assert line.answers()
    assert [trial["state"] for trial in line.show()["trials"]] == ["measured"] * 3, done.stdout
    assert leaks(line) == []
    assert not line.host.attempt("ls /run/tune").stdout
    assert "distinctive" not in (done.stdout + done.stderr).lower()
    assert "distinctive" not in line.tune("show", "--json").stdout.lower()


def test_while_a_trial_runs_only_root_can_read_its_secrets(gpu1: BedHost, tmp_path: Path, going: list[Going]) -> None:
    line = guarded(gpu1, tmp_path)
    run = line.start("sweep", "sweeps/three.yaml", "--yes")
    going.append(run)
    run.until("d0.mem0.92 C=4")
    pid = line.host.sh(f"systemctl show {TRIAL} -p MainPID --value").strip()
    assert f"HF_TOKEN={TOKEN}" in line.host.sh(f"tr '\\0' '\\n' < /proc/{pid}/environ").split("\n")
    assert "--config" in line.host.sh(f"tr '\\0' ' ' < /proc/{pid}/cmdline")
    assert "nctive" not in line.host.sh(f"tr '\\0' ' ' < /proc/{pid}/cmdline")
    assert "nctive" not in line.host.sh(f"systemctl show {TRIAL}; systemctl cat {TRIAL}").lower()
    modes = line.host.sh("stat -c '%a %U' /run/tune/sim /run/tune/sim/environment /run/tune/sim/engine.yaml")
    assert modes.splitlines() == ["700 root", "600 root", "600 root"]
    run.signal(signal.SIGINT)
    assert run.wait() == 130
    assert leaks(line) == []


def test_a_secret_that_cannot_be_read_is_refused_before_anything_is_touched(gpu1: BedHost, tmp_path: Path) -> None:
    line = guarded(gpu1, tmp_path)
    before = line.production()
    (tmp_path / "token").write_text("short\n")
    done = line.tune("sweep", "sweeps/three.yaml", "--yes", check=2)
    assert "secrets.HF_TOKEN: the secret HF_TOKEN has fewer than 8 characters" in done.stderr
    assert "short" not in done.stderr
    assert line.production() == before
