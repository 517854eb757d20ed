"""Examples of captioning: pictures or clips with captions, and their precomputed features."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from heedful.architectures.build_vision import build_vision_backbone
from heedful.architectures.vision import VisionConfig
from heedful.atomic_io import describe_error, read_tensors
from heedful.data.batches import PairBatch, build_pair_batch
from heedful.data.clips import Clip
from heedful.data.corpus import CHARACTERS_PER_TOKEN, ArraySpec, Corpus, CorpusSide, EncodingReport, ExampleEncoder
from heedful.data.readers import (
    ExampleReader,
    JsonRecord,
    read_json_object,
    read_lines,
    read_numbered_lines,
    read_records,
    split_columns,
)
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RunError
from heedful.files import is_file, is_folder
from heedful.models.placeholders import loads_placeholders, replace_weights
from heedful.models.vision import ClipBatch, VisionBackbone
from heedful.tasks.batch_executor import run_call
from heedful.tasks.objective import RowIndices

_THUMBNAIL = 8


class PictureFeatures(ABC):
    """Base class: extracts the features of pictures of one size.

    Attributes:
        array_spec: data type and shape of the features.
    """

    array_spec: ArraySpec

    @abstractmethod
    def __call__(self, picture: UInt8[np.ndarray, "size size 3"]) -> Shaped[np.ndarray, ...]:
        """Extract the features of one picture, independently of other pictures."""

    def to_device(self, device: torch.device) -> PictureFeatures:
        """Return the extractor on a device."""
        return self

    @abstractmethod
    def summarize(self, features: Shaped[np.ndarray, ...]) -> Float[np.ndarray, " d"]:
        """Return one vector for the features of a picture; close vectors mean similar pictures."""


@final
class PixelFeatures(PictureFeatures):
    """RGB pixels as features."""

    def __init__(self, size: int) -> None:
        self.array_spec = ArraySpec("<u1", (size, size, 3))

    def __call__(self, square: UInt8[np.ndarray, "size size 3"]) -> UInt8[np.ndarray, "size size 3"]:
        """Return the pixels unchanged."""
        return square

    def summarize(self, features: Shaped[np.ndarray, "size size 3"]) -> Float[np.ndarray, " d"]:
        """Return the pixels of a small version of the picture as one vector."""
        edges = np.linspace(0, len(features), min(_THUMBNAIL, len(features)) + 1).astype(int)[:-1]
        rows = np.add.reduceat(features.astype(np.float32), edges, axis=0)
        return np.asarray(np.add.reduceat(rows, edges, axis=1).ravel())


@final
class FrozenVisionFeatures(PictureFeatures):
    """Features of picture regions from a frozen vision network, in half precision; the network is a file of the run.

    Args:
        network: the network in evaluation mode.
        size: pixels along each side.
        step: pixels between two regions.
    """

    def __init__(self, network: VisionBackbone, *, size: int, step: int) -> None:
        self.network = network
        rows = -(-size // step)
        self.array_spec = ArraySpec("<f2", (rows, rows, network.d_annotation))

    @classmethod
    def load(cls, config: VisionConfig, path: Path, *, size: int) -> FrozenVisionFeatures:
        """Load the network that a run has stored in the file `path`, for pictures of `size` times `size` pixels."""
        network = build_vision_backbone(config, size=size)
        try:
            network.load_state_dict(read_tensors(path))
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:  # the third of other names and shapes
            raise RunError(f"{path}: holds no network of this recipe ({describe_error(error)}); restore it") from None
        return cls(network.eval(), size=size, step=config.region_stride)

    def to_device(self, device: torch.device) -> FrozenVisionFeatures:
        """Move the network to a device and return the extractor."""
        if loads_placeholders():
            replace_weights(self.network, device)
        else:
            self.network.to(device)
        return self

    @property
    def size(self) -> int:
        """Channels of a region."""
        return self.network.d_annotation

    def save(self, path: Path) -> None:
        """Save the network's tensors."""
        save_file({name: tensor.contiguous() for name, tensor in self.network.state_dict().items()}, path)

    def __call__(self, square: UInt8[np.ndarray, "size size 3"]) -> Float[np.ndarray, "rows columns d_annotation"]:
        """Return the feature vector of each region."""
        return run_call(partial(self._extract_features, square))

    def _extract_features(
        self, square: UInt8[np.ndarray, "size size 3"]
    ) -> Float[np.ndarray, "rows columns d_annotation"]:
        """Compute the feature vector of each region in this process."""
        device = next(self.network.parameters()).device
        with torch.inference_mode():
            features = self.network(torch.from_numpy(square).unsqueeze(0).to(device))
        return np.asarray(features[0].half().cpu().numpy())

    def summarize(self, features: Shaped[np.ndarray, "rows columns d_annotation"]) -> Float[np.ndarray, " d"]:
        """Return the mean of the feature vectors."""
        return np.asarray(features.astype(np.float32).mean((0, 1)))


