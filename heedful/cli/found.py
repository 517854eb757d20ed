"""What `heedful search` found for a question: for a terminal, as a page, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from heedful.inspection.page import html_page, page_text
from heedful.inspection.plots import readable
from heedful.retrieval.marked import Answers, Mark, Shown, marks_of, record
from heedful.retrieval.orders import Hit, Ordering

_NAMES: Final[Mapping[Ordering, str]] = {"bm25": "BM25", "encoder": "encoder", "product": "product"}
_SNIPPET: Final = 240
"""Characters of a passage in a terminal."""
_BEFORE: Final = 40
"""Characters before what is marked."""
_STYLE: Final = (
    ".orders{display:grid;grid-template-columns:repeat(auto-fit,minmax(20rem,1fr));gap:1.5rem}"
    "h3{font-size:1rem;margin:.5rem 0}ol{padding-left:1.6rem;margin:0}li{margin-bottom:1rem}li p{margin:.2rem 0}"
    ".passage{white-space:pre-line;overflow-wrap:anywhere}mark{background:#ffe08a;color:#24262d;border-radius:.15rem}"
)


@dataclass(frozen=True)
class Found:
    """The passages for a question, best first, by each ordering that was asked for."""

    query: str
    orders: Mapping[Ordering, Sequence[Shown]]

    def print(self, out: IO[str]) -> None:
        """Orderings side by side; what is marked is coloured in a terminal and between asterisks elsewhere."""
        console = Console(file=out, highlight=False, emoji=False, markup=False)
        plain = not console.is_terminal
        console.print(Text(readable(self.query) or "(empty)", style="bold"))
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 1, 0))
        for ordering in self.orders:
            table.add_column(Text(f"by {_NAMES[ordering]}"), ratio=1, overflow="fold")
        for rank in range(max(map(len, self.orders.values()), default=0)):
            shown = [each[rank] if rank < len(each) else None for each in self.orders.values()]
            table.add_row(*(Text() if each is None else _cell(each, plain=plain) for each in shown))
        if not table.row_count:
            table.add_row(*(Text("nothing found") for _ in self.orders))
        console.print(table)

    def html(self) -> str:
        """A part of a page."""
        orders = "".join(
            f"<div><h3>by {_NAMES[ordering]}</h3>{_list(shown)}</div>" for ordering, shown in self.orders.items()
        )
        return f'<section><h2>{page_text(self.query) or "(empty)"}</h2><div class="orders">{orders}</div></section>'

    def json(self) -> str:
        """On one line."""
        return json.dumps(record(self.query, self.orders), ensure_ascii=False, allow_nan=False)


def found(
    query: str, orders: Mapping[Ordering, Sequence[Hit]], *, telling: Collection[str], answerer: Answers | None
) -> Found:
    """The same as it is shown; see `marks_of`."""
    return Found(query, marks_of(query, orders, telling=telling, answerer=answerer))


def page(results: Sequence[Found], *, name: str) -> str:
    """A page that needs nothing else."""
    count = f"{len(results):,} questions" if len(results) != 1 else "1 question"
    return html_page(f"{count} to {name}", tables=results, pictures=[], style=_STYLE)


def _scores(hit: Hit) -> str:
    cosine = "" if hit.cosine is None else f", cosine {hit.cosine:.3f}"
    return f"BM25 {hit.bm25:.2f}{cosine}"


def _verdict(shown: Shown) -> str:
    if shown.answer is None or shown.probability is None:
        return ""
    return f"answer {shown.probability:.2f}" if shown.answer else f"no answer {shown.probability:.2f}"


def _cell(shown: Shown, *, plain: bool) -> Text:
    hit = shown.hit
    name = f"{hit.passage.id} {hit.passage.title}".strip()
    text = Text()
    text.append(f"{hit.rank}. ", style="bold")
    text.append(readable(name), style="cyan")
    text.append(f"\n{', '.join(filter(None, (_scores(hit), _verdict(shown))))}\n", style="dim")
    start, stop = snippet(hit.passage.text, shown.marks)
    if start:
        text.append("… ")
    for part, marked in _parts(hit.passage.text, shown.marks, start=start, stop=stop):
        words = readable("".join(" " if letter.isspace() else letter for letter in part))
        text.append(f"**{words}**" if marked and plain else words, style="bold black on yellow" if marked else "")
    if stop < len(hit.passage.text):
        text.append(" …")
    return text


def _list(shown: Sequence[Shown]) -> str:
    if not shown:
        return '<p class="note">nothing found</p>'
    items = []
    for each in shown:
        passage = each.hit.passage
        title = f"<strong>{page_text(passage.title)}</strong> " if passage.title else ""
        note = ", ".join(filter(None, (_scores(each.hit), _verdict(each))))
        items.append(
            f'<li><p>{title}<span class="note">{page_text(passage.id)} ({page_text(note)})</span></p>'
            f'<p class="passage">{_marked(passage.text, each.marks)}</p></li>'
        )
    return f"<ol>{''.join(items)}</ol>"


def _marked(text: str, marks: Sequence[Mark]) -> str:
    # line feeds stay what they are; every other character that does not show gets a sign
    parts = [
        ("\n".join(map(page_text, part.split("\n"))), marked)
        for part, marked in _parts(text, marks, start=0, stop=len(text))
    ]
    return "".join(f"<mark>{part}</mark>" if marked else part for part, marked in parts)


def _parts(text: str, marks: Sequence[Mark], *, start: int, stop: int) -> Iterable[tuple[str, bool]]:
    """The text from `start` to `stop` in pieces, and whether each is marked."""
    at = start
    for mark in marks:
        first, behind = max(mark[0], at), min(mark[1], stop)
        if first < behind:
            if at < first:
                yield text[at:first], False
            yield text[first:behind], True
            at = behind
    if at < stop:
        yield text[at:stop], False


def snippet(text: str, marks: Sequence[Mark], *, length: int = _SNIPPET) -> Mark:
    """The part of a text, at most `length` characters from one word's edge to another's, that holds most marks."""
    if len(text) <= length:
        return 0, len(text)
    begins = [0, *(max(0, min(first - _BEFORE, len(text) - length)) for first, _ in marks)]

    def held(begin: int) -> int:
        return sum(first >= begin and behind <= begin + length for first, behind in marks)

    begin = max(begins, key=held)  # the first of equal ones
    start, stop = begin, min(begin + length, len(text))
    if start and not text[start - 1].isspace():
        start = next((at + 1 for at in range(start, min(start + _BEFORE, stop)) if text[at].isspace()), start)
    if stop < len(text) and not text[stop].isspace():
        stop = next((at for at in range(stop - 1, max(stop - _BEFORE, start), -1) if text[at].isspace()), stop)
    return start, stop
