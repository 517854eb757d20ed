"""Compare contestants that work in turns, each in its own processes, and write tables of the results.

A script starts itself again for every contestant: `script.py worker SETTINGS` reads jobs from its input, one line of
JSON each, and writes the results. So contestants share no memory, allocator settings or threads, and changes in the
load of the machine affect all of them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

JobResult = dict[str, Any]
SIZES: dict[str, dict[str, Any]] = {
    "small": {"d_model": 256, "heads": 4, "d_ff": 1024, "layers": 3},
    "base": {"d_model": 512, "heads": 8, "d_ff": 2048, "layers": 6},
    "big": {"d_model": 1024, "heads": 16, "d_ff": 4096, "layers": 6},
    "tiny": {"d_model": 32, "heads": 2, "d_ff": 64, "layers": 1},
}
"""Sizes of models: base and big are those of Vaswani et al. 2017; tiny is for trying out a benchmark."""
_QUIET = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}


@dataclass(frozen=True)
class Contestant:
    """A name, the settings, number and threads of the workers, and the package that they need."""

    name: str
    settings: Mapping[str, Any]
    workers: int = 1
    threads: int = 2
    needs: str = "torch"

    @property
    def is_missing(self) -> bool:
        return importlib.util.find_spec(self.needs) is None


class WorkerGroup:
    """Worker processes of one contestant; they start at once and end with the `with` block."""

    def __init__(self, script: str, contestant: Contestant) -> None:
        self.contestant = contestant
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the group
        port = _find_free_port()
        self._workers = [self._start_worker(script, rank, port) for rank in range(contestant.workers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for worker in self._workers:
            if kind is not None:
                worker.kill()
            assert worker.stdin is not None
            worker.stdin.close()
        for worker in self._workers:
            worker.wait()
        self._errors.close()

    def run_job(self, job: Mapping[str, Any]) -> list[JobResult]:
        """Send a job to all workers at the same time; return their results when the last worker is done."""
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.write(json.dumps(job) + "\n")
            worker.stdin.flush()
        return [self._read_result(worker) for worker in self._workers]

    def _start_worker(self, script: str, rank: int, port: int) -> subprocess.Popen[str]:
        contestant = self.contestant
        settings = {**contestant.settings, "threads": contestant.threads, "rank": rank, "workers": contestant.workers}
        environment = {"OMP_NUM_THREADS": str(contestant.threads), "MKL_NUM_THREADS": str(contestant.threads), **_QUIET}
        if contestant.workers > 1:  # as torchrun sets them
            environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(contestant.workers)}
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return subprocess.Popen(
            [sys.executable, script, "worker", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | environment,
            text=True,
        )

    def _read_result(self, worker: subprocess.Popen[str]) -> JobResult:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise SystemExit(f"{self.contestant.name} failed:\n{self._errors.read()[-4000:]}")
        result: JobResult = json.loads(line)
        return result


def run_worker(build: Callable[[dict[str, Any]], Callable[[dict[str, Any]], JobResult]]) -> None:
    """Run as a worker: `build` turns the settings into a function that does jobs."""
    import torch

    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep apart what libraries print
    settings = json.loads(sys.argv[2])
    torch.set_num_threads(settings["threads"])
    work = build(settings)
    for line in sys.stdin:
        print(json.dumps(work(json.loads(line))), file=results, flush=True)


def select_contestants(contestants: Sequence[Contestant], wanted: Sequence[str]) -> list[Contestant]:
    """Return the contestants named in `wanted` (all if it is empty) whose packages are installed."""
    known = [contestant.name for contestant in contestants]
    if unknown := sorted(set(wanted) - set(known)):
        raise SystemExit(f"no such contestant: {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [contestant for contestant in contestants if not wanted or contestant.name in wanted]
    for contestant in chosen:
        if contestant.is_missing:
            print_progress(f"{contestant.name} is left out: {contestant.needs} is not installed")
    return [contestant for contestant in chosen if not contestant.is_missing]


def print_progress(line: str) -> None:
    """Print a line about the progress, beside the report."""
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Speeds:
    """One number for each round; larger is better."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def compute_ratio(self, other: Speeds) -> float:
        """Return the median over rounds of the ratio to `other`; both numbers of a ratio are from the same round."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.rounds, other.rounds, strict=True))

    def __str__(self) -> str:
        return f"{_format_number(self.median)} ({_format_number(min(self.rounds))}-{_format_number(max(self.rounds))})"


def build_training_table(
    measured: Mapping[str, list[JobResult]], rivals: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table of training speeds: by wall-clock time, then by processor time.

    For each rival, the table has the ratio of each speed to the rival's. Processor time includes all threads and
    workers; its best round counts, because other programs can only add to it. The contestant `products` is the upper
    limit, and the table has the share of it that each contestant reaches.
    """
    speeds = {name: Speeds(tuple(s["tokens"] / s["seconds"] for s in each)) for name, each in measured.items()}
    computed = {name: max(s["tokens"] / s["processor"] for s in each) for name, each in measured.items()}
    present = [name for name in rivals if name in speeds]
    limit = computed.get("products")
    rows = [
        [
            name,
            str(speed),
            *(f"{speed.compute_ratio(speeds[rival]):.2f}" for rival in present),
            _format_number(computed[name]),
            *([] if limit is None else [f"{computed[name] / limit:.2f}"]),
            f"{measured[name][-1]['loss']:.2f}",
        ]
        for name, speed in speeds.items()
    ]
    share = [] if limit is None else ["of products alone"]
    over = [f"x {rival}" for rival in present]
    return ["contestant", "tokens/s: median (range)", *over, "per processor second: best", *share, "loss"], rows


