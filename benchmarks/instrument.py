"""How well the load program measures: `python benchmarks/instrument.py --referee COMMAND [--peers PYTHON]`.

The referee is a server that speaks the OpenAI chat route, costs little beside a client, and logs when each token really
left: COMMAND is given `--port P --log PREFIX`, and `--ttft MS --itl MS` where it shall pace instead of sending as fast
as it can. It answers `GET /_reset`, and `GET /_dump?label=X` by writing PREFIX.X.csv (a row a reply: t_recv, t_first,
t_done in ns, sent) and PREFIX.X.gaps (float32, us: every gap between two events of a stream). Start it with real-time
priority (`chrt -f 5 ...`) or a busy client delays it.

Every client runs once a round, in turns; ratios are taken inside a round, and medians over the rounds. Errors are what
the client says less what the log of that very run says. `--peers` names an interpreter with aiohttp, sglang or both.
Not measured: TLS, long prompts, anything beyond loopback.
"""

from __future__ import annotations

import argparse
import array
import csv
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from orchestrator.bench.driver import ProcessLoad
from orchestrator.core.judge.figures import gaps, ttft
from orchestrator.core.judge.stats import spread
from orchestrator.core.ports import Cancel
from orchestrator.core.workload import LevelSpec, RequestSpec

PEERS = Path(__file__).parent / "instrument_peers.py"


@dataclass(frozen=True)
class Setting:
    """What the referee does, and how much is asked of it."""

    name: str
    concurrency: int
    requests: int
    tokens: int
    ttft_ms: float = 0.0  # 0: as fast as it can
    itl_ms: float = 0.0

    @property
    def ideal_tok_s(self) -> float | None:
        if not self.ttft_ms:
            return None
        return self.concurrency * self.tokens / ((self.ttft_ms + (self.tokens - 1) * self.itl_ms) / 1000)


SETTINGS = (
    Setting("flat out", 64, 1024, 256),
    Setting("flat out", 256, 1024, 256),
    Setting("paced", 256, 768, 128, 200, 10),
    Setting("paced", 1024, 2048, 128, 200, 20),
)


class Clock:
    """The real one."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float, cancel: Cancel | None = None) -> None:
        if cancel is not None:
            cancel.check()
        time.sleep(seconds)


class Never:
    """Nobody cancels."""

    @property
    def requested(self) -> bool:
        return False

    def check(self) -> None:
        pass


class Referee:
    """The server under one setting."""

    def __init__(self, command: str, setting: Setting, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._prefix = folder / "truth"
        words = [*shlex.split(command), "--port", str(self.port), "--log", str(self._prefix)]
        if setting.ttft_ms:
            words += ["--ttft", str(setting.ttft_ms), "--itl", str(setting.itl_ms)]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        for _ in range(100):
            try:
                self.ask("/health")
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"the referee does not answer: {shlex.join(words)}")

    def ask(self, path: str) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as reply:
            reply.read()

    def truth(self) -> dict[str, float]:
        """What really happened since `/_reset`."""
        self.ask("/_dump?label=run")
        with Path(f"{self._prefix}.run.csv").open(encoding="ascii") as file:
            rows = list(csv.DictReader(file))
        firsts = sorted((int(row["t_first"]) - int(row["t_recv"])) / 1e9 for row in rows)
        apart = array.array("f")
        apart.frombytes(Path(f"{self._prefix}.run.gaps").read_bytes())
        ordered = sorted(apart)
        wall = (max(int(row["t_done"]) for row in rows) - min(int(row["t_recv"]) for row in rows)) / 1e9
        return {
            "ttft_mean": sum(firsts) / len(firsts),
            "ttft_p99": firsts[round(0.99 * (len(firsts) - 1))],
            "gap_p99": ordered[round(0.99 * (len(ordered) - 1))] / 1e6,
            "tokens": float(sum(int(row["sent"]) for row in rows)),
            "wall_s": wall,
        }

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(10)


def ours(setting: Setting, port: int, workers: int) -> dict[str, float]:
    """The load program as a sweep runs it."""
    level = LevelSpec(
        workload="default",
        concurrency=setting.concurrency,
        repeat=1,
        arrival="burst",
        stagger_s=0.0,
        requests=tuple(
            RequestSpec(index=i, prompt="p", text=f"{i} " + "word " * 60, max_tokens=setting.tokens, ignore_eos=True)
            for i in range(setting.requests)
        ),
        temperature=0.0,
        request_timeout_s=600.0,
        gap_timeout_s=60.0,
    )
    load = ProcessLoad(f"http://127.0.0.1:{port}", Clock(), model="null", workers=workers)
    outcome = load.run(level, on_progress=lambda _: None, cancel=Never())
    bad = [record for record in outcome.records if record.outcome != "ok"]
    if bad:
        raise SystemExit(f"{len(bad)} requests went wrong: {bad[0].error}")
    firsts = spread([value for record in outcome.records if (value := ttft(record)) is not None])
    between = spread([gap for record in outcome.records for gap in gaps(record)])
    assert firsts is not None
    assert between is not None
    client = outcome.client
    return {
        "wall_s": outcome.ended_at - outcome.started_at,
        "cpu_s": client["cpu_s"],
        "busy_cpu_s": client["busy_cpu_s"],
        "ttft_mean": firsts.mean,
        "ttft_p99": firsts.p99,
        "gap_p99": between.p99,
        "rss_mib": client["peak_rss_mib"],
        "lag_p99": client.get("receive_lag_p99_s", float("nan")),
    }


def peer(client: str, python: str, setting: Setting, port: int, tokenizer: str) -> dict[str, float]:
    """One of `instrument_peers.py`."""
    job = {
        "client": client,
        "port": port,
        "concurrency": setting.concurrency,
        "requests": setting.requests,
        "tokens": setting.tokens,
        "tokenizer": tokenizer,
        "results": os.devnull,
    }
    words = [python, str(PEERS), json.dumps(job)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def one_round(args: argparse.Namespace, setting: Setting, clients: Sequence[str]) -> dict[str, dict[str, float]]:
    """Every client once, each against a referee with an empty log."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="tune-instrument-") as folder:
        referee = Referee(args.referee, setting, Path(folder))
        try:
            for client in clients:
                referee.ask("/_reset")
                if client.startswith("tune"):
                    said = ours(setting, referee.port, 2 if client.endswith("2") else 1)
                else:
                    python = sys.executable if client == "bare" else args.peers
                    said = peer(client, python, setting, referee.port, args.tokenizer)
                found[client] = figures(setting, said, referee.truth())
        finally:
            referee.end()
    return found


