"""Measures memory and losses of a training whose parameters are split over processes.

    python benchmarks/sharding.py [--width 512] [--layers 8] [--steps 3] [--processes 1 2 4] [--only-split]

A language model learns from made-up text in fp32, without dropout, on CPUs (gloo). For each number of processes, with
and without training.shard, the output has the losses of all updates, the memory of all live tensors of a process after
the last update (weights, moments, averages), and the peak memory with libraries of the first process and of the others.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from heedful.runs.device import get_peak_memory
from heedful.runs.train import train
from heedful.training.callbacks import Callback, StepMetrics, ValidationResult

VOCABULARY = 4000
RECIPE = """
task = "language_modelling"
output = "{folder}/run"
seed = 1
[data]
train = {{ path = "{folder}/text.txt" }}
validation = {{ path = "{folder}/short.txt" }}
[tokenizer]
kind = "words"
size = {vocabulary}
[model]
d_model = {width}
heads = 8
d_ff = {d_ff}
layers = {layers}
dropout = 0.0
[training]
steps = {steps}
batch_tokens = 512
precision = "fp32"
evaluate_every = 1000
optimizer = {{ epsilon = 1e-4 }}
schedule = {{ kind = "constant", rate = 1e-3, warmup = 0 }}
shard = {shard}
"""


class Recorder(Callback):
    """Prints the losses, and the memory after each update of each process."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_step_end(self, update: StepMetrics) -> None:
        """Record the loss of an update."""
        self.losses.append(update.loss)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Print what was recorded, and the memory."""
        if self.losses:
            print(json.dumps({"losses": self.losses, "tensors": measure_tensors()}), flush=True)


def measure_tensors() -> int:
    """Return the bytes of all live tensors, each storage once."""
    storages = {}
    for value in gc.get_objects():
        if (
            isinstance(value, torch.Tensor)
            and value.device.type == "cpu"
            and type(value) in (torch.Tensor, torch.nn.Parameter)
        ):
            storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
    return sum(storages.values())


def measure(folder: Path, arguments: argparse.Namespace, *, count: int, shard: bool) -> dict[str, float | list[float]]:
    """Train with `count` processes; return the losses and the memory."""
    target = folder / f"{count}-{shard}"
    target.mkdir()
    words = random.Random(1)
    for name, lines in (("text.txt", 3000), ("short.txt", 20)):
        text = "\n".join(" ".join(f"w{words.randrange(VOCABULARY)}" for _ in range(12)) for _ in range(lines))
        (target / name).write_text(text + "\n")
    recipe = target / "recipe.toml"
    sizes = {"width": arguments.width, "d_ff": 4 * arguments.width, "layers": arguments.layers}
    recipe.write_text(
        RECIPE.format(folder=target, vocabulary=VOCABULARY, steps=arguments.steps, shard=str(shard).lower(), **sizes)
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    output = subprocess.run(
        [*command, __file__, "--recipe", str(recipe)], env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    peaks = [line["peak"] for line in sorted((line for line in lines if "peak" in line), key=lambda line: line["rank"])]
    last = next(line for line in reversed(lines) if "losses" in line)
    return {**last, "peak": peaks[0], "peak of others": max(peaks[1:], default=0)}


def main() -> None:
    """Measure all numbers of processes, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--only-split", action="store_true", help="leave out processes that hold the whole model")
    parser.add_argument("--recipe", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.recipe:
        train(arguments.recipe, device="cpu", listeners=[Recorder()])
        peak = get_peak_memory(torch.device("cpu")) or 0
        print(json.dumps({"rank": int(os.environ["RANK"]), "peak": peak}) + "\n", end="", flush=True)
        return
    reference: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        for count in arguments.processes:
            for shard in (True,) if arguments.only_split else (False, True) if count > 1 else (False,):
                found = measure(Path(name), arguments, count=count, shard=shard)
                losses = found["losses"]
                assert isinstance(losses, list)
                reference = reference or losses
                apart = max(abs(a - b) / b for a, b in zip(losses, reference, strict=True))
                sizes = {key: value for key, value in found.items() if not isinstance(value, list)}
                memory = "  ".join(f"{key} {size / 2**20:,.0f} MiB" for key, size in sizes.items())
                print(f"{count} processes  shard {shard!s:5}  {memory}  losses differ by {apart:.1e}: {losses}")


if __name__ == "__main__":
    main()
