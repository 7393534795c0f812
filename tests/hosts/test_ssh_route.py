"""How ssh itself would reach a host: real ``ssh -G`` on small files."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from orchestrator.errors import InputRefused
from orchestrator.hosts.ssh.route import Route, ask

NOBODY = {"SSH_AUTH_SOCK": "/run/agent"}


def route(folder: Path, text: str, name: str = "gpu1") -> Route:
    file = folder / "config"
    file.write_text(text)
    return ask(name, str(file), environment=NOBODY)


def test_everything_a_host_block_says_is_taken(tmp_path: Path) -> None:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    text = """
Host gpu1
  HostName box.example
  Port 2222
  User ops
  IdentityFile ~/keys/%r_%h
  IdentityFile /etc/keys/%%p
  IdentitiesOnly yes
  UserKnownHostsFile /etc/known ~/other
  GlobalKnownHostsFile none
  AddressFamily inet
"""
    assert route(tmp_path, text) == Route(
        name="gpu1",
        hostname="box.example",
        port=2222,
        user="ops",
        known_as="[box.example]:2222",
        known_hosts=(Path("/etc/known"), home / "other"),
        identity_files=(home / "keys/ops_box.example", Path("/etc/keys/%p")),
        identities_only=True,
        agent="/run/agent",
        proxy=None,
        family="inet",
        config=str(tmp_path / "config"),
    )


def test_include_and_wildcards_are_ssh_s_own_business(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/a.conf").write_text("Host gpu?\n  HostName %h.lan\n  User ops\n")
    found = route(tmp_path, f"Include {tmp_path}/conf.d/*.conf\nHost *\n  User nobody\n  Port 2200\n")
    assert (found.hostname, found.user, found.port) == ("gpu1.lan", "ops", 2200)


def test_a_name_without_a_block_is_its_own_host_name(tmp_path: Path) -> None:
    found = route(tmp_path, "", name="Box.Example")
    assert (found.hostname, found.port, found.known_as) == ("box.example", 22, "box.example")


def test_an_alias_for_the_host_key_is_looked_up_without_a_port(tmp_path: Path) -> None:
    assert route(tmp_path, "Host gpu1\n  Port 2222\n  HostKeyAlias box\n").known_as == "box"


@pytest.mark.parametrize(
    ("line", "agent"),
    [
        ("IdentityAgent none", None),
        ("IdentityAgent SSH_AUTH_SOCK", "/run/agent"),
        ("IdentityAgent /run/other-%r", "/run/other-ops"),
        ("IdentityAgent $SSH_AUTH_SOCK", "/run/agent"),
        ("Port 22", "/run/agent"),
    ],
)
def test_which_agent_is_asked(tmp_path: Path, line: str, agent: str | None) -> None:
    assert route(tmp_path, f"Host gpu1\n  User ops\n  {line}\n").agent == agent


def test_a_proxy_command_has_its_tokens_filled_in(tmp_path: Path) -> None:
    found = route(tmp_path, "Host gpu1\n  HostName box\n  User ops\n  ProxyCommand nc -x proxy %h %p # %r %n %%\n")
    assert found.proxy == ("/bin/sh", "-c", "exec nc -x proxy box 22 # ops gpu1 %")


def test_jumps_are_left_to_ssh_and_checked_strictly(tmp_path: Path) -> None:
    found = route(tmp_path, "Host gpu1\n  HostName box\n  Port 2222\n  ProxyJump a@first,last:2200\n")
    assert found.proxy is not None
    assert " ".join(found.proxy) == (
        f"ssh -F {tmp_path}/config -o BatchMode=yes -o StrictHostKeyChecking=yes -o UpdateHostKeys=no "
        "-o ControlMaster=no -o ServerAliveInterval=10 -J a@first -W box:2222 -- ssh://last:2200"
    )


def test_every_option_we_cannot_honour_is_named_at_once(tmp_path: Path) -> None:
    text = """
Host gpu1
  KnownHostsCommand /bin/echo %H
  RevokedHostKeys /etc/revoked
  PubkeyAuthentication no
  IdentityFile ~/key-%C
"""
    with pytest.raises(InputRefused) as caught:
        route(tmp_path, text)
    assert caught.value.faults == (
        "knownhostscommand /bin/echo %H: host keys are looked up in files only",
        "revokedhostkeys /etc/revoked: revoked host keys are read from known_hosts only (@revoked)",
        "pubkeyauthentication false: tune logs in with a public key",
        "~/key-%C: the token %C is not supported",
    )


def test_a_file_ssh_cannot_read_is_refused_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(InputRefused) as caught:
        route(tmp_path, "Host gpu1\n  Bogus yes\n")
    assert caught.value.faults[0] == f"{tmp_path}/config: line 2: Bad configuration option: bogus"
    with pytest.raises(InputRefused) as caught:
        ask("gpu1", str(tmp_path / "none"), environment=NOBODY)
    assert caught.value.faults[0].startswith("Can't open user config file")


def test_a_name_cannot_be_an_option_of_ssh(tmp_path: Path) -> None:
    with pytest.raises(InputRefused):
        route(tmp_path, "", name="-oProxyCommand=touch x")
