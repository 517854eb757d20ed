"""Measure a server: its answers, its speed and how it handles rude clients; compare it with `heedful translate`.

    python benchmarks/serving.py runs/multi30k-en-de test.en --source en --target de

This process sends requests with one sentence each to one server over the loopback interface, with different numbers of
clients, whose connections stay open. Each answer is compared with the translation of the same model in Python. Then
some clients leave in the middle of a stream, and some send one byte a second, while others send normal requests.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from heedful.cli.arguments import parse_script_arguments
from heedful.cli.option_parser import Positional

_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Options:
    """Measure requests, latencies, memory, and the effect of rude clients."""

    run: Annotated[Path, Positional]
    """run folder of a translation model"""
    text: Annotated[Path, Positional]
    """file of sentences, plain or gzipped"""
    source: str = "en"
    target: str = "de"
    engine: str = "auto"
    threads: int = 1
    """number of threads of the model"""
    processes: int = 2
    """number of worker processes, besides the process for HTTP"""
    together: int | None = None
    """number of threads in Python, where all sentences are translated in one call; by default that of all processes"""
    requests: int = 10_000
    """number of requests for each number of clients above 1"""
    alone: int = 300
    """number of requests of one client"""
    concurrency: tuple[int, ...] = field(default=(1, 16, 64, 256))
    rude: int = 200
    """number of clients that leave, and of clients that are slow"""


def read_sentences(options: Options) -> list[str]:
    """Read the sentences of the text."""
    opened = gzip.open if options.text.suffix == ".gz" else open
    with opened(options.text, "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def list_processes(pid: int) -> list[int]:
    """Return the ids of a process and of its child processes."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(int(each) for listed in lists for each in listed.read_text().split())]


def measure_processor_seconds(pids: Sequence[int]) -> float:
    """Return the processor seconds of processes."""
    seconds = 0
    for each in pids:
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        seconds += int(fields[11]) + int(fields[12])
    return seconds / _SECOND


def measure_memory(pid: int) -> float:
    """Return the MiB of memory of a process and its child processes."""
    return sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in list_processes(pid)) * _PAGE / 2**20


