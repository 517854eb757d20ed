"""Output of `heedful search`: as text for a terminal, as an HTML page, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from heedful.inspection.page import escape_page_text, render_html_page
from heedful.inspection.plots import escape_unprintable
from heedful.retrieval.rankings import (
    HighlightedPassage,
    Ordering,
    SearchHit,
    SupportsAnswering,
    TextRange,
    build_search_record,
    highlight_passages,
)
from heedful.tasks.predictor import dump_record

_ORDERING_NAMES: Final[Mapping[Ordering, str]] = {"bm25": "BM25", "encoder": "encoder", "product": "product"}
_SNIPPET_LENGTH: Final = 240
"""Number of characters of a passage shown in a terminal."""
_CONTEXT_LENGTH: Final = 40
"""Number of characters shown before a mark."""
_CSS: Final = (
    ".orders{display:grid;grid-template-columns:repeat(auto-fit,minmax(20rem,1fr));gap:1.5rem}"
    "h3{font-size:1rem;margin:.5rem 0}ol{padding-left:1.6rem;margin:0}li{margin-bottom:1rem}li p{margin:.2rem 0}"
    ".passage{white-space:pre-line;overflow-wrap:anywhere}mark{background:#ffe08a;color:#24262d;border-radius:.15rem}"
)


@dataclass(frozen=True)
class QueryResults:
    """Ranked passages for a question, by each requested ordering."""

    query: str
    orders: Mapping[Ordering, Sequence[HighlightedPassage]]

    def print_table(self, out: IO[str]) -> None:
        """Print the orderings next to each other to the stream `out`; marks are coloured in a terminal and stand
        between asterisks elsewhere.
        """
        console = Console(file=out, highlight=False, emoji=False, markup=False)
        plain = not console.is_terminal
        console.print(Text(escape_unprintable(self.query) or "(empty)", style="bold"))
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 1, 0))
        for ordering in self.orders:
            table.add_column(Text(f"by {_ORDERING_NAMES[ordering]}"), ratio=1, overflow="fold")
        for rank in range(max(map(len, self.orders.values()), default=0)):
            row = [passage[rank] if rank < len(passage) else None for passage in self.orders.values()]
            table.add_row(*(Text() if passage is None else _render_cell(passage, plain=plain) for passage in row))
        if not table.row_count:
            table.add_row(*(Text("nothing found") for _ in self.orders))
        console.print(table)

    def to_html(self) -> str:
        """Return the results as an HTML section."""
        orders = "".join(
            f"<div><h3>by {_ORDERING_NAMES[ordering]}</h3>{_render_list(passages)}</div>"
            for ordering, passages in self.orders.items()
        )
        return (
            f'<section><h2>{escape_page_text(self.query) or "(empty)"}</h2><div class="orders">{orders}</div></section>'
        )

    def to_json(self) -> str:
        """Return the results as JSON on one line."""
        record = dump_record(build_search_record(self.query, self.orders))
        return json.dumps(record, ensure_ascii=False, allow_nan=False)


def mark_results(
    query: str,
    orders: Mapping[Ordering, Sequence[SearchHit]],
    *,
    informative_words: Collection[str],
    answerer: SupportsAnswering | None,
) -> QueryResults:
    """Mark the answers of the `answerer` in the ranked passages of each ordering, or without one the informative words
    of the question.
    """
    return QueryResults(query, highlight_passages(query, orders, rare_terms=informative_words, answerer=answerer))


def render_page(results: Sequence[QueryResults], *, name: str) -> str:
    """Return a self-contained HTML page of the results for several questions; `name` is the index in its title."""
    count = f"{len(results):,} questions" if len(results) != 1 else "1 question"
    return render_html_page(f"{count} to {name}", tables=results, pictures=[], style=_CSS)


def _format_scores(hit: SearchHit) -> str:
    cosine = "" if hit.cosine is None else f", cosine {hit.cosine:.3f}"
    return f"BM25 {hit.bm25:.2f}{cosine}"


def _format_verdict(passage: HighlightedPassage) -> str:
    """Format whether the passage answers the question, with its probability; empty without an answer model."""
    if passage.answer is None or passage.probability is None:
        return ""
    return f"answer {passage.probability:.2f}" if passage.answer else f"no answer {passage.probability:.2f}"


def _render_cell(passage: HighlightedPassage, *, plain: bool) -> Text:
    """Render a passage as a table cell: rank, name, scores, and a snippet with marks, between asterisks if `plain`."""
    hit = passage.hit
    name = f"{hit.passage.id} {hit.passage.title}".strip()
    text = Text()
    text.append(f"{hit.rank}. ", style="bold")
    text.append(escape_unprintable(name), style="cyan")
    text.append(f"\n{', '.join(filter(None, (_format_scores(hit), _format_verdict(passage))))}\n", style="dim")
    start, stop = find_snippet(hit.passage.text, passage.marks)
    if start:
        text.append("… ")
    for piece, marked in _split_at_marks(hit.passage.text, passage.marks, start=start, stop=stop):
        words = escape_unprintable("".join(" " if letter.isspace() else letter for letter in piece))
        text.append(f"**{words}**" if marked and plain else words, style="bold black on yellow" if marked else "")
    if stop < len(hit.passage.text):
        text.append(" …")
    return text


def _render_list(passages: Sequence[HighlightedPassage]) -> str:
    """Render ranked passages as an HTML list."""
    if not passages:
        return '<p class="note">nothing found</p>'
    items = []
    for result in passages:
        passage = result.hit.passage
        title = f"<strong>{escape_page_text(passage.title)}</strong> " if passage.title else ""
        note = ", ".join(filter(None, (_format_scores(result.hit), _format_verdict(result))))
        items.append(
            f'<li><p>{title}<span class="note">{escape_page_text(passage.id)} ({escape_page_text(note)})</span></p>'
            f'<p class="passage">{_render_marks(passage.text, result.marks)}</p></li>'
        )
    return f"<ol>{''.join(items)}</ol>"


def _render_marks(text: str, marks: Sequence[TextRange]) -> str:
    # line feeds stay what they are; every other character that does not show gets a sign
    """Render a text as HTML with its marks."""
    pieces = [
        ("\n".join(map(escape_page_text, piece.split("\n"))), marked)
        for piece, marked in _split_at_marks(text, marks, start=0, stop=len(text))
    ]
    return "".join(f"<mark>{piece}</mark>" if marked else piece for piece, marked in pieces)


def _split_at_marks(text: str, marks: Sequence[TextRange], *, start: int, stop: int) -> Iterable[tuple[str, bool]]:
    """Split the text from `start` to `stop` into pieces; yield each with whether it is marked."""
    position = start
    for mark in marks:
        mark_start, mark_end = max(mark[0], position), min(mark[1], stop)
        if mark_start < mark_end:
            if position < mark_start:
                yield text[position:mark_start], False
            yield text[mark_start:mark_end], True
            position = mark_end
    if position < stop:
        yield text[position:stop], False


def find_snippet(text: str, marks: Sequence[TextRange], *, length: int = _SNIPPET_LENGTH) -> TextRange:
    """Return start and end of the part of a text that contains most marks; at most `length` characters, between
    word boundaries.
    """
    if len(text) <= length:
        return 0, len(text)
    candidates = [0, *(max(0, min(first - _CONTEXT_LENGTH, len(text) - length)) for first, _ in marks)]

    def count_marks(position: int) -> int:
        """Count the marks in the window that starts at a position."""
        return sum(first >= position and behind <= position + length for first, behind in marks)

    best_start = max(candidates, key=count_marks)  # the first of equal ones
    start, stop = best_start, min(best_start + length, len(text))
    if start and not text[start - 1].isspace():
        start = next((at + 1 for at in range(start, min(start + _CONTEXT_LENGTH, stop)) if text[at].isspace()), start)
    if stop < len(text) and not text[stop].isspace():
        stop = next((at for at in range(stop - 1, max(stop - _CONTEXT_LENGTH, start), -1) if text[at].isspace()), stop)
    return start, stop
