"""Other clients for `benchmarks/instrument.py`, each a process of its own: one job as JSON in, one result as JSON out.

bare     an epoll loop that stamps and counts, opens its connections before the clock and decodes nothing: the floor
aiohttp  the loop most load generators are built on: aiohttp, `iter_any`, `json.loads` of each event
rust     SGLang's compiled client, its module loaded directly; its connections are opened inside the measured time
"""

from __future__ import annotations

import asyncio
import importlib.machinery
import importlib.util
import itertools
import json
import resource
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any

Job = dict[str, Any]


def body(job: Job, tag: str) -> bytes:
    content = {
        "model": "null",
        "messages": [{"role": "user", "content": f"{tag} " + "word " * 60}],
        "max_tokens": job["tokens"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    return json.dumps(content).encode()


def bare(job: Job) -> dict[str, Any]:
    """C streams over kept connections, one kept buffer of 8 KiB."""
    requests = []
    for number in range(job["requests"]):
        content = body(job, str(number))
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n"
        requests.append(head.encode() + content)
    poll = select.epoll()
    streams: dict[int, list[Any]] = {}
    for _ in range(job["concurrency"]):
        sock = socket.create_connection(("127.0.0.1", job["port"]))
        sock.setblocking(False)
        poll.register(sock.fileno(), select.EPOLLIN)
        streams[sock.fileno()] = [sock, 0.0, []]
    view = memoryview(bytearray(8192))
    ttfts: list[float] = []
    gaps: list[float] = []
    left, began, cpu = len(requests), time.monotonic(), time.process_time()
    for stream in streams.values():
        stream[1] = time.monotonic()
        stream[0].send(requests.pop())
    while left:
        for fd, _ in poll.poll():
            stream = streams[fd]
            size = stream[0].recv_into(view)
            stream[2].append(time.monotonic())
            if bytes(view[max(0, size - 5) : size]) == b"0\r\n\r\n":
                stamps = stream[2]
                ttfts.append(stamps[0] - stream[1])
                gaps += [b - a for a, b in itertools.pairwise(stamps)]
                stream[2] = []
                left -= 1
                if requests:
                    stream[1] = time.monotonic()
                    stream[0].send(requests.pop())
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    return {"wall_s": wall, "cpu_s": cpu, "ttfts": ttfts, "gaps": gaps}


def on_aiohttp(job: Job) -> dict[str, Any]:
    """C tasks over one session, every event decoded as it comes."""
    import aiohttp  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - only where it is installed

    ttfts: list[float] = []
    gaps: list[float] = []
    times: dict[str, float] = {}

    async def one(session: aiohttp.ClientSession, number: int) -> None:
        sent, stamps, left = time.monotonic(), [], b""
        url = f"http://127.0.0.1:{job['port']}/v1/chat/completions"
        async with session.post(url, data=body(job, str(number))) as reply:
            async for piece in reply.content.iter_any():
                now = time.monotonic()
                *events, left = (left + piece).split(b"\n\n")
                for event in events:
                    data = event.removeprefix(b"data: ")
                    if data != b"[DONE]" and any(c["delta"].get("content") for c in json.loads(data)["choices"]):
                        stamps.append(now)
        ttfts.append(stamps[0] - sent)
        gaps.extend(b - a for a, b in itertools.pairwise(stamps))

    async def work(session: aiohttp.ClientSession, numbers: list[int]) -> None:
        while numbers:
            await one(session, numbers.pop())

    async def run() -> None:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
            numbers = list(range(job["requests"]))
            began, cpu = time.monotonic(), time.process_time()
            await asyncio.gather(*(work(session, numbers) for _ in range(job["concurrency"])))
            times.update(wall_s=time.monotonic() - began, cpu_s=time.process_time() - cpu)

    asyncio.run(run())
    return {**times, "ttfts": ttfts, "gaps": gaps}


def rust(job: Job) -> dict[str, Any]:
    """SGLang's own numbers; its CPU time from before its first request to the end of its report."""
    found = importlib.util.find_spec("sglang")
    assert found is not None
    assert found.submodule_search_locations
    (path,) = Path(found.submodule_search_locations[0]).glob("srt/rust_extensions/_bench.*.so")
    loader = importlib.machinery.ExtensionFileLoader("_bench", str(path))
    spec = importlib.util.spec_from_loader("_bench", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    config = {
        "backend": "sglang-oai-chat",
        "base_url": f"http://127.0.0.1:{job['port']}",
        "model": "null",
        "tokenizer": job["tokenizer"],
        "dataset_name": "random-ids",
        "num_prompts": job["requests"],
        "random_input_len": 64,
        "random_output_len": job["tokens"],
        "random_range_ratio": 1.0,
        "max_concurrency": job["concurrency"],
        "request_rate": "inf",
        "warmup_requests": 0,
        "disable_tqdm": True,
        "output_file": job["results"],
    }
    cpu = time.process_time()
    result = json.loads(module.run_config(json.dumps(config)))
    return {
        "wall_s": result["duration"],
        "cpu_s": time.process_time() - cpu,
        "ttft_mean": result["mean_ttft_ms"] / 1000,
        "ttft_p99": result["p99_ttft_ms"] / 1000,
        "gap_p99": result["p99_itl_ms"] / 1000,
    }


def main() -> None:
    job = json.loads(sys.argv[1])
    result = {"bare": bare, "aiohttp": on_aiohttp, "rust": rust}[job["client"]](job)
    for name in ("ttft", "gap"):
        samples = sorted(result.pop(f"{name}s", ()))
        if samples:
            result[f"{name}_mean"] = sum(samples) / len(samples)
            result[f"{name}_p99"] = samples[round(0.99 * (len(samples) - 1))]
    result["rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("\n" + json.dumps(result))


if __name__ == "__main__":
    main()
