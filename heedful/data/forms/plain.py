"""Bare text: one text in a file, documents on its lines or between empty ones, or in a field of JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, final

from heedful.data.forms.faults import Fault, Garbled, Leaked, Repeated
from heedful.data.forms.form import Example, Form, Found, by_part
from heedful.data.forms.glance import Glance, Objects, Plain
from heedful.data.forms.languages import guessed
from heedful.data.forms.naming import Part
from heedful.data.forms.saving import LineSaver, Saver
from heedful.data.forms.sketch import fingerprint
from heedful.data.forms.tables import Table, chosen
from heedful.data.readers import read_lines

Unit = Literal["paragraphs", "stretches", "lines", "fields"]
_ENDS: Final = re.compile(r"[.!?…\u3002\uff01\uff1f:;\"'»”)\]]\s*$")
_BLOCKS: Final = 30
"""Paragraphs from which on a text is split between them."""
_LONGEST: Final = 200
"""Lines of a stretch, at most."""


@final
@dataclass(frozen=True, kw_only=True)
class TextFound(Found):
    """Bare text.

    Attributes:
        unit: what is kept together when it is split.
        kind: what a recipe calls it.
        often: a stretch ends at one line of so many.
        field: name of the field of JSON; empty where there is none.
    """

    unit: Unit
    kind: str
    often: int = 1
    field: str = ""

    @property
    def seen(self) -> str:
        """What is between documents."""
        return {
            "paragraphs": "text with empty lines between paragraphs",
            "stretches": "text without empty lines",
            "lines": "a text on each line",
            "fields": "a JSON object on each line",
        }[self.unit]

    @property
    def taken(self) -> str:
        """What is learned."""
        known = f" ({self.languages[0]})" if self.languages and self.languages[0] else ""
        whole = {
            "text": f"the file is one text{known}",
            "lines": f"each line is a document{known}",
            "blocks": f"empty lines stand between documents{known}",
            "jsonl": f"field {self.field} is a document{known}",
        }
        return whole[self.kind]

    def examples(self, part: Part) -> Iterator[Example]:
        """Unit by unit."""
        path = self.first(part)
        if self.unit == "fields":
            for row in Table(path, _no_columns()).rows([self.field]):
                yield Example(row.values, (), row.line, row.raw, row.values)
            return
        numbered: Iterator[tuple[int, list[str]]]
        if self.unit == "lines":
            numbered = ((number, [line]) for number, line in enumerate(read_lines(path), 1) if line.strip())
        else:
            numbered = _paragraphs(path) if self.unit == "paragraphs" else _stretches(path, self.often)
        for number, lines in numbered:
            text = "\n".join(lines)
            raw = f"{text}\n" if self.unit == "paragraphs" else text
            yield Example((text,), (), number, raw, (text,))

    def table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """The file, and what a document is."""
        if self.kind == "jsonl":
            return {"path": files[0], "field": self.field}
        return {"path": files[0]} | ({} if self.kind in ("text", "blocks") else {"kind": self.kind})

    def saver(self, folder: Path, part: Part, *, zipped: bool) -> Saver:
        """The lines as they are."""
        ending = "jsonl" if self.kind == "jsonl" else "txt"
        return LineSaver(folder / f"{part}.{ending}{'.gz' * zipped}")

    def faults(self) -> Sequence[Fault]:
        """Those of bare text."""
        return [Leaked(), Repeated(self.noun), Garbled(self.noun)]


def _no_columns() -> Objects:
    return Objects((), frozenset(), ())


def _paragraphs(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines between empty ones, and the number of the first."""
    lines: list[str] = []
    begin = 1
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            begin = begin if lines else number
            lines.append(line)
        elif lines:
            yield begin, lines
            lines = []
    if lines:
        yield begin, lines


def _stretches(path: Path, often: int) -> Iterator[tuple[int, list[str]]]:
    """Lines that follow each other; where one ends depends on its last line alone, not on how many came before."""
    lines: list[str] = []
    number = 0
    for number, line in enumerate(read_lines(path), 1):
        lines.append(line)
        if len(lines) == _LONGEST or fingerprint(line) % often == 0:
            yield number - len(lines) + 1, lines
            lines = []
    if lines:
        yield number - len(lines) + 1, lines


@final
@dataclass(frozen=True)
class PlainText(Form):
    """One file of text for each part.

    Attributes:
        certainty: that it is one.
        whole: whether a file may be one text; else empty lines stand between documents.
    """

    certainty: float = 0.85
    whole: bool = True

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """Documents on lines where nearly all lines end like sentences, else one text."""
        parts = by_part(files)
        if columns or any(len(each) > 1 or not isinstance(each[0].shape, Plain) for each in parts.values()):
            return
        train = (parts.get("train") or next(iter(parts.values())))[0]
        assert isinstance(train.shape, Plain)
        lines = train.shape.lines
        filled = [line for line in lines if line.strip()]
        ended = sum(bool(_ENDS.search(line)) for line in filled) / len(filled)
        blank = len(filled) < len(lines)
        kind, unit = ("text" if self.whole else "blocks"), "paragraphs"
        notes: list[str] = []
        if not blank and (ended > 0.7 or not self.whole):
            kind = unit = "lines"
            notes = ["each line is taken for a text of its own; leave kind away below [data] if they follow each other"]
        elif self.whole and _blocks(lines) < _BLOCKS:
            unit = "stretches"
        yield TextFound(
            files={part: [each[0].path] for part, each in parts.items()},
            certainty=self.certainty if unit != "stretches" else min(0.6, self.certainty),
            few=200 if unit == "stretches" else 1000,
            noun={"paragraphs": "paragraphs", "stretches": "stretches", "lines": "lines"}[unit],
            languages=[guessed(filled[:1000])],
            unit=unit,  # type: ignore[arg-type]  # one of the three
            kind=kind,
            often=max(1, min(32, len(lines) // 200)),
            notes=notes if self.whole else [],
        )


def _blocks(lines: Sequence[str]) -> int:
    return sum(1 for before, line in zip(["", *lines], lines, strict=False) if line.strip() and not before.strip())


@final
@dataclass(frozen=True)
class TextFields(Form):
    """A field of JSON that holds documents."""

    certainty: float = 0.85

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """The one field of text; less certain where there are others."""
        tables = chosen(files)
        if tables is None or len(columns) > 1:
            return
        table = tables[next(iter(tables))]
        if not table.fields or (isinstance(table.shape, Objects) and table.shape.nested and not columns):
            return
        texts = [table.column(name) for name in columns] or [each for each in table.columns if each.is_text]
        if not texts:
            return
        text = max(texts, key=lambda each: each.words)
        alone = len(texts) == 1 and not any(each.is_label for each in table.columns)
        yield TextFound(
            files={part: [each.path] for part, each in tables.items()},
            certainty=self.certainty if alone or columns else 0.3,
            languages=[guessed(table.values(text.name)[:1000])],
            unit="fields",
            kind="jsonl",
            field=text.name,
        )
