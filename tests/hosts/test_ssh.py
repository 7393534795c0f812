"""A real sshd, and what goes wrong with one: the link, the configuration, sessions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.core.inventory import HostEntry
from orchestrator.errors import HostFault, InputRefused, OutcomeUnknown
from orchestrator.hosts.ssh import SshHost
from tests.bed import Bed, BedHost
from tests.hosts.test_contract import say


@pytest.fixture
def host(gpu1: BedHost) -> Iterator[SshHost]:
    door = SshHost(gpu1.entry, connect_timeout_s=5)
    yield door
    door.close()


def config_for(gpu1: BedHost, folder: Path, text: str) -> HostEntry:
    """A host ``other`` reached by ``text`` and the bed's key and known hosts."""
    file = folder / "config"
    file.write_text(f"Include {gpu1.ssh_config}\n\nHost other\n{text}\n")
    return HostEntry(name="other", ssh_config=str(file))


def test_the_address_is_what_ssh_would_connect_to(gpu1: BedHost, host: SshHost) -> None:
    assert (host.name, host.address) == ("gpu1", gpu1.address)


def test_included_configuration_decides(gpu1: BedHost, tmp_path: Path) -> None:
    """The main file holds only Include; the included one gives HostName, Port and User."""
    gpu1.configure_sshd("Port 22\nPort 2222\n")
    gpu1.add_user("ops")
    known = tmp_path / "known"
    known.write_text(f"[{gpu1.address}]:2222 {gpu1.host_key}\n")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/gpu.conf").write_text(
        f"Host box\n  HostName {gpu1.address}\n  Port 2222\n  User ops\n  IdentityFile {gpu1.key_file}\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {known}\n"
    )
    (tmp_path / "config").write_text(f"Include {tmp_path}/conf.d/*.conf\n")
    box = SshHost(HostEntry(name="box", ssh_config=str(tmp_path / "config")))
    assert box.run(say("sh", "-c", "id -un; echo $SSH_CONNECTION")).text.split()[0::4] == ["ops", "2222"]
    box.close()


def test_a_cable_cut_under_a_command_leaves_its_outcome_unknown(gpu1: BedHost, host: SshHost) -> None:
    host.run(say("true"))
    cut = threading.Timer(0.5, gpu1.cut_link)
    cut.start()
    began = time.monotonic()
    with pytest.raises(OutcomeUnknown, match="did not end within 4 s") as caught:
        host.run(say("sh", "-c", "sleep 1; touch /root/done; echo done"), deadline_s=4)
    assert 3.5 < time.monotonic() - began < 5
    assert caught.value.host_state == "the command may have done its work, or may still be running on gpu1"
    cut.join()
    assert gpu1.sh("ls /root/done") == "/root/done\n"
    gpu1.restore_link()
    assert host.run(say("cat", "/root/done"), deadline_s=20).returncode == 0


def test_with_the_cable_cut_before_nothing_is_sent(gpu1: BedHost, host: SshHost) -> None:
    host.run(say("true"))
    gpu1.cut_link()
    began = time.monotonic()
    with pytest.raises(HostFault, match="was not reached within 3 s") as caught:
        host.run(say("touch", "/root/sent"), deadline_s=3)
    assert time.monotonic() - began < 4
    assert not isinstance(caught.value, OutcomeUnknown)
    gpu1.restore_link()
    host.run(say("true"), deadline_s=20)
    time.sleep(1)
    assert gpu1.attempt("ls /root/sent").returncode != 0


def test_a_big_input_into_a_cut_cable_still_meets_its_deadline(gpu1: BedHost, host: SshHost) -> None:
    host.run(say("true"))
    cut = threading.Timer(0.3, gpu1.cut_link)
    cut.start()
    began = time.monotonic()
    with pytest.raises(OutcomeUnknown):
        host.run(say("sh", "-c", "sleep 1; cat > /dev/null", stdin=b"x" * 30_000_000), deadline_s=3)
    assert time.monotonic() - began < 4
    cut.join()
    gpu1.restore_link()
    assert host.run(say("echo", "again"), deadline_s=20).text == "again\n"