@contextmanager
def start_server(options: Options) -> Iterator[tuple[int, int]]:
    """Start a server; yield its process id and its port when it is ready."""
    words = [f"{options.source}-{options.target}={options.run}", "--port", "0", "--log", "none"]
    words += ["--engine", options.engine, "--threads", str(options.threads), "--limits.queue", "600"]
    words += ["--processes", str(options.processes)]
    process = subprocess.Popen(
        [sys.executable, "-m", "heedful", "serve", *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    port = 0
    for line in process.stderr:
        if line.startswith("http://"):
            port = int(line.rpartition(":")[2])
        if line.strip() == "ready":
            break
    try:
        yield process.pid, port
    finally:
        process.terminate()
        print(f"the server ended with {process.wait(40)}")


class KeepAliveClient:
    """Client with one connection that stays open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: dict[str, object]) -> tuple[int, dict[str, object]]:
        """Send a request; return the status and the content of the response."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        content = json.dumps(body).encode()
        writer.write(_format_head(path, len(content)) + content)
        status = int((await reader.readline()).split()[1])
        size = 0
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        return status, json.loads(await reader.readexactly(size))

    def close(self) -> None:
        """Close the connection."""
        if self.streams is not None:
            self.streams[1].close()


def _format_head(path: str, size: int) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {size}"]
    return "\r\n".join([*lines, "", ""]).encode()


@dataclass
class LoadResult:
    """Result of a number of requests."""

    seconds: float
    latencies: list[float]
    lost: int
    wrong: int

    def quantile(self, share: float) -> float:
        """Return a quantile of the latencies in milliseconds."""
        return sorted(self.latencies)[min(int(share * len(self.latencies)), len(self.latencies) - 1)] * 1000


async def send_requests(
    options: Options, port: int, texts: Sequence[str], expected: Sequence[str], *, clients: int, requests: int
) -> LoadResult:
    """Send requests by several clients; each waits for its response before it sends the next request."""
    waiting = iter(range(requests))
    result = LoadResult(0.0, [], 0, 0)

    async def work() -> None:
        client = KeepAliveClient(port)
        for number in waiting:
            place = number % len(texts)
            body = {"q": texts[place], "source": options.source, "target": options.target}
            start = time.perf_counter()
            try:
                status, answer = await client.post("/translate", body)
            except (OSError, asyncio.IncompleteReadError, ValueError):
                result.lost += 1
                client = KeepAliveClient(port)
                continue
            result.latencies.append(time.perf_counter() - start)
            result.lost += status != 200
            result.wrong += status == 200 and answer["translatedText"] != expected[place]
        client.close()

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    result.seconds = time.perf_counter() - start
    return result


async def leave_stream(port: int, texts: Sequence[str]) -> None:
    """Request a stream and abort the connection after its first bytes."""
    body = {"texts": texts[:4], "stream": True}
    content = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_format_head("/v1/heedful/translate", len(content)) + content)
    await reader.read(200)
    writer.transport.abort()


async def send_slowly(port: int, seconds: float) -> None:
    """Send one byte a second."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for byte in _format_head("/translate", 10)[: int(seconds)]:
            writer.write(bytes([byte]))
            await asyncio.sleep(1)
    except OSError:
        pass
    finally:
        writer.transport.abort()


async def measure_rude_clients(options: Options, port: int, texts: Sequence[str], expected: Sequence[str]) -> None:
    """Measure requests while other clients leave, and while other clients are slow."""
    normal = await send_requests(options, port, texts, expected, clients=16, requests=1000)
    leaving = [asyncio.create_task(leave_stream(port, texts)) for _ in range(options.rude)]
    during_leaving = await send_requests(options, port, texts, expected, clients=16, requests=1000)
    await asyncio.gather(*leaving)
    slow = [asyncio.create_task(send_slowly(port, 30)) for _ in range(options.rude)]
    await asyncio.sleep(1)
    during_slow = await send_requests(options, port, texts, expected, clients=16, requests=1000)
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    print("| 16 clients, 1,000 requests | lost | wrong | p50 ms | p99 ms |\n|---|---:|---:|---:|---:|")
    for name, each in (
        ("alone", normal),
        (f"{options.rude} leave", during_leaving),
        (f"{options.rude} are slow", during_slow),
    ):
        print(f"| {name} | {each.lost} | {each.wrong} | {each.quantile(0.5):.0f} | {each.quantile(0.99):.0f} |")


def main() -> None:
    """Print all measurements."""
    options = parse_script_arguments(Options, __file__)
    texts = read_sentences(options)
    import torch

    import heedful
    from heedful.runs.device import tune_malloc

    tune_malloc()  # as `heedful translate` does
    threads = options.together or options.threads * max(1, options.processes)
    torch.set_num_threads(threads)
    translator = heedful.load(options.run, kind=heedful.Translator, device="cpu", engine=options.engine)  # type: ignore[arg-type]  # `load` checks the name
    translator.translate(texts[:64])
    start, computed = time.perf_counter(), time.process_time()
    expected = [each.text for each in translator.translate(texts)]
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - computed
    print(f"in Python, all at once, {threads} threads: {len(texts) / seconds:.0f} a second", end=", ")
    print(f"{len(texts) / processor_seconds:.0f} a second of processor")
    with start_server(options) as (pid, port):
        print("| clients | requests | lost | wrong | a second | ms of HTTP | ms of others | p50 ms | p99 ms | MiB |")
        print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
        for clients in options.concurrency:
            requests = options.alone if clients == 1 else options.requests
            others = list_processes(pid)[1:]
            before = [measure_processor_seconds(pids) for pids in ([pid], others)]
            result = asyncio.run(send_requests(options, port, texts, expected, clients=clients, requests=requests))
            after = [measure_processor_seconds(pids) for pids in ([pid], others)]
            used = [1000 * (end - start) / requests for start, end in zip(before, after, strict=True)]
            numbers = [f"{clients}", f"{requests:,}", f"{result.lost}", f"{result.wrong}"]
            numbers += [f"{requests / result.seconds:.0f}", *(f"{milliseconds:.2f}" for milliseconds in used)]
            numbers += [f"{result.quantile(0.5):.0f}", f"{result.quantile(0.99):.0f}", f"{measure_memory(pid):.0f}"]
            print(f"| {' | '.join(numbers)} |", flush=True)
        asyncio.run(measure_rude_clients(options, port, texts, expected))
        print(f"{measure_memory(pid):.0f} MiB")


if __name__ == "__main__":
    main()