NUMBER_SIDE: Final = "numbers"
INPUT_SIDE: Final = "pictures"
"""Corpus side of the inputs: one picture, or the frames of a clip."""
CAPTION_SIDE: Final = "captions"


@dataclass(frozen=True)
class BoundingBox:
    """A named object's bounding box, in pixels of the displayed picture."""

    name: str
    left: float
    top: float
    width: float
    height: float


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


Mark = TypeVar("Mark", bound=BoundingBox | ClipEvent)


@dataclass(frozen=True)
class CaptionedInput(Generic[Mark]):
    """A picture or clip with its captions.

    Attributes:
        file: the picture or clip.
        captions: each of them right.
        marks: what captions name: bounding boxes in a picture, events of a clip.
    """

    file: Path
    captions: tuple[str, ...]
    marks: tuple[Mark, ...] = ()


CaptionedPicture: TypeAlias = CaptionedInput[BoundingBox]
CaptionedClip: TypeAlias = CaptionedInput[ClipEvent]


class CaptionReader(ExampleReader[CaptionedInput[Mark]], Generic[Mark]):
    """Reader of captioned inputs in a folder, in the order in which the caption file first names them.

    Abstract: `iter_entries` knows the file format. Missing inputs are examples too; the code that loads an input
    reports the error.

    Attributes:
        folder_noun: noun for the inputs, for messages.

    Args:
        path: the caption file.
        folder: the folder of the inputs; the folder of `path` unless given.
        only: a file with one name of an input per line; all other inputs are left out.
        others: further files that the reader depends on.
    """

    folder_noun: ClassVar[str]

    def __init__(
        self, path: Path, *, folder: Path | None = None, only: Path | None = None, others: Sequence[Path] = ()
    ) -> None:
        super().__init__(path, *(file for file in (only, *others) if file is not None))
        folder = path.parent if folder is None else folder
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such folder of {self.folder_noun}; check the path")
        allowed_names = None if only is None else {line.strip() for line in read_lines(only)}
        captions, marks = dict[str, list[str]](), dict[str, list[Mark]]()
        for name, texts, its_marks in self.iter_entries(path):
            if allowed_names is None or name in allowed_names:
                captions.setdefault(name, []).extend(texts)
                marks.setdefault(name, []).extend(its_marks)
        self.examples = [
            CaptionedInput(folder / name, tuple(dict.fromkeys(filter(str.strip, texts))), tuple(marks[name]))
            for name, texts in captions.items()
        ]
        self.paths = (*self.paths, *(file for name in captions for file in _list_files(folder / name)))

    def iter_entries(self, path: Path) -> Iterator[tuple[str, Sequence[str], Sequence[Mark]]]:
        """Yield the entries of the file `path`: the name of an input, captions of it, and its marks. An input with
        several entries has the captions and marks of all of them.
        """
        raise NotImplementedError

    @final
    def __iter__(self) -> Iterator[CaptionedInput[Mark]]:
        return iter(self.examples)


class _CaptionTable(CaptionReader[Mark]):
    """Reader of tab-separated lines with the name of an input and a caption in two columns, counted from 0."""

    def __init__(
        self, path: Path, name_column: int, caption_column: int, *, header: bool, numbered: bool = False, **files: Any
    ) -> None:
        self._columns = (name_column, caption_column)
        self._header = header
        self._numbered = numbered
        super().__init__(path, **files)

    def iter_entries(self, path: Path) -> Iterator[tuple[str, Sequence[str], Sequence[Mark]]]:
        """Yield the name in each line with its caption and no marks. The header is skipped, and `#NUMBER` is removed
        from the ends of names, where the file has them.
        """
        name_column, caption_column = self._columns
        for number, location, line in read_numbered_lines(path):
            if number > 1 or not self._header:
                fields = split_columns(line, max(self._columns) + 1, location=location)
                name = fields[name_column].strip()
                yield re.sub(r"#\d+$", "", name) if self._numbered else name, [fields[caption_column]], []


