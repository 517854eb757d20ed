"""Reader of texts and their labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from heedful.data.readers import ExampleReader, read_records


@dataclass(frozen=True)
class LabelledText:
    """A text and its labels."""

    text: str
    labels: tuple[str, ...]


class LabelledTexts(ExampleReader[LabelledText]):
    """Reader of JSON lines with `text` and `labels`."""

    def __iter__(self) -> Iterator[LabelledText]:
        for _, record in read_records(self.paths[0]):
            yield LabelledText(record.get_text("text"), record.get_texts("labels"))
