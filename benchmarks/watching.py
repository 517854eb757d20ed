"""What the inspector costs while nobody inspects: the speed of translation without it, with it, and after it.

    python benchmarks/watching.py
    python benchmarks/watching.py --rounds 30 --threads 1 --json watching.json
    python benchmarks/watching.py --quick                                # whether all of it runs

Four processes have the same random model and translate the same sentences greedily, `length` tokens each:

without     only what models and search need; that `heedful.inspection` was never imported is checked
again       the same once more: how far apart two equal processes are
imported    the inspection package is imported
inspected   besides, one sentence was recorded before every turn, with all weights and all steps between them

They take turns of some tenths of a second, in an order that changes from round to round; ratios are taken within a
round, then their median over rounds. What they write must be the same.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contest import SIZES, Contestant, Report, Speeds, Team, jsonable, machine, say, serve

from heedful.cli.arguments import parse_script_arguments

NAMES = ("without", "again", "imported", "inspected")
UNSEEN = ("without", "again")
_EOS, _FIRST = 2, 4


@dataclass(frozen=True)
class Options:
    """Sentences per second with and without the inspection package."""

    size: str = "small"
    """of the model: small, base or tiny"""
    rounds: int = 20
    """turns that each process has"""
    sentences: int = 16
    """translated together in each turn"""
    length: int = 20
    """tokens of each sentence and of each translation"""
    vocabulary: int = 8000
    """entries"""
    threads: int = 2
    """of each process"""
    json: Path | None = None
    """write every measurement there"""
    markdown: Path | None = None
    """write the table there too"""
    quick: bool = False
    """tiny model, two rounds: whether the benchmark works"""


def main() -> None:
    """Reads the command line; a worker of ours is told apart by its first word."""
    if sys.argv[1:2] == ["serve"]:
        serve(build)
        return
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = replace(options, size="tiny", rounds=2, sentences=2, length=4, vocabulary=50, threads=1)
    report = Report("Translation beside the inspector", machine(), raw={"options": jsonable(options)})
    measured = _measure(options)
    report.raw["seconds"] = measured
    speeds = {name: Speeds(tuple(options.sentences / each for each in seconds)) for name, seconds in measured.items()}
    rows = [[name, str(speed), *_ratio(speed, speeds["without"])] for name, speed in speeds.items()]
    head = ["process", "sentences/s: median (range)", "x without: median", "middle half"]
    report.tables.append((f"Greedy, {options.sentences} sentences at a time", head, rows))
    report.publish(markdown=options.markdown, json_file=options.json)


def build(settings: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The worker's side."""
    import torch

    from heedful.architectures.build import DataSizes, build_sequence_to_sequence
    from heedful.architectures.model import TransformerConfig
    from heedful.generation import SuppressTokens
    from heedful.generation.search import GreedySearch
    from heedful.tensors import Tokens

    torch.manual_seed(1)
    shape = {**SIZES[settings["size"]], "dropout": 0.0}
    config = TransformerConfig.model_validate(shape)
    vocabulary, count, length = settings["vocabulary"], settings["sentences"], settings["length"]
    model: Any = build_sequence_to_sequence(config, DataSizes(vocabulary, vocabulary, length)).eval()
    source = Tokens.from_ids(torch.randint(_FIRST, vocabulary, (count, length)), pad=0)
    prompt = Tokens.from_ids(torch.ones(count, 1, dtype=torch.long), pad=0)
    search = GreedySearch(_EOS, (SuppressTokens((0, 1, _EOS)),))  # such models know no end
    limit, streams = torch.full((count,), length), torch.arange(count)

    def translate(_job: dict[str, Any]) -> dict[str, Any]:
        if settings["who"] == "inspected":
            _inspect(model, source, prompt)
        begin = time.perf_counter()
        with torch.inference_mode():
            found = search(
                model.step, model.init_state(source), prompt, max_new_tokens=limit, prefix=None, rng_streams=streams
            )
        seconds = time.perf_counter() - begin
        imported = any(name.startswith("heedful.inspection") for name in sys.modules)
        return {"seconds": seconds, "imported": imported, "ids": [each[0].ids for each in found]}

    if settings["who"] not in UNSEEN:
        import heedful.inspection.capture
        import heedful.inspection.web  # noqa: F401 - whether importing it costs anything is the question
    return translate


def _inspect(model: Any, source: Any, prompt: Any) -> None:
    """Records the first sentence and the first step of its translation."""
    import torch

    from heedful.inspection.capture import capture_attention
    from heedful.tensors import Tokens

    def first(tokens: Tokens) -> Tokens:
        return Tokens(tokens.ids[:1], tokens.positions[:1])

    with torch.inference_mode(), capture_attention(model) as captured:
        model.step(first(prompt), model.init_state(first(source)))
    assert all(each.walk for each in captured.build_maps(with_steps=True)), "everything was recorded"


def _measure(options: Options) -> dict[str, list[float]]:
    """The seconds of each turn of each process."""
    shared = {
        "size": options.size,
        "vocabulary": options.vocabulary,
        "sentences": options.sentences,
        "length": options.length,
    }
    measured: dict[str, list[float]] = {name: [] for name in NAMES}
    with ExitStack() as stack:
        teams = {
            name: stack.enter_context(
                Team(__file__, Contestant(name, {"who": name, **shared}, threads=options.threads))
            )
            for name in NAMES
        }
        for team in teams.values():
            team.ask({})
        for turn in range(options.rounds):
            shift = turn % len(NAMES)
            answers = {name: teams[name].ask({})[0] for name in (*NAMES[shift:], *NAMES[:shift])}
            for name, answer in answers.items():
                measured[name].append(answer["seconds"])
                assert answer["imported"] == (name not in UNSEEN), name
                assert answer["ids"] == answers["without"]["ids"], "all write the same"
            say(
                f"round {turn + 1} of {options.rounds}: "
                + ", ".join(f"{n} {a['seconds']:.3f}" for n, a in answers.items())
            )
    return measured


def _ratio(mine: Speeds, other: Speeds) -> list[str]:
    """How many times as fast, and between which ratios half of the rounds lie."""
    ratios = [one / two for one, two in zip(mine.rounds, other.rounds, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return [f"{mine.over(other):.3f}", f"{low:.3f} to {high:.3f}"]


if __name__ == "__main__":
    main()
