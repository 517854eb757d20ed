"""Tables and pictures as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Protocol, runtime_checkable

from heedful.atomic_io import atomic_replace
from heedful.inspection.plots import escape_unprintable

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:2rem auto;max-width:76rem;padding:0 1rem;line-height:1.45;color:#24262d;background:#fff;"
    "font-family:ui-sans-serif,system-ui,'Segoe UI','Noto Sans',sans-serif}"
    "h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}h1,h2,p{overflow-wrap:anywhere}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "th,td{padding:.3rem .6rem;border-bottom:1px solid #d9dce3;text-align:right;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}"
    ".long{white-space:normal;overflow-wrap:anywhere;min-width:16ch}"
    ".note{color:#5b6170;font-size:.9rem;max-width:60rem}figure{margin:1.5rem 0}"
    "@media (prefers-color-scheme:dark){body{color:#e4e6ec;background:#16171c}th,td{border-color:#363842}"
    ".note{color:#9aa0af}}"
    "@media (max-width:40rem){body{margin:1rem auto}th,td{padding:.3rem .4rem}}"
)

_MAX_CELL_LENGTH = 24
"""Characters of a cell that stays on one line."""


@runtime_checkable
class PagePart(Protocol):
    """A part of an HTML page."""

    def to_html(self) -> str:
        """Return well-formed elements with all text escaped."""
        ...


@dataclass(frozen=True, repr=False)
class PageTable:
    """A table with title, column headings and notes."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def format_text(self) -> str:
        """Format the table in plain characters: the first column left-aligned, the others right-aligned."""
        cells = [[escape_unprintable(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for first, *others in cells:
            right = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
            lines.append("  ".join([f"{first:<{widths[0]}}", *right]).rstrip())
        notes = [escape_unprintable(note) for note in self.notes]
        return "\n".join([*([escape_unprintable(self.title)] if self.title else []), *lines, *notes]) + "\n"

    def __repr__(self) -> str:
        return self.format_text()

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """Return the table as a part of a page."""
        head = "".join(_render_cell("th", column, ' scope="col"') for column in self.columns)
        rows = ["<tr>" + "".join(_render_cell("td", cell) for cell in row) + "</tr>" for row in self.rows]
        title = f"<h2>{escape_page_text(self.title)}</h2>" if self.title else ""
        notes = [f'<p class="note">{escape_page_text(note)}</p>' for note in self.notes]
        table = [f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>', *rows, "</tbody></table></div>"]
        return "\n".join([title, *table, *notes])


def _render_cell(tag: str, text: str, attributes: str = "") -> str:
    """Return a table cell with the HTML tag `tag` and further attributes, which wraps if it is long, as paths are."""
    wraps = ' class="long"' if len(text) > _MAX_CELL_LENGTH else ""
    return f"<{tag}{attributes}{wraps}>{escape_page_text(text)}</{tag}>"


def render_html_page(title: str, *, tables: Sequence[PagePart], pictures: Sequence[str], style: str = "") -> str:
    """Return an HTML page with tables or other parts, then SVG pictures, for light and dark mode; `style` is more CSS.
    The page is also well-formed XML, and its policy forbids loading or running anything.
    """
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f"<title>{escape_page_text(title)}</title><style>{_STYLE}{style}</style></head><body>",
            f"<h1>{escape_page_text(title)}</h1>",
            *(part.to_html() for part in tables),
            *(f"<figure>{picture}</figure>" for picture in pictures),
            "</body></html>\n",
        ]
    )


def write_page(page: str, path: Path) -> None:
    """Write a page to a file; `TrainingError` if that fails."""
    with atomic_replace(path) as beside:
        beside.write_text(page, encoding="utf-8")


def escape_page_text(text: str) -> str:
    """Escape text for a page, with a visible code for every unprintable character."""
    return escape(escape_unprintable(text))