def figures(setting: Setting, said: dict[str, float], truth: dict[str, float]) -> dict[str, float]:
    """One client's row of one round."""
    row = {
        "cpu_us": said["cpu_s"] / truth["tokens"] * 1e6,
        "busy_us": said.get("busy_cpu_s", said["cpu_s"]) / truth["tokens"] * 1e6,
        "tok_s": truth["tokens"] / truth["wall_s"],
        "rate_error": (truth["tokens"] / said["wall_s"]) / (truth["tokens"] / truth["wall_s"]) - 1,
        "rss_mib": said["rss_mib"],
        "lag_p99_ms": said.get("lag_p99", float("nan")) * 1000,
    }
    if setting.ideal_tok_s is not None:
        row["share"] = row["tok_s"] / setting.ideal_tok_s
        for name in ("ttft_mean", "ttft_p99", "gap_p99"):
            row[f"{name}_ms"] = (said[name] - truth[name]) * 1000
    return row


def show(setting: Setting, rounds: Sequence[dict[str, dict[str, float]]]) -> None:
    print(
        f"\n{setting.name}, C={setting.concurrency}: {setting.requests} requests of {setting.tokens} tokens, "
        f"median of {len(rounds)} rounds"
    )
    print(
        f"  {'client':<10}{'us/token':>9}{'at end':>8}{'x aiohttp':>10}{'x bare':>8}{'tok/s':>10}{'of ideal':>9}"
        f"{'rate err':>9}{'TTFT err mean/p99 ms':>22}{'gap p99 err ms':>15}{'lag p99':>9}{'MiB':>6}"
    )
    for client in rounds[0]:

        def of(name: str, client: str = client) -> float:
            return median(found[client].get(name, float("nan")) for found in rounds)

        def to(other: str, client: str = client) -> float:
            if other not in rounds[0]:
                return float("nan")
            return median(found[client]["cpu_us"] / found[other]["cpu_us"] for found in rounds)

        print(
            f"  {client:<10}{of('busy_us'):>9.1f}{of('cpu_us'):>8.1f}{to('aiohttp'):>10.2f}{to('bare'):>8.2f}"
            f"{of('tok_s'):>10,.0f}{of('share'):>9.1%}{of('rate_error'):>9.2%}"
            f"{of('ttft_mean_ms'):>13.2f} /{of('ttft_p99_ms'):>7.2f}{of('gap_p99_ms'):>15.2f}"
            f"{of('lag_p99_ms'):>9.2f}{of('rss_mib'):>6.0f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--referee", required=True, help="command of the referee server")
    parser.add_argument("--peers", help="an interpreter that has aiohttp, sglang or both")
    parser.add_argument("--tokenizer", default="", help="a tokenizer's folder, for SGLang's compiled client")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=int, action="append", help="number of a setting, from 0")
    args = parser.parse_args()
    peers = []
    for name, module in (("aiohttp", "aiohttp"), ("rust", "sglang")):
        test = [args.peers, "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"]
        if args.peers and subprocess.run(test, check=False).returncode == 0 and (name != "rust" or args.tokenizer):
            peers.append(name)
        else:
            print(f"without {name}: no interpreter was named that has it")
    for number, setting in enumerate(SETTINGS):
        if args.only and number not in args.only:
            continue
        clients = ["tune", *(["tune x2"] if setting.concurrency >= 1024 else []), "bare", *peers]
        rounds = []
        for turn in range(args.rounds):
            shift = turn % len(clients)
            found = one_round(args, setting, clients[shift:] + clients[:shift])
            rounds.append({client: found[client] for client in clients})
        show(setting, rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
