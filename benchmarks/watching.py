"""Measure what the inspector costs while it is not used: the speed of translation without it, with it, and after it.

    python benchmarks/watching.py
    python benchmarks/watching.py --rounds 30 --threads 1 --json watching.json
    python benchmarks/watching.py --quick                                # checks that everything runs

Four processes have the same random model and translate the same sentences greedily, `length` tokens each:

without     imports only models and search; the benchmark checks that `heedful.inspection` is not imported
again       a second process of this kind, for the difference between equal processes
imported    imports the inspection package too
inspected   also records one sentence before each turn, with all weights and all steps between them

They take turns of some tenths of a second, in an order that changes from round to round. Ratios are the median over
rounds of the ratios within a round. All processes must have the same output.
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

from comparison import (
    SIZES,
    Contestant,
    Report,
    Speeds,
    WorkerGroup,
    describe_machine,
    options_to_json,
    print_progress,
    run_worker,
)

from heedful.cli.arguments import parse_script_arguments

NAMES = ("without", "again", "imported", "inspected")
WITHOUT_INSPECTION = ("without", "again")
_EOS, _FIRST = 2, 4


@dataclass(frozen=True)
class Options:
    """Compare sentences per second with and without the inspection package."""

    size: str = "small"
    """size of the model: small, base or tiny"""
    rounds: int = 20
    """number of turns of each process"""
    sentences: int = 16
    """number of sentences that are translated together in each turn"""
    length: int = 20
    """number of tokens of each sentence and of each translation"""
    vocabulary: int = 8000
    """size of the vocabulary"""
    threads: int = 2
    """number of threads of each process"""
    json: Path | None = None
    """JSON file for all measurements"""
    markdown: Path | None = None
    """Markdown file for the table"""
    quick: bool = False
    """check with a tiny model and two rounds that the benchmark works"""


def main() -> None:
    """Run the benchmark, or a worker if that is the first argument."""
    if sys.argv[1:2] == ["worker"]:
        run_worker(build_job_runner)
        return
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = replace(options, size="tiny", rounds=2, sentences=2, length=4, vocabulary=50, threads=1)
    report = Report("Translation beside the inspector", describe_machine(), raw={"options": options_to_json(options)})
    measured = _measure_turns(options)
    report.raw["seconds"] = measured
    speeds = {name: Speeds(tuple(options.sentences / each for each in seconds)) for name, seconds in measured.items()}
    rows = [[name, str(speed), *_format_ratio(speed, speeds["without"])] for name, speed in speeds.items()]
    head = ["process", "sentences/s: median (range)", "x without: median", "middle half"]
    report.tables.append((f"Greedy, {options.sentences} sentences at a time", head, rows))
    report.publish(markdown=options.markdown, json_file=options.json)


def build_job_runner(settings: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that translates and measures the time."""
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
    search = GreedySearch(_EOS, (SuppressTokens((0, 1, _EOS)),))  # random models do not learn to end a sentence
    limit, streams = torch.full((count,), length), torch.arange(count)

    def translate(_job: dict[str, Any]) -> dict[str, Any]:
        if settings["who"] == "inspected":
            _record_first_step(model, source, prompt)
        start = time.perf_counter()
        with torch.inference_mode():
            results = search(
                model.step, model.init_state(source), prompt, max_new_tokens=limit, prefix=None, rng_streams=streams
            )
        seconds = time.perf_counter() - start
        imported = any(name.startswith("heedful.inspection") for name in sys.modules)
        return {"seconds": seconds, "imported": imported, "ids": [each[0].ids for each in results]}

    if settings["who"] not in WITHOUT_INSPECTION:
        import heedful.inspection.capture
        import heedful.inspection.web  # noqa: F401 - the cost of importing it is measured
    return translate


def _record_first_step(model: Any, source: Any, prompt: Any) -> None:
    """Record the first sentence and the first step of its translation."""
    import torch

    from heedful.inspection.capture import capture_attention
    from heedful.tensors import Tokens

    def take_first(tokens: Tokens) -> Tokens:
        return Tokens(tokens.ids[:1], tokens.positions[:1])

    with torch.inference_mode(), capture_attention(model) as captured:
        model.step(take_first(prompt), model.init_state(take_first(source)))
    assert all(each.walk for each in captured.build_maps(with_steps=True)), "all steps are recorded"


def _measure_turns(options: Options) -> dict[str, list[float]]:
    """Return the seconds of each turn of each process."""
    shared = {
        "size": options.size,
        "vocabulary": options.vocabulary,
        "sentences": options.sentences,
        "length": options.length,
    }
    measured: dict[str, list[float]] = {name: [] for name in NAMES}
    with ExitStack() as stack:
        groups = {
            name: stack.enter_context(
                WorkerGroup(__file__, Contestant(name, {"who": name, **shared}, threads=options.threads))
            )
            for name in NAMES
        }
        for group in groups.values():
            group.run_job({})
        for turn in range(options.rounds):
            shift = turn % len(NAMES)
            answers = {name: groups[name].run_job({})[0] for name in (*NAMES[shift:], *NAMES[:shift])}
            for name, answer in answers.items():
                measured[name].append(answer["seconds"])
                assert answer["imported"] == (name not in WITHOUT_INSPECTION), name
                assert answer["ids"] == answers["without"]["ids"], "all processes have the same output"
            print_progress(
                f"round {turn + 1} of {options.rounds}: "
                + ", ".join(f"{n} {a['seconds']:.3f}" for n, a in answers.items())
            )
    return measured


def _format_ratio(own: Speeds, other: Speeds) -> list[str]:
    """Return the median ratio of speeds, and the range of the middle half of the ratios."""
    ratios = [one / two for one, two in zip(own.rounds, other.rounds, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return [f"{own.compute_ratio(other):.3f}", f"{low:.3f} to {high:.3f}"]


if __name__ == "__main__":
    main()
