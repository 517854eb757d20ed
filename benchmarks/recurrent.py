"""How fast recurrent models train and decode, beside a plain loop over torch's modules and beside Joey NMT.

    python benchmarks/recurrent.py                                       # training and greedy decoding
    python benchmarks/recurrent.py --what decode --batch 1 64
    python benchmarks/recurrent.py --json recurrent.json --markdown recurrent.md
    python benchmarks/recurrent.py --quick                               # whether all of it runs, in half a minute

Training: the model of recipes/road/bahdanau.toml, the same weights at first, the same batches with the same padding,
dropout, label smoothing and Adam, fp32. The plain loop has a packed `nn.GRU`, an `nn.GRUCell` with additive attention
whose keys are projected once, one product for the readouts of all steps, and `functional.cross_entropy`. Counted are
target tokens without padding.

Decoding: greedy, random weights, `length` tokens for each sentence, since such models know no end. Two pairs have the
same weights and must write the same: heedful and the plain loop (attention before the step, as above), and
heedful-feeding and Joey NMT (attention after the step with input feeding, which is what Joey NMT has).

In every round each contestant starts anew in a process of its own and makes some work unmeasured first; ratios are
taken within a round, then their median over rounds.

heedful           as `heedful train` and `heedful translate` do it
plain             the plain loop
plain-keep        the same with glibc told to keep freed pages, as heedful does it
heedful-feeding   heedful's parts put together as Joey NMT's are
joeynmt           Joey NMT's own modules and its own greedy search
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from contest import Contestant, Report, Speeds, Team, jsonable, machine, present, say, serve

from heedful.cli.arguments import parse_script_arguments

MODELS: dict[str, dict[str, Any]] = {
    "road": {"d_model": 256, "d_embedding": 128, "dropout": 0.4},
    "tiny": {"d_model": 16, "d_embedding": 8, "dropout": 0.4},
}
"""road is recipes/road/bahdanau.toml."""
RIVALS = ("plain", "plain-keep", "joeynmt")


@dataclass(frozen=True)
class Options:
    """Target tokens per second of training and of greedy decoding, compared."""

    what: tuple[Literal["train", "decode"], ...] = ("train", "decode")
    contestants: tuple[str, ...] = ()
    """who takes part; everybody unless given"""
    size: Literal["road", "tiny"] = "road"
    """of the model"""
    rounds: int = 5
    """turns that each contestant has"""
    updates: int = 8
    """measured in each turn of training"""
    warmup: int = 2
    """updates before them"""
    batch: tuple[int, ...] = (1, 16, 64)
    """sentences that are decoded together"""
    sentences: int = 64
    """decoded in each turn"""
    length: int = 20
    """tokens of each output"""
    threads: int = 2
    """of each contestant"""
    batch_tokens: int = 4096
    """target tokens of a training batch, padding included"""
    vocabulary: int = 10_000
    """entries"""
    json: Path | None = None
    """write every measurement there"""
    markdown: Path | None = None
    """write the tables there too"""
    quick: bool = False
    """tiny model, one round: whether the benchmark works"""


def main() -> None:
    """Reads the command line; a worker of ours is told apart by its first word."""
    if sys.argv[1:2] == ["serve"]:
        from recurrent_engines import build

        serve(build)
        return
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = _quick(options)
    report = Report("Recurrent models", [*machine(), *_conditions(options)], raw={"options": jsonable(options)})
    if "train" in options.what:
        _train(options, report)
    if "decode" in options.what:
        _decode(options, report)
    report.publish(markdown=options.markdown, json_file=options.json)


def trainers(options: Options, *, seed: int) -> list[Contestant]:
    """Who trains, in the order of turns."""
    work = {
        "model": MODELS[options.size],
        "vocabulary": options.vocabulary,
        "batch_tokens": options.batch_tokens,
        "text": None,
        "seed": seed,
    }

    def entry(name: str, who: str, *, keep: bool) -> Contestant:
        return Contestant(name, {"job": "train", "who": who, "keep": keep, "work": work}, threads=options.threads)

    return [
        entry("heedful", "heedful", keep=True),
        entry("plain", "plain", keep=False),
        entry("plain-keep", "plain", keep=True),
    ]


def decoders(options: Options) -> list[Contestant]:
    """Who decodes, in the order of turns."""

    def entry(name: str, needs: str = "torch") -> Contestant:
        settings = {"job": "decode", "who": name, "model": MODELS[options.size], "vocabulary": options.vocabulary}
        return Contestant(name, settings, threads=options.threads, needs=needs)

    return [entry("heedful"), entry("plain"), entry("heedful-feeding"), entry("joeynmt", "joeynmt")]


def _train(options: Options, report: Report) -> None:
    measured: dict[str, list[dict[str, Any]]] = {}
    for turn in range(options.rounds):
        for contestant in _wanted(trainers(options, seed=turn), options):
            with Team(__file__, contestant) as team:
                if options.warmup:
                    team.ask({"updates": options.warmup})
                stretch = team.ask({"updates": options.updates})[0]
            measured.setdefault(contestant.name, []).append(stretch)
            speed = stretch["tokens"] / stretch["seconds"]
            say(f"training, round {turn + 1} of {options.rounds}: {contestant.name} {speed:,.0f} tokens/s")
    report.raw["train"] = measured
    speeds = {name: Speeds(tuple(s["tokens"] / s["seconds"] for s in each)) for name, each in measured.items()}
    head, rows = _table(speeds)
    rows = [[*row, f"{each[-1]['loss']:.3f}"] for row, each in zip(rows, measured.values(), strict=True)]
    report.tables.append(("Training", [*head, "loss"], rows))


def _decode(options: Options, report: Report) -> None:
    report.raw["decode"] = {}
    for size in options.batch:
        measured: dict[str, list[dict[str, Any]]] = {}
        for turn in range(options.rounds):
            for contestant in _wanted(decoders(options), options):
                job = {"batch": size, "sentences": options.sentences, "length": options.length}
                with Team(__file__, contestant) as team:
                    answer = team.ask(job)[0]
                answer["tokens"] = sum(map(len, answer["ids"]))
                measured.setdefault(contestant.name, []).append(answer)
                speed = answer["tokens"] / answer["seconds"]
                say(
                    f"decoding by {size}, round {turn + 1} of {options.rounds}: {contestant.name} {speed:,.0f} tokens/s"
                )
        speeds = {name: Speeds(tuple(s["tokens"] / s["seconds"] for s in each)) for name, each in measured.items()}
        head, rows = _table(speeds)
        rows = [[*row, _same(name, measured)] for row, name in zip(rows, measured, strict=True)]
        report.tables.append((f"Greedy decoding, {size} sentences at a time", [*head, "same as its twin"], rows))
        report.raw["decode"][str(size)] = {
            name: [{"seconds": each["seconds"], "tokens": each["tokens"]} for each in turns]
            for name, turns in measured.items()
        }


def _same(name: str, measured: dict[str, list[dict[str, Any]]]) -> str:
    """The share of outputs that equal those of the other one with the same weights."""
    twins = {"heedful": "plain", "plain": "heedful", "heedful-feeding": "joeynmt", "joeynmt": "heedful-feeding"}
    if twins[name] not in measured:
        return "-"
    pairs = list(zip(measured[name][-1]["ids"], measured[twins[name]][-1]["ids"], strict=True))
    return f"{sum(mine == theirs for mine, theirs in pairs) / len(pairs):.1%}"


def _table(speeds: dict[str, Speeds]) -> tuple[list[str], list[list[str]]]:
    rivals = [name for name in RIVALS if name in speeds]
    rows = [
        [name, str(speed), *(f"{speed.over(speeds[rival]):.2f}" for rival in rivals)] for name, speed in speeds.items()
    ]
    return ["contestant", "tokens/s: median (range)", *(f"x {rival}" for rival in rivals)], rows


def _wanted(contestants: list[Contestant], options: Options) -> list[Contestant]:
    """Those of them that are wanted; a name counts if it is one of those who train or of those who decode."""
    known = {contestant.name for contestant in (*trainers(options, seed=0), *decoders(options))}
    here = {contestant.name for contestant in contestants}
    wanted = [name for name in options.contestants if name in here or name not in known]
    if options.contestants and not wanted:
        return []
    return present(contestants, wanted)


def _conditions(options: Options) -> list[str]:
    sizes = MODELS[options.size]
    return [
        f"GRU, d_model {sizes['d_model']}, d_embedding {sizes['d_embedding']}, additive attention, vocabulary "
        f"{options.vocabulary}; made-up sentences",
        f"training: {options.batch_tokens} padded target tokens a batch, dropout {sizes['dropout']}, label smoothing "
        f"0.1; {options.warmup} + {options.updates} updates in each round",
        f"decoding: {options.sentences} sentences, {options.length} tokens each",
        f"{options.threads} threads each; {options.rounds} rounds",
    ]


def _quick(options: Options) -> Options:
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
