"""An engine that fails in a chosen way on a test-bed host: a script in the place of its environment's python.

``TEST_MODE`` in the unit, else the file ``MODE``, says how: production and trials are started by the same script.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.cli.wiring import real_doors
from orchestrator.core import events
from orchestrator.core.config import Config
from orchestrator.core.inventory import ServiceEntry, Startup
from orchestrator.core.ports import Cancel, Doors
from orchestrator.core.start.failures import Failure
from orchestrator.core.start.render import render_unit
from orchestrator.core.units import Role, TrialUnit
from orchestrator.core.workload import Lengths, LevelSpec, Prompt, Workload
from orchestrator.errors import Interrupted
from orchestrator.workflow.launches import Bench, Launch
from orchestrator.workflow.lease import Held
from orchestrator.workflow.switch import Put, restore
from orchestrator.workflow.telling import Teller
from orchestrator.workflow.trial import Ended, run_launch
from tests.bed import BedHost
from tests.hosts.stand_in import ENGINE, PORT, UNIT, entry

MODE = f"{ENGINE}/mode"
SEEN = "/tmp/seen-by-the-engine"  # what it was asked: a line for each request as it comes and goes
SHORT = Startup(timeout_s=20.0, no_progress_s=4.0)

WORKLOAD = Workload(
    name="default",
    prompts=(Prompt(name="one", text="Write a quicksort."),),
    lengths=Lengths(kind="fixed", tokens=8),
    concurrency=(2,),
    requests_per_stream=2,
)

_ENGINE = f'''\
#!/usr/bin/python3
import http.server, json, os, signal, subprocess, sys, threading, time

mode = os.environ.get("TEST_MODE") or open("{MODE}").read().strip()
port = int(sys.argv[sys.argv.index("--port") + 1])
began, guard, waited = time.monotonic(), threading.Lock(), []


def say(*words):
    with open("{SEEN}", "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


class Engine(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, content=None):
        body = json.dumps(content or {{}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path.startswith("/v1/models"):
            self.answer(200, {{"data": [{{"id": "m"}}]}})
        elif self.path.startswith("/health"):
            self.answer(503 if mode == "too-early" and time.monotonic() < began + 3 else 200)
        else:
            self.answer(404)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{{}}")
        if "messages" not in asked:
            return self.answer(200)
        kind = "load" if asked.get("stream") else "probe"
        say("in", kind)
        if mode == "too-early" and time.monotonic() < began + 3:
            self.answer(503)
        else:
            with guard:
                first, waited[:] = not waited, [True]
            if mode == "too-early" and first:
                time.sleep(3)
            self.tokens(asked)
            say("tokens", kind)
        say("out", kind)

    def tokens(self, asked):
        usage = {{"prompt_tokens": 4, "completion_tokens": asked["max_tokens"]}}
        if not asked.get("stream"):
            choice = {{"message": {{"content": "OK"}}, "finish_reason": "length"}}
            return self.answer(200, {{"choices": [choice], "usage": usage}})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for n in range(asked["max_tokens"]):
            end = "length" if n + 1 == asked["max_tokens"] else None
            self.event(json.dumps({{"choices": [{{"index": 0, "delta": {{"content": "x "}}, "finish_reason": end}}]}}))
            time.sleep(0.01)
        self.event(json.dumps({{"choices": [], "usage": usage}}))
        self.event("[DONE]")
        self.wfile.write(b"0\\r\\n\\r\\n")

    def event(self, text):
        line = f"data: {{text}}\\n\\n".encode()
        self.wfile.write(f"{{len(line):x}}\\r\\n".encode() + line + b"\\r\\n")
        self.wfile.flush()


def serve():
    http.server.ThreadingHTTPServer(("0.0.0.0", port), Engine).serve_forever()


if mode == "exits-0":
    print("sglang 0.5.23", flush=True)
elif mode == "exits-2":
    print("usage: launch_server.py [-h] --model-path MODEL_PATH", file=sys.stderr)
    print("launch_server.py: error: unrecognized arguments: --enable-reasoning", file=sys.stderr)
    sys.exit(2)
elif mode == "crashes":
    print("[2026-11-30 03:00:21 PP0] Load weight begin. avail mem=94.50 GB", flush=True)
    print("[2026-11-30 03:00:22 PP0] Scheduler hit an exception: Traceback (most recent call last):", flush=True)
    print('  File "scheduler.py", line 3119, in run_scheduler_process', flush=True)
    print("RuntimeError: cannot reshape tensor of 0 elements", flush=True)
    print("Received sigquit from a child process. It usually means the child failed.", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
elif mode == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif mode == "sleeps":
    time.sleep(1000)
elif mode == "burns":  # silent, and nothing but CPU time shows that it works
    while time.monotonic() < began + 7:
        pass
    serve()
elif mode == "robbed":  # somebody else takes the port while it loads
    thief = ["systemd-run", "--quiet", "--unit=squatter", "/usr/bin/python3", "-m", "http.server", str(port)]
    subprocess.run(thief, check=True)
    time.sleep(1000)
elif mode == "dies-serving":
    threading.Timer(4.0, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    serve()
else:
    serve()
'''

PRODUCTION = f"""\
[Unit]
Description=engine by hand
StartLimitIntervalSec={{window}}
StartLimitBurst=3
[Service]
Type=simple
ExecStart={ENGINE}/bin/python -m sglang.launch_server --model-path /models/m --port {PORT}
Restart=always
RestartSec=200ms
"""


class Never:
    """Nobody asks us to stop."""

    requested = False

    def check(self) -> None:
        """Nothing to raise."""
        if self.requested:
            raise Interrupted("interrupted")


class Heard:
    """Keeps what was told."""

    def __init__(self) -> None:
        self.all: list[events.Event] = []

    def tell(self, event: events.Event) -> None:
        """Take note."""
        self.all.append(event)


@dataclass
class Stage:
    """A host whose production serves, our hold on it, and real doors: ssh, systemd, HTTP, the load program."""

    host: BedHost
    entry: ServiceEntry
    doors: Doors
    held: Held
    heard: Heard
    gpus: int | None = None
    never: Cancel = field(default_factory=Never)

    def mode(self, mode: str) -> None:
        """How what is not told otherwise behaves from its next start on."""
        self.host.write(MODE, mode)

    def unit(self, mode: str) -> TrialUnit:
        """A trial that behaves so."""
        config = Config(flags={"model-path": "/models/m"}, environment={"TEST_MODE": mode})
        return render_unit(self.entry, config, run="7f3c", trial=mode)

    def launch(self, mode: str, *levels: LevelSpec, replaces: Role = "production") -> Ended:
        """One launch as a sweep makes it."""
        bench = Bench(
            doors=self.doors,
            held=self.held,
            entry=self.entry,
            workload=WORKLOAD,
            tell=Teller("7f3c", self.doors.clock, (self.heard,)),
            cancel=self.never,
            gpus=self.gpus,
        )
        unit = self.unit(mode)
        config = Config(flags={"model-path": "/models/m"}, environment={})
        launch = Launch(
            trial=mode, launch=f"{mode}.l1", config=config, engine=self.entry.engine, unit=unit, levels=levels, build={}
        )
        return run_launch(bench, launch, replaces=replaces, same_as=lambda *_: None, has_time=lambda _: True)

    def fails(self, mode: str, *, replaces: Role = "production") -> Failure:
        """How a trial that behaves so fails."""
        failure = self.launch(mode, replaces=replaces).failure
        assert failure is not None
        return failure

    def restore(self) -> Put:
        """Production back, and gated."""
        return restore(self.doors, self.held, self.entry, abandon=self.never, on_phase=lambda *_: None)

    def seen(self) -> list[str]:
        """What the engine was asked, in order."""
        return self.host.read(SEEN).splitlines()


@contextmanager
def stage(host: BedHost, folder: Path, *, startup: Startup = SHORT, window: str = "0") -> Iterator[Stage]:
    """Production by hand, serving, and a run that holds the host. ``window``: of production's start limit (s)."""
    host.write(f"{ENGINE}/bin/python", _ENGINE, 0o755)
    host.write(MODE, "serves")
    host.write(f"/etc/systemd/system/{UNIT}", PRODUCTION.format(window=window))
    host.sh(f"rm -f {SEEN}; systemctl daemon-reload && systemctl start {UNIT}")
    service = replace(entry(host.entry), startup=startup)
    with ExitStack() as stack:
        doors = stack.enter_context(real_doors(service, folder / ".tune"))
        lease = doors.service.take(run="7f3c", purpose="sweep three", ttl_s=120.0)
        yield Stage(host, service, doors, Held(doors.service, lease, doors.clock, ttl_s=120.0), Heard())
