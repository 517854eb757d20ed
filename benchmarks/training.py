"""How fast heedful trains, beside a plain loop of `torch.nn.Transformer` and Hugging Face's MarianMT.

    python benchmarks/training.py                          # small and base, everybody
    python benchmarks/training.py --size small --contestants heedful heedful-2x1
    python benchmarks/training.py --corpus runs/x/data/train --json training.json --markdown training.md
    python benchmarks/training.py --quick                  # whether all of it runs, in half a minute

Everybody gets the same batches with the same padding (heedful's: sorted by length), the same sizes, tied embeddings,
dropout, label smoothing and Adam, on the same threads; counted are target tokens without padding. In every round each
contestant starts anew in processes of its own, makes some updates unmeasured and then the measured ones, so that a busy
moment of the machine meets all of them. Ratios are taken within a round, then their median over rounds.

heedful        as `heedful train` does it: bf16 where the processor has it and the model is wide, fp32 elsewhere
heedful-2x1    the same with two processes of one thread, as torchrun starts them, instead of one with two threads
plain-*        nn.Transformer in a plain loop, fp32 or bf16 by autocast
*-keep         the same with glibc told to keep freed pages, as heedful does it: the share of that alone
marian-*       transformers' MarianMTModel in the same plain loop; marian-bf16-keep keeps freed pages
products       the matrix products of heedful's updates in heedful's precision and nothing else: the limit

Everything is also told by the processor's time. With `--threads 1` this is the CPU time of one thread, which a machine
that does other work spoils least:

    python benchmarks/training.py --threads 1 --contestants products heedful plain-bf16-keep marian-bf16-keep
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from contest import (
    SIZES,
    Contestant,
    Report,
    Team,
    jsonable,
    machine,
    present,
    say,
    serve,
    together,
    training_table,
)

from heedful.cli.arguments import parse_script_arguments

RIVALS = ("plain-fp32", "plain-bf16", "marian-fp32", "marian-bf16")


@dataclass(frozen=True)
class Options:
    """Target tokens per second of training, compared."""

    size: tuple[Literal["small", "base", "tiny"], ...] = ("small", "base")
    contestants: tuple[str, ...] = ()
    """who takes part; everybody unless given"""
    rounds: int = 5
    """turns that each contestant has"""
    updates: int = 6
    """measured in each turn"""
    warmup: int = 2
    """updates before them"""
    threads: int = 2
    """of each contestant; the two processes of heedful-2x1 share them"""
    batch_tokens: int = 4096
    """target tokens of a batch, padding included"""
    vocabulary: int = 8000
    """entries; the largest id of the corpus decides where one is given"""
    dropout: float = 0.1
    """of embeddings and sublayers"""
    inner_dropout: float = 0.0
    """of attention weights and behind activations"""
    corpus: Path | None = None
    """an encoded corpus, such as data/train in a run folder, instead of made-up sentences as long as captions"""
    json: Path | None = None
    """write every measurement there"""
    markdown: Path | None = None
    """write the tables there too"""
    quick: bool = False
    """tiny model, one round, few contestants: whether the benchmark works"""


def main() -> None:
    """Reads the command line; a worker of ours is told apart by its first word."""
    if sys.argv[1:2] == ["serve"]:
        from training_loops import build

        serve(build)
        return
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = _quick(options)
    report = Report("Training", [*machine(), *_conditions(options)], raw={"options": jsonable(options)})
    for size in options.size:
        _compare(size, options, report)
    report.publish(markdown=options.markdown, json_file=options.json)


def contestants(size: str, options: Options, *, seed: int) -> list[Contestant]:
    """Everybody, in the order of turns."""
    model = {**SIZES[size], "dropout": options.dropout, "inner_dropout": options.inner_dropout}
    work = {
        "model": model,
        "vocabulary": _vocabulary(options),
        "batch_tokens": options.batch_tokens,
        "text": None if options.corpus is None else str(options.corpus),
        "seed": seed,
    }

    def entry(name: str, loop: str, precision: str, **more: Any) -> Contestant:
        settings = {"work": work, "loop": loop, "precision": precision, "keep": more.pop("keep", False)}
        return Contestant(name, settings, **{"threads": options.threads, **more})

    return [
        entry("heedful", "heedful", "auto"),
        entry("heedful-2x1", "heedful", "auto", workers=2, threads=max(1, options.threads // 2)),
        entry("plain-fp32", "plain", "fp32"),
        entry("plain-bf16", "plain", "bf16"),
        entry("plain-fp32-keep", "plain", "fp32", keep=True),
        entry("plain-bf16-keep", "plain", "bf16", keep=True),
        entry("marian-fp32", "marian", "fp32", needs="transformers"),
        entry("marian-bf16", "marian", "bf16", needs="transformers"),
        entry("marian-bf16-keep", "marian", "bf16", keep=True, needs="transformers"),
        entry("products", "products", "auto"),
    ]


def _compare(size: str, options: Options, report: Report) -> None:
    measured: dict[str, list[dict[str, Any]]] = {}
    for turn in range(options.rounds):
        for contestant in present(contestants(size, options, seed=turn), options.contestants):
            stretch = _turn(contestant, options)
            measured.setdefault(contestant.name, []).append(stretch)
            speed = stretch["tokens"] / stretch["seconds"]
            say(f"{size}, round {turn + 1} of {options.rounds}: {contestant.name} {speed:,.0f} tokens/s")
    report.raw[size] = measured
    report.tables.append((f"{size}: {_described(size)}", *training_table(measured, RIVALS)))


def _turn(contestant: Contestant, options: Options) -> dict[str, Any]:
    """One stretch of updates."""
    with Team(__file__, contestant) as team:
        if options.warmup:
            team.ask({"updates": options.warmup})
        return together(team.ask({"updates": options.updates}))


def _conditions(options: Options) -> list[str]:
    text = "made-up sentences" if options.corpus is None else "a given corpus"
    return [
        f"{text}, {options.batch_tokens} padded target tokens a batch, vocabulary {_vocabulary(options)}",
        f"dropout {options.dropout}, inside attention and feed-forward {options.inner_dropout}; label smoothing 0.1",
        f"{options.threads} threads each (heedful-2x1: two processes share them); {options.rounds} rounds of "
        f"{options.warmup} + {options.updates} updates; loss is that of the last round, about the same for all",
    ]


def _vocabulary(options: Options) -> int:
    if options.corpus is None:
        return options.vocabulary
    from heedful.data.corpus import Corpus

    text = Corpus.open(options.corpus)
    everything = (side[row].max() for side in text.sides.values() for row in range(len(text)))
    return int(max(everything)) + 1


def _described(size: str) -> str:
    sizes = SIZES[size]
    layers = f"{sizes['layers']} + {sizes['layers']} layers"
    return f"d_model {sizes['d_model']}, d_ff {sizes['d_ff']}, {sizes['heads']} heads, {layers}"


def _quick(options: Options) -> Options:
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
