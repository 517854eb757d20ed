"""Measures the peak memory and the time of an update with and without gradient checkpointing.

    python benchmarks/gradient_checkpointing.py [--width 256] [--layers 6] [--rows 64] [--length 64]

Each measurement runs in a process of its own, with one thread: forward and backward pass of an encoder and a decoder,
with so many layers each, for a batch of random tokens, three times. The output says what these passes add to the peak
memory of the process, without weights and gradients; how large all tensors were together at most in one more pass, and
what heedful estimates for that; and the processor time of the fastest pass.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from itertools import accumulate

import torch

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.blocks.transformer import TransformerStack
from heedful.data.batches import PairBatch
from heedful.models.model_size import estimate_training_memory
from heedful.tasks.generation_objective import LikelihoodCriterion
from heedful.tensors import Tokens

VOCABULARY = 8000


def measure(width: int, layers: int, rows: int, length: int, *, checkpointing: bool) -> None:
    """Print the memory and the time of an update in this process."""
    torch.set_num_threads(1)
    config = TransformerConfig(d_model=width, heads=8, d_ff=4 * width, layers=layers, dropout=0.1, residual="pre_norm")
    model = build_sequence_to_sequence(config, DataSizes(VOCABULARY, VOCABULARY, length))
    for module in model.modules():
        if isinstance(module, TransformerStack):
            module.gradient_checkpointing = checkpointing
    ids = torch.randint(1, VOCABULARY, (rows, length))
    batch = PairBatch(Tokens.from_ids(ids, pad=0), Tokens.from_ids(ids, pad=0), ids)
    criterion = LikelihoodCriterion(0.1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    for _ in range(3):
        start = time.process_time()
        criterion.loss(model, batch).total.backward()  # type: ignore[no-untyped-call]  # torch has no annotation here
        seconds.append(time.process_time() - start)
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        criterion.loss(model, batch).total.backward()  # type: ignore[no-untyped-call]  # see above
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns()))
    tokens = rows * length
    estimate = estimate_training_memory(
        model, state_numbers=0, use_bf16=False, has_average=False, tokens=tokens, length=length
    ).activations
    name = "with" if checkpointing else "without"
    print(
        f"{name:<8} process {growth:5.0f} MiB   tensors {max(sizes) / 2**20:5.0f} MiB   "
        f"estimate {(estimate or 0) / 2**20:5.0f} MiB   {min(seconds):5.2f} s"
    )


def main() -> None:
    """Measure both ways, each in a process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("width", 256), ("layers", 6), ("rows", 64), ("length", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--checkpointing", type=int, choices=(0, 1), help="measure only this, in this process")
    given = parser.parse_args()
    sizes = (given.width, given.layers, given.rows, given.length)
    if given.checkpointing is not None:
        measure(*sizes, checkpointing=bool(given.checkpointing))
        return
    options = [f"--{name}={size}" for name, size in zip(("width", "layers", "rows", "length"), sizes, strict=True)]
    for checkpointing in (0, 1):
        subprocess.run([sys.executable, __file__, *options, f"--checkpointing={checkpointing}"], check=True)


if __name__ == "__main__":
    main()