def merge_results(results: Sequence[JobResult]) -> JobResult:
    """Merge the results of the workers of a contestant: the time of the slowest, and all processor time."""
    seconds = max(result["seconds"] for result in results)
    return {**results[0], "seconds": seconds, "processor": sum(result["processor"] for result in results)}


def time_in_turns(work: Mapping[str, Callable[[], object]], *, rounds: int, about: str = "") -> dict[str, list[float]]:
    """Return the processor seconds of each piece of work, which run in this process, one after the other in each round.

    Run each piece of work once before, so that caches are filled and the fastest kernels are chosen.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(rounds):
        print_progress(f"{about}round {turn + 1} of {rounds}")
        for name, call in work.items():
            start = time.process_time()
            call()
            seconds[name].append(time.process_time() - start)
    return seconds


@dataclass
class Report:
    """Report for the screen, a Markdown file and a JSON file."""

    title: str
    notes: list[str]
    tables: list[tuple[str, list[str], list[list[str]]]] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)

    def format_markdown(self) -> str:
        lines = [f"# {self.title}", "", *(f"- {note}" for note in self.notes)]
        for name, head, rows in self.tables:
            cells = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
            lines += ["", f"## {name}", "", *(f"| {' | '.join(row)} |" for row in cells)]
        return "\n".join(lines) + "\n"

    def publish(self, *, markdown: Path | None, json_file: Path | None) -> None:
        print(self.format_markdown(), end="")
        if markdown is not None:
            markdown.write_text(self.format_markdown(), encoding="utf-8")
        if json_file is not None:
            content = {"title": self.title, "notes": self.notes, **self.raw}
            json_file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def options_to_json(options: Any) -> dict[str, Any]:
    """Return the fields of a dataclass of options, ready for JSON."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(options).items()}


def describe_machine() -> list[str]:
    """Describe the machine and the versions of the packages."""
    import torch

    from heedful.training.precision import has_fast_bf16

    bf16 = "native" if has_fast_bf16(torch.device("cpu")) else "not native: emulated, and slower than fp32"
    packages = [f"{name} {version(name)}" for name in ("torch", "transformers", "ctranslate2") if is_installed(name)]
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    return [
        f"{_describe_processor()}, {os.cpu_count()} cores; bf16 is {bf16}",
        f"load average at the start: {load}",
        f"Python {platform.python_version()}, {', '.join(packages)}",
    ]


def _describe_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    numbers = f"family {fields.get('cpu family', '?')}, model {fields.get('model', '?')}"
    known = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
    features = [name for name in known if name in fields.get("flags", "").split()]
    return f"{fields.get('model name', platform.machine())} ({numbers}; {', '.join(features) or 'no AVX2'})"


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _format_number(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
