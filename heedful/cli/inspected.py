"""What `heedful inspect` says of many texts, and of two records of one."""

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

from heedful.cli.output import say
from heedful.errors import DataError
from heedful.inspection.figures.maps import Rated, heads_grid
from heedful.inspection.heads import differences
from heedful.inspection.page import Table, html_page, write_page
from heedful.inspection.record_files import load_record
from heedful.store import write_json

if TYPE_CHECKING:
    from heedful.cli.directions import DirectionOptions
    from heedful.metrics.alignment import Gold
    from heedful.tasks.translation.survey import Habits, Head, Importance

_MEASURES = {
    "relative_entropy": "entropy",
    "largest": "largest",
    "distance": "distance",
    "diagonal": "same",
    "previous": "previous",
    "next": "next",
    "first": "first",
    "last": "last",
}
"""Columns of the table of habits."""


def compare_records(first: Path, second: Path, *, json_file: Path | None) -> None:
    """Prints how far the heads of two records are apart, the farthest first.

    Raises:
        RunError: a file is no record.
        DataError: they are not of the same text, or have no head in common.
    """
    records = load_record(first), load_record(second)
    found = sorted(differences(*records), key=lambda each: -each.divergence)
    rows = [
        [f"{each.role} {each.layer}.{each.head}", f"{each.divergence:.4f}", f"{each.largest:.4f}"] for each in found
    ]
    notes = ["Jensen-Shannon divergence in bits, mean over queries; largest difference of any weight."]
    print(Table(f"{first} and {second}", ["head", "divergence", "largest"], rows, notes).text(), end="")
    pairs = list(zip(*(record.written for record in records), strict=False))
    if pairs:
        apart = max(abs(one.log_probability - other.log_probability) for one, other in pairs)
        print(f"log-probabilities of the written tokens: at most {apart:.4f} nats apart")
    if json_file is not None:
        _write_json(json_file, {"heads": [asdict(each) for each in found]})


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
    **how: Any,
) -> None:
    """Prints the habits of all heads over a text and, if wanted, what the model is without each of them.

    Raises:
        RunError: no trained translation run.
        DataError: the text or the gold alignments cannot be used.
    """
    from heedful.cli.options import TextOptions
    from heedful.data.context import asked, in_context, text_of
    from heedful.generation.search import Greedy
    from heedful.runs.load import load_as
    from heedful.tasks.translation.face import Translator
    from heedful.tasks.translation.survey import heads_of, survey
    from heedful.tasks.translation.survey import importance as worth_of_heads

    truth = None if gold is None else _gold(gold, sentences)
    text = list(islice(TextOptions(data=data).reader(), sentences))
    if truth is not None and len(truth) != len(text):
        raise DataError(f"{gold}: {len(truth)} lines for {len(text)} sentences of {data}; they must match")
    translator = direction.of(load_as(Translator, run, use="translates", **how))
    pairs = [(asked(pair), pair.target) for pair in in_context(text, sentences=translator.context)]
    if unread := translator.unread(pairs):
        say(f"{len(unread):,} of {len(pairs):,} sentences: longer than the model reads, left out")
        if len(unread) == len(pairs):
            raise DataError(f"{data}: no sentence is short enough for this model; give one that has some")
        pairs = [pair for place, pair in enumerate(pairs) if place not in unread]
        truth = None if truth is None else [each for place, each in enumerate(truth) if place not in unread]
    with _progress("reading", len(pairs)) as tick:
        habits = survey(translator, pairs, gold=truth, tick=tick)
    worth = None
    if importance:
        whole = [(source, target) for source, target in pairs if text_of(source).strip() and target.strip()]
        search = Greedy(translator.target.special.eos, getattr(translator.search, "filters", ()))
        with _progress("without a head", len(heads_of(translator))) as tick:
            worth = worth_of_heads(translator, whole, search=search, tick=tick)
    tables = [_habits_table(habits, f"{run} on {len(pairs):,} sentences of {data}")]
    if worth is not None:
        tables.append(_worth_table(worth))
    print("\n".join(table.text() for table in tables), end="")
    if page is not None:
        write_page(html_page(f"Heads of {run}", tables=tables, pictures=_pictures(habits, worth)), page)
        print(f"written: {page}", file=sys.stderr)
    if json_file is not None:
        _write_json(json_file, _numbers(habits, worth))


