"""A host whose production is a real SGLang under a unit written by hand, and a project that has adopted it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bed import Bed, BedHost
from tests.engine.engine import FLAGS, RealEngine, Unusable
from tests.integration.line import Line

HOME = "/opt/engine"  # where hosts see the engine's folder
USER = "sglang"
UNIT = "sglang-real.service"
TRIAL = "sglang-real-trial.service"
PORT = 30000
PATIENCE_S = 3600.0
START_S = 600.0

LIMITS = "    startup: {timeout: 20m, no-progress: 5m}\n"


def see_engine(bed: Bed, engine: RealEngine) -> BedHost:
    """The host ``real``: the engine's folder read-only at ``HOME``, and an account that can run what is in it."""
    host = bed.host("real", shows={HOME: engine.folder})
    if host.attempt(f"id {USER}").returncode != 0:
        host.add_user(USER)
    for folder in list(engine.interpreter.parents)[:-1]:
        host.sh(f"chmod o+x {folder}")  # of the host's overlay: this machine's own is as it was
    asked = f"runuser -u {USER} -- {HOME}/venv/bin/python -c 'import torch'"
    done = host.attempt(asked, timeout_s=180)
    if done.returncode != 0:
        raise Unusable(f"on a host of the test bed, {USER} cannot run {asked.partition('-- ')[2]}: {done.stderr}")
    return host


def production_text(engine: RealEngine) -> str:
    """A unit as people write them by hand: flags on several lines, Restart=always, systemd's own way to stop."""
    words = [f"--{name}" if value is True else f"--{name} {value}" for name, value in FLAGS.items()]
    command = " \\\n    ".join(
        [
            f"{HOME}/venv/bin/python -m sglang.launch_server",
            f"--model-path {HOME}/{engine.model}",
            f"--host 0.0.0.0 --port {PORT}",
            *words,
        ]
    )
    variables = "".join(f'Environment="{name}={value}"\n' for name, value in engine.environment.items())
    return (
        "[Unit]\nDescription=SGLang by hand\nAfter=network-online.target\n\n"
        f"[Service]\nUser={USER}\n{variables}ExecStart={command}\nRestart=always\nRestartSec=5\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def lay(host: BedHost, engine: RealEngine, folder: Path) -> Line:
    """Production running, a project with its adopted entry."""
    host.write(f"/etc/systemd/system/{UNIT}", production_text(engine))
    host.sh(f"systemctl daemon-reload && systemctl enable --quiet {UNIT} && systemctl start {UNIT}")
    (folder / "sweeps").mkdir()
    (folder / "inventory.yaml").write_text(
        f"hosts:\n  {host.name}: {{ssh-config: {host.ssh_config}}}\nservices: {{}}\n"
    )
    line = Line(host, folder, unit=UNIT, patience_s=PATIENCE_S)
    answers(line, timeout_s=START_S)
    line.tune("adopt", host.name, UNIT, "--name", "real")
    inventory = (folder / "inventory.yaml").read_text()
    (folder / "inventory.yaml").write_text(inventory.replace(f"    unit: {UNIT}\n", f"    unit: {UNIT}\n{LIMITS}"))
    return line


def answers(line: Line, *, timeout_s: float) -> None:
    """Until production gives tokens, asked from inside the host."""
    body = json.dumps({"text": "Say OK", "sampling_params": {"max_new_tokens": 4, "ignore_eos": True}})
    ask = f"curl -sf -m 60 http://127.0.0.1:{PORT}/generate -H 'Content-Type: application/json' -d '{body}'"
    line.host.wait_until(f"{ask} | grep -q '\"completion_tokens\":4'", timeout_s=timeout_s)
