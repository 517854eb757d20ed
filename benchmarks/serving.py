"""What a server answers, how fast, and what it survives, beside `heedful translate` on the same sentences.

    python benchmarks/serving.py runs/multi30k-en-de test.en --source en --target de

One server, asked over loopback by this process: so many requests of a sentence each at each concurrency, on connections
that stay open. Every answer is compared with what the model says when it is asked in Python. Then clients that leave in
the middle of a stream, and clients that send a byte a second, while others ask.
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
    """Requests, latencies, memory, and rude clients."""

    run: Annotated[Path, Positional]
    """of a translation"""
    text: Annotated[Path, Positional]
    """sentences, plain or gzipped"""
    source: str = "en"
    target: str = "de"
    engine: str = "auto"
    threads: int = 1
    """of the model"""
    processes: int = 2
    """that compute, besides that of HTTP"""
    together: int | None = None
    """threads in Python, where all sentences are asked at once; as many as all processes have, unless given"""
    requests: int = 10_000
    """of each concurrency but 1"""
    alone: int = 300
    """of one client"""
    concurrency: tuple[int, ...] = field(default=(1, 16, 64, 256))
    rude: int = 200
    """clients that leave, and clients that are slow"""


def sentences(options: Options) -> list[str]:
    """Of the text."""
    opened = gzip.open if options.text.suffix == ".gz" else open
    with opened(options.text, "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def family(pid: int) -> list[int]:
    """A process, and those that it has begun."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(int(each) for listed in lists for each in listed.read_text().split())]


def processor(pid: int) -> float:
    """Seconds that it and its own have computed."""
    seconds = 0
    for each in family(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        seconds += int(fields[11]) + int(fields[12])
    return seconds / _SECOND


def memory(pid: int) -> float:
    """Their MiB."""
    return sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in family(pid)) * _PAGE / 2**20


@contextmanager
def server(options: Options) -> Iterator[tuple[int, int]]:
    """Its process and port, when it is ready."""
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


class Client:
    """One connection, asked again and again."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: dict[str, object]) -> tuple[int, dict[str, object]]:
        """The answer to one request, and its status."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        content = json.dumps(body).encode()
        writer.write(_head(path, len(content)) + content)
        status = int((await reader.readline()).split()[1])
        size = 0
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        return status, json.loads(await reader.readexactly(size))

    def close(self) -> None:
        """Ends it."""
        if self.streams is not None:
            self.streams[1].close()


def _head(path: str, size: int) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {size}"]
    return "\r\n".join([*lines, "", ""]).encode()


@dataclass
class Load:
    """What came of many requests."""

    seconds: float
    latencies: list[float]
    lost: int
    wrong: int

    def quantile(self, share: float) -> float:
        """Milliseconds."""
        return sorted(self.latencies)[min(int(share * len(self.latencies)), len(self.latencies) - 1)] * 1000


async def load(
    options: Options, port: int, texts: Sequence[str], expected: Sequence[str], *, clients: int, requests: int
) -> Load:
    """So many requests by so many clients, each of which waits for its answer before it asks again."""
    waiting = iter(range(requests))
    found = Load(0.0, [], 0, 0)

    async def work() -> None:
        client = Client(port)
        for number in waiting:
            place = number % len(texts)
            body = {"q": texts[place], "source": options.source, "target": options.target}
            begun = time.perf_counter()
            try:
                status, answer = await client.ask("/translate", body)
            except (OSError, asyncio.IncompleteReadError, ValueError):
                found.lost += 1
                client = Client(port)
                continue
            found.latencies.append(time.perf_counter() - begun)
            found.lost += status != 200
            found.wrong += status == 200 and answer["translatedText"] != expected[place]
        client.close()

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    found.seconds = time.perf_counter() - begun
    return found


async def leave(port: int, texts: Sequence[str]) -> None:
    """Asks for a stream and leaves after its first bytes."""
    body = {"texts": texts[:4], "stream": True}
    content = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_head("/v1/heedful/translate", len(content)) + content)
    await reader.read(200)
    writer.transport.abort()


async def drip(port: int, seconds: float) -> None:
    """Sends a byte a second."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for byte in _head("/translate", 10)[: int(seconds)]:
            writer.write(bytes([byte]))
            await asyncio.sleep(1)
    except OSError:
        pass
    finally:
        writer.transport.abort()


async def rude(options: Options, port: int, texts: Sequence[str], expected: Sequence[str]) -> None:
    """Others ask while some leave, and while some are slow."""
    usual = await load(options, port, texts, expected, clients=16, requests=1000)
    leaving = [asyncio.create_task(leave(port, texts)) for _ in range(options.rude)]
    beside = await load(options, port, texts, expected, clients=16, requests=1000)
    await asyncio.gather(*leaving)
    slow = [asyncio.create_task(drip(port, 30)) for _ in range(options.rude)]
    await asyncio.sleep(1)
    during = await load(options, port, texts, expected, clients=16, requests=1000)
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    print("| 16 clients, 1,000 requests | lost | wrong | p50 ms | p99 ms |\n|---|---:|---:|---:|---:|")
    for name, each in (("alone", usual), (f"{options.rude} leave", beside), (f"{options.rude} are slow", during)):
        print(f"| {name} | {each.lost} | {each.wrong} | {each.quantile(0.5):.0f} | {each.quantile(0.99):.0f} |")


def main() -> None:
    """Prints what was measured."""
    options = parse_script_arguments(Options, __file__)
    texts = sentences(options)
    import torch

    import heedful
    from heedful.runs.device import tune_malloc

    tune_malloc()  # as `heedful translate` does
    threads = options.together or options.threads * max(1, options.processes)
    torch.set_num_threads(threads)
    translator = heedful.load(options.run, kind=heedful.Translator, device="cpu", engine=options.engine)  # type: ignore[arg-type]  # `load` says which there are
    translator.translate(texts[:64])
    begun, computed = time.perf_counter(), time.process_time()
    expected = [each.text for each in translator.translate(texts)]
    whole, own = time.perf_counter() - begun, time.process_time() - computed
    print(f"in Python, all at once, {threads} threads: {len(texts) / whole:.0f} a second", end=", ")
    print(f"{len(texts) / own:.0f} a second of processor")
    with server(options) as (pid, port):
        print("| clients | requests | lost | wrong | a second | a second of processor | p50 ms | p99 ms | MiB |")
        print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
        for clients in options.concurrency:
            requests = options.alone if clients == 1 else options.requests
            before = processor(pid)
            found = asyncio.run(load(options, port, texts, expected, clients=clients, requests=requests))
            used = processor(pid) - before
            numbers = [f"{clients}", f"{requests:,}", f"{found.lost}", f"{found.wrong}"]
            numbers += [f"{requests / found.seconds:.0f}", f"{requests / max(used, 0.01):.0f}"]
            numbers += [f"{found.quantile(0.5):.0f}", f"{found.quantile(0.99):.0f}", f"{memory(pid):.0f}"]
            print(f"| {' | '.join(numbers)} |", flush=True)
        asyncio.run(rude(options, port, texts, expected))
        print(f"{memory(pid):.0f} MiB")


if __name__ == "__main__":
    main()
