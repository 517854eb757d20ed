"""Clips with their captions: files that name them, and batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, final

import numpy as np
import torch

from heedful.data.batches import PairBatch, pair_batch
from heedful.data.clips import Clip
from heedful.data.corpus import Corpus
from heedful.data.readers import Reader, columns, placed_lines, records
from heedful.errors import DataError
from heedful.models.clips import Clips
from heedful.tasks.captions import CAPTIONS, SEEN
from heedful.tasks.task import Rows


@dataclass(frozen=True)
class Event:
    """When happens what captions name.

    Attributes:
        phrase: as captions say it.
        start: the first frame of the clip, from 0.
        stop: behind the last one.
    """

    phrase: str
    start: int
    stop: int


@dataclass(frozen=True)
class CaptionedClip:
    """A clip and all that is said of it."""

    clip: Path
    captions: tuple[str, ...]
    events: tuple[Event, ...] = ()


Named: TypeAlias = tuple[str, Sequence[str], Sequence[Event]]


class ClipReader(Reader[CaptionedClip]):
    """Clips of a folder, in the order in which a file of captions first names them.

    Abstract: `told` says what the file's form is. Clips that are missing are examples too: who reads them says so.

    Args:
        path: the captions.
        clips: the folder; that of the captions unless given.
    """

    def __init__(self, path: Path, *, clips: Path | None = None) -> None:
        super().__init__(path)
        folder = path.parent if clips is None else clips
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such folder of clips; check the path")
        captions, events = dict[str, list[str]](), dict[str, list[Event]]()
        for name, texts, when in self.told(path):
            captions.setdefault(name, []).extend(texts)
            events.setdefault(name, []).extend(when)
        self.examples = [
            CaptionedClip(folder / name, tuple(dict.fromkeys(filter(str.strip, texts))), tuple(events[name]))
            for name, texts in captions.items()
        ]
        self.paths = (path, *(file for each in self.examples for file in _files(each.clip)))

    def told(self, path: Path) -> Iterator[Named]:
        """The name of a clip, captions of it and what happens when, again and again."""
        raise NotImplementedError

    @final
    def __iter__(self) -> Iterator[CaptionedClip]:
        return iter(self.examples)


@final
class ClipColumns(ClipReader):
    """A clip's name and a caption on each line, between tabs; a clip may have several lines.

    Args:
        clip_column: counted from 0.
        caption_column: likewise.
        header: whether the first line names the columns.
    """

    def __init__(
        self,
        path: Path,
        *,
        clip_column: int = 0,
        caption_column: int = 1,
        header: bool = False,
        clips: Path | None = None,
    ) -> None:
        self._columns = (clip_column, caption_column)
        self._header = header
        super().__init__(path, clips=clips)

    def told(self, path: Path) -> Iterator[Named]:
        """Line by line."""
        clip, caption = self._columns
        for number, place, line in placed_lines(path):
            if number > 1 or not self._header:
                fields = columns(line, max(self._columns) + 1, place=place)
                yield fields[clip].strip(), [fields[caption]], []


@final
class ClipRecords(ClipReader):
    """A JSON object on each line, which may say when happens what its captions name."""

    def told(self, path: Path) -> Iterator[Named]:
        """Line by line."""
        for _, record in records(path):
            events = []
            for each in record.inners("events") if "events" in record else []:
                events.append(Event(each.text("phrase"), each.integer("start"), each.integer("stop")))
                if not 0 <= events[-1].start < events[-1].stop:
                    raise DataError(f"{each.place}: frames {events[-1].start} to {events[-1].stop}; mend the line")
            yield record.text("clip"), record.texts("captions"), events


def collate_clips(corpus: Corpus, rows: Rows, *, bos: int) -> PairBatch[Clips]:
    """Clips and their captions, of what `by_caption` gave."""
    return pair_batch(Clips(*map(torch.from_numpy, corpus[SEEN].block(rows))), corpus[CAPTIONS].padded(rows), bos=bos)


def beside(clips: Sequence[Clip]) -> Clips:
    """Some clips as a model reads them."""
    block = np.zeros(
        (len(clips), max(len(each.frames) for each in clips), *clips[0].frames.shape[1:]), clips[0].frames.dtype
    )
    positions = np.full(block.shape[:2], -1)
    for row, each in enumerate(clips):
        block[row, : len(each.frames)] = each.frames
        positions[row, : len(each.frames)] = range(len(each.frames))
    return Clips(torch.from_numpy(block), torch.from_numpy(positions))


def _files(clip: Path) -> list[Path]:
    """What is read of a clip: itself, or the pictures of its folder."""
    if clip.is_dir():
        return sorted(path for path in clip.iterdir() if path.is_file())
    return [clip] if clip.is_file() else []
