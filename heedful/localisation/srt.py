"""SubRip subtitles: a number, times, lines of text, and usually an empty line behind each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, final

from heedful.errors import DataError
from heedful.localisation.documents import Edit, TextDocument, Unit
from heedful.localisation.encodings import Content, decoded, read_bytes
from heedful.localisation.memory import NO_MATCHES, Match
from heedful.localisation.segments import Segment

_LINE: Final = re.compile(r"(?P<text>[^\r\n]*)(?P<end>\r\n|\r|\n|\Z)")
_TIME: Final = r"-?\d{1,4}(?::\d{1,2}){1,2}(?:[,.:]\d{1,6})?"
_TIMES: Final = re.compile(rf"\s*{_TIME}[ \t]*-->[ \t]*{_TIME}(?!\S).*")
"""Whatever stands behind the times, such as the place of the text on the screen, belongs to them."""
_BROKEN_TIMES: Final = re.compile(
    r"\d\s*[:.,]\s*\d+\s*-->|-->\s*-?\d+\s*[:.,]\s*\d|\d\s*[:.,]\s*\d+\s*-{1,3} ?>\s*-?\d+\s*[:.,]\s*\d"
)
_NUMBER: Final = re.compile(r"[\s\ufeff]*(?P<number>\d+)\s*")
_BREAK: Final = re.compile(r"\r\n|\r|\n")


@final
@dataclass(frozen=True)
class _Line:
    """A line of a file: what it says, where that begins, and how it ends."""

    text: str
    start: int
    end: str

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    @property
    def is_times(self) -> bool:
        return _TIMES.fullmatch(self.text) is not None

    @property
    def number(self) -> str | None:
        found = _NUMBER.fullmatch(self.text)
        return None if found is None else found["number"]


@final
@dataclass(frozen=True)
class _Cue:
    """The text of a subtitle from `start` to `stop`, its number if it has one, and how its lines end."""

    start: int
    stop: int
    number: str
    line_end: str


@final
class Srt(TextDocument):
    """Subtitles, of which translations take the place; times and numbers stay.

    A subtitle begins at its line of times, or at the number directly before that, whether there is an empty line before
    it or not. It may lack a number, or a text.
    """

    keeps_source = False
    accelerators = False

    def __init__(self, content: Content, path: Path) -> None:
        super().__init__(content, path)
        self._cues = list(self._find())
        self._units = [
            Unit(
                (_BREAK.sub("\n", content.text[cue.start : cue.stop]),) if cue.stop > cue.start else (),
                None,
                "untranslated",
                self.at(cue.start),
                cue.number,
                translatable=cue.stop > cue.start,
            )
            for cue in self._cues
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
        edits = []
        for number, target in targets.items():
            cue = self._cues[number]
            text = "".join(part if isinstance(part, str) else part.raw for part in target)
            lines = [line for line in _BREAK.split(text) if line.strip()]  # an empty one would end the subtitle
            edits.append(Edit(cue.start, cue.stop, cue.line_end.join(lines)))
        return self.edited(edits)

    def _find(self) -> Iterator[_Cue]:
        lines = [_Line(found["text"], found.start(), found["end"]) for found in _LINE.finditer(self.content.text)]
        times = [place for place, line in enumerate(lines) if line.is_times]
        begins = [_begin(lines, place, after=before) for before, place in zip([-1, *times], times, strict=False)]
        self._require_blank(lines[: begins[0] if begins else len(lines)])
        for begin, place, stop in zip(begins, times, [*begins[1:], len(lines)], strict=True):
            number = lines[begin].number if begin < place else None
            yield self._cue(lines[place + 1 : stop], lines[place], number or "")

    def _cue(self, lines: Sequence[_Line], times: _Line, number: str) -> _Cue:
        """The subtitle of some lines behind its times: those up to the first empty one, behind which nothing stands."""
        size = next((place for place, line in enumerate(lines) if line.is_blank), len(lines))
        self._require_blank(lines[size:])
        broken = next((line for line in lines[:size] if _BROKEN_TIMES.search(line.text)), None)
        if broken is not None:
            raise DataError(
                f"{self.at(broken.start)}: {broken.text.strip()[:40]!r} looks like times and is not; write them as "
                "00:00:01,000 --> 00:00:02,000"
            )
        if not size:
            place = times.start + len(times.text) + len(times.end)
            return _Cue(place, place, number, times.end)
        last = lines[size - 1]
        return _Cue(lines[0].start, last.start + len(last.text.rstrip()), number, times.end)

    def _require_blank(self, lines: Sequence[_Line]) -> None:
        line = next((line for line in lines if not line.is_blank), None)
        if line is not None:
            raise DataError(
                f"{self.at(line.start)}: {line.text.strip()[:40]!r} where a subtitle's number and times are "
                "needed; mend the file (an empty line inside a subtitle ends it)"
            )


def _begin(lines: Sequence[_Line], times: int, *, after: int) -> int:
    """Where the subtitle with the times of one line begins: at its number, which stands before them.

    Between both may be empty lines where one stands before the number too, which is no text then.

    Args:
        lines: of the file.
        times: the line of times, by its number.
        after: the line of times before it, likewise.
    """
    place = times - 1
    while place > after and lines[place].is_blank:
        place -= 1
    if place <= after or lines[place].number is None:
        return times
    alone = place == times - 1 or place == after + 1 == 0 or (place - 1 > after and lines[place - 1].is_blank)
    return place if alone else times
