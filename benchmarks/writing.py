"""How fast each engine of heedful goes on with texts, by processor time of one thread, beside CTranslate2's generator.

    python benchmarks/writing.py                       # random weights, mini and small
    python benchmarks/writing.py --size mini --batch 1 16 --rounds 5
    python benchmarks/writing.py --quick               # whether all of it runs, in a few seconds

The same random weights in all engines; each goes on with the same prompts by greedy search, so many tokens as are asked
for, the end of a text being forbidden. One process and one thread, engine after engine in each round; what counts is
processor time, which a busy machine spoils less than the clock, and the best round of each.
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

from contest import Report, in_turns, installed, jsonable, machine, say

SIZES: dict[str, dict[str, Any]] = {
    "mini": {"d_model": 128, "heads": 4, "layers": 4},
    "small": {"d_model": 384, "heads": 6, "layers": 6},
    "tiny": {"d_model": 16, "heads": 2, "layers": 1},
}
"""The settings of nanoGPT for a CPU and for a GPU, and one for trying the benchmark out."""
PROMPT = 8
"""Letters of a prompt."""

Write = Callable[[list[list[int]]], None]


@dataclass(frozen=True)
class Options:
    """Tokens per second of processor time, compared."""

    size: tuple[Literal["mini", "small", "tiny"], ...] = ("mini", "small")
    """of the models"""
    batch: tuple[int, ...] = (1, 16)
    """texts at a time"""
    rounds: int = 5
    """turns of each engine at each setting"""
    tokens: int = 100
    """of each continuation"""
    vocabulary: int = 65
    json: Path | None = None
    """write every measurement there"""
    markdown: Path | None = None
    """write the tables there too"""
    quick: bool = False
    """tiny model, one round: whether the benchmark works"""


def main() -> None:
    """Reads the command line."""
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = Options(("tiny",), (1, 3), 1, 5, 20, json=options.json, markdown=options.markdown, quick=True)
    notes = [
        *machine(),
        f"one thread, processor time, best of {options.rounds} rounds",
        f"{options.tokens} tokens behind prompts of {PROMPT}",
    ]
    report = Report("Writing", notes, raw={"options": jsonable(options)})
    for size in options.size:
        with tempfile.TemporaryDirectory() as folder:
            _compare(size, Path(folder), options, report)
    report.publish(markdown=options.markdown, json_file=options.json)


def _compare(size: str, folder: Path, options: Options, report: Report) -> None:
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    engines = _engines(size, folder, options)
    dice = torch.Generator().manual_seed(1)
    measured: dict[str, list[list[float]]] = {name: [] for name in engines}
    for batch in options.batch:
        prompts = torch.randint(10, options.vocabulary - 1, (batch, PROMPT), generator=dice).tolist()
        work = {name: partial(write, prompts) for name, write in engines.items()}
        for write in work.values():
            write()
        seconds = in_turns(work, rounds=options.rounds, about=f"{size}, batch {batch}: ")
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


def _engines(size: str, folder: Path, options: Options) -> dict[str, Write]:
    import made_up

    import heedful
    from heedful.engines.select_engine import ENGINES
    from heedful.generation import SuppressTokens
    from heedful.generation.search import GreedySearch
    from heedful.runs.device import tune_malloc
    from heedful.runs.export import export_ctranslate2

    tune_malloc()
    positions = {"kind": "learned", "length": 256}
    model = {"kind": "transformer", **SIZES[size], "positions": positions}
    run = made_up.writer(folder, options.vocabulary, model)
    names = [name for name in ENGINES if name != "auto" and (name != "native" or installed("heedful_native"))]
    writers = {name: heedful.load(run, kind=heedful.TextGenerator, device="cpu", engine=name) for name in names}
    tokenizer = writers["torch"].tokenizer
    eos = tokenizer.special.eos
    search = GreedySearch(eos, (SuppressTokens((eos,)),))

    def with_heedful(writer: heedful.TextGenerator) -> Write:
        return lambda prompts: _nothing(
            writer.write([tokenizer.decode(prompt) for prompt in prompts], search=search, limit=options.tokens)
        )

    found = {f"heedful {name}": with_heedful(writer) for name, writer in writers.items()}
    if not installed("ctranslate2"):
        say("CTranslate2 is left out: ctranslate2 is not installed")
        return found
    import ctranslate2

    export_ctranslate2(run, folder / "ct2")
    end = tokenizer.to_pieces([eos])
    for name in ("float32", "int8"):
        generator = ctranslate2.Generator(str(folder / "ct2"), compute_type=name, inter_threads=1, intra_threads=1)
        found[f"ct2 {name}"] = _with_ctranslate2(generator, tokenizer, end, options.tokens)
    return found


def _with_ctranslate2(generator: Any, tokenizer: Any, end: list[str], tokens: int) -> Write:
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


def _nothing(_: object) -> None:
    """What is written is not looked at."""


if __name__ == "__main__":
    main()
