"""How fast each engine of heedful translates with one thread, by processor time, beside CTranslate2's.

    python benchmarks/engines.py                       # random weights, small and base
    python benchmarks/engines.py --size small --batch 1 16 --rounds 5
    python benchmarks/engines.py --figures docs/images
    python benchmarks/engines.py --quick               # whether all of it runs, in a few seconds

The same random weights in all engines, the same sentences in batches sorted by length, from text to text, each
translation 20 tokens long, the end of sentence being forbidden. One process and one thread, engine after engine in each
round; what counts is processor time, which a busy machine spoils less than the clock, and the best round of each.
"Same" is the share of translations that equal those of heedful's engine `torch`; alternatives of random weights are
close to ties, so this says less than the scores of a trained model. "Products alone" makes the products of bytes that
the translations need, by native code, and nothing else: the limit on this processor, of attention's products apart.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from heedful.cli.arguments import parse_script_arguments

os.environ["OMP_NUM_THREADS"] = "1"

from contest import SIZES, Report, in_turns, jsonable, machine, say


@dataclass(frozen=True)
class Options:
    """Sentences per second of processor time, compared."""

    size: tuple[Literal["small", "base", "tiny"], ...] = ("small", "base")
    """of the models"""
    batch: tuple[int, ...] = (1, 16, 64)
    """sentences in a batch"""
    beam: tuple[int, ...] = (1, 5)
    """widths of the beam; 1 is greedy search"""
    rounds: int = 3
    """turns of each engine at each setting"""
    forced: int = 20
    """tokens of each translation"""
    vocabulary: int = 8000
    json: Path | None = None
    """write every measurement there"""
    markdown: Path | None = None
    """write the tables there too"""
    figures: Path | None = None
    """folder for pictures"""
    quick: bool = False
    """tiny model, one round: whether the benchmark works"""


def main() -> None:
    """Reads the command line."""
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = Options(
            ("tiny",), (1, 4), (1, 2), 1, 4, 200, options.json, options.markdown, options.figures, quick=True
        )
    notes = [
        *machine(),
        f"one thread, processor time, best of {options.rounds} rounds, {options.forced} tokens a translation",
    ]
    report = Report("Engines", notes, raw={"options": jsonable(options)})
    for size in options.size:
        with tempfile.TemporaryDirectory() as folder:
            _compare(size, Path(folder), options, report)
    report.publish(markdown=options.markdown, json_file=options.json)


def _compare(size: str, folder: Path, options: Options, report: Report) -> None:
    import made_up
    import torch
    from translation_engines import ProductsAlone, Rules, cut

    import heedful
    from heedful.data.readers import read_lines

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    run = made_up.run(folder, options.vocabulary, SIZES[size])
    text = list(read_lines(made_up.source_text(folder / "source.txt", 400, options.vocabulary)))
    tokenizer = heedful.load(run, device="cpu").source
    engines = _engines(run, folder, Rules(options.forced, forced=True), tokenizer)
    if "heedful native" in engines:
        rules = Rules(options.forced, forced=True)
        engines["products alone"] = ProductsAlone(SIZES[size], options.vocabulary, tokenizer, rules)
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}
    for beam in options.beam:
        for batch in options.batch:
            batches = cut(text, tokenizer, count=max(16, batch), size=batch)
            count = sum(map(len, batches))
            work = {name: partial(engine.translate, batches, beam=beam) for name, engine in engines.items()}
            written = {name: translate() for name, translate in work.items()}
            seconds = in_turns(work, rounds=options.rounds, about=f"{size}, beam {beam}, batch {batch}: ")
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
            ("heedful int8", "ct2 int8"),
            ("heedful native", "ct2 int8"),
            *((name, "products alone") for name in best if name != "products alone"),
        )
        if name in best and other in best
    ]
    for name in ("heedful int8", "heedful native"):
        if name in measured:
            ratios.append([f"same as torch: {name}", *(f"{each['same']:.2f}" for each in measured[name])])
    report.tables.append((f"{size}: ratios", ["", *head], ratios))
    if options.figures is not None and "products alone" in best:
        _draw(size, best, options)


def _draw(size: str, best: dict[str, list[float]], options: Options) -> None:
    """The share of products alone that each engine reaches, by the number of sentences in a batch."""
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


def _engines(run: Path, folder: Path, rules: Any, tokenizer: Any) -> dict[str, Any]:
    from contest import installed
    from translation_engines import CTranslate2, Heedful

    from heedful.engines.select_engine import ENGINES

    names = [name for name in ENGINES if name != "auto" and (name != "native" or installed("heedful_native"))]
    found: dict[str, Any] = {f"heedful {name}": Heedful(run, rules, engine=name) for name in names}
    if not installed("ctranslate2"):
        say("CTranslate2 is left out: ctranslate2 is not installed")
        return found
    from heedful.runs.export import export_ctranslate2

    export_ctranslate2(run, folder / "ct2")
    for name in ("float32", "int8"):
        settings = {"compute": name, "inter_threads": 1, "threads": 1}
        found[f"ct2 {name}"] = CTranslate2(folder / "ct2", tokenizer, rules, settings)
    return found


if __name__ == "__main__":
    main()
