"""Pictures with captions: readers of caption files, and collation of batches."""

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

from heedful.data.batches import PairBatch, build_pair_batch
from heedful.data.corpus import Corpus
from heedful.data.pictures import SquareResize, read_picture
from heedful.data.readers import (
    ExampleReader,
    JsonRecord,
    read_json_object,
    read_lines,
    read_numbered_lines,
    split_columns,
)
from heedful.errors import DataError
from heedful.tasks.captions import CAPTION_SIDE, INPUT_SIDE
from heedful.tasks.objective import RowIndices
from heedful.tasks.picture_features import PictureFeatures


@dataclass(frozen=True)
class BoundingBox:
    """A named object's bounding box, in pixels of the displayed picture."""

    name: str
    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class CaptionedPicture:
    """A picture file with its captions and bounding boxes."""

    picture: Path
    captions: tuple[str, ...]
    boxes: tuple[BoundingBox, ...] = ()


class CaptionReader(ExampleReader[CaptionedPicture]):
    """Reader of captioned pictures in a folder, in the order in which the caption file first names them.

    Abstract: `read_captions` knows the file format. Missing pictures are examples too; the code that loads a picture
    reports the error.

    Args:
        path: the caption file.
        pictures: the folder of the pictures; the folder of `path` unless given.
        only: a file with one picture name per line; all other pictures are left out.
        others: further files that the reader depends on.
    """

    def __init__(
        self, path: Path, *, pictures: Path | None = None, only: Path | None = None, others: Sequence[Path] = ()
    ) -> None:
        super().__init__(path, *(file for file in (only, *others) if file is not None))
        folder = path.parent if pictures is None else pictures
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such folder of pictures; check the path")
        allowed_names = None if only is None else {line.strip() for line in read_lines(only)}
        captions: dict[str, list[str]] = {}
        for name, caption in self.read_captions(path):
            if allowed_names is None or name in allowed_names:
                captions.setdefault(name, []).append(caption)
        boxes = self.read_boxes(path)
        self.examples = [
            CaptionedPicture(folder / name, tuple(dict.fromkeys(filter(str.strip, texts))), tuple(boxes.get(name, ())))
            for name, texts in captions.items()
        ]
        self.paths = (*self.paths, *(example.picture for example in self.examples if example.picture.is_file()))

    def read_captions(self, path: Path) -> Iterator[tuple[str, str]]:
        """Yield pairs of a picture's file name and one of its captions."""
        raise NotImplementedError

    def read_boxes(self, path: Path) -> Mapping[str, Sequence[BoundingBox]]:
        """Return the bounding boxes of each picture by its file name; empty for formats without boxes."""
        return {}

    @final
    def __iter__(self) -> Iterator[CaptionedPicture]:
        return iter(self.examples)


@final
class CaptionColumns(CaptionReader):
    """Reader of tab-separated lines with a picture's name and a caption; a picture may have several lines.

    Args:
        picture_column: column of the picture names, counted from 0.
        caption_column: column of the captions, counted from 0.
        header: whether the first line names the columns.
        numbered: whether picture names end in `#0`, the number of the caption, as in Flickr8k's token files.
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

    def read_captions(self, path: Path) -> Iterator[tuple[str, str]]:
        """Yield the picture name and the caption of each line."""
        picture, caption = self._columns
        for number, location, line in read_numbered_lines(path):
            if number == 1 and self._header:
                continue
            fields = split_columns(line, max(self._columns) + 1, location=location)
            name = fields[picture].strip()
            yield re.sub(r"#\d+$", "", name) if self._numbered else name, fields[caption]


@final
class CocoCaptions(CaptionReader):
    """Reader of COCO's JSON: pictures in `images`, captions and bounding boxes (`bbox`) in `annotations`.

    Args:
        instances: another COCO file, whose bounding boxes are added; its `categories` name the boxes.
    """

    def __init__(
        self, path: Path, *, instances: Path | None = None, pictures: Path | None = None, only: Path | None = None
    ) -> None:
        self._instances = instances
        super().__init__(path, pictures=pictures, only=only, others=() if instances is None else (instances,))

    def read_captions(self, path: Path) -> Iterator[tuple[str, str]]:
        """Yield the picture name and the caption of each annotation that has a caption."""
        yield from (
            (name, annotation.get_text("caption"))
            for name, annotation in _iter_annotations(read_json_object(path))
            if "caption" in annotation
        )

    def read_boxes(self, path: Path) -> Mapping[str, Sequence[BoundingBox]]:
        """Return the bounding boxes of the caption file and of `instances`, by picture name."""
        boxes: dict[str, list[BoundingBox]] = {}
        for file in (path, self._instances):
            if file is None:
                continue
            document = read_json_object(file)
            category_names = {
                record.get_int("id"): record.get_text("name") for record in _list_records(document, "categories")
            }
            for name, record in _iter_annotations(document):
                if "bbox" not in record:
                    continue
                category, corners = record.get_int("category_id"), record.fields["bbox"]
                if category not in category_names:
                    raise DataError(
                        f"{record.location}: its category {category} is not among the categories; mend the file"
                    )
                if (
                    not isinstance(corners, list)
                    or len(corners) != 4
                    or not all(type(n) in (int, float) for n in corners)
                ):
                    raise DataError(f"{record.location}: bbox is not left, top, width and height; mend the file")
                boxes.setdefault(name, []).append(BoundingBox(category_names[category], *map(float, corners)))
        return boxes


def _iter_annotations(document: JsonRecord) -> Iterator[tuple[str, JsonRecord]]:
    """Yield each annotation of a COCO document with the file name of its picture."""
    names = {record.get_int("id"): record.get_text("file_name") for record in document.get_objects("images")}
    for record in document.get_objects("annotations"):
        number = record.get_int("image_id")
        if number not in names:
            raise DataError(f"{record.location}: its picture {number} is not among the images; mend the file")
        yield names[number], record


def _list_records(document: JsonRecord, name: str) -> list[JsonRecord]:
    """Return the records of the list called `name`, or an empty list if there is none."""
    return document.get_objects(name) if name in document else []


def make_picture_loader(
    picture_features: PictureFeatures, framing: SquareResize
) -> Callable[[CaptionedPicture], Shaped[np.ndarray, "1 ..."]]:
    """Return a function that loads an example's picture as features of shape [1, ...].

    It raises `DataError` if the picture cannot be read.
    """
    return lambda example: picture_features(framing(read_picture(example.picture)))[None]


def collate_captions(corpus: Corpus, rows: RowIndices, *, bos: int) -> PairBatch[Tensor]:
    """Collate the given rows of a corpus made by `split_by_caption` into a batch of pictures and captions."""
    pictures, _ = corpus[INPUT_SIDE].collate_arrays(rows)
    return build_pair_batch(torch.from_numpy(pictures[:, 0]), corpus[CAPTION_SIDE].collate_ids(rows), bos=bos)
