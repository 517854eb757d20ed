"""Parts of `heedful inspect` for many texts, and for the comparison of two records."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress

from heedful.atomic_io import write_json
from heedful.cli.output import log
from heedful.errors import DataError
from heedful.inspection.figures.maps import HeadValue, draw_heads_grid
from heedful.inspection.heads import compare_heads
from heedful.inspection.page import PageTable, render_html_page, write_page
from heedful.inspection.record_files import load_record

if TYPE_CHECKING:
    from heedful.cli.options import DirectionOptions
    from heedful.metrics.error_rates import GoldAlignment
    from heedful.tasks.translation.head_statistics import AttentionHead, HeadStatistics, ModelImportance

_HABIT_COLUMNS = {
    "relative_entropy": "entropy",
    "largest": "largest",
    "distance": "distance",
    "diagonal": "same",
    "previous": "previous",
    "next": "next",
    "first": "first",
    "last": "last",
}
"""Columns of the table of head statistics."""


def compare_records(first: Path, second: Path, *, json_file: Path | None) -> None:
    """Print how different the heads of two saved records are, the most different first; write the numbers to
    `json_file` if given.

    Raises:
        RunError: a file is not a record.
        DataError: the records have different texts or no head in common.
    """
    records = load_record(first), load_record(second)
    head_differences = sorted(compare_heads(*records), key=lambda head_difference: -head_difference.divergence)
    rows = [
        [
            f"{head_difference.role} {head_difference.layer}.{head_difference.head}",
            f"{head_difference.divergence:.4f}",
            f"{head_difference.largest:.4f}",
        ]
        for head_difference in head_differences
    ]
    notes = ["Jensen-Shannon divergence in bits, mean over queries; largest difference of any weight."]
    print(PageTable(f"{first} and {second}", ["head", "divergence", "largest"], rows, notes).format_text(), end="")
    pairs = list(zip(*(record.written for record in records), strict=False))
    if pairs:
        max_difference = max(
            abs(first_token.log_probability - second_token.log_probability) for first_token, second_token in pairs
        )
        print(f"log-probabilities of the written tokens: at most {max_difference:.4f} nats apart")
    if json_file is not None:
        _write_json(json_file, {"heads": [asdict(head_difference) for head_difference in head_differences]})


def survey_heads(
    run: Path,
    data: Path,
    *,
    gold: Path | None,
    importance: bool,
    sentences: int,
    page: Path | None,
    json_file: Path | None,
    direction: DirectionOptions,
    **load_kwargs: Any,
) -> None:
    """Print statistics of all heads over the first `sentences` pairs of a parallel text and, for `importance`, the loss
    of quality without each head. With `gold` alignments the statistics have error rates; `page` and `json_file` are
    outputs.

    Raises:
        RunError: the folder is not a trained translation run.
        DataError: the text or the gold alignments cannot be used.
    """
    from heedful.cli.options import ParallelTextOptions
    from heedful.data.context import add_context, get_source_with_context, get_text
    from heedful.generation.search import GreedySearch
    from heedful.runs.load import load_predictor
    from heedful.tasks.translation.head_statistics import collect_head_statistics, list_heads
    from heedful.tasks.translation.head_statistics import measure_head_importance as worth_of_heads
    from heedful.tasks.translation.translator import Translator

    gold_links = None if gold is None else _read_gold(gold, sentences)
    text = list(islice(ParallelTextOptions(data=data).build_reader(), sentences))
    if gold_links is not None and len(gold_links) != len(text):
        raise DataError(f"{gold}: {len(gold_links)} lines for {len(text)} sentences of {data}; they must match")
    translator = direction.apply_to(load_predictor(Translator, run, use="translates", **load_kwargs))
    pairs = [
        (get_source_with_context(pair), pair.target) for pair in add_context(text, max_sentences=translator.context)
    ]
    if unread := translator.unread(pairs):
        log(f"{len(unread):,} of {len(pairs):,} sentences: longer than the model reads, left out")
        if len(unread) == len(pairs):
            raise DataError(f"{data}: no sentence is short enough for this model; give another file")
        pairs = [pair for index, pair in enumerate(pairs) if index not in unread]
        gold_links = (
            None if gold_links is None else [links for index, links in enumerate(gold_links) if index not in unread]
        )
    with _show_progress("reading", len(pairs)) as tick:
        habits = collect_head_statistics(translator, pairs, gold=gold_links, on_progress=tick)
    importances = None
    if importance:
        nonempty_pairs = [(source, target) for source, target in pairs if get_text(source).strip() and target.strip()]
        search = GreedySearch(translator.target.special.eos, getattr(translator.search, "filters", ()))
        with _show_progress("without a head", len(list_heads(translator))) as tick:
            importances = worth_of_heads(translator, nonempty_pairs, search=search, on_progress=tick)
    tables = [_build_habits_table(habits, f"{run} on {len(pairs):,} sentences of {data}")]
    if importances is not None:
        tables.append(_build_importance_table(importances))
    print("\n".join(table.format_text() for table in tables), end="")
    if page is not None:
        write_page(
            render_html_page(f"Heads of {run}", tables=tables, pictures=_draw_head_grids(habits, importances)), page
        )
        print(f"written: {page}", file=sys.stderr)
    if json_file is not None:
        _write_json(json_file, _habits_to_json(habits, importances))


def _read_gold(path: Path, sentences: int) -> list[GoldAlignment]:
    """Read gold alignments, at most one for each of `sentences` lines."""
    from heedful.data.readers import read_lines
    from heedful.metrics.error_rates import GoldAlignment

    lines = enumerate(islice(read_lines(path), sentences), 1)
    return [GoldAlignment.parse(line, location=f"{path}:{number}") for number, line in lines]


def _build_habits_table(habits: Sequence[HeadStatistics], title: str) -> PageTable:
    """Build the table of the statistics of each head, with notes on uniform and unchanging heads; error rates only if
    there are some.
    """
    aligned = any(head_habits.error_rate is not None for head_habits in habits)
    columns = ["head", *_HABIT_COLUMNS.values(), *(["AER"] if aligned else [])]
    rows = []
    for head_habits in habits:
        numbers = [_format_number(head_habits.averages[name]) for name in _HABIT_COLUMNS]
        rate = [] if not aligned else ["-" if head_habits.error_rate is None else f"{head_habits.error_rate:.3f}"]
        rows.append([head_habits.head.title, *numbers, *rate])
    notes = [
        "Means over queries. entropy: 1 is uniform over what is visible; largest weight; distance in tokens; weight on "
        "the same, previous, next, first and last token.",
        *(
            f"{head_habits.head.title} is nearly uniform."
            for head_habits in habits
            if head_habits.averages["uniform"] > 0.5
        ),
        *(
            f"{head_habits.head.title} hardly changes from query to query."
            for head_habits in habits
            if head_habits.averages["unchanging"] > 0.5
        ),
    ]
    return PageTable(title, columns, rows, notes)


def _build_importance_table(importance: ModelImportance) -> PageTable:
    """Build the table of the quality that is lost without each head."""
    ranked = sorted(importance.heads, key=lambda loss: -loss.nats)
    rows = [[loss.head.title, f"{loss.bleu:+.2f}", f"{loss.nats:+.4f}"] for loss in ranked]
    notes = [
        f"Loss when one head is removed, from BLEU {importance.bleu:.2f} (greedy) and {importance.nats:.4f} nats a "
        "token; above 0, the head is needed."
    ]
    return PageTable("Importance", ["head", "BLEU lost", "nats lost"], rows, notes)


def _format_number(number: float) -> str:
    """Format a number with two digits; - for NaN."""
    return "-" if math.isnan(number) else f"{number:.2f}"


def _draw_head_grids(habits: Sequence[HeadStatistics], importance: ModelImportance | None) -> list[str]:
    """Draw heads as grids of squares: sharpness, alignment quality if it was measured, and importance if given."""

    def draw_grid(title: str, values: Sequence[tuple[AttentionHead, float]], *, digits: int = 2) -> str:
        """Draw one value for each head."""
        rated = [HeadValue(head.role, head.layer, head.number, value) for head, value in values]
        return draw_heads_grid(rated, title=title, digits=digits)

    entropies = [(head_habits.head, head_habits.averages["relative_entropy"]) for head_habits in habits]
    pictures = [draw_grid("Entropy: 0 looks at one token, 1 at all equally", entropies)]
    alignment_scores = [
        (head_habits.head, 1 - head_habits.error_rate) for head_habits in habits if head_habits.error_rate is not None
    ]
    if alignment_scores:
        pictures.append(draw_grid("Alignment: 1 minus the error rate", alignment_scores))
    if importance is not None:
        pictures.append(
            draw_grid(
                "BLEU lost without the head", [(head_habits.head, head_habits.bleu) for head_habits in importance.heads]
            )
        )
        nats_lost = [(head_habits.head, head_habits.nats) for head_habits in importance.heads]
        pictures.append(draw_grid("Nats lost without the head, for each token", nats_lost, digits=3))
    return pictures


def _habits_to_json(habits: Sequence[HeadStatistics], importances: ModelImportance | None) -> dict[str, Any]:
    """Return statistics and importance of heads as JSON values."""

    def head_to_json(head_habits: HeadStatistics) -> dict[str, Any]:
        """Return the statistics of one head."""
        numbers = {name: None if math.isnan(value) else value for name, value in head_habits.averages.items()}
        return {"head": asdict(head_habits.head), **numbers, "alignment_error_rate": head_habits.error_rate}

    importance = {} if importances is None else {"importance": asdict(importances)}
    return {"heads": [head_to_json(each) for each in habits], **importance}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file and log its path."""
    write_json(path, content)
    print(f"written: {path}", file=sys.stderr)


@contextmanager
def _show_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar of `total` steps, with the name `label`, on standard error if that is a terminal. Yield a
    function that advances it by a number of steps.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.advance(task, done)
