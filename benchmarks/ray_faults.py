"""Kill processes of Ray while they translate files and answer requests, and print as JSON what was lost.

    python benchmarks/ray_faults.py runs/en-de test.en --seed 1

All runs on this machine, with two workers or replicas. Each answer is compared with that of the model in Python, and
each file with the one that `heedful translate` writes without Ray. Only processes that this script started are killed.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from heedful.cli.arguments import parse_script_arguments
from heedful.cli.option_parser import Positional

_FILE_WORKER: Final = b"MapWorker"
_REPLICA: Final = b"ServeReplica"
_NODE_MEMORY: Final = 80 * 2**20
_TIMEOUT: Final = 240.0


@dataclass(frozen=True)
class Options:
    """Kill workers, replicas, drivers and nodes of Ray, and count what is lost."""

    run: Annotated[Path, Positional]
    """run folder of a translation model"""
    text: Annotated[Path, Positional]
    """file of sentences, plain or gzipped"""
    parts: tuple[str, ...] = field(default=("workers", "driver", "damaged", "nodes", "replicas", "streams", "ending"))
    """what is done"""
    files: int = 4
    """number of files"""
    lines: int = 10_000
    """number of lines of each file"""
    clients: int = 12
    """number of clients"""
    requests: int = 3_000
    """number of requests of all clients together"""
    kills: int = 3
    """number of processes that are killed, one after the other"""
    seed: int = 1
    source: str = "en"
    target: str = "de"


def list_processes(root: int, marker: bytes) -> list[int]:
    """Return the processes below `root` whose command line contains the marker."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError, ValueError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found, below = [], {root}
    for pid in sorted(parents):  # children have larger numbers, except after an overflow
        if parents[pid] in below:
            below.add(pid)
            with suppress(OSError):
                if marker in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
    return found


