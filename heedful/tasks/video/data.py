"""Clips with captions: readers of caption files, and batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, final

import numpy as np
import torch

from heedful.data.batches import PairBatch, build_pair_batch
from heedful.data.clips import Clip
from heedful.data.corpus import Corpus
from heedful.data.readers import ExampleReader, read_numbered_lines, read_records, split_columns
from heedful.errors import DataError
from heedful.models.clips import ClipBatch
from heedful.tasks.captions import CAPTION_SIDE, INPUT_SIDE
from heedful.tasks.objective import RowIndices


@dataclass(frozen=True)
class ClipEvent:
    """When something happens that captions name.

    Attributes:
        phrase: as captions name it.
        start: first frame of the clip, from 0.
        stop: the frame after the last one.
    """

    phrase: str
    start: int
    stop: int


@dataclass(frozen=True)
class CaptionedClip:
    """A clip with its captions and events."""

    clip: Path
    captions: tuple[str, ...]
    events: tuple[ClipEvent, ...] = ()


NamedClip: TypeAlias = tuple[str, Sequence[str], Sequence[ClipEvent]]


class ClipReader(ExampleReader[CaptionedClip]):
    """Reader of captioned clips in a folder, in the order in which the caption file first names them.

    Abstract: `iter_entries` knows the file format. Missing clips are examples too; the code that loads a clip
    reports the error.

    Args:
        path: the caption file.
        clips: the folder of the clips; the folder of `path` unless given.
    """

    def __init__(self, path: Path, *, clips: Path | None = None) -> None:
        super().__init__(path)
        folder = path.parent if clips is None else clips
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such folder of clips; check the path")
        captions, events = dict[str, list[str]](), dict[str, list[ClipEvent]]()
        for name, texts, clip_events in self.iter_entries(path):
            captions.setdefault(name, []).extend(texts)
            events.setdefault(name, []).extend(clip_events)
        self.examples = [
            CaptionedClip(folder / name, tuple(dict.fromkeys(filter(str.strip, texts))), tuple(events[name]))
            for name, texts in captions.items()
        ]
        self.paths = (path, *(file for example in self.examples for file in _list_files(example.clip)))

    def iter_entries(self, path: Path) -> Iterator[NamedClip]:
        """Yield a clip's name with some of its captions and events; a clip may occur several times."""
        raise NotImplementedError

    @final
    def __iter__(self) -> Iterator[CaptionedClip]:
        return iter(self.examples)


@final
class ClipColumns(ClipReader):
    """Reader of tab-separated lines with a clip's name and a caption; a clip may have several lines.

    Args:
        clip_column: column of the clip names, counted from 0.
        caption_column: column of the captions, counted from 0.
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

    def iter_entries(self, path: Path) -> Iterator[NamedClip]:
        """Yield the clip name and the caption of each line."""
        clip, caption = self._columns
        for number, location, line in read_numbered_lines(path):
            if number > 1 or not self._header:
                fields = split_columns(line, max(self._columns) + 1, location=location)
                yield fields[clip].strip(), [fields[caption]], []


@final
class ClipRecords(ClipReader):
    """Reader of a JSON object per line, which may contain the events that captions name."""

    def iter_entries(self, path: Path) -> Iterator[NamedClip]:
        """Yield the clip, captions and events of each line."""
        for _, record in read_records(path):
            events = []
            for event in record.get_objects("events") if "events" in record else []:
                events.append(ClipEvent(event.get_text("phrase"), event.get_int("start"), event.get_int("stop")))
                if not 0 <= events[-1].start < events[-1].stop:
                    raise DataError(f"{event.location}: frames {events[-1].start} to {events[-1].stop}; mend the line")
            yield record.get_text("clip"), record.get_texts("captions"), events


def collate_clips(corpus: Corpus, rows: RowIndices, *, bos: int) -> PairBatch[ClipBatch]:
    """Collate the given rows of a corpus made by `split_by_caption` into a batch of clips and captions."""
    return build_pair_batch(
        ClipBatch(*map(torch.from_numpy, corpus[INPUT_SIDE].collate_arrays(rows))),
        corpus[CAPTION_SIDE].collate_ids(rows),
        bos=bos,
    )


def batch_clips(clips: Sequence[Clip]) -> ClipBatch:
    """Pad clips to the same number of frames and stack them."""
    block = np.zeros(
        (len(clips), max(len(clip.frames) for clip in clips), *clips[0].frames.shape[1:]), clips[0].frames.dtype
    )
    positions = np.full(block.shape[:2], -1)
    for row, clip in enumerate(clips):
        block[row, : len(clip.frames)] = clip.frames
        positions[row, : len(clip.frames)] = range(len(clip.frames))
    return ClipBatch(torch.from_numpy(block), torch.from_numpy(positions))


def _list_files(clip: Path) -> list[Path]:
    """Return the files of a clip: itself, or the pictures of its folder; empty if it is missing."""
    if clip.is_dir():
        return sorted(path for path in clip.iterdir() if path.is_file())
    return [clip] if clip.is_file() else []
