"""What every host does, whether reached over real sshd or on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from orchestrator.core.commands import Command, Reply
from orchestrator.core.inventory import HostEntry
from orchestrator.core.ports import Host
from orchestrator.errors import HostFault, OutcomeUnknown
from orchestrator.hosts.local import LocalHost
from orchestrator.hosts.ssh import SshHost
from orchestrator.hosts.streams import KEEP_BYTES


def say(*argv: str, stdin: bytes = b"") -> Command[Reply]:
    """A command whose answer is the reply itself."""
    return Command(argv=argv, parse=lambda reply: reply, stdin=stdin)


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.hosts)])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    if request.param == "local":
        door: Host = LocalHost(HostEntry(name="here", connection="local"))
    else:
        door = SshHost(request.getfixturevalue("gpu1").entry)
    yield door
    door.close()


@pytest.fixture
def folder(host: Host) -> Iterator[PurePosixPath]:
    """An empty folder on the host."""
    path = host.run(say("mktemp", "-d")).text.strip()
    yield PurePosixPath(path)
    host.run(say("rm", "-rf", path))


def test_argv_words_arrive_as_they_are(host: Host) -> None:
    words = ["$HOME", "a b", "it's", 'say "x"', "`id`", "; exit 7", "*", "", "100%", "ü", "back\\slash", "new\nline"]
    reply = host.run(say("printf", "%s\\0", *words))
    assert reply.stdout.decode().split("\0")[:-1] == words


def test_both_streams_and_the_status_come_back(host: Host) -> None:
    reply = host.run(say("sh", "-c", "echo out; echo err >&2; exit 3"))
    assert reply == Reply(returncode=3, stdout=b"out\n", stderr=b"err\n")


def test_two_big_streams_do_not_hang_and_are_cut(host: Host) -> None:
    began = time.monotonic()
    script = "head -c 4194304 /dev/zero | tr '\\0' e >&2; head -c 4194304 /dev/zero | tr '\\0' o; echo end; exit 3"
    reply = host.run(say("sh", "-c", script), deadline_s=20)
    assert time.monotonic() - began < 10
    assert reply.returncode == 3
    assert reply.cut
    assert reply.stdout.endswith(b"oooend\n")
    assert reply.stderr.startswith(b"eee")
    assert b"bytes cut" in reply.stdout
    assert len(reply.stdout) < KEEP_BYTES + 100


def test_standard_input_is_fed_while_output_is_read(host: Host) -> None:
    content = b"0123456789abcdef" * 500_000
    reply = host.run(say("sh", "-c", "tee /dev/stderr | wc -c", stdin=content))
    assert reply.stdout.split() == [b"8000000"]


def test_a_command_may_leave_its_input_unread(host: Host) -> None:
    assert host.run(say("true", stdin=b"x" * 3_000_000)).returncode == 0


def test_a_deadline_is_a_deadline_though_output_keeps_coming(host: Host) -> None:
    began = time.monotonic()
    with pytest.raises(OutcomeUnknown, match=r"did not end within 2\.5 s") as caught:
        host.run(say("sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 1; done"), deadline_s=2.5)
    assert 2.4 < time.monotonic() - began < 3.5
    assert caught.value.evidence == ("1", "2", "3")
    assert caught.value.host_state is not None
    assert "may" in caught.value.host_state


def test_a_signal_is_not_an_exit_status(host: Host) -> None:
    with pytest.raises(OutcomeUnknown):
        host.run(say("sh", "-c", "kill -KILL $$"))


def test_a_program_that_is_not_there_is_127(host: Host) -> None:
    assert host.run(say("no-such-program", "x")).returncode == 127


def test_a_child_left_behind_does_not_hold_the_answer(host: Host) -> None:
    began = time.monotonic()
    reply = host.run(say("sh", "-c", "sleep 30 & echo $!"))
    assert time.monotonic() - began < 6
    host.run(say("kill", reply.text.strip()))


def test_a_parser_that_stumbles_is_a_fault_that_shows_the_answer(host: Host) -> None:
    command = Command(argv=("echo", "seven\x1b[31m"), parse=lambda reply: int(reply.text))
    with pytest.raises(HostFault, match="cannot be understood") as caught:
        host.run(command)
    assert caught.value.evidence == ("seven\\x1b[31m",)


def test_a_file_is_put_whole_with_its_mode(host: Host, folder: PurePosixPath) -> None:
    content = bytes(range(256)) * 4000
    host.put(content, f"{folder}/x y", mode=0o640)
    assert host.run(say("cat", f"{folder}/x y")).stdout == content
    assert host.run(say("stat", "-c", "%a", f"{folder}/x y")).text == "640\n"
    host.put(b"second", f"{folder}/x y", mode=0o600)
    assert host.run(say("ls", "-A", str(folder))).text == "x y\n"
    assert host.run(say("cat", f"{folder}/x y")).stdout == b"second"


def test_a_file_that_cannot_be_put_leaves_what_was_there(host: Host, folder: PurePosixPath) -> None:
    host.run(say("mkdir", f"{folder}/taken"))
    host.run(say("touch", f"{folder}/taken/x"))
    with pytest.raises(HostFault, match="could not be written: Is a directory"):
        host.put(b"x", f"{folder}/taken", mode=0o644)
    with pytest.raises(HostFault, match="No such file or directory"):
        host.put(b"x", f"{folder}/none/x", mode=0o644)
    assert host.run(say("ls", "-A", str(folder))).text == "taken\n"


def test_several_threads_share_a_host(host: Host) -> None:
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        for _ in range(5):
            answers[number] = host.run(say("sh", "-c", f"sleep 0.05; echo {number}")).text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == {number: f"{number}\n" for number in range(6)}


def test_a_stream_hands_on_lines_and_ends_what_it_started(host: Host, folder: PurePosixPath) -> None:
    lines: list[str] = []
    three = threading.Event()

    def take(line: str) -> None:
        lines.append(line)
        if len(lines) == 3:
            three.set()

    script = 'echo $$ > "$1"; for i in 1 2 3; do echo "line $i"; done; exec sleep 60'
    stream = host.stream(Command(argv=("sh", "-c", script, "x", f"{folder}/pid"), parse=lambda _: None), take)
    assert three.wait(10)
    assert lines == ["line 1", "line 2", "line 3"]
    pid = host.run(say("cat", f"{folder}/pid")).text.strip()
    assert host.run(say("kill", "-0", pid)).returncode == 0
    began = time.monotonic()
    stream.stop()
    stream.stop()
    assert time.monotonic() - began < 2
    assert host.run(say("kill", "-0", pid)).returncode != 0
