"""Compare the speed of training a GPT: heedful and a plain loop like nanoGPT's, with the same sizes.

    python benchmarks/language_model.py                        # both sizes, all contestants
    python benchmarks/language_model.py --size mini --rounds 9
    python benchmarks/language_model.py --quick                # checks in seconds that everything runs

All contestants have the same sizes, number of threads, batch size and sequence length, AdamW with the same weight
decay, and clipping to 1. In each round, each contestant starts new processes and makes some updates before the measured
ones. So changes in the load of the machine affect all contestants. Ratios are the median over rounds of the ratios
within a round.

heedful           the trainer as `heedful train` runs it, reporting each update
heedful-compiled  the same with `training.compile = true`; what is compiled before the measured updates is not measured
heedful-2x1       heedful with two processes of one thread, as torchrun starts them, instead of one with two threads
nanogpt           a GPT and a loop in plain torch: one product for queries, keys and values, torch's fused attention,
                  logits of the whole batch, and AdamW without fusion, as nanoGPT uses it on a CPU
plain             the same with fused AdamW
plain-keep        the same with glibc set to keep freed pages, as heedful sets it, to measure this effect alone
products          only the matrix products of heedful's updates, in heedful's precision: the upper limit

The tables also have the processor time; with `--threads 1` this is the CPU time of one thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from comparison import (
    Contestant,
    Report,
    WorkerGroup,
    build_training_table,
    describe_machine,
    merge_results,
    options_to_json,
    print_progress,
    run_worker,
    select_contestants,
)

from heedful.cli.arguments import parse_script_arguments

SIZES: dict[str, dict[str, int]] = {
    "mini": {"d_model": 128, "heads": 4, "layers": 4, "length": 64, "rows": 12},
    "small": {"d_model": 256, "heads": 4, "layers": 4, "length": 128, "rows": 16},
    "tiny": {"d_model": 16, "heads": 2, "layers": 1, "length": 8, "rows": 4},
}
"""nanoGPT's sizes for a CPU, twice these, and small ones for trying out the benchmark."""
VOCABULARY, CHARACTERS, RATE = 69, 200_000, 1e-3


@dataclass(frozen=True)
class Options:
    """Compare tokens per second of training."""

    size: tuple[Literal["mini", "small", "tiny"], ...] = ("mini", "small")
    contestants: tuple[str, ...] = ()
    """contestants to compare; all by default"""
    rounds: int = 7
    """number of turns of each contestant"""
    updates: int = 40
    """number of measured updates in each turn; half as many are made before them"""
    threads: int = 2
    """number of threads of each contestant"""
    dropout: float = 0.0
    """dropout of embeddings and sublayers"""
    json: Path | None = None
    """JSON file for all measurements"""
    markdown: Path | None = None
    """Markdown file for the tables"""
    quick: bool = False
    """check with a tiny model and one round that the benchmark works"""


def main() -> None:
    """Run the benchmark, or a worker if that is the first argument."""
    if sys.argv[1:2] == ["worker"]:
        run_worker(build_job_runner)
        return
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = replace(options, size=("tiny",), rounds=1, updates=4, threads=1)
    conditions = [f"dropout {options.dropout}; {options.threads} threads each; {options.rounds} rounds"]
    report = Report("Training a GPT", [*describe_machine(), *conditions], raw={"options": options_to_json(options)})
    for size in options.size:
        measured: dict[str, list[dict[str, Any]]] = {}
        for turn in range(options.rounds):
            for contestant in select_contestants(list_contestants(size, options), options.contestants):
                with WorkerGroup(__file__, contestant) as workers:
                    workers.run_job({"updates": options.updates // 2})
                    measurement = merge_results(workers.run_job({"updates": options.updates}))
                measured.setdefault(contestant.name, []).append(measurement)
                speed = measurement["tokens"] / measurement["seconds"]
                print_progress(f"{size}, round {turn + 1} of {options.rounds}: {contestant.name} {speed:,.0f} tokens/s")
        report.raw[size] = measured
        report.tables.append(
            (f"{size}: {_describe_sizes(size)}", *build_training_table(measured, ("nanogpt", "plain", "plain-keep")))
        )
    report.publish(markdown=options.markdown, json_file=options.json)


def list_contestants(size: str, options: Options) -> list[Contestant]:
    """List the contestants in the order of turns."""
    settings = {**SIZES[size], "dropout": options.dropout}
    compiled = {**settings, "compiler": "aot_eager" if options.quick else "inductor"}
    one = max(1, options.threads // 2)
    return [
        Contestant("heedful", {**settings, "loop": "heedful", "keep": True}, threads=options.threads),
        Contestant("heedful-compiled", {**compiled, "loop": "heedful", "keep": True}, threads=options.threads),
        Contestant("heedful-2x1", {**settings, "loop": "heedful", "keep": True}, workers=2, threads=one),
        Contestant("nanogpt", {**settings, "loop": "plain", "fused": False, "keep": False}, threads=options.threads),
        Contestant("plain", {**settings, "loop": "plain", "fused": True, "keep": False}, threads=options.threads),
        Contestant("plain-keep", {**settings, "loop": "plain", "fused": True, "keep": True}, threads=options.threads),
        Contestant("products", {**settings, "loop": "products", "keep": True}, threads=options.threads),
    ]


def build_job_runner(settings: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that does jobs {"updates": n} for the contestant in the settings."""
    import numpy as np
    import torch

    from heedful.runs.device import tune_malloc

    if settings["keep"]:
        tune_malloc()
    torch.manual_seed(1)
    stream = np.random.default_rng(1).integers(4, VOCABULARY, CHARACTERS).astype(np.uint16)
    loop = _LOOPS[settings["loop"]](settings, stream)

    def run_job(job: dict[str, Any]) -> dict[str, Any]:
        start, before = time.perf_counter(), time.process_time()
        loss = loop(job["updates"])
        times = {"seconds": time.perf_counter() - start, "processor": time.process_time() - before}
        return {"tokens": job["updates"] * settings["rows"] * settings["length"], **times, "loss": loss}

    return run_job


def _build_heedful_loop(settings: dict[str, Any], stream: Any) -> Callable[[int], float]:
    from language_loop import build_heedful_loop

    return build_heedful_loop(settings, stream, vocabulary=VOCABULARY, rate=RATE)


def _build_plain_loop(settings: dict[str, Any], stream: Any) -> Callable[[int], float]:
    from plain_gpt import PlainGpt, PlainLoop

    sizes = {name: settings[name] for name in ("heads", "layers", "length", "dropout")}
    model = PlainGpt(VOCABULARY, settings["d_model"], **sizes)
    shape = {"rows": settings["rows"], "length": settings["length"]}
    loop = PlainLoop(model, stream, **shape, rate=RATE, fused=settings["fused"])

    def train(updates: int) -> float:
        loop.train(updates)
        return loop.loss

    return train


def _build_products_loop(settings: dict[str, Any], _: Any) -> Callable[[int], float]:
    from language_loop import build_products_loop

    return build_products_loop(settings, vocabulary=VOCABULARY)


_LOOPS = {"heedful": _build_heedful_loop, "plain": _build_plain_loop, "products": _build_products_loop}


def _describe_sizes(size: str) -> str:
    return ", ".join(f"{name} {value}" for name, value in SIZES[size].items())


if __name__ == "__main__":
    main()
