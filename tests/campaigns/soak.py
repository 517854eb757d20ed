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

_MOST_GROWTH = 16 * 2**20
"""Bytes by which the median of the last quarter may be above that of the second one."""


class SoakCampaign(Campaign):
    """A program that runs for long; its memory is read every second."""

    def sample_memory(self, figures: Figures, process: int) -> list[int]:
        """Return the bytes that a process holds at each second until the campaign or the process ends."""
        samples: list[int] = []
        interval = min(1.0, self.seconds_left / 60)
        while not self.is_over(figures):
            time.sleep(interval)
            if not Path(f"/proc/{process}/statm").exists() or _is_zombie(process):
                break
            samples.append(read_memory(process))
            figures.count(self.name, "samples of memory")
            figures.measures["bytes now"] = samples[-1]
        return samples


class TrainingSoak(SoakCampaign):
    """Trains a model until the time is over, and interrupts the training then."""

    name = "soak-training"
    summary = "training, with an evaluation and a checkpoint every 50 updates: the memory of the process over time"

    def attempt_all(self, figures: Figures) -> None:
        """Train."""
        shutil.rmtree(self.work, ignore_errors=True)
        write_inputs(self.work / "inputs")
        words = (sys.executable, "-m", "heedful", "train", "subwords.toml", *CPU)
        numbers = ("--training.steps", "100000000", "--training.evaluate_every", "50", "--training.keep", "2")
        log_path = self.work / "training.log"
        with (
            log_path.open("w") as log,
            subprocess.Popen([*words, *numbers], cwd=self.work / "inputs", stdout=log, stderr=log) as process,
        ):
            until = time.monotonic() + self.seconds_left / 2
            while "step " not in log_path.read_text(encoding="utf-8") and time.monotonic() < until:
                time.sleep(0.2)  # modules are imported, and the first batches are computed
            memory = self.sample_memory(figures, process.pid)
            alive = process.poll() is None
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        output = log_path.read_text(encoding="utf-8")
        steps = [line for line in output.splitlines() if line.startswith("step ")]
        figures.measures["updates"] = int(steps[-1].split()[1].partition("/")[0].replace(",", "")) if steps else 0
        if not alive or code != 128 + signal.SIGTERM:
            figures.fail(Failure(self.name, f"ended with {code}: {output[-1000:]}"))
        judge_memory(figures, memory)


class ServingSoak(SoakCampaign):
    """Serves models to good and rude clients until the time is over."""

    name = "soak-serving"
    summary = "serving, to good and rude clients: the memory of the server over time"

    def attempt_all(self, figures: Figures) -> None:
        """Serve."""
        shutil.rmtree(self.work, ignore_errors=True)
        with run_server_process(self.work) as server:
            expected = [ask_once(server, question)[1] for question in QUESTIONS]
            clients = ClientGroup(server, expected, seed=figures.seed)
            clients.start()
            memory = self.sample_memory(figures, server.process)
            clients.stop()
        figures.measures["requests"] = sum(clients.counts.values())
        for failure in clients.failures[:20]:
            figures.fail(failure)
        judge_memory(figures, memory)


def _is_zombie(process: int) -> bool:
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def judge_memory(figures: Figures, memory: list[int]) -> None:
    """Compare the memory in the second and the last quarter of the time."""
    if len(memory) < 8:
        figures.fail(Failure(figures.kind, f"only {len(memory)} samples of memory"))
        return
    quarter = len(memory) // 4
    # the first quarter is not counted, in which modules and models are loaded
    early, late = statistics.median(memory[quarter : 2 * quarter]), statistics.median(memory[-quarter:])
    figures.measures["bytes early"], figures.measures["bytes late"] = early, late
    if late - early > _MOST_GROWTH:
        figures.fail(Failure(figures.kind, f"memory grew from {early:,} to {late:,} bytes"))
