"""SWAG (Zellers et al. 2018): choose which of four endings continues a film scene; CSV with a header."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from heedful.data.labelled import MultipleChoiceExample
from heedful.data.readers import ExampleReader, read_csv_rows
from heedful.errors import DataError
from heedful.tasks.benchmarks.definitions import BenchmarkDefinition, BenchmarkFile, Example

_ENDINGS: Final = ("ending0", "ending1", "ending2", "ending3")
_REQUIRED_COLUMNS: Final = ("sent1", "sent2", *_ENDINGS)
_FIELDS: Final = "sent1, sent2, ending0 to ending3"


@final
class SwagReader(ExampleReader[Example]):
    """Reads SWAG examples: a sentence, and the beginning of the next one with each of four endings."""

    def __iter__(self) -> Iterator[Example]:
        """Yield the examples; raise `DataError` if a column is missing, or a label is not the index of an ending."""
        rows = read_csv_rows(self.paths[0])
        place, header = next(rows, (str(self.paths[0]), []))
        for name in _REQUIRED_COLUMNS:
            if name not in header:
                raise DataError(f"{place}: no column {name!r}; use SWAG's own train.csv, val.csv or test.csv")
        for line_place, values in rows:
            if len(values) != len(header):
                raise DataError(
                    f"{line_place}: {len(values)} columns where the header has {len(header)}; mend the line"
                )
            yield _parse_choice(dict(zip(header, values, strict=True)), place=line_place)


def _parse_choice(fields: dict[str, str], *, place: str) -> MultipleChoiceExample:
    """Convert the fields of a line to an example."""
    first, beginning = fields["sent1"], fields["sent2"]
    names = tuple(" ".join((beginning, fields[name])).strip() for name in _ENDINGS)
    label = fields.get("label", "")
    if label and label not in ("0", "1", "2", "3"):
        raise DataError(f"{place}: the label {label!r} is not 0, 1, 2 or 3; mend the line")
    correct = (int(label),) if label else None
    references = () if correct is None else (names[correct[0]],)
    return MultipleChoiceExample(tuple((first, name) for name in names), names, correct, references, place)


TASKS = (
    BenchmarkDefinition(
        name="swag/swag",
        title="Which ending goes on with what happens? (Zellers et al. 2018)",
        head="choice",
        metrics=("accuracy",),
        folders=("SWAG", "swag"),
        files={
            "train": BenchmarkFile(("train.csv",), f"{_FIELDS}, label", SwagReader),
            "dev": BenchmarkFile(("val.csv",), f"{_FIELDS}, label", SwagReader),
            "test": BenchmarkFile(("test.csv",), _FIELDS, SwagReader),
        },
        texts="sent1; sent2 with an ending",
    ),
)
"""The SWAG task."""