def wait_until(condition: Callable[[], Any], *, seconds: float = _TIMEOUT) -> Any:
    """Return what the condition returns once it is true; `TimeoutError` if it stays false."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError("a condition did not become true")
        time.sleep(0.02)
    return value


@dataclass(frozen=True)
class FileSet:
    """Files of sentences, and the translations that the command writes without Ray.

    Attributes:
        folder: of everything.
        options: of this script.
        paths: the files; half of them are gzipped.
    """

    folder: Path
    options: Options
    paths: Sequence[Path]

    @classmethod
    def write(cls, folder: Path, options: Options, sentences: Sequence[str], *, files: int | None = None) -> FileSet:
        """Write files of sentences that are drawn from the given ones, and translate them without Ray."""
        dice, paths = random.Random(options.seed), []
        (folder / "in").mkdir(parents=True)
        (folder / "alone").mkdir()
        for number in range(files or options.files):
            path = folder / "in" / (f"{number}.txt.gz" if number % 2 else f"{number}.txt")
            content = "".join(f"{dice.choice(sentences)}\n" for _ in range(options.lines)).encode()
            path.write_bytes(gzip.compress(content) if number % 2 else content)
            command = [*cls._command(options), "--input", str(path), "-o", str(folder / "alone" / f"{number}.txt")]
            subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT)
            paths.append(path)
        return cls(folder, options, paths)

    @staticmethod
    def _command(options: Options) -> list[str]:
        run = str(options.run.resolve())
        return [sys.executable, "-m", "heedful", "translate", run, "--device", "cpu", "--threads", "1"]

    def start(self, name: str, *, workers: int = 2, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Start the command on Ray, in another folder and with relative paths."""
        relative = [os.path.relpath(path, self.folder) for path in self.paths]
        words = ["--ray", *relative, "--output", name, "--workers", str(workers)]
        return subprocess.Popen(
            [*self._command(self.options), *words],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def compare(self, name: str, *, visible_only: bool = False) -> dict[str, int]:
        """Compare the output folder with the translations without Ray; count files and lines that are missing, too
        many, or different.
        """
        counts: Counter[str] = Counter(equal=0, different=0, missing=0, lines_missing=0, lines_extra=0, leftovers=0)
        out = self.folder / name
        for number, path in enumerate(self.paths):
            if not (out / path.name).exists():
                counts["missing"] += not visible_only
                continue
            content = (out / path.name).read_bytes()
            found = gzip.decompress(content) if path.suffix == ".gz" else content
            expected = (self.folder / "alone" / f"{number}.txt").read_bytes()
            counts["equal" if found == expected else "different"] += 1
            difference = found.count(b"\n") - expected.count(b"\n")
            counts["lines_extra" if difference > 0 else "lines_missing"] += abs(difference)
        if not visible_only:
            names = {path.name for path in self.paths}
            counts["leftovers"] = sum(each.name not in names for each in out.iterdir())
        return dict(counts)

    def count_stored(self, name: str) -> int:
        """Return the number of lines that are stored so far in unfinished files."""
        total = 0
        for path in (self.folder / name).glob(".*.growing.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                total += json.loads(path.read_text())["answered"]
        return total


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end of a command; return its exit code and its messages."""
    _, messages = process.communicate(timeout=_TIMEOUT)
    return process.returncode, messages


def kill_workers(files: FileSet) -> dict[str, Any]:
    """Kill workers while they translate, several times, each as soon as a new part of a file is stored."""
    dice, start = random.Random(files.options.seed), time.perf_counter()
    process, killed, stored = files.start("workers"), 0, 0
    while killed < files.options.kills and process.poll() is None:
        now = files.count_stored("workers")
        workers = list_processes(process.pid, _FILE_WORKER)
        if now > stored and workers:
            os.kill(dice.choice(workers), signal.SIGKILL)
            killed, stored = killed + 1, now
        time.sleep(0.05)
    code, messages = finish(process)
    seconds = round(time.perf_counter() - start, 1)
    return {"killed": killed, "exit": code, "seconds": seconds, "messages": messages.splitlines()[-8:],
            **files.compare("workers")}  # fmt: skip


def kill_driver(files: FileSet) -> dict[str, Any]:
    """Kill the command itself when files are unfinished, and start it again."""
    start = time.perf_counter()
    process = files.start("driver")
    wait_until(lambda: files.count_stored("driver") or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    visible = files.compare("driver", visible_only=True)
    stored = files.count_stored("driver")
    code, messages = finish(files.start("driver"))
    return {"stored_at_the_kill": stored, "visible_and_wrong": visible["different"], "exit": code,
            "seconds": round(time.perf_counter() - start, 1), "messages": messages.splitlines()[-8:],
            **files.compare("driver")}  # fmt: skip


def damage_file(files: FileSet) -> dict[str, Any]:
    """Translate with one damaged file among the others, then with the whole file."""
    whole = files.paths[1].read_bytes()
    files.paths[1].write_bytes(whole[: len(whole) // 2])
    try:
        code, messages = finish(files.start("damaged"))
        others = files.compare("damaged")
    finally:
        files.paths[1].write_bytes(whole)
    again, _ = finish(files.start("damaged"))
    sentences = [line for line in messages.splitlines() if line.startswith("heedful: ")]
    return {"exit": code, "message": sentences, "others_equal": others["equal"], "others_different":
            others["different"], "exit_of_the_second": again, **files.compare("damaged")}  # fmt: skip


def remove_node(files: FileSet) -> dict[str, Any]:
    """Translate on a cluster of two nodes on this machine, and remove one of them in the middle."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=1, object_store_memory=_NODE_MEMORY, include_dashboard=False)
        second = cluster.add_node(num_cpus=1, object_store_memory=_NODE_MEMORY)
        process = files.start("nodes", environment={"RAY_ADDRESS": cluster.address})
        wait_until(lambda: files.count_stored("nodes") or process.poll() is not None)
        workers = len(list_processes(os.getpid(), _FILE_WORKER))
        cluster.remove_node(second, allow_graceful=False)
        code, messages = finish(process)
    finally:
        cluster.shutdown()
    return {"workers_before": workers, "exit": code, "messages": messages.splitlines()[-8:], **files.compare("nodes")}


@contextmanager
def start_server(options: Options) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start two replicas; yield the process of the command and the port when they are ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [f"{options.source}-{options.target}={options.run.resolve()}", "--ray", "--ray.replicas", "2"]
    words += ["--ray.cpus", "0.5", "--port", str(port), "--device", "cpu", "--threads", "1", "--log", "none"]
    process = subprocess.Popen(
        [sys.executable, "-m", "heedful", "serve", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert any(line.strip() == "ready" for line in process.stderr), "the server did not start"
    reader = threading.Thread(target=process.stderr.read)  # or the pipe would be full at some time
    reader.start()
    try:
        yield process, port
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(_TIMEOUT)
        reader.join()


@dataclass
class Answer:
    """What a client got: the status, the headers by lower-case name, and the body; `error` if the answer was cut off or
    did not come.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    error: str = ""
    ended: float = 0.0


async def post(port: int, path: str, message: dict[str, Any], *, request_id: str) -> Answer:
    """Send a request on a connection of its own; return the answer."""
    answer, content = Answer(), json.dumps(message).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", "Connection: close"]
    lines += [f"Content-Length: {len(content)}", f"X-Request-Id: {request_id}", "", ""]
    try:
        async with asyncio.timeout(90):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write("\r\n".join(lines).encode() + content)
            answer.status = int((await reader.readline()).split()[1])
            while line := (await reader.readline()).strip():
                name, _, value = line.decode().partition(":")
                answer.headers[name.lower()] = value.strip()
            await _read_body(reader, answer)
            writer.close()
    except (OSError, IndexError, ValueError, asyncio.IncompleteReadError, TimeoutError) as error:
        answer.error = type(error).__name__
    answer.ended = time.perf_counter()
    return answer


async def _read_body(reader: asyncio.StreamReader, answer: Answer) -> None:
    """Read the body in chunks or as long as the headers say; `IncompleteReadError` if it is cut off."""
    if answer.headers.get("transfer-encoding") != "chunked":
        answer.body = await reader.readexactly(int(answer.headers["content-length"]))
        return
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        answer.body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)


def classify_answer(answer: Answer, expected: str, request_id: str) -> str:
    """Return a word for an answer to `/translate`."""
    if answer.error:
        return "lost"
    if answer.status == 200:
        same_id = answer.headers.get("x-request-id") == request_id
        return "right" if same_id and json.loads(answer.body)["translatedText"] == expected else "wrong"
    if answer.status >= 500:
        return "5xx" if answer.headers.get("retry-after") else "5xx_without_retry_after"
    return f"status_{answer.status}"


def classify_stream(answer: Answer, expected: str) -> str:
    """Return a word for a streamed answer."""
    if answer.error:
        return "cut_off"
    if answer.status != 200:
        return "5xx" if answer.status >= 500 and answer.headers.get("retry-after") else f"status_{answer.status}"
    events = [event.partition("\n") for event in answer.body.decode().split("\n\n") if event]
    name, _, data = events[-1]
    if name == "event: error":
        return "error_event"
    if name != "event: record":
        return "looks_complete"
    return "right" if json.loads(data.removeprefix("data: "))["answers"][0]["translation"] == expected \
        else "wrong"  # fmt: skip


@dataclass
class KillPlan:
    """Kills of replicas while requests are answered.

    Attributes:
        driver: process of the server's command.
        dice: chooses the replicas.
        seconds: from each kill until Ray calls two replicas running again.
    """

    driver: int
    dice: random.Random
    seconds: list[float] = field(default_factory=list)

    async def kill(self) -> None:
        """Kill a replica, and wait until a new one runs."""
        os.kill(self.dice.choice(list_processes(self.driver, _REPLICA)), signal.SIGKILL)
        start = time.perf_counter()
        await asyncio.to_thread(wait_until, lambda: count_running_replicas() < 2)
        await asyncio.to_thread(wait_until, lambda: count_running_replicas() == 2)
        self.seconds.append(round(time.perf_counter() - start, 1))


@contextmanager
def join_cluster(driver: int) -> Iterator[None]:
    """Connect this process to the cluster that a command has started, to ask for the state of its replicas."""
    import ray

    (raylet,) = list_processes(driver, b"raylet/raylet")
    words = Path(f"/proc/{raylet}/cmdline").read_bytes().decode().split("\0")
    (address,) = (word.partition("=")[2] for word in words if word.startswith("--gcs-address="))
    ray.init(address=address, log_to_driver=False, configure_logging=False)
    try:
        yield
    finally:
        ray.serve.context._set_global_client(None)  # or the next part would ask this cluster
        ray.shutdown()


def count_running_replicas() -> int:
    """Return how many replicas take requests."""
    from ray import serve

    states = serve.status().applications["heedful"].deployments["heedful"].replica_states
    return int(states.get("RUNNING", 0))


async def load_server(
    options: Options, plan: KillPlan, texts: Sequence[str], send: Callable[[int, int], Any]
) -> Counter[str]:
    """Send requests by all clients, `send(number, place)` each, and carry out the kills meanwhile."""
    waiting, counts = iter(range(10**9)), Counter[str]()
    is_over = False

    async def work() -> None:
        while not is_over or counts["sent"] < options.requests:
            number = next(waiting)
            counts["sent"] += 1
            counts[await send(number, number % len(texts))] += 1

    clients = [asyncio.create_task(work()) for _ in range(options.clients)]
    try:
        for _ in range(options.kills):
            await asyncio.sleep(1 + plan.dice.random())
            await plan.kill()
    finally:
        is_over = True
    await asyncio.gather(*clients)
    return counts


def kill_replicas(options: Options, texts: Sequence[str], expected: Sequence[str], *, stream: bool) -> dict[str, Any]:
    """Kill replicas under load, and count the answers; afterwards each client asks once more."""
    with start_server(options) as (process, port):
        plan = KillPlan(process.pid, random.Random(options.seed))

        async def send(number: int, place: int) -> str:
            name = f"request-{number}"
            if stream:
                message = {"texts": texts[place], "stream": True}
                return classify_stream(
                    await post(port, "/v1/heedful/translate", message, request_id=name), expected[place]
                )
            message = {"q": texts[place], "source": options.source, "target": options.target}
            return classify_answer(await post(port, "/translate", message, request_id=name), expected[place], name)

        async def measure() -> tuple[Counter[str], Counter[str]]:
            counts = await load_server(options, plan, texts, send)
            after = await asyncio.gather(*(send(10**9 + each, each % len(texts)) for each in range(options.clients)))
            return counts, Counter(after)

        with join_cluster(process.pid):
            counts, after = asyncio.run(measure())
    return {**counts, "kills": options.kills, "seconds_until_two_replicas": plan.seconds, "after": dict(after),
            "exit": process.returncode}  # fmt: skip


def end_server(options: Options, texts: Sequence[str], expected: Sequence[str]) -> dict[str, Any]:
    """Send SIGTERM while each client waits for the answer to many sentences, and go on with short requests."""
    with start_server(options) as (process, port):

        async def send_many(number: int) -> str:
            places = [(number + 7 * each) % len(texts) for each in range(200)]
            message = {"q": [texts[p] for p in places], "source": options.source, "target": options.target}
            answer = await post(port, "/translate", message, request_id=f"many-{number}")
            if answer.error or answer.status != 200:
                return answer.error or f"status_{answer.status}"
            return "right" if json.loads(answer.body)["translatedText"] == [expected[p] for p in places] else "wrong"

        async def send_short() -> Counter[str]:
            counts = Counter[str]()
            for number in range(10**6):
                message = {"q": texts[0], "source": options.source, "target": options.target}
                answer = await post(port, "/translate", message, request_id=f"short-{number}")
                if answer.error == "ConnectionRefusedError":
                    return counts
                counts[classify_answer(answer, expected[0], f"short-{number}")] += 1
                await asyncio.sleep(0.02)
            return counts

        async def measure() -> tuple[Counter[str], Counter[str], float]:
            running = [asyncio.create_task(send_many(number)) for number in range(options.clients)]
            await asyncio.sleep(0.3)
            waiting = sum(not each.done() for each in running)
            process.send_signal(signal.SIGTERM)
            start = time.perf_counter()
            short = await send_short()
            await asyncio.to_thread(process.wait, _TIMEOUT)
            counts = Counter(await asyncio.gather(*running))
            counts["in_flight_at_sigterm"] = waiting
            return counts, short, time.perf_counter() - start

        counts, short, seconds = asyncio.run(measure())
    return {**counts, "requests_after": dict(short), "seconds": round(seconds, 1), "exit": process.returncode}


def main() -> None:
    """Print all figures as JSON."""
    options = parse_script_arguments(Options, __file__)
    opened = gzip.open if options.text.suffix == ".gz" else open
    with opened(options.text, "rt", encoding="utf-8") as lines:
        texts = [line.strip().partition("\t")[0] for line in lines if line.strip()]
    import heedful

    translator = heedful.load(options.run, kind=heedful.Translator, device="cpu")
    texts = texts[:500]
    expected = [each.text for each in translator.translate(texts)]
    if "RAY_AUTH_MODE" not in os.environ:  # or this process could not ask the clusters of the commands
        subprocess.run([sys.executable, "-m", "ray.scripts.scripts", "get-auth-token", "--generate"], check=True,
                       capture_output=True)  # fmt: skip
        os.environ["RAY_AUTH_MODE"] = "token"
    figures: dict[str, Any] = {"seed": options.seed}
    file_parts = {"workers": kill_workers, "driver": kill_driver, "damaged": damage_file, "nodes": remove_node}
    request_parts: dict[str, Callable[[], Any]] = {
        "replicas": lambda: kill_replicas(options, texts, expected, stream=False),
        "streams": lambda: kill_replicas(options, texts, expected, stream=True),
        "ending": lambda: end_server(options, texts, expected),
    }
    with tempfile.TemporaryDirectory() as folder:
        files = (
            FileSet.write(Path(folder) / "files", options, texts) if file_parts.keys() & set(options.parts) else None
        )
        for part in options.parts:
            print(f"{part} ...", file=sys.stderr, flush=True)
            if files is not None and part in file_parts:
                figures[part] = file_parts[part](files)
            else:
                figures[part] = request_parts[part]()
            print(json.dumps(figures[part], ensure_ascii=False), file=sys.stderr, flush=True)
    print(json.dumps(figures, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
