"""`heedful evaluate`: translations against references, with everything somebody else needs to get the same numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from heedful.cli.arguments import parse
from heedful.cli.parallel import TextOptions
from heedful.cli.searching import SearchOptions
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.configs.run import Recipe
    from heedful.data.readers import PairReader
    from heedful.tasks.translator import Translator


@dataclass(frozen=True)
class Arguments:
    """BLEU, chrF and TER with signatures, perplexity, BLEU by source length; and whether two systems really differ.

    Without text options the run's own test set is used, or its validation set. A system is a run folder, or a file of
    translations, one a line.
    """

    system: Annotated[Path, tyro.conf.Positional]
    """run folder, or file of translations"""
    text: Annotated[TextOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=TextOptions)
    against: Path | None = None
    """a second system, compared by paired bootstrap"""
    lowercase: bool = False
    """compare lowercased text"""
    tokenize: str = "13a"
    """how BLEU cuts words (13a, intl, zh, ja-mecab, char, none)"""
    options: Annotated[SearchOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=SearchOptions)
    samples: int = 1000
    """corpora drawn for confidence intervals and the paired bootstrap"""
    seed: int = 1
    """of the bootstrap"""
    save: Path | None = None
    """file to write the translations to"""
    format: Literal["text", "json"] = "text"
    """a table, or JSON"""
    device: str | None = None
    """where to compute; a GPU where there is one"""
    threads: int | None = None
    """CPU threads"""


@dataclass(frozen=True)
class _System:
    """Translations of the test set, and the perplexity of the references where a model made them."""

    name: str
    translations: list[str]
    perplexity: float | None
    seconds: float | None


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful evaluate")

    import torch

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    pairs = [pair for pair in _reader(given) if pair.source and pair.target]
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    first = _system(given.system, sources, references, given=given)
    report = _report(first, sources, references, given=given)
    if given.save is not None:
        given.save.write_text("".join(f"{line}\n" for line in first.translations), encoding="utf-8")
    if given.against is not None:
        second = _system(given.against, sources, references, given=given)
        report["against"] = _comparison(first, second, references, given=given)
    if given.format == "json":
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _show(report)
    sys.stdout.flush()
    return 0


def _reader(given: Arguments) -> PairReader:
    from heedful.configs.build_run import build_reader

    if given.text.named:
        return given.text.reader()
    if not given.system.is_dir():
        raise RecipeError(f"{given.system}: a file of translations needs --source and --target, or --data")
    from heedful.artifacts.run import open_run

    data = open_run(given.system).recipe.data
    return build_reader(data.test or data.validation)


def _system(path: Path, sources: list[str], references: list[str], *, given: Arguments) -> _System:
    if not path.is_dir():
        from heedful.data.readers import read_lines

        return _System(str(path), list(read_lines(path)), None, None)
    import time

    from heedful.artifacts.memory import keep_pages
    from heedful.artifacts.run import load, open_run
    from heedful.configs.build_run import build_length, build_search

    keep_pages()
    recipe: Recipe = open_run(path).recipe
    config = given.options.config(recipe.generation)
    translator = load(path, device=given.device)
    translator.length = build_length(config)
    began = time.perf_counter()
    found = [t.text for t in translator.translate(sources, search=build_search(config))]
    seconds = time.perf_counter() - began
    return _System(str(path), found, _perplexity(translator, sources, references), seconds)


def _perplexity(translator: Translator, sources: list[str], references: list[str]) -> float:
    from heedful.evaluation.likelihood import perplexity

    scores = translator.score(list(zip(sources, references, strict=True)))
    return perplexity(sum(s.log_probability for s in scores), sum(s.count for s in scores))


def _report(system: _System, sources: list[str], references: list[str], *, given: Arguments) -> dict[str, Any]:
    from heedful.evaluation.report import evaluate

    found = evaluate(
        system.translations,
        references,
        sources=sources,
        lowercase=given.lowercase,
        tokenize=given.tokenize,
        samples=given.samples,
        seed=given.seed,
    )
    return {
        "system": system.name,
        "sentences": len(references),
        "seconds": system.seconds,
        "perplexity": system.perplexity,
        "scores": [asdict(score) for score in found.scores],
        "intervals": [asdict(interval) for interval in found.intervals],
        "bleu_by_length": [
            {"from": b.shortest, "to": b.longest, "sentences": b.sentences, "bleu": b.score.value} for b in found.bands
        ],
    }


def _comparison(
    first: _System, second: _System, references: list[str], *, given: Arguments
) -> dict[str, Any]:
    from heedful.evaluation.bootstrap import CountedBLEU, CountedChrF, paired_bootstrap

    metrics = (
        CountedBLEU(lowercase=given.lowercase, tokenize=given.tokenize),
        CountedChrF(lowercase=given.lowercase),
    )
    found = paired_bootstrap(
        first.translations,
        second.translations,
        references,
        metrics=metrics,
        samples=given.samples,
        seed=given.seed,
    )
    return {"system": second.name, "comparisons": [asdict(comparison) for comparison in found]}


def _show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    intervals = {interval["name"]: interval for interval in report["intervals"]}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("metric", "value", "95 % interval", "signature"):
        table.add_column(column, justify="right" if column == "value" else "left", no_wrap=True)
    for score in report["scores"]:
        interval = intervals.get(score["name"])
        shown = f"{interval['low']:.2f} to {interval['high']:.2f}" if interval else ""
        table.add_row(score["name"], f"{score['value']:.2f}", shown, score["signature"])
    if report["perplexity"] is not None:
        table.add_row(
            "perplexity", f"{report['perplexity']:.3f}", "", "of the references, per token of this model"
        )
    took = f", translated in {report['seconds']:.1f} s" if report["seconds"] is not None else ""
    console.print(f"{report['system']}: {report['sentences']:,} sentences{took}")
    console.print(table)
    console.print("\nBLEU by words in the source")
    for band in report["bleu_by_length"]:
        end = f"to {band['to']}" if band["to"] is not None else "or more"
        console.print(f"  {band['from']:>3} {end:<8} {band['bleu']:6.2f}  ({band['sentences']:,} sentences)")
    if "against" in report:
        console.print(f"\nagainst {report['against']['system']} (paired bootstrap)")
        for each in report["against"]["comparisons"]:
            console.print(
                f"  {each['name']:<6} {each['first']['value']:.2f} and {each['second']['value']:.2f}: "
                f"difference {each['difference']['value']:+.2f} "
                f"({each['difference']['low']:+.2f} to {each['difference']['high']:+.2f}), p = {each['p_value']:.3f}"
            )
