"""Training and serving for long, with memory that must stay flat."""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from campaigns.command_cases import CPU, write_inputs
from campaigns.framework import Campaign, Failure, Figures
from campaigns.load import ClientGroup
from campaigns.server_process import QUESTIONS, ask_once, read_memory, run_server_process

_TRAINING_SHARE = 2 / 3
_MOST_GROWTH = 16 * 2**20
"""Bytes by which the median of the last quarter may be above that of the second one."""


class SoakCampaign(Campaign):
    """Trains for two thirds of the time, then serves, and reads the memory of the process every second."""

    name = "soak"
    summary = "training, with evaluations and checkpoints, and then serving: the memory of the process over time"

    def attempt_all(self, figures: Figures) -> None:
        """Train, then serve."""
        shutil.rmtree(self.work, ignore_errors=True)
        write_inputs(self.work / "training")
        self._train(figures, self.seconds_left * _TRAINING_SHARE)
        self._serve(figures)

    def _train(self, figures: Figures, seconds: float) -> None:
        words = (sys.executable, "-m", "heedful", "train", "subwords.toml", *CPU)
        numbers = ("--training.steps", "100000000", "--training.evaluate_every", "50", "--training.keep", "2")
        with (
            (self.work / "training.log").open("w") as log,
            subprocess.Popen([*words, *numbers], cwd=self.work / "training", stdout=log, stderr=log) as process,
        ):
            log_path, until = self.work / "training.log", time.monotonic() + seconds / 2
            while "step " not in log_path.read_text(encoding="utf-8") and time.monotonic() < until:
                time.sleep(0.2)  # modules are imported, and the first batches are computed
            memory = self._sample(figures, process.pid, seconds / 2 + until - time.monotonic(), case="training")
            alive = process.poll() is None
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        told = (self.work / "training.log").read_text(encoding="utf-8")
        steps = [line for line in told.splitlines() if line.startswith("step ")]
        figures.measures["updates"] = int(steps[-1].split()[1].partition("/")[0].replace(",", "")) if steps else 0
        if not alive or code != 128 + signal.SIGTERM:
            figures.fail(Failure("training", f"ended with {code}: {told[-1000:]}", ""))
        judge_memory(figures, "training", memory)

    def _serve(self, figures: Figures) -> None:
        with run_server_process(self.work / "serving") as server:
            expected = [ask_once(server, question)[1] for question in QUESTIONS]
            clients = ClientGroup(server, expected, seed=figures.seed)
            clients.start()
            memory = self._sample(figures, server.process, self.seconds_left, case="serving")
            clients.stop()
        figures.measures["requests"] = sum(clients.counts.values())
        for failure in clients.failures[:20]:
            figures.fail(failure)
        judge_memory(figures, "serving", memory)

    def _sample(self, figures: Figures, process: int, seconds: float, *, case: str) -> list[int]:
        """Return the memory of a process at each second."""
        found: list[int] = []
        until = time.monotonic() + seconds
        interval = min(1.0, seconds / 60)
        while time.monotonic() < until and not self.is_over(figures):
            time.sleep(interval)
            if not Path(f"/proc/{process}/statm").exists() or _is_zombie(process):
                break
            found.append(read_memory(process))
            figures.count(case, "samples of memory")
            figures.measures[f"bytes now, {case}"] = found[-1]
        return found


def _is_zombie(process: int) -> bool:
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def judge_memory(figures: Figures, case: str, memory: list[int]) -> None:
    """Compare the memory in the second and the last quarter of the time."""
    if len(memory) < 8:
        figures.fail(Failure(case, f"only {len(memory)} samples of memory"))
        return
    quarter = len(memory) // 4
    # the first quarter is not counted, in which modules and models are loaded
    early, late = statistics.median(memory[quarter : 2 * quarter]), statistics.median(memory[-quarter:])
    figures.measures[f"bytes early, {case}"], figures.measures[f"bytes late, {case}"] = early, late
    if late - early > _MOST_GROWTH:
        figures.fail(Failure(case, f"memory grew from {early:,} to {late:,} bytes"))