@final
class CaptionColumns(_CaptionTable[BoundingBox]):
    """Reader of tab-separated lines with a picture's name and a caption; a picture may have several lines.

    Args:
        picture_column: column of the picture names, counted from 0.
        caption_column: column of the captions, counted from 0.
        header: whether the first line names the columns.
        numbered: whether picture names end in `#0`, the number of the caption, as in Flickr8k's token files.
        pictures, only: see `CaptionReader`.
    """

    folder_noun = "pictures"

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
        files = {"folder": pictures, "only": only}
        super().__init__(path, picture_column, caption_column, header=header, numbered=numbered, **files)


@final
class CocoCaptions(CaptionReader[BoundingBox]):
    """Reader of COCO's JSON: pictures in `images`, captions and bounding boxes (`bbox`) in `annotations`.

    Args:
        instances: another COCO file, whose bounding boxes are added; its `categories` name the boxes.
        pictures, only: see `CaptionReader`.
    """

    folder_noun = "pictures"

    def __init__(
        self, path: Path, *, instances: Path | None = None, pictures: Path | None = None, only: Path | None = None
    ) -> None:
        self._instances = () if instances is None else (instances,)
        super().__init__(path, folder=pictures, only=only, others=self._instances)

    def iter_entries(self, path: Path) -> Iterator[tuple[str, Sequence[str], Sequence[BoundingBox]]]:
        """Yield the picture name and the caption of each annotation with a caption; the first of a picture comes with
        all its bounding boxes.
        """
        documents = [read_json_object(file) for file in (path, *self._instances)]
        captions = [
            (name, annotation.get_text("caption"))
            for name, annotation in _iter_annotations(documents[0])
            if "caption" in annotation
        ]
        boxes: dict[str, list[BoundingBox]] = {}
        for name, box in chain.from_iterable(map(_iter_boxes, documents)):
            boxes.setdefault(name, []).append(box)
        for name, caption in captions:
            yield name, [caption], boxes.pop(name, ())


def _iter_boxes(document: JsonRecord) -> Iterator[tuple[str, BoundingBox]]:
    """Yield the picture name and the bounding box of each annotation of a COCO document that has a box."""
    categories = document.get_objects("categories") if "categories" in document else []
    category_names = {record.get_int("id"): record.get_text("name") for record in categories}
    for name, record in _iter_annotations(document):
        if "bbox" not in record:
            continue
        category, corners = record.get_int("category_id"), record.fields["bbox"]
        if category not in category_names:
            raise DataError(f"{record.location}: its category {category} is not among the categories; correct the file")
        if not isinstance(corners, list) or len(corners) != 4 or not all(type(n) in (int, float) for n in corners):
            raise DataError(f"{record.location}: bbox is not left, top, width and height; correct the file")
        yield name, BoundingBox(category_names[category], *map(float, corners))


def _iter_annotations(document: JsonRecord) -> Iterator[tuple[str, JsonRecord]]:
    """Yield each annotation of a COCO document with the file name of its picture."""
    names = {record.get_int("id"): record.get_text("file_name") for record in document.get_objects("images")}
    for record in document.get_objects("annotations"):
        number = record.get_int("image_id")
        if number not in names:
            raise DataError(f"{record.location}: its picture {number} is not among the images; correct the file")
        yield names[number], record


@final
class ClipColumns(_CaptionTable[ClipEvent]):
    """Reader of tab-separated lines with a clip's name and a caption; a clip may have several lines.

    Args:
        clip_column: column of the clip names, counted from 0.
        caption_column: column of the captions, counted from 0.
        header: whether the first line names the columns.
        clips: the folder of the clips; the folder of `path` unless given.
    """

    folder_noun = "clips"

    def __init__(
        self,
        path: Path,
        *,
        clip_column: int = 0,
        caption_column: int = 1,
        header: bool = False,
        clips: Path | None = None,
    ) -> None:
        super().__init__(path, clip_column, caption_column, header=header, folder=clips)


@final
class ClipRecords(CaptionReader[ClipEvent]):
    """Reader of a JSON object per line, which may contain the events that captions name.

    Args:
        clips: the folder of the clips; the folder of `path` unless given.
    """

    folder_noun = "clips"

    def __init__(self, path: Path, *, clips: Path | None = None) -> None:
        super().__init__(path, folder=clips)

    def iter_entries(self, path: Path) -> Iterator[tuple[str, Sequence[str], Sequence[ClipEvent]]]:
        """Yield the clip, captions and events of each line."""
        for _, record in read_records(path):
            events = []
            for event in record.get_objects("events") if "events" in record else []:
                events.append(ClipEvent(event.get_text("phrase"), event.get_int("start"), event.get_int("stop")))
                if not 0 <= events[-1].start < events[-1].stop:
                    raise DataError(
                        f"{event.location}: frames {events[-1].start} to {events[-1].stop}; correct the line"
                    )
            yield record.get_text("clip"), record.get_texts("captions"), events


