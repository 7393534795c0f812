"""Who they are and who we are: host keys are never taken on trust, and keys are offered with care."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.core.inventory import HostEntry
from orchestrator.errors import HostFault
from orchestrator.hosts.ssh import SshHost
from tests.bed import BedHost
from tests.hosts.test_contract import say


def keygen(file: Path, *, passphrase: str = "", kind: str = "ed25519") -> Path:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", file.name, "-f", str(file)], check=True, timeout=30
    )
    return file


def fingerprint(public_key: str) -> str:
    done = subprocess.run(["ssh-keygen", "-lf", "-"], input=public_key, capture_output=True, text=True, check=True)
    return done.stdout.split()[1]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A real ssh agent with four keys that no host of the bed accepts."""
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for number in range(4):
        add(keygen(tmp_path / f"foreign{number}"))
    yield path
    process.terminate()
    process.wait(5)


def add(key: Path) -> None:
    subprocess.run(["ssh-add", "-q", str(key)], check=True, timeout=10, stderr=subprocess.DEVNULL)


def entry(gpu1: BedHost, folder: Path, *lines: str, known_hosts: Path | None = None) -> HostEntry:
    """gpu1 by another configuration."""
    known = known_hosts or gpu1.ssh_config.parent / "known_hosts"
    text = f"Host gpu1\n  HostName {gpu1.address}\n  User root\n  UserKnownHostsFile {known}\n"
    text += "  GlobalKnownHostsFile /dev/null\n" + "".join(f"  {line}\n" for line in lines)
    (folder / "config").write_text(text)
    return HostEntry(name="gpu1", ssh_config=str(folder / "config"))


def logins(gpu1: BedHost) -> int:
    """Connections that sshd gave up on."""
    return int(gpu1.sh("journalctl --sync; journalctl -u ssh -b | grep -c 'maximum authentication attempts' || true"))


@pytest.fixture
def three_tries(gpu1: BedHost) -> None:
    gpu1.configure_sshd("MaxAuthTries 3\nLogLevel VERBOSE\n")


@pytest.mark.usefixtures("agent", "three_tries")
def test_with_identities_only_the_agent_s_other_keys_stay_home(gpu1: BedHost, tmp_path: Path) -> None:
    host = SshHost(entry(gpu1, tmp_path, f"IdentityFile {gpu1.key_file}", "IdentitiesOnly yes"))
    assert host.run(say("echo", "in")).text == "in\n"
    assert "Failed publickey" not in gpu1.sh("journalctl --sync; journalctl -u ssh -b -n 5")
    host.close()


@pytest.mark.usefixtures("agent", "three_tries")
def test_too_many_agent_keys_fail_fast_with_the_remedy_and_are_not_offered_again(gpu1: BedHost, tmp_path: Path) -> None:
    before = logins(gpu1)
    host = SshHost(entry(gpu1, tmp_path))
    began = time.monotonic()
    with pytest.raises(HostFault) as caught:
        host.run(say("true"))
    assert time.monotonic() - began < 5
    fault = caught.value
    assert fault.fact == (
        f"gpu1: root was not let in at {gpu1.address} port 22: 3 keys offered, none accepted, then the host hung up"
    )
    assert [line.split()[-1] for line in fault.evidence[:3]] == ["foreign0)", "foreign1)", "foreign2)"]
    assert fault.cause is not None
    assert "MaxAuthTries" in fault.cause
    assert fault.remedy is not None
    assert "IdentityFile PATH and IdentitiesOnly yes" in fault.remedy
    with pytest.raises(HostFault):
        host.run(say("true"))
    assert logins(gpu1) == before + 1


