"""Hand-written units on a real host, one case each: how it is arranged, and which unit is adopted as whom.

What must come out stands in ``tests/core/adopt_cases/NAME.txt``, and what the host answered in ``NAME.json``, so
that the same cases run without a host. ``TUNE_RECORD=1 pytest tests/hosts/test_adopt.py`` writes both anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.core.inventory import HostEntry
from tests.bed import BedHost
from tests.hosts import handwritten as unit


@dataclass(frozen=True, kw_only=True)
class Case:
    """``arrange`` prepares the host and may return how to reach it as somebody else than root."""

    name: str
    unit: str
    arrange: Callable[[BedHost], HostEntry | None]


def _chat(host: BedHost, text: str = unit.CHAT, *, start: bool = True) -> None:
    host.sh("id llm 2>/dev/null || useradd --create-home llm")
    unit.install_engine(host, "/srv/chat/.venv")
    unit.install_unit(host, "chat.service", text, start=start)
    if start:
        unit.wait_for_port(host, 8100)


def _bare(host: BedHost) -> None:
    _chat(host)


def _with_house_rule(host: BedHost) -> None:
    _chat(host, unit.CHAT.replace("--cpu-offload-gb 32", "--cpu-offload-gb 32 --house-rule 7"))


def _changed_since_the_start(host: BedHost) -> None:
    _chat(host)
    unit.install_unit(host, "chat.service", unit.CHAT.replace("--cpu-offload-gb 32", "--cpu-offload-gb 64"))


def _not_reloaded(host: BedHost) -> None:
    _chat(host)
    host.write("/etc/systemd/system/chat.service", unit.CHAT.replace("8100", "8200"))


def _as_somebody(host: BedHost) -> HostEntry:
    _chat(host)
    return host.add_user("op")


def _drop_in(host: BedHost, mode: int = 0o644) -> None:
    text = (
        "[Service]\nExecStart=\nExecStart=/srv/chat/.venv/bin/python -u -m sglang.launch_server "
        "--model example-org/chat-14b --tp 4 --port 8100\nEnvironment=HF_TOKEN=hf_abcdefghijklmnop\nRestart=no\n"
    )
    host.write("/etc/systemd/system/chat.service.d/50-more.conf", text, mode)


def _source_checkout(host: BedHost) -> None:
    """sglang found through the working directory: no metadata, but a version.py."""
    _chat(host, start=False)
    site = "/srv/chat/.venv/lib/python3.11/site-packages"
    host.sh(f"mv {site}/sglang /srv/chat/ && rm -r {site}/sglang-*")
    host.write("/srv/chat/sglang/version.py", '__version__ = "0.5.24.dev3"\n')


def _with_drop_in(host: BedHost) -> None:
    _drop_in(host)
    _chat(host)


def _with_secret_drop_in(host: BedHost) -> HostEntry:
    _drop_in(host, 0o600)
    _chat(host)
    return host.add_user("op")


def _port_held_by_another(host: BedHost) -> None:
    _chat(host, start=False)
    host.sh("systemd-run --quiet --unit=squatter /usr/bin/python3 -m http.server 8100")
    unit.wait_for_port(host, 8100)
    stay = "/srv/chat/.venv/lib/python3.11/site-packages/sglang/launch_server.py"
    host.write(stay, "import time\ntime.sleep(600)\n")
    host.sh("systemctl start chat.service")


def _engine(host: BedHost, text: str = unit.ENGINE) -> None:
    host.sh("ln -s /usr/bin/python3 /usr/bin/python")
    unit.install_package(host, "/usr/lib/python3/dist-packages", package="sglang", version="0.5.23")
    unit.install_unit(host, "engine.service", text)


ARGS = "ENGINE_ARGS=--model-path example-org/small-3b --port 8010 --mem-fraction-static 0.8\n"


def _from_a_file(host: BedHost) -> None:
    host.write("/etc/engine.conf", ARGS)
    _engine(host)
    host.sh("systemctl start engine.service")
    unit.wait_for_port(host, 8010)


def _file_is_missing(host: BedHost) -> None:
    _engine(host)


def _file_must_be_there(host: BedHost) -> None:
    _engine(host, unit.ENGINE.replace("=-/etc", "=/etc"))


def _file_is_unreadable(host: BedHost) -> HostEntry:
    host.write("/etc/engine.conf", ARGS, 0o600)
    _engine(host)
    return host.add_user("op")


def _file_wins(host: BedHost) -> None:
    host.write("/etc/engine.conf", f"{ARGS}HF_HOME=/data/hf\nHF_TOKEN=hf_neverinanentry1\n")
    _engine(host)


def _lens(host: BedHost, *, start: bool) -> None:
    host.sh("useradd --create-home lens")
    unit.install_uv(host)
    unit.install_engine(host, "/opt/lens/.venv", package="vllm", version="0.11.0")
    persistence = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"
    unit.install_unit(host, "nvidia-persistenced.service", persistence)
    unit.install_unit(host, "lens.service", unit.LENS, start=start)
    if start:
        unit.wait_for_port(host, 8000)


def _behind_uv(host: BedHost) -> None:
    _lens(host, start=True)


def _behind_uv_stopped(host: BedHost) -> None:
    _lens(host, start=False)


def _boxed(host: BedHost) -> None:
    host.write("/usr/bin/docker", "#!/bin/sh\n", 0o755)
    unit.install_unit(host, "boxed.service", unit.BOXED)


def _composed(host: BedHost) -> None:
    host.write("/usr/bin/docker", "#!/bin/sh\n", 0o755)
    unit.install_unit(host, "composed.service", unit.COMPOSED)


def _only_system_accounts(host: BedHost) -> None:
    host.sh("awk -F: '$3 < 1000 || $3 == 65534' /etc/passwd > /etc/passwd.new && cat /etc/passwd.new > /etc/passwd")


def _anns(host: BedHost) -> None:
    _only_system_accounts(host)
    host.add_user("ann")
    host.write("/home/ann/.config/systemd/user/model.service", unit.ANNS)


def _login_shell(host: BedHost) -> None:
    unit.install_unit(host, "laila.service", unit.CONDA)


def _masked(host: BedHost) -> None:
    host.sh("ln -s /dev/null /etc/systemd/system/chat.service && systemctl daemon-reload")


def _transient(host: BedHost) -> None:
    unit.install_engine(host, "/srv/chat/.venv")
    words = "/srv/chat/.venv/bin/python -m sglang.launch_server --model-path m --port 8100"
    host.sh(f"systemd-run --quiet --unit=passing {words}")
    unit.wait_for_port(host, 8100)


def _nothing(host: BedHost) -> None:
    _only_system_accounts(host)
    unit.install_unit(host, "sglang-k26.service", unit.CHAT)


def _adapters(host: BedHost, text: str = unit.ADAPTERS) -> None:
    unit.install_engine(host, "/srv/adapters/venv", package="vllm", version="0.11.0")
    host.write("/srv/adapters/engine.env", unit.ADAPTERS_ENV, 0o600)
    unit.install_unit(host, "adapters.service", text, start=True)
    unit.wait_for_port(host, 8200)


def _braced(host: BedHost) -> None:
    _adapters(host)


def _literal_key(host: BedHost) -> None:
    _adapters(host, unit.ADAPTERS.replace("${ENGINE_KEY}", "sk-literal-0123456789"))


def _unquoted_json(host: BedHost) -> None:
    _adapters(host, unit.ADAPTERS.replace("--max-lora-rank 16", '--hf-overrides={"a":1}'))


CASES = (
    Case(name="bare-python", unit="chat.service", arrange=_bare),
    Case(name="bare-python-house-rule", unit="chat.service", arrange=_with_house_rule),
    Case(name="bare-python-as-somebody", unit="chat", arrange=_as_somebody),
    Case(name="bare-python-changed-since-start", unit="chat.service", arrange=_changed_since_the_start),
    Case(name="bare-python-not-reloaded", unit="chat.service", arrange=_not_reloaded),
    Case(name="bare-python-drop-in", unit="chat.service", arrange=_with_drop_in),
    Case(name="bare-python-drop-in-unreadable", unit="chat.service", arrange=_with_secret_drop_in),
    Case(name="bare-python-port-held", unit="chat.service", arrange=_port_held_by_another),
    Case(name="bare-python-source-checkout", unit="chat.service", arrange=_source_checkout),
    Case(name="one-variable", unit="engine.service", arrange=_from_a_file),
    Case(name="one-variable-file-missing", unit="engine.service", arrange=_file_is_missing),
    Case(name="one-variable-file-required", unit="engine.service", arrange=_file_must_be_there),
    Case(name="one-variable-file-unreadable", unit="engine.service", arrange=_file_is_unreadable),
    Case(name="one-variable-file-wins", unit="engine.service", arrange=_file_wins),
    Case(name="launcher", unit="lens.service", arrange=_behind_uv),
    Case(name="launcher-stopped", unit="lens.service", arrange=_behind_uv_stopped),
    Case(name="container", unit="boxed.service", arrange=_boxed),
    Case(name="container-compose", unit="composed.service", arrange=_composed),
    Case(name="user-manager", unit="model.service", arrange=_anns),
    Case(name="login-shell", unit="laila.service", arrange=_login_shell),
    Case(name="masked", unit="chat.service", arrange=_masked),
    Case(name="transient", unit="passing.service", arrange=_transient),
    Case(name="unknown", unit="sglang-k62", arrange=_nothing),
    Case(name="braced", unit="adapters.service", arrange=_braced),
    Case(name="braced-literal-key", unit="adapters.service", arrange=_literal_key),
    Case(name="braced-unquoted-json", unit="adapters.service", arrange=_unquoted_json),
)
