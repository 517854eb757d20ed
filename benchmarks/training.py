"""Compare the speed of training: heedful, a plain loop with `torch.nn.Transformer`, and Hugging Face's MarianMT.

    python benchmarks/training.py                          # small and base, all contestants
    python benchmarks/training.py --size small --contestants heedful heedful-2x1
    python benchmarks/training.py --corpus runs/x/data/train --json training.json --markdown training.md
    python benchmarks/training.py --quick                  # checks in half a minute that everything runs

All contestants have the same batches with the same padding (heedful's: sorted by length), the same sizes, tied
embeddings, dropout, label smoothing and Adam, and the same number of threads. Speeds count target tokens without
padding. In each round, each contestant starts new processes and makes some updates before the measured ones. So changes
in the load of the machine affect all contestants. Ratios are the median over rounds of the ratios within a round.

heedful           as `heedful train` trains: bf16 if the processor supports it and the model is wide, otherwise fp32
heedful-torch     the same without native operators, as where heedful-native is not installed
heedful-compiled  heedful with `training.compile = true`; what is compiled before the measured updates is not measured
heedful-2x1       heedful with two processes of one thread, as torchrun starts them, instead of one with two threads
plain-*           nn.Transformer in a plain loop, in fp32, or in bf16 by autocast
*-keep            the same with glibc set to keep freed pages, as heedful sets it, to measure this effect alone
marian-*          transformers' MarianMTModel in the same plain loop; marian-bf16-keep keeps freed pages
products          only the matrix products of heedful's updates, in heedful's precision: the upper limit

The tables also have the processor time. With `--threads 1` this is the CPU time of one thread, which other programs
change least:

    python benchmarks/training.py --threads 1 --contestants products heedful plain-bf16-keep marian-bf16-keep
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from comparison import (
    SIZES,
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

RIVALS = ("plain-fp32", "plain-bf16", "marian-fp32", "marian-bf16")


@dataclass(frozen=True)
class Options:
    """Compare target tokens per second of training."""

    size: tuple[Literal["small", "base", "tiny"], ...] = ("small", "base")
    contestants: tuple[str, ...] = ()
    """contestants to compare; all by default"""
    rounds: int = 5
    """number of turns of each contestant"""
    updates: int = 6
    """number of measured updates in each turn"""
    warmup: int = 2
    """number of updates before them"""
    threads: int = 2
    """number of threads of each contestant; the two processes of heedful-2x1 share them"""
    batch_tokens: int = 4096
    """number of target tokens of a batch, including padding"""
    vocabulary: int = 8000
    """size of the vocabulary; a given corpus has its own"""
    dropout: float = 0.1
    """dropout of embeddings and sublayers"""
    inner_dropout: float = 0.0
    """dropout of attention weights and activations"""
    corpus: Path | None = None
    """folder of an encoded corpus, such as data/train of a run; by default, synthetic sentences as long as captions"""
    json: Path | None = None
    """JSON file for all measurements"""
    markdown: Path | None = None
    """Markdown file for the tables"""
    quick: bool = False
    """check with a tiny model, one round and few contestants that the benchmark works"""


def main() -> None:
    """Run the benchmark, or a worker if that is the first argument."""
    if sys.argv[1:2] == ["worker"]:
        from training_loops import build_job_runner

        run_worker(build_job_runner)
        return
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = _build_quick_options(options)
    report = Report(
        "Training", [*describe_machine(), *_describe_conditions(options)], raw={"options": options_to_json(options)}
    )
    for size in options.size:
        _compare_contestants(size, options, report)
    report.publish(markdown=options.markdown, json_file=options.json)


def list_contestants(size: str, options: Options, *, seed: int) -> list[Contestant]:
    """List the contestants in the order of turns."""
    model = {**SIZES[size], "dropout": options.dropout, "inner_dropout": options.inner_dropout}
    work = {
        "model": model,
        "vocabulary": _get_vocabulary_size(options),
        "batch_tokens": options.batch_tokens,
        "text": None if options.corpus is None else str(options.corpus),
        "seed": seed,
    }

    def build_contestant(name: str, loop: str, precision: str, **more: Any) -> Contestant:
        settings = {"work": work, "loop": loop, "precision": precision, "keep": more.pop("keep", False)}
        settings |= {"native": more.pop("native", True), "compiler": more.pop("compiler", None)}
        return Contestant(name, settings, **{"threads": options.threads, **more})

    return [
        build_contestant("heedful", "heedful", "auto"),
        build_contestant("heedful-torch", "heedful", "auto", native=False),
        build_contestant("heedful-compiled", "heedful", "auto", compiler="inductor"),
        build_contestant("heedful-2x1", "heedful", "auto", workers=2, threads=max(1, options.threads // 2)),
        build_contestant("plain-fp32", "plain", "fp32"),
        build_contestant("plain-bf16", "plain", "bf16"),
        build_contestant("plain-fp32-keep", "plain", "fp32", keep=True),
        build_contestant("plain-bf16-keep", "plain", "bf16", keep=True),
        build_contestant("marian-fp32", "marian", "fp32", needs="transformers"),
        build_contestant("marian-bf16", "marian", "bf16", needs="transformers"),
        build_contestant("marian-bf16-keep", "marian", "bf16", keep=True, needs="transformers"),
        build_contestant("products", "products", "auto"),
    ]


def _compare_contestants(size: str, options: Options, report: Report) -> None:
    measured: dict[str, list[dict[str, Any]]] = {}
    for turn in range(options.rounds):
        for contestant in select_contestants(list_contestants(size, options, seed=turn), options.contestants):
            measurement = _measure_turn(contestant, options)
            measured.setdefault(contestant.name, []).append(measurement)
            speed = measurement["tokens"] / measurement["seconds"]
            print_progress(f"{size}, round {turn + 1} of {options.rounds}: {contestant.name} {speed:,.0f} tokens/s")
    report.raw[size] = measured
    report.tables.append((f"{size}: {_describe_sizes(size)}", *build_training_table(measured, RIVALS)))


def _measure_turn(contestant: Contestant, options: Options) -> dict[str, Any]:
    """Measure the updates of one turn."""
    with WorkerGroup(__file__, contestant) as workers:
        if options.warmup:
            workers.run_job({"updates": options.warmup})
        return merge_results(workers.run_job({"updates": options.updates}))


def _describe_conditions(options: Options) -> list[str]:
    text = "synthetic sentences" if options.corpus is None else "a given corpus"
    return [
        f"{text}, {options.batch_tokens} padded target tokens a batch, vocabulary {_get_vocabulary_size(options)}",
        f"dropout {options.dropout}, inside attention and feed-forward {options.inner_dropout}; label smoothing 0.1",
        f"{options.threads} threads each (heedful-2x1: two processes share them); {options.rounds} rounds of "
        f"{options.warmup} + {options.updates} updates; loss is that of the last round, about the same for all",
    ]


def _get_vocabulary_size(options: Options) -> int:
    if options.corpus is None:
        return options.vocabulary
    from heedful.data.corpus import Corpus

    text = Corpus.open(options.corpus)
    largest = (side[row].max() for side in text.sides.values() for row in range(len(text)))
    return int(max(largest)) + 1


def _describe_sizes(size: str) -> str:
    sizes = SIZES[size]
    layers = f"{sizes['layers']} + {sizes['layers']} layers"
    return f"d_model {sizes['d_model']}, d_ff {sizes['d_ff']}, {sizes['heads']} heads, {layers}"


def _build_quick_options(options: Options) -> Options:
    few = ("heedful", "heedful-2x1", "plain-fp32", "plain-bf16", "marian-fp32", "products")
    return replace(
        options,
        size=("tiny",),
        contestants=options.contestants or few,
        rounds=1,
        updates=2,
        warmup=1,
        threads=1,
        batch_tokens=256,
        vocabulary=200,
    )


if __name__ == "__main__":
    main()
