"""How fast heedful trains a GPT, beside a plain loop of nanoGPT's kind at the same sizes.

    python benchmarks/language_model.py                        # both sizes, everybody
    python benchmarks/language_model.py --size mini --rounds 9
    python benchmarks/language_model.py --quick                # whether all of it runs, in seconds

Everybody has the same sizes, the same number of pieces of the same length in a batch, AdamW with the same weight decay,
clipping to 1, and the same threads. In every round each contestant starts anew in a process of its
own, makes some updates unmeasured and then the measured ones, so that a busy moment of the machine meets all of them.
Ratios are taken within a round, then their median over rounds.

heedful      the trainer as `heedful train` runs it, reporting each update
heedful-2x1  the same with two processes of one thread, as torchrun starts them, instead of one with two threads
nanogpt      a GPT and a loop in plain torch: one product for queries, keys and values, torch's fused attention, logits
             of the whole batch, and the AdamW that nanoGPT takes on a CPU, which is not the fused one
plain        the same with fused AdamW
plain-keep   the same with glibc told to keep freed pages, as heedful does it: the share of that alone
products     the matrix products of heedful's updates in heedful's precision and nothing else: the limit

Everything is also told by the processor's time; with `--threads 1` this is the CPU time of one thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from contest import Contestant, Report, Team, jsonable, machine, present, say, serve, together, training_table

from heedful.cli.arguments import parse_script_arguments

SIZES: dict[str, dict[str, int]] = {
    "mini": {"d_model": 128, "heads": 4, "layers": 4, "length": 64, "rows": 12},
    "small": {"d_model": 256, "heads": 4, "layers": 4, "length": 128, "rows": 16},
    "tiny": {"d_model": 16, "heads": 2, "layers": 1, "length": 8, "rows": 4},
}
"""nanoGPT's setting for a CPU, that of recipes/shakespeare-gpt.toml, and one for trying the benchmark out."""
VOCABULARY, CHARACTERS, RATE = 69, 200_000, 1e-3


@dataclass(frozen=True)
class Options:
    """Tokens per second of training, compared."""

    size: tuple[Literal["mini", "small", "tiny"], ...] = ("mini", "small")
    contestants: tuple[str, ...] = ()
    """who takes part; everybody unless given"""
    rounds: int = 7
    """turns that each contestant has"""
    updates: int = 40
    """measured in each turn, after half as many that are not"""
    threads: int = 2
    """of each contestant"""
    dropout: float = 0.0
    """of embeddings and sublayers"""
    json: Path | None = None
    """write every measurement there"""
    markdown: Path | None = None
    """write the tables there too"""
    quick: bool = False
    """tiny model, one round: whether the benchmark works"""


def main() -> None:
    """Reads the command line; a worker of ours is told apart by its first word."""
    if sys.argv[1:2] == ["serve"]:
        serve(build)
        return
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = replace(options, size=("tiny",), rounds=1, updates=4, threads=1)
    conditions = [f"dropout {options.dropout}; {options.threads} threads each; {options.rounds} rounds"]
    report = Report("Training a GPT", [*machine(), *conditions], raw={"options": jsonable(options)})
    for size in options.size:
        measured: dict[str, list[dict[str, Any]]] = {}
        for turn in range(options.rounds):
            for contestant in present(contestants(size, options), options.contestants):
                with Team(__file__, contestant) as team:
                    team.ask({"updates": options.updates // 2})
                    stretch = together(team.ask({"updates": options.updates}))
                measured.setdefault(contestant.name, []).append(stretch)
                speed = stretch["tokens"] / stretch["seconds"]
                say(f"{size}, round {turn + 1} of {options.rounds}: {contestant.name} {speed:,.0f} tokens/s")
        report.raw[size] = measured
        report.tables.append(
            (f"{size}: {_described(size)}", *training_table(measured, ("nanogpt", "plain", "plain-keep")))
        )
    report.publish(markdown=options.markdown, json_file=options.json)


def contestants(size: str, options: Options) -> list[Contestant]:
    """Everybody, in the order of turns."""
    settings = {**SIZES[size], "dropout": options.dropout}
    one = max(1, options.threads // 2)
    return [
        Contestant("heedful", {**settings, "loop": "ours", "keep": True}, threads=options.threads),
        Contestant("heedful-2x1", {**settings, "loop": "ours", "keep": True}, workers=2, threads=one),
        Contestant("nanogpt", {**settings, "loop": "plain", "fused": False, "keep": False}, threads=options.threads),
        Contestant("plain", {**settings, "loop": "plain", "fused": True, "keep": False}, threads=options.threads),
        Contestant("plain-keep", {**settings, "loop": "plain", "fused": True, "keep": True}, threads=options.threads),
        Contestant("products", {**settings, "loop": "products", "keep": True}, threads=options.threads),
    ]


def build(settings: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What answers {"updates": n} for the contestant in the settings."""
    import numpy as np
    import torch

    from heedful.runs.device import tune_malloc

    if settings["keep"]:
        tune_malloc()
    torch.manual_seed(1)
    stream = np.random.default_rng(1).integers(4, VOCABULARY, CHARACTERS).astype(np.uint16)
    loop = _LOOPS[settings["loop"]](settings, stream)

    def work(job: dict[str, Any]) -> dict[str, Any]:
        began, before = time.perf_counter(), time.process_time()
        loss = loop(job["updates"])
        taken = {"seconds": time.perf_counter() - began, "processor": time.process_time() - before}
        return {"tokens": job["updates"] * settings["rows"] * settings["length"], **taken, "loss": loss}

    return work


def _ours(settings: dict[str, Any], stream: Any) -> Callable[[int], float]:
    from language_loop import ours

    return ours(settings, stream, vocabulary=VOCABULARY, rate=RATE)


def _plain(settings: dict[str, Any], stream: Any) -> Callable[[int], float]:
    from plain_gpt import PlainGpt, PlainLoop

    sizes = {name: settings[name] for name in ("heads", "layers", "length", "dropout")}
    model = PlainGpt(VOCABULARY, settings["d_model"], **sizes)
    shape = {"rows": settings["rows"], "length": settings["length"]}
    loop = PlainLoop(model, stream, **shape, rate=RATE, fused=settings["fused"])

    def train(updates: int) -> float:
        loop.train(updates)
        return loop.loss

    return train


def _products(settings: dict[str, Any], _: Any) -> Callable[[int], float]:
    from language_loop import products

    return products(settings, vocabulary=VOCABULARY)


_LOOPS = {"ours": _ours, "plain": _plain, "products": _products}


def _described(size: str) -> str:
    return ", ".join(f"{name} {value}" for name, value in SIZES[size].items())


if __name__ == "__main__":
    main()
