"""SWAG (Zellers et al. 2018): which of four endings goes on with what was seen in a film; CSV with a header."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from heedful.data.labelled import Choice, csv_rows
from heedful.data.readers import Reader
from heedful.errors import DataError
from heedful.tasks.benchmarks.definitions import Definition, Example, Source

_ENDINGS: Final = ("ending0", "ending1", "ending2", "ending3")
_NEEDED: Final = ("sent1", "sent2", *_ENDINGS)
_FIELDS: Final = "sent1, sent2, ending0 to ending3"


@final
class Swag(Reader[Example]):
    """A sentence, and how the next one may go on: its beginning with each of the endings."""

    def __iter__(self) -> Iterator[Example]:
        """`DataError` where a column is missing, or a label is no number of an ending."""
        rows = csv_rows(self.paths[0])
        place, head = next(rows, (str(self.paths[0]), []))
        for name in _NEEDED:
            if name not in head:
                raise DataError(f"{place}: no column {name!r}; take SWAG's own train.csv, val.csv or test.csv")
        for where, values in rows:
            if len(values) != len(head):
                raise DataError(f"{where}: {len(values)} columns where the header has {len(head)}; mend the line")
            yield _choice(dict(zip(head, values, strict=True)), place=where)


def _choice(fields: dict[str, str], *, place: str) -> Choice:
    first, begun = fields["sent1"], fields["sent2"]
    names = tuple(" ".join((begun, fields[name])).strip() for name in _ENDINGS)
    written = fields.get("label", "")
    if written and written not in ("0", "1", "2", "3"):
        raise DataError(f"{place}: the label {written!r} is none of 0, 1, 2 and 3; mend the line")
    right = (int(written),) if written else None
    golds = () if right is None else (names[right[0]],)
    return Choice(tuple((first, name) for name in names), names, right, golds, place)


TASKS = (
    Definition(
        name="swag/swag",
        title="Which ending goes on with what happens? (Zellers et al. 2018)",
        head="choice",
        metrics=("accuracy",),
        folders=("SWAG", "swag"),
        sources={
            "train": Source(("train.csv",), f"{_FIELDS}, label", Swag),
            "dev": Source(("val.csv",), f"{_FIELDS}, label", Swag),
            "test": Source(("test.csv",), _FIELDS, Swag),
        },
        texts="sent1; sent2 with an ending",
    ),
)
"""The one task."""