def test_a_host_that_reboots_under_a_command_is_connected_to_again(gpu1: BedHost, host: SshHost) -> None:
    boot = host.run(say("cat", "/proc/sys/kernel/random/boot_id")).text
    with pytest.raises(OutcomeUnknown):
        host.run(say("sh", "-c", "systemctl reboot; sleep 30"), deadline_s=20)
    gpu1.await_boot()
    assert host.run(say("cat", "/proc/sys/kernel/random/boot_id")).text != boot


def test_a_host_that_is_off_is_a_plain_fault(gpu1: BedHost, host: SshHost) -> None:
    gpu1.kill()
    began = time.monotonic()
    with pytest.raises(HostFault, match="cannot be reached") as caught:
        host.run(say("true"))
    assert time.monotonic() - began < 10
    assert caught.value.remedy == f"`ssh -F {gpu1.ssh_config} gpu1` must work by hand"


def test_an_sshd_that_is_stopped_refuses(gpu1: BedHost, host: SshHost) -> None:
    gpu1.sh("systemctl stop ssh")
    with pytest.raises(HostFault, match="Connection refused"):
        host.run(say("true"))
    gpu1.restart_sshd()
    assert host.run(say("echo", "back")).text == "back\n"


def test_more_commands_at_once_than_sshd_opens_sessions_wait_their_turn(gpu1: BedHost, host: SshHost) -> None:
    gpu1.configure_sshd("MaxSessions 2\n")
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(host.run(say("sh", "-c", "sleep 0.3; echo x")).text))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == ["x\n"] * 4


def test_what_a_stream_started_ends_when_the_connection_goes(gpu1: BedHost, host: SshHost) -> None:
    lines: list[str] = []
    stream = host.stream(say("sh", "-c", "echo $$; exec sleep 600"), lines.append)
    gpu1.wait_until("pgrep -f '[s]leep 600'")
    for _ in range(500):  # what it said is on its way
        if lines:
            break
        time.sleep(0.01)
    host.close()
    gpu1.wait_until("! pgrep -f '[s]leep 600'", timeout_s=5)
    stream.stop()
    assert len(lines) == 1


def test_a_jump_host_is_gone_through(bed: Bed, gpu1: BedHost, tmp_path: Path) -> None:
    """The host behind is gpu1's own sshd on its loopback: only reachable from inside."""
    entry = config_for(gpu1, tmp_path, f"  HostName 127.0.0.1\n  HostKeyAlias {gpu1.address}\n  ProxyJump gpu1")
    other = SshHost(entry)
    assert other.run(say("sh", "-c", "echo $SSH_CONNECTION")).text.split()[0] == "127.0.0.1"
    other.close()
    gpu1.wait_until("! ss -Htn state established '( sport = :22 )' | grep -q 127.0.0.1")


def test_a_proxy_command_is_gone_through(gpu1: BedHost, tmp_path: Path) -> None:
    proxy = f"ssh -F {gpu1.ssh_config} -W 127.0.0.1:%p gpu1"
    entry = config_for(gpu1, tmp_path, f"  HostName {gpu1.address}\n  ProxyCommand {proxy}")
    other = SshHost(entry)
    assert other.run(say("echo", "through")).text == "through\n"
    other.close()


def test_a_proxy_command_that_fails_says_so_at_once(gpu1: BedHost, tmp_path: Path) -> None:
    entry = config_for(gpu1, tmp_path, f"  HostName {gpu1.address}\n  ProxyCommand echo no way through >&2; exit 1")
    began = time.monotonic()
    with pytest.raises(HostFault, match="no SSH connection") as caught:
        SshHost(entry, connect_timeout_s=3).run(say("true"))
    assert time.monotonic() - began < 8
    assert caught.value.evidence == ("no way through",)


def test_an_unsupported_option_is_refused_before_connecting(gpu1: BedHost, tmp_path: Path) -> None:
    entry = config_for(gpu1, tmp_path, f"  HostName {gpu1.address}\n  KnownHostsCommand /bin/echo %H")
    with pytest.raises(InputRefused) as caught:
        SshHost(entry).run(say("true"))
    assert caught.value.faults == ("knownhostscommand /bin/echo %H: host keys are looked up in files only",)
