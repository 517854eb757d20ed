"""Training of the runs of a sweep, in processes side by side."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, final

from heedful.memory_limits import count_cores
from heedful.recipes.sweep_axes import PlannedRun
from heedful.recipes.training import LOWER_IS_BETTER
from heedful.runs.checkpoints import METRICS_FILE
from heedful.runs.metrics_log import has_numbers, read_records

_POLL_SECONDS: Final = 0.5


class RunScheduler(ABC):
    """Abstract: chooses the next run of a sweep, and the runs that stop early."""

    @abstractmethod
    def next_run(self) -> PlannedRun | None:
        """Return the next run to train; None if there is none at the moment."""

    def should_stop(self, run: PlannedRun, values: Sequence[float]) -> bool:
        """Whether to stop a run that has had these validation results so far."""
        return False

    def record_result(self, run: PlannedRun, values: Sequence[float], *, stopped: bool, failed: bool) -> None:
        """Record the validation results of a run that has ended; by default nothing."""
        return


@final
class GridScheduler(RunScheduler):
    """Schedules a fixed list of runs, none of which stops early."""

    def __init__(self, runs: Sequence[PlannedRun]) -> None:
        self._runs = iter(runs)

    def next_run(self) -> PlannedRun | None:
        """Return the next run of the list."""
        return next(self._runs, None)


@final
@dataclass
class RunProcess:
    """A run of a sweep that is trained by a process of its own.

    Attributes:
        run: the run.
        folder: its run folder.
        slot: its place among the processes that run at a time, from 0; the GPU is chosen by it.
        process: the process.
        stopped: whether it was asked to stop early.
        num_reported: number of validation results that the scheduler has received.
    """

    run: PlannedRun
    folder: Path
    slot: int
    process: subprocess.Popen[bytes]
    stopped: bool = False
    num_reported: int = 0


@final
@dataclass(frozen=True)
class RunResult:
    """Result of one run of a sweep.

    Attributes:
        run: the run.
        folder: its run folder.
        best: best validation result; None before the first evaluation.
        stopped: whether it was stopped early.
        exit_code: exit code of its process if the run failed; 0 if it was finished or stopped early.
    """

    run: PlannedRun
    folder: Path
    best: float | None
    stopped: bool
    exit_code: int


@final
@dataclass(frozen=True, kw_only=True)
class ProcessPool:
    """Trains runs in processes, several at a time.

    Attributes:
        folder: folder of the run folders.
        jobs: number of processes at a time.
        monitor: the validation metric by which runs are judged.
        gpus: number of GPUs; each process sees one.
        command: the words that start heedful.
    """

    folder: Path
    jobs: int
    monitor: str
    gpus: int = 0
    command: Sequence[str] = (sys.executable, "-m", "heedful")

    def train(self, scheduler: RunScheduler) -> Generator[RunResult]:
        """Train the runs of a scheduler and yield each result when its process has ended. `heedful train` continues an
        interrupted run, and changes nothing in a finished one. If the caller stops iterating, the running processes
        save their state and end.
        """
        active: list[RunProcess] = []
        try:
            while True:
                while len(active) < self.jobs and (run := scheduler.next_run()) is not None:
                    slot = min(set(range(self.jobs)) - {process.slot for process in active})
                    active.append(self._start(run, self.folder / run.name, slot))
                if not active:
                    return
                time.sleep(_POLL_SECONDS)
                for process in [process for process in active if process.process.poll() is not None]:
                    active.remove(process)
                    yield self._end_run(process, scheduler)
                for process in active:
                    self._stop_if_asked(process, scheduler)
        finally:
            for process in active:
                process.process.terminate()
            for process in active:
                process.process.wait()

    def read_values(self, folder: Path) -> list[float]:
        """Read the validation results of a run by the monitored metric, in order."""
        records = read_records(folder / METRICS_FILE)
        return [record[self.monitor] for record in records if has_numbers(record, "validation", self.monitor)]

    @property
    def higher_is_better(self) -> bool:
        """Whether higher values of the monitored metric are better."""
        return self.monitor.rpartition("/")[2] not in LOWER_IS_BETTER

    def select_best(self, values: Sequence[float]) -> float | None:
        """Return the best of some validation results; None if there is none."""
        if not values:
            return None
        return max(values) if self.higher_is_better else min(values)

    def _start(self, run: PlannedRun, folder: Path, slot: int) -> RunProcess:
        """Start the process of a run; its messages go to a file beside the run folder."""
        environment = {**os.environ}
        if self.gpus:
            visible = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
            devices = visible or [str(number) for number in range(self.gpus)]
            environment["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
        else:
            environment.setdefault("OMP_NUM_THREADS", str(max(1, count_cores() // self.jobs)))
        with folder.with_name(f"{folder.name}.log").open("ab") as log_file:
            process = subprocess.Popen(
                [*self.command, *run.build_words(folder)],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                env=environment,
            )
        return RunProcess(run, folder, slot, process)

    def _stop_if_asked(self, process: RunProcess, scheduler: RunScheduler) -> None:
        """Report new validation results to the scheduler; let the process save and end if it asks for that."""
        values = self.read_values(process.folder)
        if not process.stopped and len(values) > process.num_reported:
            process.num_reported = len(values)
            if scheduler.should_stop(process.run, values):
                process.stopped = True
                process.process.terminate()

    def _end_run(self, process: RunProcess, scheduler: RunScheduler) -> RunResult:
        """Report the end of a process to the scheduler, and return the result of its run."""
        exit_code = process.process.returncode
        values, stopped = self.read_values(process.folder), process.stopped and exit_code != 0
        failed = exit_code != 0 and not stopped
        scheduler.record_result(process.run, values, stopped=stopped, failed=failed)
        best = self.select_best(values)
        return RunResult(process.run, process.folder, best, stopped, exit_code if failed else 0)


@contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Context manager: turn SIGTERM into `SystemExit` inside the block, so that the processes of a pool save and end.

    Outside of the main thread, which alone receives signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle_signal(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    former_handler = signal.signal(signal.SIGTERM, handle_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former_handler)


def share_minutes(minutes: float, *, runs: int, jobs: int) -> float:
    """Return the minutes of each run if all runs, `jobs` of them at a time, are to take `minutes`."""
    return minutes / math.ceil(runs / jobs)
