"""Tables of texts with a class or a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, final

from heedful.data.forms.columns import Profile
from heedful.data.forms.faults import Constant, Empty, Fault, Garbled, Labels, Leaked, Repeated, Spellings
from heedful.data.forms.form import Example, Form, Found
from heedful.data.forms.glance import LABEL_FIRST, Glance
from heedful.data.forms.languages import guessed
from heedful.data.forms.naming import Part, plain_suffix
from heedful.data.forms.saving import Saver
from heedful.data.forms.tables import Table, chosen
from heedful.data.written_numbers import is_missing, number_in
from heedful.errors import DataError, RecipeError

_RATED: Final = 3
"""Different whole numbers from which on they may be a measure as well as classes."""


@final
@dataclass(frozen=True, kw_only=True)
class LabelledFound(Found):
    """A text or two in columns of a table, and what is said of them in another.

    Attributes:
        tables: that of each part.
        columns: the names of one text or two.
        label: the name of the label's.
        numbers: whether labels are numbers that measure something.
    """

    tables: Mapping[Part, Table]
    columns: Sequence[str]
    label: str
    numbers: bool

    @property
    def seen(self) -> str:
        """The table."""
        return self._table.seen

    @property
    def taken(self) -> str:
        """Which column is what."""
        texts = " and ".join(self._table.called(name) for name in self.columns)
        what = "a number" if self.numbers else "a class"
        return f"{texts} {'get' if len(self.columns) > 1 else 'gets'} {what}, that of {self._table.called(self.label)}"

    @property
    def _table(self) -> Table:
        return self.tables[self.present[0]]

    @property
    def keys(self) -> Mapping[str, Any]:
        """Whether labels are numbers."""
        return {"numbers": True} if self.numbers else {}

    def examples(self, part: Part) -> Iterator[Example]:
        """Row by row."""
        for row in self.tables[part].rows([*self.columns, self.label]):
            *texts, label = row.values
            label = "" if self.numbers and is_missing(label) else label.strip()
            if self.numbers and label and number_in(label) is None:
                raise DataError(
                    f"{self.first(part)}:{row.line}: the label {label!r} is no number; mend the line or choose other "
                    "columns with --columns"
                )
            keys = (texts[0],) if len(texts) == 1 else (texts[0], "\0".join(texts))
            yield Example(tuple(texts), (label,), row.line, row.raw, keys)

    def table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Its columns, by name where they have names."""
        own = self._table
        names = [name if own.header else str(own.number(name)) for name in (*self.columns, self.label)]
        kind = "jsonl" if own.fields else "tsv" if own.delimiter == "\t" else "csv"
        by_name = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}.get(plain_suffix(Path(files[0])), "tsv")
        found: dict[str, Any] = {"path": files[0]} | ({} if kind == by_name else {"kind": kind})
        found |= dict(zip(("text", "pair"), names[:-1], strict=False)) | {"label": names[-1]}
        return found if own.header else {**found, "header": False}

    def saver(self, folder: Path, part: Part, *, zipped: bool) -> Saver:
        """The same table."""
        return self._table.saver(folder, part, zipped=zipped)

    def faults(self) -> Sequence[Fault]:
        """Those of labelled texts."""
        labels = Constant(self.noun) if self.numbers else Labels(self.noun, what=("class", "classes"))
        return [
            labels,
            *([] if self.numbers else [Spellings(self.noun)]),
            Leaked(),
            Empty(self.noun, fatal=True),
            Repeated(
                self.noun,
                conflict="with two labels or more",
                remedy="a model can learn only one of them: decide which is right",
            ),
            Garbled(self.noun),
        ]


