"""Contestants that take turns, each in processes of its own, and the table of what came out.

A script starts itself again for every contestant: `script.py serve SETTINGS` answers jobs, one line of JSON each, until
its input ends. So no contestant inherits another one's memory, allocator settings or threads, and all of them meet the
same moods of the machine.
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

Answer = dict[str, Any]
SIZES: dict[str, dict[str, Any]] = {
    "small": {"d_model": 256, "heads": 4, "d_ff": 1024, "layers": 3},
    "base": {"d_model": 512, "heads": 8, "d_ff": 2048, "layers": 6},
    "tiny": {"d_model": 32, "heads": 2, "d_ff": 64, "layers": 1},
}
"""What a size means; base is that of Vaswani et al. 2017, tiny is for trying a benchmark out."""
_QUIET = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}


@dataclass(frozen=True)
class Contestant:
    """Who takes part: settings for its workers, how many of them there are, and what must be installed."""

    name: str
    settings: Mapping[str, Any]
    workers: int = 1
    threads: int = 2
    needs: str = "torch"

    @property
    def missing(self) -> bool:
        return importlib.util.find_spec(self.needs) is None


class Team:
    """The workers of one contestant; they start at once and end with the `with` block."""

    def __init__(self, script: str, contestant: Contestant) -> None:
        self.contestant = contestant
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the team
        port = _free_port()
        self._workers = [self._start(script, rank, port) for rank in range(contestant.workers)]

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

    def ask(self, job: Mapping[str, Any]) -> list[Answer]:
        """Gives all workers a job at the same time; their answers, when the last one is done."""
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.write(json.dumps(job) + "\n")
            worker.stdin.flush()
        return [self._answer(worker) for worker in self._workers]

    def _start(self, script: str, rank: int, port: int) -> subprocess.Popen[str]:
        contestant = self.contestant
        settings = {**contestant.settings, "threads": contestant.threads, "rank": rank, "workers": contestant.workers}
        environment = {"OMP_NUM_THREADS": str(contestant.threads), "MKL_NUM_THREADS": str(contestant.threads), **_QUIET}
        if contestant.workers > 1:  # what torchrun would say
            environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(contestant.workers)}
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return subprocess.Popen(
            [sys.executable, script, "serve", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | environment,
            text=True,
        )

    def _answer(self, worker: subprocess.Popen[str]) -> Answer:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise SystemExit(f"{self.contestant.name} gave up:\n{self._errors.read()[-4000:]}")
        answer: Answer = json.loads(line)
        return answer


def serve(build: Callable[[dict[str, Any]], Callable[[dict[str, Any]], Answer]]) -> None:
    """The worker's side: `build` makes of the settings what answers jobs."""
    import torch

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not stand between answers
    settings = json.loads(sys.argv[2])
    torch.set_num_threads(settings["threads"])
    work = build(settings)
    for line in sys.stdin:
        print(json.dumps(work(json.loads(line))), file=answers, flush=True)


def present(contestants: Sequence[Contestant], wanted: Sequence[str]) -> list[Contestant]:
    """Those that are wanted (all unless some are named) and whose packages are installed."""
    known = [contestant.name for contestant in contestants]
    if unknown := sorted(set(wanted) - set(known)):
        raise SystemExit(f"no such contestant: {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [contestant for contestant in contestants if not wanted or contestant.name in wanted]
    for contestant in chosen:
        if contestant.missing:
            say(f"{contestant.name} is left out: {contestant.needs} is not installed")
    return [contestant for contestant in chosen if not contestant.missing]


def say(line: str) -> None:
    """Progress, beside the report."""
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Speeds:
    """One number for each round, larger is better."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def over(self, other: Speeds) -> float:
        """How many times as fast: the median over rounds, so that both sides of each ratio met the same machine."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.rounds, other.rounds, strict=True))

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(min(self.rounds))}-{_short(max(self.rounds))})"


def training_table(measured: Mapping[str, list[Answer]], rivals: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a contest in training: by the clock, then by the processor's time.

    A rival is somebody whose speed the others are told as multiples of. Of the processor's time, which includes all
    threads and all workers, the best round counts, since whatever else the machine does only adds to it; the contestant
    `products` is the limit that speeds are told as shares of.
    """
    speeds = {name: Speeds(tuple(s["tokens"] / s["seconds"] for s in each)) for name, each in measured.items()}
    computed = {name: max(s["tokens"] / s["processor"] for s in each) for name, each in measured.items()}
    present = [name for name in rivals if name in speeds]
    limit = computed.get("products")
    rows = [
        [
            name,
            str(speed),
            *(f"{speed.over(speeds[rival]):.2f}" for rival in present),
            _short(computed[name]),
            *([] if limit is None else [f"{computed[name] / limit:.2f}"]),
            f"{measured[name][-1]['loss']:.2f}",
        ]
        for name, speed in speeds.items()
    ]
    share = [] if limit is None else ["of products alone"]
    over = [f"x {rival}" for rival in present]
    return ["contestant", "tokens/s: median (range)", *over, "per processor second: best", *share, "loss"], rows


def together(answers: Sequence[Answer]) -> Answer:
    """What all workers of a contestant did: the slowest one's clock, since they wait for each other, and the
    processor's time of all."""
    seconds = max(answer["seconds"] for answer in answers)
    return {**answers[0], "seconds": seconds, "processor": sum(answer["processor"] for answer in answers)}


def in_turns(work: Mapping[str, Callable[[], object]], *, rounds: int, about: str = "") -> dict[str, list[float]]:
    """Seconds of the processor that each piece of work took, in this process, one after the other in each round.

    All of it should have been done once before, so that what is made at first, and fastest kernels, are there.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(rounds):
        say(f"{about}round {turn + 1} of {rounds}")
        for name, call in work.items():
            began = time.process_time()
            call()
            seconds[name].append(time.process_time() - began)
    return seconds


@dataclass
class Report:
    """What goes to the screen, to Markdown and to JSON."""

    title: str
    notes: list[str]
    tables: list[tuple[str, list[str], list[list[str]]]] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)

    def markdown(self) -> str:
        lines = [f"# {self.title}", "", *(f"- {note}" for note in self.notes)]
        for name, head, rows in self.tables:
            cells = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
            lines += ["", f"## {name}", "", *(f"| {' | '.join(row)} |" for row in cells)]
        return "\n".join(lines) + "\n"

    def publish(self, *, markdown: Path | None, json_file: Path | None) -> None:
        print(self.markdown(), end="")
        if markdown is not None:
            markdown.write_text(self.markdown(), encoding="utf-8")
        if json_file is not None:
            content = {"title": self.title, "notes": self.notes, **self.raw}
            json_file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def jsonable(options: Any) -> dict[str, Any]:
    """The fields of a dataclass of options."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(options).items()}


def machine() -> list[str]:
    """What one must know of the machine to read the numbers."""
    import torch

    from heedful.training.precision import has_fast_bf16

    bf16 = "native" if has_fast_bf16(torch.device("cpu")) else "not native: emulated, and slower than fp32"
    packages = [f"{name} {version(name)}" for name in ("torch", "transformers", "ctranslate2") if installed(name)]
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    return [
        f"{_processor()}, {os.cpu_count()} cores; bf16 is {bf16}",
        f"load average at the start: {load}",
        f"Python {platform.python_version()}, {', '.join(packages)}",
    ]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    numbers = f"family {said.get('cpu family', '?')}, model {said.get('model', '?')}"
    known = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
    features = [name for name in known if name in said.get("flags", "").split()]
    return f"{said.get('model name', platform.machine())} ({numbers}; {', '.join(features) or 'no AVX2'})"


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
