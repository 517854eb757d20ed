"""`heedful evaluate`: how good a run is, with everything somebody else needs to get the same numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from heedful.cli.arguments import MaybeInt, MaybePath, MaybeText, parse
from heedful.cli.likelihood import show_likelihood
from heedful.cli.parallel import TextOptions
from heedful.cli.searching import SearchOptions
from heedful.errors import DataError, RecipeError

if TYPE_CHECKING:
    from heedful.data.readers import Pair, Reader
    from heedful.tasks.translation.face import Translator


@dataclass(frozen=True)
class Arguments:
    """BLEU, chrF and TER with signatures, perplexity, BLEU by source length; and whether two systems really differ.

    Without text options the run's own test set is used, or its validation set. A system is a run folder, or a file of
    translations, one a line. Runs of other tasks than translation are measured on their own test or validation set: by
    perplexity per token, word and character, or by what they monitor in training.
    """

    system: Annotated[Path, tyro.conf.Positional]
    """run folder, or file of translations"""
    text: Annotated[TextOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=TextOptions)
    against: MaybePath = None
    """a second system, compared by paired bootstrap"""
    lowercase: bool = False
    """compare lowercased text"""
    tokenize: str = "13a"
    """how BLEU cuts words (13a, intl, zh, ja-mecab, char, none)"""
    searching: Annotated[SearchOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=SearchOptions)
    samples: int = 1000
    """corpora drawn for confidence intervals and the paired bootstrap"""
    seed: int = 1
    """of the bootstrap"""
    context: MaybeInt = None
    """of language models: tokens that are read at a time; data.length if not given"""
    stride: MaybeInt = None
    """of language models: of them, how many are predicted at a time, the others being read only; all if not given"""
    save: MaybePath = None
    """file to write the translations to"""
    format: Literal["text", "json"] = "text"
    """a table, or JSON"""
    task: MaybeText = None
    """of runs with several tasks: measure this one alone"""
    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    threads: MaybeInt = None
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
    _check(given)

    import torch

    from heedful.metrics.translation import bleu_metric

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    task = _task(given.system) if given.system.is_dir() else "translation"
    if task != "language_modelling" and (given.context is not None or given.stride is not None):
        raise RecipeError(f"--context and --stride: {given.system} is no language model")
    if task != "multitask" and given.task is not None:
        raise RecipeError(f"--task: {given.system} has one task; leave it out")
    if task != "translation":
        return _measure(given, task=task)
    bleu_metric(lowercase=given.lowercase, tokenize=given.tokenize)  # complains before anything is translated
    pairs = list(_reader(given))
    first = _system(given.system, pairs, given=given)
    if given.save is not None:
        _save(first.translations, given.save)
    second = None if given.against is None else _system(given.against, pairs, given=given)
    real = [pair for pair in pairs if _is_real(pair)]
    references = [pair.target for pair in real]
    report = _report(first, [pair.source for pair in real], references, given=given)
    if second is not None:
        report["against"] = _comparison(first, second, references, given=given)
    if given.format == "json":
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _show(report)
    sys.stdout.flush()
    return 0


def _task(folder: Path) -> str:
    from heedful.runs.load import open_run

    task: str = open_run(folder).recipe.task
    return task


def _measure(given: Arguments, *, task: str) -> int:
    """The metrics of a run that does not translate."""
    if given.text.named or given.against is not None or given.save is not None:
        raise RecipeError(f"{given.system}: does not translate; it is measured on its own test or validation set alone")
    from heedful.runs.measure import measure
    from heedful.tasks.language.measure import measure_language

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    if task == "language_modelling":
        part, found = measure_language(
            given.system, context=given.context, stride=given.stride, device=given.device, say=say
        )
        show_likelihood(given.system, part, found, form=given.format)
        sys.stdout.flush()
        return 0
    if task in ("classification", "spans", "tagging"):
        _labelled(given, say=say)
        return 0
    if task == "multitask":
        from heedful.cli.measured import show_tasks

        show_tasks(given.system, task=given.task, form=given.format, device=given.device, say=say)
        return 0
    part, metrics = measure(given.system, device=given.device, say=say)
    if given.format == "json":
        print(json.dumps({"system": str(given.system), "part": part, **metrics}, indent=2))
    else:
        print(f"{given.system}: {part}")
        for name, value in sorted(metrics.items()):
            print(f"{name:<10}  {value:9.4f}")
    sys.stdout.flush()
    return 0


def _labelled(given: Arguments, *, say: Callable[[str], None]) -> None:
    """The metrics of a run of labels beside those of the most frequent one."""
    from heedful.cli.measured import content, table
    from heedful.runs.labelled_measure import measure_labelled

    found = measure_labelled(given.system, device=given.device, say=say)
    if given.format == "json":
        print(json.dumps({"system": str(given.system), **content(found)}, indent=2, ensure_ascii=False))
    else:
        print(f"{given.system}: {found.part}, {found.examples:,} examples\n\n{table(found)}")
    sys.stdout.flush()


def _check(given: Arguments) -> None:
    for name, least in (("samples", 1), ("threads", 1), ("seed", 0)):
        number = getattr(given, name)
        if number is not None and number < least:
            raise RecipeError(f"--{name}: {number}; must be at least {least}")
    for path in (given.system, given.against):
        if path is not None and not path.exists():
            raise RecipeError(f"{path}: there is neither such a run folder nor such a file; check the path")
    if given.save is not None:
        try:
            with given.save.open("a", encoding="utf-8"):
                pass
        except OSError as error:
            raise DataError(f"{given.save}: cannot be written ({error.strerror}); choose another --save") from None


def _is_real(pair: Pair) -> bool:
    """A pair with an empty side tells nothing about a system."""
    return bool(pair.source and pair.target)


def _save(translations: list[str], path: Path) -> None:
    try:
        path.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}); choose another --save") from None


def _reader(given: Arguments) -> Reader[Pair]:
    if given.text.named:
        return given.text.reader()
    if not given.system.is_dir():
        raise RecipeError(f"{given.system}: a file of translations needs --source and --target, or --data")
    from heedful.runs.load import open_task

    data = open_task("translation", given.system).recipe.data
    reader: Reader[Pair] = data.reader(data.measured)
    return reader


def _system(path: Path, pairs: list[Pair], *, given: Arguments) -> _System:
    """Translations of the pairs that are real."""
    if not path.is_dir():
        from heedful.data.readers import read_lines

        lines = list(read_lines(path))
        if len(lines) != len(pairs):
            raise DataError(f"{path}: has {len(lines)} lines, but there are {len(pairs)} references; give one for each")
        return _System(str(path), [t for t, pair in zip(lines, pairs, strict=True) if _is_real(pair)], None, None)
    import time

    from heedful.runs.load import load_as
    from heedful.runs.memory import keep_pages
    from heedful.tasks.searches import build_length, build_search
    from heedful.tasks.translation.face import Translator

    keep_pages()
    sources = [pair.source for pair in pairs if _is_real(pair)]
    references = [pair.target for pair in pairs if _is_real(pair)]
    translator = load_as(Translator, path, use="translates", device=given.device)
    config = given.searching.config(translator.generation)
    search, length = build_search(config, translator.target.special), build_length(config)
    began = time.perf_counter()
    found = [each.text for each in translator.translate(sources, search=search, length=length)]
    seconds = time.perf_counter() - began
    return _System(str(path), found, _perplexity(translator, sources, references), seconds)


def _perplexity(translator: Translator, sources: list[str], references: list[str]) -> float:
    from heedful.metrics.likelihood import perplexity

    scores = translator.score(list(zip(sources, references, strict=True)))
    return perplexity(sum(s.log_probability for s in scores), sum(s.count for s in scores))


def _report(system: _System, sources: list[str], references: list[str], *, given: Arguments) -> dict[str, Any]:
    from heedful.metrics.report import evaluate

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


def _comparison(first: _System, second: _System, references: list[str], *, given: Arguments) -> dict[str, Any]:
    from heedful.metrics.bootstrap import CountedBLEU, CountedChrF, paired_bootstrap

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
    """Plain lines: a signature must never be cut to the width of a terminal."""
    intervals = {interval["name"]: interval for interval in report["intervals"]}
    took = f", translated in {report['seconds']:.1f} s" if report["seconds"] is not None else ""
    print(f"{report['system']}: {report['sentences']:,} sentences{took}\n")
    width = max(len(score["name"]) for score in report["scores"])
    print(f"{'metric':<{width}}  {'value':>7}  {'95 % interval':<16}  signature")
    for score in report["scores"]:
        interval = intervals.get(score["name"])
        shown = f"{interval['low']:.2f} to {interval['high']:.2f}" if interval else ""
        print(f"{score['name']:<{width}}  {score['value']:>7.2f}  {shown:<16}  {score['signature']}")
    if report["perplexity"] is not None:
        print(f"{'perplexity':<{width}}  {report['perplexity']:>7.3f}  {'':<16}  of the references, per token")
    print("\nBLEU by words in the source")
    for band in report["bleu_by_length"]:
        end = f"to {band['to']}" if band["to"] is not None else "or more"
        print(f"  {band['from']:>3} {end:<8} {band['bleu']:6.2f}  ({band['sentences']:,} sentences)")
    if "against" in report:
        print(f"\nagainst {report['against']['system']} (paired bootstrap)")
        for each in report["against"]["comparisons"]:
            print(
                f"  {each['name']:<6} {each['first']['value']:.2f} and {each['second']['value']:.2f}: "
                f"difference {each['difference']['value']:+.2f} "
                f"({each['difference']['low']:+.2f} to {each['difference']['high']:+.2f}), p = {each['p_value']:.3f}"
            )
