"""SubRip subtitles: a number, times, lines of text, and usually an empty line after each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, final

from heedful.errors import DataError
from heedful.localisation.documents import (
    TextContent,
    TextDocument,
    TextEdit,
    TranslationUnit,
    decode_text,
    read_file_bytes,
)
from heedful.localisation.segments import Segment
from heedful.localisation.translation_memory import NO_MATCHES, MemoryMatch

_LINE: Final = re.compile(r"(?P<text>[^\r\n]*)(?P<end>\r\n|\r|\n|\Z)")
_TIME: Final = r"-?\d{1,4}(?::\d{1,2}){1,2}(?:[,.:]\d{1,6})?"
_TIMES_LINE: Final = re.compile(rf"\s*{_TIME}[ \t]*-->[ \t]*{_TIME}(?!\S).*")
"""A line of times; text after the times, such as a screen position, belongs to them."""
_BROKEN_TIMES: Final = re.compile(
    r"\d\s*[:.,]\s*\d+\s*-->|-->\s*-?\d+\s*[:.,]\s*\d|\d\s*[:.,]\s*\d+\s*-{1,3} ?>\s*-?\d+\s*[:.,]\s*\d"
)
_NUMBER: Final = re.compile(r"[\s\ufeff]*(?P<number>\d+)\s*")
_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")


@final
@dataclass(frozen=True, slots=True)
class _SubtitleLine:
    """A line of a file: its text, its offset, and its line end."""

    text: str
    start: int
    end: str

    @property
    def is_blank(self) -> bool:
        """Whether it is empty or white space."""
        return not self.text.strip()

    @property
    def is_timing(self) -> bool:
        """Whether it contains the times of a subtitle."""
        return _TIMES_LINE.fullmatch(self.text) is not None

    @property
    def number(self) -> str | None:
        """The number in the line if it contains nothing else, or None."""
        match = _NUMBER.fullmatch(self.text)
        return None if match is None else match["number"]


@final
@dataclass(frozen=True, slots=True)
class _SubtitleCue:
    """The text of a subtitle from `start` to `stop`, its number (possibly empty), and its line end."""

    start: int
    stop: int
    number: str
    line_end: str


@final
class SrtDocument(TextDocument):
    """Subtitles whose texts are replaced by translations; times and numbers stay.

    A subtitle begins at its line of times, or at the number directly before that, with or without an empty line before
    it. It may lack a number, or a text.
    """

    keeps_source = False
    accelerators = False

    def __init__(self, content: TextContent, path: Path) -> None:
        super().__init__(content, path)
        self._cues = list(self._parse_cues())
        self._units = [
            TranslationUnit(
                (_LINE_BREAK.sub("\n", content.text[cue.start : cue.stop]),) if cue.stop > cue.start else (),
                None,
                "untranslated",
                self.format_location(cue.start),
                cue.number,
                translatable=cue.stop > cue.start,
            )
            for cue in self._cues
        ]

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read a subtitle file; raise DataError if a part of it is not a subtitle."""
        return cls(decode_text(read_file_bytes(path), path=path), path)

    @property
    def units(self) -> Sequence[TranslationUnit]:
        """One unit for each subtitle; one without text is not translatable."""
        return self._units

    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """Return the file with translations as texts of subtitles, given by unit number; `matches` have no effect."""
        edits = []
        for number, target in targets.items():
            cue = self._cues[number]
            text = "".join(part if isinstance(part, str) else part.raw for part in target)
            lines = [line for line in _LINE_BREAK.split(text) if line.strip()]  # an empty one would end the subtitle
            edits.append(TextEdit(cue.start, cue.stop, cue.line_end.join(lines)))
        return self.apply_edits(edits)

    def _parse_cues(self) -> Iterator[_SubtitleCue]:
        """Yield the subtitles of the file; raise DataError if a line that is not empty belongs to none."""
        lines = [
            _SubtitleLine(match["text"], match.start(), match["end"]) for match in _LINE.finditer(self.content.text)
        ]
        times = [index for index, line in enumerate(lines) if line.is_timing]
        starts = [
            _find_start(lines, index, previous_times=previous)
            for previous, index in zip([-1, *times], times, strict=False)
        ]
        self._require_blank(lines[: starts[0] if starts else len(lines)])
        for start, index, stop in zip(starts, times, [*starts[1:], len(lines)], strict=False):  # no start: one stop
            number = lines[start].number if start < index else None
            yield self._build_cue(lines[index + 1 : stop], lines[index], number or "")

    def _build_cue(self, lines: Sequence[_SubtitleLine], times: _SubtitleLine, number: str) -> _SubtitleCue:
        """Build a subtitle from its number (possibly empty), its line of times and the lines after that. Its text ends
        at the first empty line; raise DataError if something follows this line, or if a line of the text looks like
        times.
        """
        num_lines = next((offset for offset, line in enumerate(lines) if line.is_blank), len(lines))
        self._require_blank(lines[num_lines:])
        broken = next((line for line in lines[:num_lines] if _BROKEN_TIMES.search(line.text)), None)
        if broken is not None:
            raise DataError(
                f"{self.format_location(broken.start)}: {broken.text.strip()[:40]!r} looks like times, but is not; "
                "write them as 00:00:01,000 --> 00:00:02,000"
            )
        if not num_lines:
            offset = times.start + len(times.text) + len(times.end)
            return _SubtitleCue(offset, offset, number, times.end)
        last = lines[num_lines - 1]
        return _SubtitleCue(lines[0].start, last.start + len(last.text.rstrip()), number, times.end)

    def _require_blank(self, lines: Sequence[_SubtitleLine]) -> None:
        """Raise DataError if a line is not empty."""
        line = next((line for line in lines if not line.is_blank), None)
        if line is not None:
            raise DataError(
                f"{self.format_location(line.start)}: {line.text.strip()[:40]!r} where a subtitle's number and times "
                "are needed; correct the file (an empty line inside a subtitle ends it)"
            )


def _find_start(lines: Sequence[_SubtitleLine], times: int, *, previous_times: int) -> int:
    """Return the index of the line at which a subtitle begins: its number, if it stands before the times, or these.

    There may be empty lines between number and times if one stands before the number too, which is then not text.

    Args:
        lines: of the file.
        times: index of the line of times.
        previous_times: index of the previous line of times.
    """
    index = times - 1
    while index > previous_times and lines[index].is_blank:
        index -= 1
    if index <= previous_times or lines[index].number is None:
        return times
    is_number = (
        index == times - 1
        or index == previous_times + 1 == 0
        or (index - 1 > previous_times and lines[index - 1].is_blank)
    )
    return index if is_number else times
