"""A port of the host's loopback, reached through the ssh connection."""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest

from orchestrator.hosts.forward import Forward
from orchestrator.hosts.ssh import SshHost
from tests.bed import BedHost

WEB = "systemd-run --quiet --unit=web-trial python3 -m http.server 8000 --bind 127.0.0.1 --directory /srv/web"


@pytest.fixture
def forward(gpu1: BedHost) -> Iterator[Forward]:
    host = SshHost(gpu1.entry)
    with Forward(host, "127.0.0.1", 8000) as open_forward:
        yield open_forward
    host.close()


@pytest.fixture
def web(gpu1: BedHost) -> None:
    """An HTTP server that listens on the host's loopback only."""
    gpu1.write("/srv/web/small", "hello\n")
    gpu1.sh(f"head -c 1000000 /dev/urandom > /srv/web/big; {WEB}")
    gpu1.wait_until("ss -Hltn 'sport = :8000' | grep -q 8000")


def get(forward: Forward, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{forward.port}/{path}", timeout=10) as answer:
        return bytes(answer.read())


@pytest.mark.usefixtures("web")
def test_http_goes_through(gpu1: BedHost, forward: Forward) -> None:
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((gpu1.address, 8000), timeout=5)
    assert get(forward, "small") == b"hello\n"


@pytest.mark.usefixtures("web")
def test_many_connections_at_once_come_back_whole(forward: Forward) -> None:
    sizes: list[int] = []
    threads = [threading.Thread(target=lambda: sizes.append(len(get(forward, "big")))) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sizes == [1_000_000] * 24


def test_an_engine_that_is_not_there_resets_and_the_reason_is_kept(forward: Forward) -> None:
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        get(forward, "small")
    assert forward.fault is not None
    assert forward.fault.fact == "gpu1: no connection to 127.0.0.1:8000 from there: Connect failed"
    assert forward.fault.cause == "nothing listens there yet"


def test_an_sshd_that_forwards_nothing_is_told_apart(gpu1: BedHost, forward: Forward) -> None:
    gpu1.configure_sshd("AllowTcpForwarding no\n")
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        get(forward, "small")
    assert forward.fault is not None
    assert forward.fault.cause == "sshd does not forward ports (AllowTcpForwarding, PermitOpen)"


def test_a_connection_lost_half_way_is_a_reset_not_an_end(gpu1: BedHost, forward: Forward) -> None:
    """A server that sends a little and then holds the line; the ssh session under it is killed."""
    gpu1.write(
        "/srv/hold.py",
        "import socket, time\ns = socket.create_server(('127.0.0.1', 8000))\n"
        "c, _ = s.accept()\nc.sendall(b'begin')\ntime.sleep(60)\n",
    )
    gpu1.sh("systemd-run --quiet --unit=hold-trial python3 /srv/hold.py")
    gpu1.wait_until("ss -Hltn 'sport = :8000' | grep -q 8000")
    with socket.create_connection(("127.0.0.1", forward.port), timeout=10) as client:
        assert client.recv(100) == b"begin"
        gpu1.sh("pkill -KILL -f '^sshd: root'")
        with pytest.raises(ConnectionResetError):
            client.recv(100)


@pytest.mark.usefixtures("web")
def test_closing_ends_every_connection_and_the_port(forward: Forward) -> None:
    with socket.create_connection(("127.0.0.1", forward.port), timeout=10) as idle:
        assert get(forward, "small") == b"hello\n"
        port, began = forward.port, time.monotonic()
        forward.close()
        assert time.monotonic() - began < 3
        with suppress(ConnectionResetError):
            assert idle.recv(10) == b""  # reset, or closed: it has ended
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
