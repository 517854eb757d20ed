"""Mutated inputs for every reader and every route: each ends with a result or a sentence, in little time and memory."""

from __future__ import annotations

import gc
import json
import mmap
import os
import random
import re
import resource
import shutil
import signal
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from campaigns.framework import Campaign, Failure, Figures
from campaigns.grammar_mutations import mutate_sample
from campaigns.http_targets import InProcessServer, create_runs
from campaigns.reader_targets import ReaderTarget, build_targets

SECONDS = 10.0
"""Seconds after which an input is stopped; those of a process that was stopped are counted twice."""
MEMORY = 2**30
_BATCH = 5_000
"""Inputs after which a new process begins."""
_HTTP_SHARE = 0.06
_HEAVY = 20_000
"""Bytes of a sample above which its format is tried less often."""


class TooSlowError(BaseException):
    """An input takes too long; no reader catches it."""


class ReaderCampaign(Campaign):
    """Runs inputs in processes that are replaced when one of them crashes or hangs.

    An input is known by the seed and its number. Inputs that fail are stored in `failures` beside the figures.
    """

    name = "readers"
    summary = "mutated files of every format that is read, and mutated bodies for every route of the server"

    def attempt_all(self, figures: Figures) -> None:
        """Run batches of inputs."""
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "models").mkdir(parents=True)
        targets = list(build_targets())
        self.runs = create_runs(self.work / "models")
        _warm_up(targets, self.work)
        known: set[str] = set()
        number = 0
        while not self.is_over(figures):
            batch = InputBatch(self, targets, figures.seed, first=number)
            self._watch(batch, figures)
            for told in batch.read_reports():
                self._report(told, figures, known)
            done = batch.progress + 1 - number if batch.was_stopped else batch.progress - number
            figures.outcomes["inputs that ended a process"] += batch.was_stopped
            number += max(done, 1)
            figures.attempts = number

    def _watch(self, batch: InputBatch, figures: Figures) -> None:
        """Wait for a batch; stop it if one input takes too long, and report it."""
        last, since = -1, time.monotonic()
        while (status := batch.poll()) is None:
            time.sleep(0.05)
            if batch.progress != last:
                last, since = batch.progress, time.monotonic()
            limit = SECONDS * 3 if last >= batch.first else 120
            if time.monotonic() - since > limit:
                os.kill(batch.process, signal.SIGKILL)
            if self.is_over(figures):
                batch.stop()
        if status:
            batch.add_crash(f"the process ended with {status}")

    def _report(self, told: dict[str, Any], figures: Figures, known: set[str]) -> None:
        if "counts" in told:
            figures.outcomes.update(told["counts"])
            figures.cases.update(told["cases"])
            figures.measures["bytes of the largest process"] = max(
                figures.measures.get("bytes of the largest process", 0), told["memory"]
            )
            return
        figures.outcomes["failed"] += 1
        if told["signature"] in known:
            return
        known.add(told["signature"])
        figures.fail(Failure(told["case"], told["problem"], told["replay"]))


class InputBatch:
    """A process that runs inputs from a number on."""

    def __init__(self, campaign: ReaderCampaign, targets: list[ReaderTarget], seed: int, *, first: int) -> None:
        self.campaign = campaign
        self.targets = targets
        self.seed = seed
        self.first = first
        self.was_stopped = False
        self._shared = mmap.mmap(-1, 16)
        self._shared[:8] = struct.pack("<q", first - 1)
        self._reports = campaign.work / f"reports-{first}.jsonl"
        self._reports.touch()
        self._crashes: list[dict[str, Any]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process = os.fork()
        if not self.process:
            self._run()

    @property
    def progress(self) -> int:
        """Number of the input that is running."""
        number: int = struct.unpack("<q", self._shared[:8])[0]
        return number

    def stop(self) -> None:
        """Ask the process to end after its input."""
        self._shared[8] = 1

    def poll(self) -> str | None:
        """Return how the process ended: an empty string if well, None if it runs."""
        done, status = os.waitpid(self.process, os.WNOHANG)
        if not done:
            return None
        if os.WIFSIGNALED(status):
            return signal.Signals(os.WTERMSIG(status)).name
        return f"exit code {os.WEXITSTATUS(status)}" if os.WEXITSTATUS(status) else ""

    def add_crash(self, problem: str) -> None:
        """Note that the input that was running ended the process."""
        self.was_stopped = True
        case, content = describe_input(self, self.progress)
        replay = store_input(self.campaign.folder, case, content, problem, seed=self.seed, number=self.progress)
        self._crashes.append({"case": case, "problem": problem, "signature": f"{case} {problem}", "replay": replay})

    def read_reports(self) -> list[dict[str, Any]]:
        """Return what the process reported."""
        told = [json.loads(line) for line in self._reports.read_text(encoding="utf-8").splitlines()]
        self._reports.unlink()
        return [*told, *self._crashes]

    def _run(self) -> None:
        """Run inputs, and leave."""
        code = 1
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2) if not os.environ.get("CAMPAIGN_OUTPUT") else ():
                os.dup2(nothing, stream)
            gc.freeze()
            run_inputs(self)
            code = 0
        except BaseException:
            self.write({"case": "harness", "problem": traceback.format_exc(), "signature": "harness", "replay": ""})
        finally:
            os._exit(code)

    def write(self, report: dict[str, Any]) -> None:
        """Report something to the parent."""
        with self._reports.open("a", encoding="utf-8") as file:
            file.write(json.dumps(report) + "\n")

    def begin(self, number: int) -> bool:
        """Note that an input begins; return false if the process is asked to end."""
        self._shared[:8] = struct.pack("<q", number)
        return not self._shared[8]


