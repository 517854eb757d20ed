"""Pictures with their captions: files that name them, and batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from heedful.data.batches import PairBatch, pair_batch
from heedful.data.corpus import Corpus
from heedful.data.pictures import Framing, read_picture
from heedful.data.readers import Reader, Record, columns, json_file, placed_lines, read_lines
from heedful.errors import DataError
from heedful.tasks.captions import CAPTIONS, SEEN
from heedful.tasks.sight import Sight
from heedful.tasks.task import Rows


@dataclass(frozen=True)
class Box:
    """Where something lies that captions may name, in pixels of the picture as it is shown."""

    name: str
    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Captioned:
    """A picture and all that is said of it."""

    picture: Path
    captions: tuple[str, ...]
    boxes: tuple[Box, ...] = ()


class CaptionReader(Reader[Captioned]):
    """Pictures of a folder, in the order in which a file of captions first names them.

    Abstract: `told` says what the file's form is. Pictures that are missing are examples too: who reads them says so.

    Args:
        path: the captions.
        pictures: the folder; that of the captions unless given.
        only: a file with the name of a picture on each line; all others are left out.
        others: further files that are read.
    """

    def __init__(
        self, path: Path, *, pictures: Path | None = None, only: Path | None = None, others: Sequence[Path] = ()
    ) -> None:
        super().__init__(path, *(file for file in (only, *others) if file is not None))
        folder = path.parent if pictures is None else pictures
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such folder of pictures; check the path")
        wanted = None if only is None else {line.strip() for line in read_lines(only)}
        captions: dict[str, list[str]] = {}
        for name, caption in self.told(path):
            if wanted is None or name in wanted:
                captions.setdefault(name, []).append(caption)
        boxes = self.boxes(path)
        self.examples = [
            Captioned(folder / name, tuple(dict.fromkeys(filter(str.strip, texts))), tuple(boxes.get(name, ())))
            for name, texts in captions.items()
        ]
        self.paths = (*self.paths, *(each.picture for each in self.examples if each.picture.is_file()))

    def told(self, path: Path) -> Iterator[tuple[str, str]]:
        """The name of a picture and a caption, again and again."""
        raise NotImplementedError

    def boxes(self, path: Path) -> Mapping[str, Sequence[Box]]:
        """What is named where in each picture; nobody knows, in most forms."""
        return {}

    @final
    def __iter__(self) -> Iterator[Captioned]:
        return iter(self.examples)


@final
class CaptionColumns(CaptionReader):
    """A picture's name and a caption on each line, between tabs; a picture may have several lines.

    Args:
        picture_column: counted from 0.
        caption_column: likewise.
        header: whether the first line names the columns.
        numbered: whether names of pictures end in `#0`, the number of the caption, as those of Flickr8k's tokens do.
    """

    def __init__(
        self,
        path: Path,
        *,
        picture_column: int = 0,
        caption_column: int = 1,
        header: bool = False,
        numbered: bool = False,
        pictures: Path | None = None,
        only: Path | None = None,
    ) -> None:
        self._columns = (picture_column, caption_column)
        self._header = header
        self._numbered = numbered
        super().__init__(path, pictures=pictures, only=only)

    def told(self, path: Path) -> Iterator[tuple[str, str]]:
        """Line by line."""
        picture, caption = self._columns
        for number, place, line in placed_lines(path):
            if number == 1 and self._header:
                continue
            fields = columns(line, max(self._columns) + 1, place=place)
            name = fields[picture].strip()
            yield re.sub(r"#\d+$", "", name) if self._numbered else name, fields[caption]


@final
class CocoCaptions(CaptionReader):
    """COCO's JSON: pictures in `images`, captions in `annotations`, and boxes where these have a `bbox`.

    Args:
        instances: another such file, whose boxes count; its `categories` say what they are of.
    """

    def __init__(
        self, path: Path, *, instances: Path | None = None, pictures: Path | None = None, only: Path | None = None
    ) -> None:
        self._instances = instances
        super().__init__(path, pictures=pictures, only=only, others=() if instances is None else (instances,))

    def told(self, path: Path) -> Iterator[tuple[str, str]]:
        """Annotation by annotation."""
        yield from ((name, each.text("caption")) for name, each in _annotations(json_file(path)) if "caption" in each)

    def boxes(self, path: Path) -> Mapping[str, Sequence[Box]]:
        """Those of both files."""
        found: dict[str, list[Box]] = {}
        for file in (path, self._instances):
            if file is None:
                continue
            whole = json_file(file)
            kinds = {each.integer("id"): each.text("name") for each in _inners(whole, "categories")}
            for name, each in _annotations(whole):
                if "bbox" not in each:
                    continue
                kind, sides = each.integer("category_id"), each.fields["bbox"]
                if kind not in kinds:
                    raise DataError(f"{each.place}: its category {kind} is not among the categories; mend the file")
                if not isinstance(sides, list) or len(sides) != 4 or not all(type(n) in (int, float) for n in sides):
                    raise DataError(f"{each.place}: bbox is not left, top, width and height; mend the file")
                found.setdefault(name, []).append(Box(kinds[kind], *map(float, sides)))
        return found


def _annotations(whole: Record) -> Iterator[tuple[str, Record]]:
    """The file name of the picture that each annotation is of."""
    names = {each.integer("id"): each.text("file_name") for each in whole.inners("images")}
    for each in whole.inners("annotations"):
        number = each.integer("image_id")
        if number not in names:
            raise DataError(f"{each.place}: its picture {number} is not among the images; mend the file")
        yield names[number], each


def _inners(whole: Record, name: str) -> list[Record]:
    return whole.inners(name) if name in whole else []


def seen_by(sight: Sight, framing: Framing) -> Callable[[Captioned], Shaped[np.ndarray, "1 ..."]]:
    """What is kept of an example's picture, its only item; raises `DataError` where it cannot be read."""
    return lambda example: sight(framing(read_picture(example.picture)))[None]


def collate_captions(corpus: Corpus, rows: Rows, *, bos: int) -> PairBatch[Tensor]:
    """Pictures and their captions, of what `by_caption` gave."""
    pictures, _ = corpus[SEEN].block(rows)
    return pair_batch(torch.from_numpy(pictures[:, 0]), corpus[CAPTIONS].padded(rows), bos=bos)
