"""The helper's parts that need no systemd: the record, the forms of a request, what is read of processes."""

from __future__ import annotations

import ast
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.hosts.helper import tune_helper as helper
from orchestrator.hosts.helper.tune_helper import Now, Refused

SOURCE = Path(helper.__file__)


@dataclass
class At:
    """A clock that stands until it is moved."""

    steady: float = 1000.0
    boot: str = "boot-1"

    def __call__(self) -> Now:
        return Now(1_800_000_000.0 + self.steady, self.steady, self.boot)


@dataclass
class Place:
    """A state root with a production that can be looked at and restored."""

    folder: str
    now: At
    restored: int = 0

    def take(self, run: str = "7f3c", *, owner: str = "me@box", ttl_s: float = 60.0, **changes: Any) -> dict[str, Any]:
        given: dict[str, Any] = {
            "service": Path(self.folder).name,
            "owner": owner,
            "run": run,
            "purpose": "sweep",
            "ttl_s": ttl_s,
            "look": lambda: {"unit": "x.service", "seen": self.now.steady},
            "restore": self._restore,
            "now": self.now,
        }
        return helper.take(self.folder, **{**given, **changes})

    def _restore(self, record: dict[str, Any]) -> None:
        assert record["state"] == "temporary"
        self.restored += 1

    def touch(self, token: str) -> None:
        with helper.held(self.folder, token, now=self.now) as record:
            helper.make_temporary(self.folder, record)

    def neighbour(self) -> Place:
        return Place(str(Path(self.folder).with_name("other")), self.now)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "state" / "k26"), At())


def kind(act: Callable[[], object]) -> str:
    """How it is refused."""
    with pytest.raises(Refused) as refused:
        act()
    return refused.value.kind


# --- the record ----------------------------------------------------------------------------------------------------


def test_a_record_is_taken_renewed_and_freed(place: Place) -> None:
    record = place.take()
    assert record["state"] == "production"
    assert record["since"] == "2027-01-15T08:16:40Z"
    assert record["deadline"] == "2027-01-15T08:17:40Z"
    assert not record["restored_first"]
    place.now.steady += 50
    renewed = helper.renew(place.folder, record["token"], 60, now=place.now)
    assert renewed["deadline"] == "2027-01-15T08:18:30Z"
    helper.free(place.folder, record["token"], now=place.now)
    assert helper.read(place.folder) is None
    assert kind(lambda: helper.free(place.folder, record["token"], now=place.now)) == "lease-lost"


def test_nobody_is_shown_the_token(place: Place) -> None:
    record = place.take()
    assert record["token"] not in json.dumps(helper.shown(record))
    with pytest.raises(Refused) as refused:
        place.take("aaaa")
    assert record["token"] not in json.dumps(refused.value.answer)


def test_another_run_waits_for_the_deadline_and_says_whose_it_is(place: Place) -> None:
    place.take()
    with pytest.raises(Refused, match=r"k26 is held: me@box, run 7f3c \(sweep\), since .* until .*") as refused:
        place.take("aaaa", owner="you@there")
    assert refused.value.kind == "locked"
    place.now.steady += 60
    assert place.take("aaaa", owner="you@there")["owner"] == "you@there"
    assert place.restored == 0


def test_whose_lease_was_taken_over_can_do_nothing_more(place: Place) -> None:
    first = place.take()["token"]
    place.now.steady += 61
    second = place.take("aaaa")["token"]
    assert kind(lambda: helper.renew(place.folder, first, 60, now=place.now)) == "lease-lost"
    assert kind(lambda: place.touch(first)) == "lease-lost"
    assert kind(lambda: helper.free(place.folder, first, now=place.now)) == "lease-lost"
    helper.renew(place.folder, second, 60, now=place.now)


def test_who_comes_late_still_holds_until_somebody_took_over(place: Place) -> None:
    token = place.take()["token"]
    place.now.steady += 500
    helper.renew(place.folder, token, 60, now=place.now)
    assert kind(lambda: place.take("aaaa")) == "locked"


def test_what_was_left_temporary_is_restored_before_anybody_takes_over(place: Place) -> None:
    place.touch(place.take()["token"])
    place.now.steady += 61
    record = place.take("aaaa")
    assert place.restored == 1
    assert (record["restored_first"], record["rebooted"]) == (True, False)
    assert record["state"] == "production"
    assert record["production"]["seen"] == place.now.steady
    assert record["deadline_steady"] == place.now.steady + 60


def test_the_same_run_resumes_at_once_and_is_restored_first(place: Place) -> None:
    first = place.take()["token"]
    place.touch(first)
    again = place.take()
    assert place.restored == 1
    assert again["token"] != first