def choose_target(targets: list[ReaderTarget], seed: int, number: int) -> tuple[ReaderTarget | None, random.Random]:
    """Return the format of an input, None for a request, and the state for its mutation."""
    draw = random.Random(f"readers {seed} {number}")
    if draw.random() < _HTTP_SHARE:
        return None, draw
    target = draw.choice(targets)
    if len(target.samples[0]) > _HEAVY and draw.random() < 0.9:
        target = draw.choice([each for each in targets if len(each.samples[0]) <= _HEAVY])
    return target, draw


def describe_input(batch: InputBatch, number: int) -> tuple[str, bytes]:
    """Return the format and the content of an input; no content for a request."""
    target, draw = choose_target(batch.targets, batch.seed, number)
    if target is None:
        return "http", b""
    return target.name, mutate_sample(target.samples, draw, name=target.file_name)


def run_inputs(batch: InputBatch) -> None:
    """Run the inputs of a batch in this process."""
    from heedful.errors import HeedfulError

    server = InProcessServer(batch.campaign.runs, batch.campaign.work / "models")
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, _raise_too_slow)
    counts, cases = {"read": 0, "refused": 0}, dict[str, int]()
    number = batch.first
    for number in range(batch.first, batch.first + _BATCH):
        if not batch.begin(number):
            break
        target, draw = choose_target(batch.targets, batch.seed, number)
        case, content = "http", b""
        try:
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            if target is None:
                sample = draw.choice(server.samples)
                case = f"http {sample.path}"
                server.send_mutation(sample, draw)
            else:
                case, content = target.name, mutate_sample(target.samples, draw, name=target.file_name)
                read_content(target, content, batch.campaign.work)
            counts["read"] += 1
        except HeedfulError as error:
            counts["refused"] += 1
            if len(str(error)) > 20_000 or not str(error).strip():
                _report_failure(
                    batch, (case, content, number), f"a sentence of {len(str(error))} characters", f"{case} length"
                )
        except BaseException as error:
            told = "".join(traceback.format_exception(error))
            _report_failure(batch, (case, content, number), told[-6000:], make_signature(case, error))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        cases[case] = cases.get(case, 0) + 1
    else:
        batch.begin(number + 1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    batch.write({"counts": counts, "cases": cases, "memory": memory})


def _raise_too_slow(*_: Any) -> None:
    raise TooSlowError(f"more than {SECONDS} seconds")


def _report_failure(batch: InputBatch, tried: tuple[str, bytes, int], problem: str, signature: str) -> None:
    case, content, number = tried
    replay = store_input(batch.campaign.folder, case, content, problem, seed=batch.seed, number=number)
    batch.write({"case": case, "problem": problem, "signature": signature, "replay": replay})


def make_signature(case: str, error: BaseException) -> str:
    """Return what failures of the same kind share: the class of the error and the last line of heedful's code."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/heedful/" in frame.filename]
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{case if not place else ''} {type(error).__name__} {place}"


def store_input(folder: Path, case: str, content: bytes, problem: str, *, seed: int, number: int) -> str:
    """Store an input that failed; return its path, or the seed and number of a request."""
    name = f"{re.sub('[^a-z0-9]+', '-', case.lower())}-{seed}-{number}"
    path = folder / "failures" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(name + ".txt").write_text(problem, encoding="utf-8", errors="replace")
    if not content:
        return f"seed {seed}, number {number}"
    path.write_bytes(content)
    return str(path)


def read_content(target: ReaderTarget, content: bytes, work: Path) -> None:
    """Write the content to the file of a format, and read it."""
    path = work / "files" / re.sub("[^a-z0-9]+", "-", target.name) / target.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    target.read(path)


def _warm_up(targets: list[ReaderTarget], work: Path) -> None:
    """Import all modules before processes are forked, and see that samples are read."""
    for target in targets:
        for sample in target.samples:
            read_content(target, sample, work)
    import heedful.serving.app  # noqa: F401


def replay(path: Path, work: Path, *, read: Callable[[ReaderTarget, bytes, Path], None] = read_content) -> None:
    """Read a stored input again in this process, with the reader that its name says."""
    for target in build_targets():
        if path.name.startswith(re.sub("[^a-z0-9]+", "-", target.name) + "-"):
            read(target, path.read_bytes(), work)
            return
    sys.exit(f"{path}: no format has this name")