def _list_files(path: Path) -> list[Path]:
    """Return the files of an input: itself, or the pictures of a clip's folder; empty if it is missing."""
    if is_folder(path):
        return sorted(file for file in path.iterdir() if file.is_file())
    return [path] if is_file(path) else []


def build_caption_encoding(
    tokenizer: Tokenizer,
    *,
    input_spec: ArraySpec,
    extract: Callable[[Path], Shaped[np.ndarray, "T ..."]],
    max_length: int,
) -> ExampleEncoder[tuple[int, CaptionedInput[Any]]]:
    """Build the encoding that stores each input once, with its number and all its captions.

    Captions of more than `max_length` tokens are left out, and so are inputs without a remaining caption and inputs
    that cannot be read (see `explain_unreadable`).

    Args:
        tokenizer: tokenizer of the captions.
        input_spec: data type and shape of what `extract` returns.
        extract: extracts the stored features of a file; raises `DataError` if it cannot be read.
        max_length: tokens of a caption with its end at most.
    """

    def encode_example(
        example: tuple[int, CaptionedInput[Any]],
    ) -> tuple[list[int], Sequence[Any] | np.ndarray, list[int] | None]:
        """Return the number, the features and the caption ids of an input; None or empty if they are left out."""
        number, captioned = example
        short_texts = [text for text in captioned.captions if len(text) <= CHARACTERS_PER_TOKEN * max_length]
        encoded = [ids for text in short_texts if 0 < len(ids := tokenizer.encode(text)) < max_length]
        if captioned.captions and not encoded:
            return [number], [number], None  # left out for its captions, not for itself
        ids = [token for caption in encoded for token in (*caption, tokenizer.special.eos)]
        try:
            return [number], extract(captioned.file), ids
        except DataError:
            return [number], [], ids

    return ExampleEncoder(
        {NUMBER_SIDE: ArraySpec("<i8"), INPUT_SIDE: input_spec, CAPTION_SIDE: tokenizer.size}, encode_example
    )


def explain_unreadable(
    examples: Iterable[CaptionedInput[Any]], corpus: Corpus, *, extract: Callable[[Path], Any]
) -> Iterator[str]:
    """Try to read each example that is not in the corpus with `extract`, and yield the messages of the errors."""
    stored_numbers = set(corpus[NUMBER_SIDE].stream.tolist())
    for number, captioned in enumerate(examples):
        if number not in stored_numbers:
            try:
                extract(captioned.file)
            except DataError as error:
                yield str(error)


def split_by_caption(corpus: Corpus, *, eos: int) -> Corpus:
    """Return the corpus with one example for each caption, which ends with the id `eos`; captions of one input share
    its features.
    """
    stream = np.asarray(corpus[CAPTION_SIDE].stream)
    stops = np.flatnonzero(stream == eos) + 1
    starts = np.concatenate([[0], stops[:-1]])
    input_indices = np.searchsorted(corpus[CAPTION_SIDE].stops, stops)
    sides = {INPUT_SIDE: corpus[INPUT_SIDE].select_rows(input_indices), CAPTION_SIDE: CorpusSide(stream, starts, stops)}
    return Corpus(corpus.folder, EncodingReport(len(stops), corpus.report.empty, corpus.report.too_long), sides)


def collate_captions(corpus: Corpus, rows: RowIndices, *, bos: int) -> PairBatch[Tensor]:
    """Collate the given rows of a corpus made by `split_by_caption` into a batch of pictures and captions; `bos` is the
    id that begins a decoder input.
    """
    pictures, _ = corpus[INPUT_SIDE].collate_arrays(rows)
    return build_pair_batch(torch.from_numpy(pictures[:, 0]), corpus[CAPTION_SIDE].collate_ids(rows), bos=bos)


def collate_clips(corpus: Corpus, rows: RowIndices, *, bos: int) -> PairBatch[ClipBatch]:
    """Collate the given rows of a corpus made by `split_by_caption` into a batch of clips and captions; `bos` is the id
    that begins a decoder input.
    """
    clips = ClipBatch(*map(torch.from_numpy, corpus[INPUT_SIDE].collate_arrays(rows)))
    return build_pair_batch(clips, corpus[CAPTION_SIDE].collate_ids(rows), bos=bos)


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
