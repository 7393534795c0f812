"""An engine environment and a production unit on a test-bed host: the smallest thing that behaves like SGLang there.

Not the simulated engine: it answers no requests. It can be started with any flags, prints the argv it was given,
listens when told to, and dies, hangs or leaves a process behind on demand.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.cli.clock import RealClock
from orchestrator.core.config import Config
from orchestrator.core.inventory import HostEntry, ServiceEntry
from orchestrator.core.start.render import render_unit
from orchestrator.core.units import TrialUnit
from orchestrator.hosts.ssh import SshHost
from orchestrator.hosts.systemd import SystemdService
from tests.bed import BedHost

HELPER = "/usr/local/libexec/tune/tune-helper"
ENGINE = "/opt/engine"
UNIT = "engine.service"
TRIAL = "engine-trial.service"
PORT = 30000
TEMPLATE = (Path(__file__).parents[2] / "templates/sglang.service.j2").read_text()

_LAUNCH = """
import http.server, json, os, signal, subprocess, sys, time
print("argv " + json.dumps(sys.argv[1:]), flush=True)
print("environ " + json.dumps({k: v for k, v in os.environ.items() if k.startswith("TEST_")}), flush=True)
mode = os.environ.get("TEST_MODE", "")
if mode == "dies":
    print("launch_server.py: error: unrecognized arguments: --house-rule", file=sys.stderr)
    sys.exit(2)
if mode == "exits-0":
    print("done already", flush=True)
    sys.exit(0)
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "child":
    subprocess.Popen([sys.executable, "-c", "print('from the child', flush=True); import time; time.sleep(1000)"])
port = int(sys.argv[sys.argv.index("--port") + 1])
print("Uvicorn running on", port, flush=True)
http.server.ThreadingHTTPServer(("0.0.0.0", port), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
_METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

PRODUCTION = f"""[Unit]
Description=engine by hand
[Service]
Type=simple
ExecStart={ENGINE}/bin/python -m sglang.launch_server --model-path /models/m --port {PORT}
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
"""


def furnish(host: BedHost, *, start: bool = True) -> None:
    """An engine environment at ``ENGINE`` and production by hand, running."""
    host.sh(f"python3 -m venv --without-pip {ENGINE}")
    site = host.sh(f"{ENGINE}/bin/python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))'").strip()
    host.write(f"{site}/sglang/__init__.py", "")
    host.write(f"{site}/sglang/launch_server.py", _LAUNCH)
    for name, version in (("sglang", "0.5.23"), ("torch", "2.14.1")):
        host.write(f"{site}/{name}-{version}.dist-info/METADATA", _METADATA.format(name=name, version=version))
    host.write(f"/etc/systemd/system/{UNIT}", PRODUCTION)
    host.sh(f"systemctl daemon-reload && systemctl enable --quiet {UNIT}")
    if start:
        host.sh(f"systemctl start {UNIT}")
        listening(host)


def listening(host: BedHost) -> None:
    """Wait until somebody answers on the port."""
    host.wait_until(f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {PORT}), 1)'")


def nvidia_smi(host: BedHost, *, apps: str = "", until: str = "") -> None:
    """A stand-in nvidia-smi with two GPUs; ``apps`` are lines of compute apps, while the shell test ``until`` fails."""
    gone = f"if {until}; then exit 0; fi; " if until else ""
    host.write(
        "/usr/local/bin/nvidia-smi",
        "#!/bin/sh\ncase $1 in\n"
        "--query-gpu=index,uuid) printf '0, GPU-aa\\n1, GPU-bb\\n' ;;\n"
        "--query-gpu=name,driver_version,memory.total)"
        " printf 'RTX PRO 6000, 590.48, 97887\\nRTX PRO 6000, 590.48, 97887\\n' ;;\n"
        "--query-gpu=memory.used) printf '4\\n71006\\n' ;;\n"
        f"--query-compute-apps=*) {gone}printf '{apps}' ;;\n"
        "esac\n",
        0o755,
    )


def entry(host: HostEntry, **changes: Any) -> ServiceEntry:
    """The service's inventory entry."""
    return replace(
        ServiceEntry(
            name="k26",
            host=host,
            unit=UNIT,
            template="sglang.service.j2",
            template_text=TEMPLATE,
            engines={"0.5.23": ENGINE},
            engine="0.5.23",
            port=PORT,
            flags={"model-path": "/models/m"},
        ),
        **changes,
    )


def service(host: HostEntry, *, owner: str = "me@box", **changes: Any) -> SystemdService:
    """The real door to it, over ssh."""
    return SystemdService(SshHost(host), entry(host, **changes), owner=owner, clock=RealClock())


def trial(host: HostEntry, *, mode: str = "", **changes: Any) -> TrialUnit:
    """A rendered trial unit; ``mode`` is how the stand-in behaves."""
    config = Config(flags={"model-path": "/models/m", "pp-size": 2}, environment={"TEST_MODE": mode} if mode else {})
    return render_unit(entry(host, **changes), config, run="7f3c", trial="pp2")


def soon(question: Callable[[], bool], *, within_s: float = 20.0) -> None:
    """Poll until it is so."""
    end = time.monotonic() + within_s
    while not question():
        assert time.monotonic() < end, "not so in time"
        time.sleep(0.1)


def tell(host: BedHost, verb: str, **fields: Any) -> dict[str, Any]:
    """Tell the helper directly, past ssh; refusals are answers here."""
    done = host.attempt(f"{HELPER} {verb}", stdin=json.dumps({"service": "k26", **fields}))
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def state(host: BedHost, unit: str) -> str:
    """systemd's ActiveState."""
    return host.sh(f"systemctl show -P ActiveState {unit}").strip()