def test_a_restore_that_fails_leaves_the_record_temporary_and_production_as_it_was_known(place: Place) -> None:
    known = place.take()
    place.touch(known["token"])
    place.now.steady += 61

    def broken(record: dict[str, Any]) -> None:
        raise Refused("host", "no")

    assert kind(lambda: place.take("aaaa", restore=broken)) == "host"
    record = helper.read(place.folder)
    assert record is not None
    assert record["state"] == "temporary"
    assert record["production"] == known["production"]


def test_a_reboot_ends_every_hold(place: Place) -> None:
    token = place.take()["token"]
    place.now.boot = "boot-2"
    assert kind(lambda: helper.renew(place.folder, token, 60, now=place.now)) == "lease-lost"
    assert place.take("aaaa")["state"] == "production"


def test_who_takes_over_after_a_reboot_is_told_of_it(place: Place) -> None:
    place.touch(place.take()["token"])
    place.now.boot = "boot-2"
    record = place.take("aaaa")
    assert (record["restored_first"], record["rebooted"]) == (True, True)


def test_temporary_is_not_freed(place: Place) -> None:
    token = place.take()["token"]
    place.touch(token)
    assert kind(lambda: helper.free(place.folder, token, now=place.now)) == "temporary"
    helper.settle(place.folder, now=place.now)
    helper.free(place.folder, token, now=place.now)


def test_a_hold_that_ran_out_ends_when_production_is_back(place: Place) -> None:
    place.touch(place.take()["token"])
    place.now.steady += 61
    helper.settle(place.folder, now=place.now)
    assert helper.read(place.folder) is None
    helper.settle(place.folder, now=place.now)


def test_while_the_host_restores_nobody_acts(place: Place) -> None:
    record = place.take()
    helper.write(place.folder, {**record, "restoring": "run"})
    assert kind(lambda: place.touch(record["token"])) == "host"
    helper.renew(place.folder, record["token"], 60, now=place.now)
    helper.write(place.folder, {**record, "restoring": "expiry"})
    assert kind(lambda: helper.renew(place.folder, record["token"], 60, now=place.now)) == "lease-lost"


def test_one_hold_covers_all_services_of_a_host(place: Place) -> None:
    token = place.take()["token"]
    assert kind(lambda: place.neighbour().take("aaaa")) == "locked"
    helper.free(place.folder, token, now=place.now)
    place.neighbour().take("aaaa")
    assert kind(place.take) == "locked"


def test_production_that_cannot_be_looked_at_is_not_taken(place: Place) -> None:
    def blind() -> dict[str, Any]:
        raise Refused("unit", "there is none")

    assert kind(lambda: place.take(look=blind)) == "unit"
    assert helper.read(place.folder) is None


def test_a_record_that_is_torn_is_not_taken_for_none(place: Place) -> None:
    place.take()
    Path(place.folder, "record.json").write_text('{"run": "7f')
    assert kind(lambda: place.take("aaaa")) == "host"


