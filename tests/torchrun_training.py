"""Trains recipes one after the other, in the processes that torchrun has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import final

from heedful.runs import layer_compilation
from heedful.runs.train import train
from heedful.training.callbacks import Callback, StepMetrics, ValidationResult

_ENDPOINT = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0")


def start_processes(
    recipes: Sequence[Path], *, count: int, options: Sequence[str] = _ENDPOINT, kill_at_step: int = 0
) -> subprocess.Popen[str]:
    """Start `count` processes that train the recipes; `options` are those of torchrun. The first process kills itself
    after an update, if `kill_at_step` is its number; when it is started again, it does not.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count), *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "KILL_AT_STEP": str(kill_at_step)}
    return subprocess.Popen(
        [*command, __file__, *map(str, recipes)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def run_processes(
    recipes: Sequence[Path], *, count: int, options: Sequence[str] = _ENDPOINT, kill_at_step: int = 0
) -> subprocess.CompletedProcess[str]:
    """Train the recipes with `count` processes until all have ended; see `start_processes`."""
    process = start_processes(recipes, count=count, options=options, kill_at_step=kill_at_step)
    try:
        output, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


@final
class SelfKiller(Callback):
    """Kills this process after an update, if torchrun has started it for the first time."""

    def on_step_end(self, update: StepMetrics) -> None:
        """Kill the process at the step that the environment names."""
        if update.step == int(os.environ["KILL_AT_STEP"]) and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            print(f"killed at step {update.step}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Do nothing."""


if __name__ == "__main__":
    if backend := os.environ.get("COMPILER_BACKEND"):
        vars(layer_compilation)["_BACKEND"] = backend  # one that takes less time
    for recipe in sys.argv[1:]:
        train(recipe, device="cpu", listeners=[SelfKiller()])
