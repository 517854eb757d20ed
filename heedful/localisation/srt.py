"""SubRip subtitles: a number, times, lines of text, and an empty line behind each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self, final

from heedful.errors import DataError
from heedful.localisation.documents import Edit, TextDocument, Unit
from heedful.localisation.encodings import Content, decoded, read_bytes
from heedful.localisation.memory import NO_MATCHES, Match
from heedful.localisation.segments import Segment

_CUE: Final = re.compile(
    r"^[ \t]*(?P<number>\d+)[ \t]*\r?\n"
    r"[ \t]*\d+:\d\d:\d\d[,.]\d{1,3}[ \t]*-->[ \t]*\d+:\d\d:\d\d[,.]\d{1,3}[^\r\n]*"
    r"(?:\r?\n(?P<text>(?:[^\r\n]*\S[^\r\n]*(?:\r?\n|\Z))*))?",
    re.MULTILINE,
)


@final
class Srt(TextDocument):
    """Subtitles, of which translations take the place; times and numbers stay."""

    keeps_source = False
    accelerators = False

    def __init__(self, content: Content, path: Path) -> None:
        super().__init__(content, path)
        self._spans = list(self._find())
        self._units = [
            Unit(
                (content.text[start:stop].replace("\r\n", "\n"),) if stop > start else (),
                None,
                "untranslated",
                self.at(start),
                number,
                translatable=stop > start,
            )
            for start, stop, number in self._spans
        ]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file; `DataError` where something in it is no subtitle."""
        return cls(decoded(read_bytes(path), path=path), path)

    @property
    def units(self) -> Sequence[Unit]:
        """A subtitle each; one that says nothing is not translatable."""
        return self._units

    def filled(self, targets: Mapping[int, Segment], matches: Mapping[int, Match] = NO_MATCHES) -> bytes:
        """Texts are replaced."""
        edits, line_end = [], "\r\n" if "\r\n" in self.content.text else "\n"
        for number, target in targets.items():
            start, stop, _ = self._spans[number]
            text = "".join(part if isinstance(part, str) else part.raw for part in target)
            lines = [line for line in text.splitlines() if line.strip()]  # an empty one would end the subtitle
            edits.append(Edit(start, stop, line_end.join(lines)))
        return self.edited(edits)

    def _find(self) -> Iterator[tuple[int, int, str]]:
        text, place = self.content.text, 0
        for found in _CUE.finditer(text):
            self._require_nothing(place, found.start())
            place = found.end()
            start = found.start("text") if found["text"] is not None else place
            yield start, start + len((found["text"] or "").rstrip()), found["number"]
        self._require_nothing(place, len(text))

    def _require_nothing(self, start: int, stop: int) -> None:
        between = self.content.text[start:stop]
        if between.strip():
            begin = start + len(between) - len(between.lstrip())
            raise DataError(
                f"{self.at(begin)}: {between.strip().splitlines()[0][:40]!r} where a subtitle's number and times are "
                "needed; mend the file (an empty line inside a subtitle ends it)"
            )