def _gold(path: Path, sentences: int) -> list[Gold]:
    from heedful.data.readers import read_lines
    from heedful.metrics.alignment import Gold

    lines = enumerate(islice(read_lines(path), sentences), 1)
    return [Gold.parse(line, place=f"{path}:{number}") for number, line in lines]


def _habits_table(habits: Sequence[Habits], title: str) -> Table:
    aligned = any(each.error_rate is not None for each in habits)
    columns = ["head", *_MEASURES.values(), *(["AER"] if aligned else [])]
    rows = []
    for each in habits:
        numbers = [_two(each.averages[name]) for name in _MEASURES]
        rate = [] if not aligned else ["-" if each.error_rate is None else f"{each.error_rate:.3f}"]
        rows.append([each.head.name, *numbers, *rate])
    notes = [
        "Means over queries. entropy: 1 is uniform over what is visible; largest weight; distance in tokens; weight on "
        "the same, previous, next, first and last token.",
        *(f"{each.head.name} is nearly uniform." for each in habits if each.averages["uniform"] > 0.5),
        *(
            f"{each.head.name} hardly changes from query to query."
            for each in habits
            if each.averages["unchanging"] > 0.5
        ),
    ]
    return Table(title, columns, rows, notes)


def _worth_table(found: Importance) -> Table:
    ranked = sorted(found.heads, key=lambda each: -each.nats)
    rows = [[each.head.name, f"{each.bleu:+.2f}", f"{each.nats:+.4f}"] for each in ranked]
    notes = [
        f"What is lost without each head alone, of BLEU {found.bleu:.2f} (greedy) and {found.nats:.4f} nats a token; "
        "above 0 the head is needed."
    ]
    return Table("Importance", ["head", "BLEU lost", "nats lost"], rows, notes)


def _two(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:.2f}"


def _pictures(habits: Sequence[Habits], worth: Importance | None) -> list[str]:
    """Heads as squares: how sharp they look, how well they align, what they are worth."""

    def grid(title: str, values: Sequence[tuple[Head, float]], *, digits: int = 2) -> str:
        rated = [Rated(head.role, head.layer, head.number, value) for head, value in values]
        return heads_grid(rated, title=title, digits=digits)

    sharp = [(each.head, each.averages["relative_entropy"]) for each in habits]
    pictures = [grid("Entropy: 0 looks at one token, 1 at all alike", sharp)]
    aligned = [(each.head, 1 - each.error_rate) for each in habits if each.error_rate is not None]
    if aligned:
        pictures.append(grid("Alignment: 1 minus the error rate", aligned))
    if worth is not None:
        pictures.append(grid("BLEU lost without the head", [(each.head, each.bleu) for each in worth.heads]))
        lost = [(each.head, each.nats) for each in worth.heads]
        pictures.append(grid("Nats lost without the head, for each token", lost, digits=3))
    return pictures


def _numbers(habits: Sequence[Habits], worth: Importance | None) -> dict[str, Any]:
    def one(each: Habits) -> dict[str, Any]:
        numbers = {name: None if math.isnan(value) else value for name, value in each.averages.items()}
        return {"head": asdict(each.head), **numbers, "alignment_error_rate": each.error_rate}

    importance = {} if worth is None else {"importance": asdict(worth)}
    return {"heads": [one(each) for each in habits], **importance}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_json(path, content)
    print(f"written: {path}", file=sys.stderr)


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, where that is a terminal; what it yields is told that so many more are done."""
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