@pytest.mark.usefixtures("agent")
def test_a_named_key_with_a_passphrase_comes_from_the_agent(
    gpu1: BedHost, tmp_path: Path, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = keygen(tmp_path / "locked", passphrase="geheim")
    gpu1.sh("cat >> /root/.ssh/authorized_keys", stdin=(tmp_path / "locked.pub").read_text())
    described = entry(gpu1, tmp_path, f"IdentityFile {locked}", "IdentitiesOnly yes")
    with pytest.raises(HostFault, match="there is no key to offer") as caught:
        SshHost(described).run(say("true"))
    assert caught.value.evidence == (
        f"not usable: {locked}: has a passphrase; add it to the ssh agent (ssh-add {locked}) "
        "and keep locked.pub beside it",
    )
    asker = tmp_path / "ask"
    asker.write_text("#!/bin/sh\necho geheim\n")
    asker.chmod(0o700)
    environment = {**os.environ, "SSH_ASKPASS": str(asker), "SSH_ASKPASS_REQUIRE": "force"}
    subprocess.run(["ssh-add", "-q", str(locked)], check=True, timeout=10, env=environment, stdin=subprocess.DEVNULL)
    host = SshHost(described)
    assert host.run(say("echo", "in")).text == "in\n"
    host.close()


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_every_usual_kind_of_key_opens(gpu1: BedHost, tmp_path: Path, kind: str) -> None:
    key = keygen(tmp_path / "key", kind=kind)
    gpu1.sh("cat >> /root/.ssh/authorized_keys", stdin=(tmp_path / "key.pub").read_text())
    host = SshHost(entry(gpu1, tmp_path, f"IdentityFile {key}", "IdentitiesOnly yes"))
    assert host.run(say("echo", "in")).text == "in\n"
    host.close()


def test_a_user_without_our_key_is_turned_away(gpu1: BedHost, tmp_path: Path) -> None:
    gpu1.sh("rm /root/.ssh/authorized_keys")
    with pytest.raises(HostFault, match="1 key offered, none accepted"):
        SshHost(gpu1.entry).run(say("true"))


def test_a_host_that_wants_more_than_a_key_is_refused(gpu1: BedHost) -> None:
    gpu1.configure_sshd("AuthenticationMethods publickey,password\n")
    with pytest.raises(HostFault, match="a key is not enough to log in as root: the host also wants password"):
        SshHost(gpu1.entry).run(say("true"))


def test_an_unknown_host_key_is_refused_and_never_written(gpu1: BedHost, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEL8YIH9YlfhqdgoxWwKqDv44cRFLSU0VtFA5P7E+b30\n")
    before = known.read_bytes()
    described = entry(gpu1, tmp_path, "StrictHostKeyChecking no", known_hosts=known)
    with pytest.raises(HostFault, match="the host key is not known") as caught:
        SshHost(described).run(say("true"))
    fault = caught.value
    assert f"ssh-ed25519 {fingerprint(gpu1.host_key)} is not in {known}, /dev/null" in fault.fact
    assert fault.remedy is not None
    assert f"ssh-keyscan -p 22 -t ed25519 {gpu1.address} >> {known}" in fault.remedy
    assert known.read_bytes() == before


def test_a_changed_host_key_is_refused_with_where_the_old_one_stands(gpu1: BedHost) -> None:
    old = gpu1.host_key
    gpu1.change_host_key()
    known = gpu1.ssh_config.parent / "known_hosts"
    before = known.read_bytes()
    with pytest.raises(HostFault, match="the host key has changed") as caught:
        SshHost(gpu1.entry).run(say("true"))
    assert fingerprint(gpu1.host_key) in caught.value.fact
    assert [line.split(" ", 1)[1] for line in caught.value.evidence] == [f"has ssh-ed25519 {fingerprint(old)}"]
    assert caught.value.remedy is not None
    assert f"ssh-keygen -R {gpu1.address} -f {known}" in caught.value.remedy
    assert known.read_bytes() == before


def test_the_remedy_for_an_unknown_host_key_works(gpu1: BedHost, tmp_path: Path) -> None:
    """The command the message gives is run as it stands."""
    known = tmp_path / "known"
    described = entry(gpu1, tmp_path, f"IdentityFile {gpu1.key_file}", "IdentitiesOnly yes", known_hosts=known)
    with pytest.raises(HostFault) as caught:
        SshHost(described).run(say("true"))
    assert caught.value.remedy is not None
    command = caught.value.remedy[caught.value.remedy.index("ssh-keyscan") :]
    subprocess.run(["sh", "-c", command], check=True, timeout=20, stderr=subprocess.DEVNULL)
    host = SshHost(described)
    assert host.run(say("echo", "in")).text == "in\n"
    host.close()


def test_hashed_names_and_several_key_types_are_read_as_ssh_does(gpu1: BedHost, tmp_path: Path) -> None:
    """The host has three keys and known_hosts, hashed, only the RSA one: that is the one to ask for."""
    gpu1.sh("ssh-keygen -A")
    gpu1.restart_sshd()
    rsa = " ".join(gpu1.read("/etc/ssh/ssh_host_rsa_key.pub").split()[:2])
    known = tmp_path / "known"
    known.write_text(f"{gpu1.address} {rsa}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, timeout=10, stderr=subprocess.DEVNULL)
    assert gpu1.address not in known.read_text()
    host = SshHost(entry(gpu1, tmp_path, f"IdentityFile {gpu1.key_file}", "IdentitiesOnly yes", known_hosts=known))
    assert host.run(say("echo", "in")).text == "in\n"
    host.close()


def test_a_revoked_host_key_is_refused(gpu1: BedHost, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text(f"{gpu1.address} {gpu1.host_key}\n@revoked * {gpu1.host_key}\n")
    with pytest.raises(HostFault, match=r"revoked key.*known:2"):
        SshHost(entry(gpu1, tmp_path, known_hosts=known)).run(say("true"))