def test_files_of_the_record_are_for_their_owner_alone(place: Place) -> None:
    place.take()
    folder = Path(place.folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["record.json"]
    assert stat.S_IMODE((folder / "record.json").stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_what_was_there(place: Place, tmp_path: Path) -> None:
    place.take()
    before = Path(place.folder, "record.json").read_bytes()
    with pytest.raises(IsADirectoryError):
        helper.write_whole(str(tmp_path / "state"), b"x", 0o600)
    assert Path(place.folder, "record.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_of_many_takers_at_once_one_wins(place: Place) -> None:
    start = threading.Barrier(6)

    def race(run: str) -> str:
        start.wait()
        try:
            Place(place.folder, place.now).take(run)
        except Refused as refused:
            return refused.kind
        return "won"

    with ThreadPoolExecutor(6) as racers:
        assert sorted(racers.map(race, "abcdef")) == ["locked"] * 5 + ["won"]


def test_the_real_clock_goes_on() -> None:
    first, second = helper.read_clock(), helper.read_clock()
    assert first.boot == second.boot
    assert first.steady <= second.steady


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("service", "k26", True),
        ("service", "..", False),
        ("service", "a/b", False),
        ("service", "x" * 65, False),
        ("unit", "sglang-k26.service", True),
        ("unit", "sglang@1.service", True),
        ("unit", "-x.service", False),
        ("unit", "x.timer", False),
        ("unit", "a/b.service", False),
        ("unit", "x.service\n", False),
        ("port", 30000, True),
        ("port", 0, False),
        ("port", True, False),
        ("port", "30000", False),
        ("ttl_s", 0.5, False),
        ("ttl_s", 600, True),
        ("token", "a" * 32, True),
        ("token", "A" * 32, False),
        ("purpose", "sweep k26 – ok", True),
        ("purpose", "a\nb", False),
        ("cursor", "", True),
        ("cursor", "s=ab;i=1;b=2", True),
        ("cursor", "--x y", False),
        ("argv", ["a", ""], True),
        ("argv", ["a", 1], False),
        ("argv", "a", False),
        ("environment", {"A": "1"}, True),
        ("environment", {"A": 1}, False),
        ("role", "trial", True),
        ("role", "trial\n", False),
    ],
)
def test_forms_of_fields(name: str, value: object, accepted: bool) -> None:
    assert helper.check_field(name, value) is accepted


def test_every_verb_needs_fields_that_have_a_form() -> None:
    needed = {name for _, fields in (*helper.QUESTIONS.values(), *helper.ACTS.values()) for name in fields.split()}
    assert needed == set(helper.FIELDS)


def run(*words: str, stdin: str = "") -> tuple[int, dict[str, Any]]:
    """The file as a program, as the host runs it."""
    done = subprocess.run(
        [sys.executable, "-I", str(SOURCE), *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_it_says_which_version_it_is() -> None:
    code, told = run("version")
    assert code == 0
    assert told["version"] == helper.VERSION


def test_unknown_verbs_are_refused_with_those_there_are() -> None:
    code, told = run("explode")
    assert (code, told["kind"]) == (2, "bad-request")
    assert "version record survey verify ask teardown watch restoring releases verify-release take" in told["fact"]


def test_it_runs_on_the_python_of_old_hosts() -> None:
    ast.parse(SOURCE.read_text(), feature_version=(3, 9))


def test_it_imports_nothing_but_the_standard_library() -> None:
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(SOURCE.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert imported <= sys.stdlib_module_names


def test_it_has_no_shell() -> None:
    assert "shell=" not in SOURCE.read_text()


# --- what is read of the host --------------------------------------------------------------------------------------


def test_values_of_secret_options_are_starred() -> None:
    words = ["python", "--api-key", "sk-1", "--hf-token=x=y", "--key", "--port", "1", "--tokenizer-path", "t"]
    assert helper.hide_secrets(words) == [
        "python",
        "--api-key",
        "***",
        "--hf-token=***",
        "--key",
        "***",
        "1",
        "--tokenizer-path",
        "t",
    ]


def test_a_listener_is_found_with_its_process() -> None:
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as listening:
            listening.bind((address, 0))
            listening.listen()
            port = listening.getsockname()[1]
            assert [found["pid"] for found in helper.listeners(port)] == [os.getpid()]
        assert helper.listeners(port) == []


def test_a_process_that_is_gone_is_no_error() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert helper.stat_of(gone.pid) == []
    assert not helper.is_alive(gone.pid)
    assert helper.open_files(gone.pid) == set()
    assert helper.name_of(gone.pid) == "unknown"


def test_a_zombie_is_not_alive() -> None:
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert not helper.is_alive(ended.pid)
    ended.wait()


def test_a_program_that_does_not_end_is_a_refusal() -> None:
    assert kind(lambda: helper.run("sleep", "5", deadline_s=0.1)) == "host"


def test_what_differs_is_told_word_by_word() -> None:
    assert helper.differences(["a", "b"], ["a", "c", "d"]) == [
        "word 1: meant 'b', systemd has 'c'",
        "2 words meant, systemd has 3",
    ]


def test_a_release_leaves_the_host_without_its_secrets() -> None:
    text = (
        'Environment="HF_TOKEN=hf-12345678"\nExecStart=/opt/e/bin/python -m sglang.launch_server \\\n'
        "    --api-key \\\n    sk-12345678 --admin-api-key=sk-87654321 --max-total-tokens 4096\n"
    )
    argv = ["python", "--api-key", "sk-12345678", "--admin-api-key=sk-87654321"]
    kept = {"text": text, "argv": argv, "commands": [argv], "secrets": {"environment": 'HF_TOKEN="hf-12345678"'}}
    told = json.dumps(helper.shown_release(kept))
    for value in ("hf-12345678", "sk-12345678", "sk-87654321"):
        assert value not in told
    assert "--max-total-tokens 4096" in told


def test_the_newest_releases_are_kept_and_the_last_good_one_for_ever(tmp_path: Path) -> None:
    folder = str(tmp_path)
    for number in range(1, helper.KEPT_RELEASES + 5):
        outcome = "adopted" if number == 1 else "rolled back"
        helper.write_release(folder, {"number": number, "outcome": outcome})
    kept = [release["number"] for release in helper.all_releases(folder)]
    assert kept == [1, *range(5, helper.KEPT_RELEASES + 5)]
