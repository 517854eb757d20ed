"""Reading: a text and its labels on each line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from heedful.data.readers import Reader, json_object, read_lines, text_field
from heedful.errors import DataError


@dataclass(frozen=True)
class LabelledText:
    """A text and what is true of it."""

    text: str
    labels: tuple[str, ...]


class LabelledTexts(Reader[LabelledText]):
    """Objects with `text` and `labels`, one a line."""

    def __iter__(self) -> Iterator[LabelledText]:
        for number, line in enumerate(read_lines(self.paths[0]), 1):
            place = f"{self.paths[0]}:{number}"
            fields = json_object(line, place=place)
            labels = fields.get("labels")
            if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
                raise DataError(f'{place}: needs "labels", a list of texts that may be empty; mend the line')
            yield LabelledText(text_field(fields, "text", place=place), tuple(labels))