@final
@dataclass(frozen=True)
class LabelledColumns(Form):
    """A table with one free text or two, and a column of few values or of numbers."""

    certainty: float = 0.9

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """With the label that is most probably one; less certain where several columns may be."""
        tables = chosen(files)
        if tables is None:
            return
        table = tables[next(iter(tables))]
        if columns:
            if len(columns) not in (2, 3):
                raise RecipeError(
                    f"--columns: {len(columns)} of them; name one text or two and then the label, as in --columns "
                    "text label"
                )
            texts, label = [table.column(name) for name in columns[:-1]], table.column(columns[-1])
            sure = 0.95 if label.is_label or label.is_number else 0.3
            yield self._found(tables, texts, label, certainty=sure, notes=[])
            return
        texts = [each for each in table.columns if each.is_text]
        labels = [each for each in table.columns if each.is_label or (each.is_number and not each.is_label)]
        labels = [each for each in labels if each not in texts]
        if not labels:
            alone = len(table.columns) == 2
            labels = [each for each in table.columns if each.is_constant and (alone or each.is_called_label)]
            texts = [each for each in texts if each not in labels]
        if not texts or not labels:
            return
        ordered = sorted(labels, key=lambda each: each.labelness, reverse=True)
        label, others = ordered[0], [each.name for each in ordered[1:]]
        longest = sorted(sorted(texts, key=lambda each: -each.words)[:2], key=lambda each: each.number)
        sure = self.certainty
        notes = []
        if others and not label.is_called_label:
            sure = 0.6
            notes.append(f"{', '.join(map(repr, others[:4]))} may be labels as well")
        if len(texts) > 2:
            sure = 0.6
            notes.append(f"{', '.join(repr(each.name) for each in texts if each not in longest)} are texts as well")
        if len(longest) == 2 and _in_two_languages(table, longest):
            sure = 0.5
        yield self._found(tables, longest, label, certainty=sure, notes=notes)

    def _found(
        self,
        tables: Mapping[Part, Table],
        texts: Sequence[Profile],
        label: Profile,
        *,
        certainty: float,
        notes: list[str],
    ) -> Found:
        table = tables[next(iter(tables))]
        numbers = label.numeric >= 0.98 and not label.is_label and not label.is_constant
        whole = sum(number_in(value) is not None for value in label.counts)
        if label.is_label and label.numeric >= 0.98 and whole >= _RATED:
            certainty = min(certainty, 0.75)
            notes = [
                *notes,
                f"{label.name!r} holds {whole} whole numbers, taken for classes; if they measure "
                "something, add numbers = true below [data]",
            ]
        share = next((value for value in label.counts if value.endswith("%")), None)
        if numbers and share is not None:
            notes = [*notes, f"percentages are read as shares of 1: {share!r} is {number_in(share):g}"]
        known = {part: each for part, each in tables.items() if _has(each, label.name)}
        notes += [each.left_out for each in tables.values() if each.left_out]
        notes += [f"{each.path} has no labels and is left out" for part, each in tables.items() if part not in known]
        return LabelledFound(
            files={part: [each.path] for part, each in known.items()},
            certainty=certainty,
            tables=known,
            columns=[each.name for each in texts],
            label=label.name,
            numbers=numbers,
            said="numbers" if numbers else "classes",
            called=["text"] if len(texts) == 1 else ["first text", "second text"],
            languages=[guessed(table.values(texts[0].name)[:1000])],
            notes=notes,
            converted=_why_converted(table),
        )


def _why_converted(table: Table) -> str:
    if table.delimiter == LABEL_FIRST:
        return "tables are read with commas or tabs between columns, so labels and texts are written as columns"
    if table.delimiter not in ("", "\t", ","):
        return "tables are read with commas or tabs between columns, so it is written with commas"
    return "its first line says what stands between columns, so it is written without" if table.declared else ""


def _has(table: Table, label: str) -> bool:
    return any(value.strip() for value in islice(table.values(label), 1000)) if _names(table, label) else False


def _names(table: Table, name: str) -> bool:
    return any(column.name == name for column in table.columns)


def _in_two_languages(table: Table, texts: Sequence[Profile]) -> bool:
    first, second = (guessed(table.values(each.name)[:1000]) for each in texts)
    return bool(first and second and first != second)
