"""Compare the speed of generating text with one thread: the engines of heedful and CTranslate2's generator.

    python benchmarks/writing.py                       # random weights, mini and small
    python benchmarks/writing.py --size mini --batch 1 16 --rounds 5
    python benchmarks/writing.py --quick               # checks in a few seconds that everything runs

All engines have the same random weights and continue the same prompts by greedy search. The end of a text is forbidden,
so each continuation has the same number of tokens. All engines run in one process, in turns. Speeds are from the
processor time of the best round, because other programs change it less than the wall-clock time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from heedful.cli.arguments import parse_script_arguments

os.environ["OMP_NUM_THREADS"] = "1"

from comparison import Report, describe_machine, is_installed, options_to_json, print_progress, time_in_turns

SIZES: dict[str, dict[str, Any]] = {
    "mini": {"d_model": 128, "heads": 4, "layers": 4},
    "small": {"d_model": 384, "heads": 6, "layers": 6},
    "tiny": {"d_model": 16, "heads": 2, "layers": 1},
}
"""nanoGPT's sizes for a CPU and for a GPU, and small ones for trying out the benchmark."""
PROMPT = 8
"""Number of letters of a prompt."""

WriteTexts = Callable[[list[list[int]]], None]


@dataclass(frozen=True)
class Options:
    """Compare tokens per second of processor time."""

    size: tuple[Literal["mini", "small", "tiny"], ...] = ("mini", "small")
    """sizes of the models"""
    batch: tuple[int, ...] = (1, 16)
    """number of texts at a time"""
    rounds: int = 5
    """number of turns of each engine for each setting"""
    tokens: int = 100
    """number of tokens of each continuation"""
    vocabulary: int = 65
    json: Path | None = None
    """JSON file for all measurements"""
    markdown: Path | None = None
    """Markdown file for the tables"""
    quick: bool = False
    """check with a tiny model and one round that the benchmark works"""


def main() -> None:
    """Run the benchmark with the options of the command line."""
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = Options(("tiny",), (1, 3), 1, 5, 20, json=options.json, markdown=options.markdown, quick=True)
    notes = [
        *describe_machine(),
        f"one thread, processor time, best of {options.rounds} rounds",
        f"{options.tokens} tokens behind prompts of {PROMPT}",
    ]
    report = Report("Writing", notes, raw={"options": options_to_json(options)})
    for size in options.size:
        with tempfile.TemporaryDirectory() as folder:
            _compare_engines(size, Path(folder), options, report)
    report.publish(markdown=options.markdown, json_file=options.json)


def _compare_engines(size: str, folder: Path, options: Options, report: Report) -> None:
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    engines = _build_engines(size, folder, options)
    dice = torch.Generator().manual_seed(1)
    measured: dict[str, list[list[float]]] = {name: [] for name in engines}
    for batch in options.batch:
        prompts = torch.randint(10, options.vocabulary - 1, (batch, PROMPT), generator=dice).tolist()
        work = {name: partial(write, prompts) for name, write in engines.items()}
        for write in work.values():
            write()
        seconds = time_in_turns(work, rounds=options.rounds, about=f"{size}, batch {batch}: ")
        for name, each in seconds.items():
            measured[name].append([batch * options.tokens / second for second in each])
    report.raw[size] = measured
    best = {name: [max(speeds) for speeds in rows] for name, rows in measured.items()}
    rows = [[name, *(f"{speed:,.0f}" for speed in speeds)] for name, speeds in best.items()]
    head = ["engine", *map(str, options.batch)]
    report.tables.append((f"{size}: tokens per second, by texts at a time", head, rows))
    if other := best.get("ct2 int8"):
        ratios = [
            [name, *(f"{a / b:.2f}" for a, b in zip(speeds, other, strict=True))]
            for name, speeds in best.items()
            if name.startswith("heedful")
        ]
        report.tables.append((f"{size}: over CTranslate2's int8", head, ratios))


def _build_engines(size: str, folder: Path, options: Options) -> dict[str, WriteTexts]:
    import synthetic_data

    import heedful
    from heedful.engines.select_engine import ENGINES
    from heedful.generation import SuppressTokens
    from heedful.generation.search import GreedySearch
    from heedful.runs.device import tune_malloc
    from heedful.runs.export import export_ctranslate2

    tune_malloc()
    positions = {"kind": "learned", "length": 256}
    model = {"kind": "transformer", **SIZES[size], "positions": positions}
    run = synthetic_data.create_language_model_run(folder, options.vocabulary, model)
    is_native_here = is_installed("heedful_native")
    names = [name for name in ENGINES if name in ("torch", "int8") or (is_native_here and name.startswith("native"))]
    writers = {name: heedful.load(run, kind=heedful.TextGenerator, device="cpu", engine=name) for name in names}
    tokenizer = writers["torch"].tokenizer
    eos = tokenizer.special.eos
    search = GreedySearch(eos, (SuppressTokens((eos,)),))

    def build_heedful_writer(writer: heedful.TextGenerator) -> WriteTexts:
        return lambda prompts: _discard(
            writer.write([tokenizer.decode(prompt) for prompt in prompts], search=search, limit=options.tokens)
        )

    generators = {f"heedful {name}": build_heedful_writer(writer) for name, writer in writers.items()}
    if not is_installed("ctranslate2"):
        print_progress("CTranslate2 is left out: ctranslate2 is not installed")
        return generators
    import ctranslate2

    export_ctranslate2(run, folder / "ct2")
    end = tokenizer.to_pieces([eos])
    for name in ("float32", "int8"):
        generator = ctranslate2.Generator(str(folder / "ct2"), compute_type=name, inter_threads=1, intra_threads=1)
        generators[f"ct2 {name}"] = _build_ctranslate2_writer(generator, tokenizer, end, options.tokens)
    return generators


def _build_ctranslate2_writer(generator: Any, tokenizer: Any, end: list[str], tokens: int) -> WriteTexts:
    def write(prompts: list[list[int]]) -> None:
        generator.generate_batch(
            [[*end, *tokenizer.to_pieces(prompt)] for prompt in prompts],
            max_batch_size=len(prompts),
            beam_size=1,
            max_length=tokens,
            min_length=tokens,
            include_prompt_in_result=False,
            suppress_sequences=[end],
        )

    return write


def _discard(_: object) -> None:
    """Discard the generated texts."""


if __name__ == "__main__":
    main()
