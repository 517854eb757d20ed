"""Compare the speed of translation with one thread: the engines of heedful and CTranslate2.

    python benchmarks/engines.py                       # random weights, small and base
    python benchmarks/engines.py --size small --batch 1 16 --rounds 5
    python benchmarks/engines.py --figures docs/images
    python benchmarks/engines.py --repetition-penalty 1.2
    python benchmarks/engines.py --quick               # checks in a few seconds that everything runs

All engines have the same random weights and translate the same sentences, in batches sorted by length. The end of
sentence is forbidden, and each translation has 20 tokens. All engines run in one process, in turns. Speeds are from the
processor time of the best round, because other programs change it less than the wall-clock time. "Same" is the share of
translations that equal those of heedful's engine `torch`. With random weights the best candidates have nearly equal
scores, so this share is lower than with a trained model. "Products alone" computes only the products of 8-bit integers
that the translations need, in native code. It is the upper limit on this processor, without the products of attention.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from heedful.cli.arguments import parse_script_arguments

os.environ["OMP_NUM_THREADS"] = "1"

from comparison import SIZES, Report, describe_machine, options_to_json, print_progress, time_in_turns


@dataclass(frozen=True)
class Options:
    """Compare sentences per second of processor time."""

    size: tuple[Literal["small", "base", "tiny"], ...] = ("small", "base")
    """sizes of the models"""
    batch: tuple[int, ...] = (1, 16, 64)
    """number of sentences in a batch"""
    beam: tuple[int, ...] = (1, 5)
    """widths of the beam; 1 is greedy search"""
    rounds: int = 3
    """number of turns of each engine for each setting"""
    forced: int = 20
    """number of tokens of each translation"""
    repetition_penalty: float = 1.0
    """penalty on earlier tokens, in all engines; 1 is none"""
    vocabulary: int = 8000
    json: Path | None = None
    """JSON file for all measurements"""
    markdown: Path | None = None
    """Markdown file for the tables"""
    figures: Path | None = None
    """folder for figures"""
    quick: bool = False
    """check with a tiny model and one round that the benchmark works"""


def main() -> None:
    """Run the benchmark with the options of the command line."""
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = replace(
            options, size=("tiny",), batch=(1, 4), beam=(1, 2), rounds=1, forced=4, vocabulary=200, quick=True
        )
    notes = [
        *describe_machine(),
        f"one thread, processor time, best of {options.rounds} rounds, {options.forced} tokens a translation, "
        f"repetition penalty {options.repetition_penalty}",
    ]
    report = Report("Engines", notes, raw={"options": options_to_json(options)})
    for size in options.size:
        with tempfile.TemporaryDirectory() as folder:
            _compare_engines(size, Path(folder), options, report)
    report.publish(markdown=options.markdown, json_file=options.json)


def _compare_engines(size: str, folder: Path, options: Options, report: Report) -> None:
    import synthetic_data
    import torch
    from translation_engines import ProductsEngine, SearchRules, build_batches

    import heedful
    from heedful.data.readers import read_lines

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    run = synthetic_data.create_translation_run(folder, options.vocabulary, SIZES[size])
    text = list(read_lines(synthetic_data.write_source_text(folder / "source.txt", 400, options.vocabulary)))
    tokenizer = heedful.load(run, device="cpu").source
    rules = SearchRules(options.forced, forced=True, repetition_penalty=options.repetition_penalty)
    engines = _build_engines(run, folder, rules, tokenizer)
    if "heedful native" in engines:
        engines["products alone"] = ProductsEngine(SIZES[size], options.vocabulary, tokenizer, rules)
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}
    for beam in options.beam:
        for batch in options.batch:
            batches = build_batches(text, tokenizer, count=max(16, batch), size=batch)
            count = sum(map(len, batches))
            work = {name: partial(engine.translate, batches, beam=beam) for name, engine in engines.items()}
            written = {name: translate() for name, translate in work.items()}
            seconds = time_in_turns(work, rounds=options.rounds, about=f"{size}, beam {beam}, batch {batch}: ")
            for name in engines:
                same = sum(map(str.__eq__, written[name], written["heedful torch"])) / count
                speeds = [count / each for each in seconds[name]]
                measured[name].append({"beam": beam, "batch": batch, "speeds": speeds, "same": same})
    report.raw[size] = measured
    settings = [(beam, batch) for beam in options.beam for batch in options.batch]
    head = [f"{batch} x {beam}" for beam, batch in settings]
    best = {name: [max(each["speeds"]) for each in rows] for name, rows in measured.items()}
    rows = [[name, *(f"{speed:,.1f}" for speed in speeds)] for name, speeds in best.items()]
    report.tables.append((f"{size}: sentences per second, batch x beam", ["engine", *head], rows))
    ratios = [
        [f"{name} / {other}", *(f"{a / b:.2f}" for a, b in zip(best[name], best[other], strict=True))]
        for name, other in (
            ("heedful torch", "ct2 float32"),
            ("heedful native-float32", "ct2 float32"),
            ("heedful int8", "ct2 int8"),
            ("heedful native", "ct2 int8"),
            *((name, "products alone") for name in best if name != "products alone"),
        )
        if name in best and other in best
    ]
    for name in ("heedful int8", "heedful native", "heedful native-float32"):
        if name in measured:
            ratios.append([f"same as torch: {name}", *(f"{each['same']:.2f}" for each in measured[name])])
    report.tables.append((f"{size}: ratios", ["", *head], ratios))
    if options.figures is not None and "products alone" in best:
        _draw_figures(size, best, options)


def _draw_figures(size: str, best: dict[str, list[float]], options: Options) -> None:
    """Draw the share of products alone that each engine reaches, by the number of sentences in a batch."""
    from heedful.inspection.plots import LOGARITHMIC, PlotLine, draw_line_plot

    assert options.figures is not None
    options.figures.mkdir(parents=True, exist_ok=True)
    limit = best["products alone"]
    for number, beam in enumerate(options.beam):
        own = slice(number * len(options.batch), (number + 1) * len(options.batch))
        lines = [
            PlotLine(
                name, tuple((b, s / most) for b, s, most in zip(options.batch, speeds[own], limit[own], strict=True))
            )
            for name, speeds in best.items()
            if name != "products alone"
        ]
        picture = draw_line_plot(
            lines,
            title=f"{size}: {'greedy search' if beam == 1 else f'a beam of {beam}'}",
            x_name="sentences in a batch",
            y_name="speed, as a share of products of bytes alone",
            x_ticks=[(batch, str(batch)) for batch in options.batch],
            x_scale=LOGARITHMIC,
        )
        (options.figures / f"engines-{size}-{beam}.svg").write_text(picture, encoding="utf-8")


def _build_engines(run: Path, folder: Path, rules: Any, tokenizer: Any) -> dict[str, Any]:
    from comparison import is_installed
    from translation_engines import CTranslate2Engine, HeedfulEngine

    from heedful.engines.select_engine import ENGINES

    is_native_here = is_installed("heedful_native")
    names = [name for name in ENGINES if name in ("torch", "int8") or (is_native_here and name.startswith("native"))]
    engines: dict[str, Any] = {f"heedful {name}": HeedfulEngine(run, rules, engine=name) for name in names}
    if not is_installed("ctranslate2"):
        print_progress("CTranslate2 is left out: ctranslate2 is not installed")
        return engines
    from heedful.runs.export import export_ctranslate2

    export_ctranslate2(run, folder / "ct2")
    for name in ("float32", "int8"):
        settings = {"compute": name, "inter_threads": 1, "threads": 1}
        engines[f"ct2 {name}"] = CTranslate2Engine(folder / "ct2", tokenizer, rules, settings)
    return engines


if __name__ == "__main__":
    main()
