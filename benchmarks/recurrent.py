"""Compare the speed of training and decoding with recurrent models: heedful, a plain loop in torch, and Joey NMT.

    python benchmarks/recurrent.py                                       # training and greedy decoding
    python benchmarks/recurrent.py --what decode --batch 1 64
    python benchmarks/recurrent.py --json recurrent.json --markdown recurrent.md
    python benchmarks/recurrent.py --quick                               # checks in half a minute that everything runs

Training: the model of recipes/road/bahdanau.toml, with the same initial weights, the same batches with the same
padding, dropout, label smoothing and Adam, in fp32. The plain loop has a packed `nn.GRU`, an `nn.GRUCell` with additive
attention whose keys are projected once, one product for the readouts of all steps, and `functional.cross_entropy`.
Speeds count target tokens without padding.

Decoding: greedy search with random weights, `length` tokens for each sentence, because such models do not learn to end
one. Two pairs have the same weights and must give the same output: heedful and the plain loop (attention before the
step, as above), and heedful-feeding and Joey NMT (attention after the step with input feeding, as in Joey NMT).

In each round, each contestant starts a new process and does some work before the measured work. Ratios are the median
over rounds of the ratios within a round.

heedful           as in `heedful train` and `heedful translate`
plain             the plain loop
plain-keep        the same with glibc set to keep freed pages, as heedful sets it
heedful-feeding   parts of heedful combined as in Joey NMT
joeynmt           Joey NMT's own modules and its own greedy search
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from comparison import (
    Contestant,
    Report,
    Speeds,
    WorkerGroup,
    describe_machine,
    options_to_json,
    print_progress,
    run_worker,
    select_contestants,
)

from heedful.cli.arguments import parse_script_arguments

MODELS: dict[str, dict[str, Any]] = {
    "road": {"d_model": 256, "d_embedding": 128, "dropout": 0.4},
    "tiny": {"d_model": 16, "d_embedding": 8, "dropout": 0.4},
}
"""Sizes of models: road is recipes/road/bahdanau.toml."""
RIVALS = ("plain", "plain-keep", "joeynmt")


@dataclass(frozen=True)
class Options:
    """Compare target tokens per second of training and of greedy decoding."""

    what: tuple[Literal["train", "decode"], ...] = ("train", "decode")
    contestants: tuple[str, ...] = ()
    """contestants to compare; all by default"""
    size: Literal["road", "tiny"] = "road"
    """size of the model"""
    rounds: int = 5
    """number of turns of each contestant"""
    updates: int = 8
    """number of measured updates in each turn of training"""
    warmup: int = 2
    """number of updates before them"""
    batch: tuple[int, ...] = (1, 16, 64)
    """number of sentences that are decoded together"""
    sentences: int = 64
    """number of sentences in each turn"""
    length: int = 20
    """number of tokens of each output"""
    threads: int = 2
    """number of threads of each contestant"""
    batch_tokens: int = 4096
    """number of target tokens of a training batch, including padding"""
    vocabulary: int = 10_000
    """size of the vocabulary"""
    json: Path | None = None
    """JSON file for all measurements"""
    markdown: Path | None = None
    """Markdown file for the tables"""
    quick: bool = False
    """check with a tiny model and one round that the benchmark works"""


def main() -> None:
    """Run the benchmark, or a worker if that is the first argument."""
    if sys.argv[1:2] == ["worker"]:
        from recurrent_engines import build_job_runner

        run_worker(build_job_runner)
        return
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = _build_quick_options(options)
    report = Report(
        "Recurrent models",
        [*describe_machine(), *_describe_conditions(options)],
        raw={"options": options_to_json(options)},
    )
    if "train" in options.what:
        _compare_training(options, report)
    if "decode" in options.what:
        _compare_decoding(options, report)
    report.publish(markdown=options.markdown, json_file=options.json)


def list_trainers(options: Options, *, seed: int) -> list[Contestant]:
    """List the contestants in training, in the order of turns."""
    work = {
        "model": MODELS[options.size],
        "vocabulary": options.vocabulary,
        "batch_tokens": options.batch_tokens,
        "text": None,
        "seed": seed,
    }

    def build_contestant(name: str, who: str, *, keep: bool) -> Contestant:
        return Contestant(name, {"job": "train", "who": who, "keep": keep, "work": work}, threads=options.threads)

    return [
        build_contestant("heedful", "heedful", keep=True),
        build_contestant("plain", "plain", keep=False),
        build_contestant("plain-keep", "plain", keep=True),
    ]


def list_decoders(options: Options) -> list[Contestant]:
    """List the contestants in decoding, in the order of turns."""

    def build_contestant(name: str, needs: str = "torch") -> Contestant:
        settings = {"job": "decode", "who": name, "model": MODELS[options.size], "vocabulary": options.vocabulary}
        return Contestant(name, settings, threads=options.threads, needs=needs)

    return [
        build_contestant("heedful"),
        build_contestant("plain"),
        build_contestant("heedful-feeding"),
        build_contestant("joeynmt", "joeynmt"),
    ]


def _compare_training(options: Options, report: Report) -> None:
    measured: dict[str, list[dict[str, Any]]] = {}
    for turn in range(options.rounds):
        for contestant in _select_contestants(list_trainers(options, seed=turn), options):
            with WorkerGroup(__file__, contestant) as workers:
                if options.warmup:
                    workers.run_job({"updates": options.warmup})
                measurement = workers.run_job({"updates": options.updates})[0]
            measured.setdefault(contestant.name, []).append(measurement)
            speed = measurement["tokens"] / measurement["seconds"]
            print_progress(f"training, round {turn + 1} of {options.rounds}: {contestant.name} {speed:,.0f} tokens/s")
    report.raw["train"] = measured
    speeds = {name: Speeds(tuple(s["tokens"] / s["seconds"] for s in each)) for name, each in measured.items()}
    head, rows = _build_table(speeds)
    rows = [[*row, f"{each[-1]['loss']:.3f}"] for row, each in zip(rows, measured.values(), strict=True)]
    report.tables.append(("Training", [*head, "loss"], rows))


def _compare_decoding(options: Options, report: Report) -> None:
    report.raw["decode"] = {}
    for size in options.batch:
        measured: dict[str, list[dict[str, Any]]] = {}
        for turn in range(options.rounds):
            for contestant in _select_contestants(list_decoders(options), options):
                job = {"batch": size, "sentences": options.sentences, "length": options.length}
                with WorkerGroup(__file__, contestant) as workers:
                    answer = workers.run_job(job)[0]
                answer["tokens"] = sum(map(len, answer["ids"]))
                measured.setdefault(contestant.name, []).append(answer)
                speed = answer["tokens"] / answer["seconds"]
                print_progress(
                    f"decoding by {size}, round {turn + 1} of {options.rounds}: {contestant.name} {speed:,.0f} tokens/s"
                )
        speeds = {name: Speeds(tuple(s["tokens"] / s["seconds"] for s in each)) for name, each in measured.items()}
        head, rows = _build_table(speeds)
        rows = [[*row, _compute_equal_share(name, measured)] for row, name in zip(rows, measured, strict=True)]
        report.tables.append((f"Greedy decoding, {size} sentences at a time", [*head, "equal outputs"], rows))
        report.raw["decode"][str(size)] = {
            name: [{"seconds": each["seconds"], "tokens": each["tokens"]} for each in turns]
            for name, turns in measured.items()
        }


def _compute_equal_share(name: str, measured: dict[str, list[dict[str, Any]]]) -> str:
    """Return the share of outputs that equal those of the other contestant with the same weights."""
    partners = {"heedful": "plain", "plain": "heedful", "heedful-feeding": "joeynmt", "joeynmt": "heedful-feeding"}
    if partners[name] not in measured:
        return "-"
    pairs = list(zip(measured[name][-1]["ids"], measured[partners[name]][-1]["ids"], strict=True))
    return f"{sum(own == other for own, other in pairs) / len(pairs):.1%}"


def _build_table(speeds: dict[str, Speeds]) -> tuple[list[str], list[list[str]]]:
    rivals = [name for name in RIVALS if name in speeds]
    rows = [
        [name, str(speed), *(f"{speed.compute_ratio(speeds[rival]):.2f}" for rival in rivals)]
        for name, speed in speeds.items()
    ]
    return ["contestant", "tokens/s: median (range)", *(f"x {rival}" for rival in rivals)], rows


def _select_contestants(contestants: list[Contestant], options: Options) -> list[Contestant]:
    """Return the contestants named in the options; each name must be a contestant in training or in decoding."""
    known = {contestant.name for contestant in (*list_trainers(options, seed=0), *list_decoders(options))}
    here = {contestant.name for contestant in contestants}
    wanted = [name for name in options.contestants if name in here or name not in known]
    if options.contestants and not wanted:
        return []
    return select_contestants(contestants, wanted)


def _describe_conditions(options: Options) -> list[str]:
    sizes = MODELS[options.size]
    return [
        f"GRU, d_model {sizes['d_model']}, d_embedding {sizes['d_embedding']}, additive attention, vocabulary "
        f"{options.vocabulary}; synthetic sentences",
        f"training: {options.batch_tokens} padded target tokens a batch, dropout {sizes['dropout']}, label smoothing "
        f"0.1; {options.warmup} + {options.updates} updates in each round",
        f"decoding: {options.sentences} sentences, {options.length} tokens each",
        f"{options.threads} threads each; {options.rounds} rounds",
    ]


def _build_quick_options(options: Options) -> Options:
    return replace(
        options,
        size="tiny",
        rounds=1,
        updates=2,
        warmup=1,
        batch=(1, 4),
        sentences=5,
        length=6,
        threads=1,
        batch_tokens=256,
        vocabulary=200,
    )


if __name__ == "__main__":
    main()
