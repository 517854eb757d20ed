"""Evaluation of captions, and a page of pictures with their captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from heedful.characters import compile_word_pattern
from heedful.data.clips import Clip
from heedful.data.pictures import read_picture
from heedful.data.token_offsets import compute_offsets
from heedful.errors import DataError
from heedful.generation.search import SearchStrategy
from heedful.inspection.figures import draw_figure
from heedful.inspection.page import escape_page_text, render_html_page
from heedful.inspection.svg import make_photo_url
from heedful.metrics.captions import MAX_ORDER, CaptionBLEU, cider_d, split_words
from heedful.metrics.metric import Metric, RatioMetric, build_mean_metric
from heedful.tasks.captioning.data import BoundingBox, CaptionedClip, CaptionedPicture, ClipEvent
from heedful.tasks.captioning.predictor import (
    BaseCaptioner,
    CaptionAttention,
    Captioner,
    CaptionInput,
    VideoCaptioner,
)
from heedful.tasks.inspection_records import InspectionSelection
from heedful.tasks.label_evaluation import LabelEvaluator

_MAX_PIXELS, _DISPLAY_WIDTH = 480, 240


@dataclass(frozen=True)
class _CaptionEntry:
    """A caption with a drawing of the input and of its attention."""

    name: str
    caption: str
    drawing: str

    def to_html(self) -> str:
        """Return the entry as well-formed HTML elements."""
        return (
            f'<h2>{escape_page_text(self.caption)}</h2><p class="note">{escape_page_text(self.name)}</p>'
            f"<figure>{self.drawing}</figure>"
        )


def build_caption_page(
    captioner: BaseCaptioner[Any], inputs: Sequence[CaptionInput], *, search: SearchStrategy | None = None
) -> str:
    """Caption inputs and return a self-contained web page (HTML) of them.

    Args:
        captioner: the captioning model.
        inputs: inputs as `BaseCaptioner.caption` takes them.
        search: search algorithm instead of the captioner's own.

    Raises:
        DataError: a file cannot be read.
    """
    captions = captioner.caption(inputs, search=search)
    entries = [
        _CaptionEntry(caption.name, caption.text, _draw_input(captioner, input_value, caption.text))
        for input_value, caption in zip(inputs, captions, strict=True)
    ]
    return render_html_page(f"What the {captioner.input_noun}s show", tables=entries, pictures=())


def _draw_input(captioner: BaseCaptioner[Any], input_value: CaptionInput, caption: str) -> str:
    """Return HTML of the input: its picture, and a figure of the attention while the caption was generated; either is
    left out if the captioner has none.
    """
    picture = captioner.render_picture(input_value)
    image_html = (
        ""
        if picture is None
        else f'<img alt="" src="{make_photo_url(picture, longest=_MAX_PIXELS)}" width="{_DISPLAY_WIDTH}"/>'
    )
    if not captioner.has_attention:
        return image_html
    return image_html + draw_figure(
        captioner.inspect(input_value, caption, scope=InspectionSelection(attention_steps=False)),
        view=captioner.figure_view,
    )


_MAX_NEIGHBOURS: Final = 2000
"""Maximum number of training pictures that are searched for the nearest one."""
_MAX_CANDIDATES: Final = 400
_POINTS_PER_REGION: Final = 5
"""Places along a region that attention may point to, its middle among them."""


@dataclass(frozen=True)
class CaptioningOutputs:
    """Captions and attention statistics of a captioner for the evaluated pictures.

    Attributes:
        texts: one caption per picture.
        nearest_captions: captions of the most similar training pictures; None if none were searched for.
        pointing_counts: for each picture, how often a caption's attention pointed at the named object, and how many
            objects it named; None if there are no bounding boxes, or the model has no attention.
        unattended: for each picture, the mean over its regions of (1 - total attention of a correct caption)^2; None
            without attention.
    """

    texts: Sequence[str]
    nearest_captions: Sequence[str] | None = None
    pointing_counts: Float[np.ndarray, "N 2"] | None = None
    unattended: Float[np.ndarray, " N"] | None = None


@dataclass(frozen=True)
class VideoOutputs:
    """Captions and attention statistics of a captioner for the evaluated clips.

    Attributes:
        texts: one caption per clip.
        event_mass: for each clip, the share of attention that words naming an event pay to the event's frames, summed
            over these words, and the number of these words; None if no events are known, or the model has no attention.
    """

    texts: Sequence[str]
    event_mass: Float[np.ndarray, "N 2"] | None = None


def build_caption_evaluator(
    pictures: Sequence[CaptionedPicture], *, train: Sequence[CaptionedPicture]
) -> LabelEvaluator:
    """Build the evaluator of pictures with several reference captions, any of which is correct. The training pictures
    `train` give the constant baseline and the nearest pictures.

    Args:
        pictures: the pictures to caption; unreadable ones and those without captions are left out.
        train: training pictures, from which the constant baseline and the nearest pictures are taken.

    Raises:
        DataError: no picture can be read.
    """
    left_out, readable = list[str](), list[CaptionedPicture]()
    for picture in pictures:
        try:
            read_picture(picture.file)
        except DataError as error:
            left_out.append(str(error))
        else:
            readable += [picture] if picture.captions else []
    train_captions = [caption for picture in train for caption in picture.captions]
    if not readable or not train_captions:
        raise DataError("no picture with captions can be read; check the files")
    constant = _choose_typical_caption(train_captions)
    references = [picture.captions for picture in readable]
    return LabelEvaluator(
        [picture.file.name for picture in readable],
        references,
        predict_labels=lambda captioner: _caption_pictures(captioner, readable, train),
        measure=lambda outputs: _measure_pictures(outputs, references),
        size=len(readable),
        num_train_examples=len(train),
        constant_answer=constant,
        baseline_answers=CaptioningOutputs([constant] * len(readable)),
        main_metric="CIDEr-D",
        data_warnings=[f"left out: {error}" for error in left_out],
    )


def build_video_evaluator(
    clips: Sequence[CaptionedClip], *, train: Sequence[CaptionedClip], read_clip: Callable[[Path], Clip]
) -> LabelEvaluator:
    """Build the evaluator of clips with several reference captions, any of which is correct. The training clips `train`
    give the most frequent caption as a baseline.

    Args:
        clips: the clips to caption; unreadable ones and those without captions are left out.
        train: training clips, which tell the most frequent caption.
        read_clip: reads a clip.

    Raises:
        DataError: no clip can be read.
    """
    left_out, readable, uniform_mass = list[str](), list[CaptionedClip](), list[tuple[float, float]]()
    for example in clips:
        try:
            clip = read_clip(example.file)
        except DataError as error:
            left_out.append(str(error))
            continue
        if example.captions:
            readable.append(example)
            shares = [_build_event_mask(event, clip).mean() for event in example.marks]
            uniform_mass.append((sum(shares), len(shares)))
    caption_counts = Counter(caption for example in train for caption in example.captions)
    if not readable or not caption_counts:
        raise DataError("no clip with captions can be read; check the files")
    constant = caption_counts.most_common(1)[0][0]
    has_events = any(example.marks for example in readable)
    references = [example.captions for example in readable]
    return LabelEvaluator(
        [example.file.name for example in readable],
        references,
        predict_labels=lambda captioner: _caption_clips(captioner, readable),
        measure=lambda outputs: _measure_clips(outputs, references),
        size=len(readable),
        num_train_examples=len(train),
        constant_answer=constant,
        baseline_answers=VideoOutputs([constant] * len(readable), np.array(uniform_mass) if has_events else None),
        main_metric="exact match",
        data_warnings=[f"left out: {error}" for error in left_out],
    )


def _measure_pictures(outputs: CaptioningOutputs, references: Sequence[Sequence[str]]) -> Mapping[str, Metric]:
    """Compare captions with the references of the same picture, and return BLEU-1 to BLEU-4, CIDEr-D, exact match and,
    where known, the attention metrics, by name.
    """
    metrics: dict[str, Metric] = {
        f"BLEU-{order}": CaptionBLEU(outputs.texts, references, order=order) for order in range(1, MAX_ORDER + 1)
    }
    metrics["CIDEr-D"] = cider_d(outputs.texts, references)
    metrics["exact match"] = _measure_exact_match(outputs.texts, references)
    if outputs.nearest_captions is not None:
        metrics["BLEU-4 of the nearest picture's caption"] = CaptionBLEU(outputs.nearest_captions, references)
        metrics["CIDEr-D of the nearest picture's caption"] = cider_d(outputs.nearest_captions, references)
    if outputs.pointing_counts is not None:
        metrics["pointing"] = RatioMetric(100.0 * outputs.pointing_counts[:, 0], outputs.pointing_counts[:, 1])
    if outputs.unattended is not None:
        metrics["unread"] = build_mean_metric(outputs.unattended)
    return metrics


def _measure_clips(outputs: VideoOutputs, references: Sequence[Sequence[str]]) -> Mapping[str, Metric]:
    """Compare captions with the references of the same clip, and return exact match, BLEU-4, CIDEr-D and, where known,
    the attention mass, by name.
    """
    metrics: dict[str, Metric] = {
        "exact match": _measure_exact_match(outputs.texts, references),
        "BLEU-4": CaptionBLEU(outputs.texts, references),
        "CIDEr-D": cider_d(outputs.texts, references),
    }
    if outputs.event_mass is not None:
        metrics["attention mass"] = RatioMetric(100.0 * outputs.event_mass[:, 0], outputs.event_mass[:, 1])
    return metrics


def _measure_exact_match(texts: Sequence[str], references: Sequence[Sequence[str]]) -> Metric:
    pairs = zip(texts, references, strict=True)
    return build_mean_metric([100.0 * (split_words(text) in map(split_words, correct)) for text, correct in pairs])


def _find_phrase_tokens(captioner: BaseCaptioner[Any], caption: str, phrase: str) -> Iterator[list[int]]:
    """Yield the indices of the captioner's tokens that overlap a phrase, for each of its occurrences in a caption."""
    offsets = compute_offsets(captioner.target.tokenizer, caption)
    for match in compile_word_pattern(phrase).finditer(caption):
        yield [n for n, (start, stop) in enumerate(offsets) if start < match.end() and stop > match.start()]


def _caption_pictures(
    captioner: Captioner, pictures: Sequence[CaptionedPicture], train: Sequence[CaptionedPicture]
) -> CaptioningOutputs:
    """Caption the pictures, find the caption of the nearest training picture for each, and measure where attention
    points while the correct captions are read. `train` are the training pictures.
    """
    texts = [each.text for each in captioner.caption([each.file for each in pictures])]
    nearest = _find_nearest_captions(captioner, pictures, train)
    if not captioner.has_attention:
        return CaptioningOutputs(texts, nearest)
    pairs = [(row, caption) for row, each in enumerate(pictures) for caption in each.captions if split_words(caption)]
    attentions = captioner.attend([(pictures[row].file, caption) for row, caption in pairs])
    pointed, unread, count = np.zeros((len(pictures), 2)), np.zeros(len(pictures)), np.zeros(len(pictures))
    for (row, caption), attention in zip(pairs, attentions, strict=True):
        unread[row] += (1 - attention.weights.sum(0)).__pow__(2).mean()
        count[row] += 1
        pointed[row] += np.sum([*_iter_pointing_hits(captioner, pictures[row], caption, attention), (0, 0)], axis=0)
    has_boxes = any(each.marks for each in pictures)
    return CaptioningOutputs(texts, nearest, pointed if has_boxes else None, unread / np.maximum(count, 1))


def _iter_pointing_hits(
    captioner: Captioner, picture: CaptionedPicture, caption: str, attention: CaptionAttention
) -> Iterator[tuple[int, int]]:
    """Yield, for each object name in a caption of the picture, 1 or 0 for whether attention points into a box of that
    name, and the count 1.

    This is the pointing game (Zhang et al. 2016). Attention is averaged over the tokens of the name; `_find_peak` says
    where it points.
    """
    if not picture.marks:
        return
    height, width = read_picture(picture.file).shape[:2]
    for name in dict.fromkeys(box.name for box in picture.marks):
        boxes = [box for box in picture.marks if box.name == name]
        for rows in filter(None, _find_phrase_tokens(captioner, caption, name)):
            point = _find_peak(attention.weights[rows].mean(0))
            yield int(any(_is_inside(captioner, point, box, height=height, width=width) for box in boxes)), 1


def _find_peak(grid: Float[np.ndarray, "rows columns"]) -> tuple[float, float]:
    """Return x and y, from 0 to 1, of the maximum of a grid of attention weights after Gaussian smoothing (Xu et al.
    2015, 5.4).
    """

    def gaussian_weights(regions: int) -> Float[np.ndarray, "places regions"]:
        positions = (np.arange(_POINTS_PER_REGION * regions) + 0.5) / _POINTS_PER_REGION
        return np.asarray(np.exp(-0.5 * (positions[:, None] - np.arange(regions) - 0.5) ** 2))

    spread = gaussian_weights(grid.shape[0]) @ grid @ gaussian_weights(grid.shape[1]).T
    row, column = np.unravel_index(int(spread.argmax()), spread.shape)
    return (column + 0.5) / spread.shape[1], (row + 0.5) / spread.shape[0]


def _is_inside(captioner: Captioner, point: tuple[float, float], box: BoundingBox, *, height: int, width: int) -> bool:
    """Return whether a point of the model's square, from 0 to 1, lies in a bounding box of a picture of `height` times
    `width` pixels.
    """
    left, top = captioner.framing.map_point(box.left, box.top, height=height, width=width)
    right, bottom = captioner.framing.map_point(box.left + box.width, box.top + box.height, height=height, width=width)
    return left <= point[0] <= right and top <= point[1] <= bottom


def _find_nearest_captions(
    captioner: Captioner, pictures: Sequence[CaptionedPicture], train: Sequence[CaptionedPicture]
) -> list[str] | None:
    """Return, for each picture, the first caption of the training picture with the most similar features; None if no
    training picture can be used.

    Similarity is the cosine of mean-centred feature vectors.
    """
    neighbours = list(_iter_descriptors(captioner, train[:: max(1, len(train) // _MAX_NEIGHBOURS)]))
    if not neighbours:
        return None
    table = np.stack([gist for gist, _ in neighbours])
    table = table - (mean := table.mean(0))
    queries = np.stack([gist for gist, _ in _iter_descriptors(captioner, pictures)]) - mean
    similarity = (queries @ table.T) / np.maximum(np.linalg.norm(table, axis=1), 1e-9)
    return [neighbours[index][1] for index in similarity.argmax(1)]


def _iter_descriptors(captioner: Captioner, pictures: Sequence[CaptionedPicture]) -> Iterator[tuple[np.ndarray, str]]:
    """Yield the captioner's feature vector and the first caption of each readable picture with captions."""
    for picture in pictures:
        try:
            features = captioner.extract_features(picture.file)
        except DataError:
            continue
        if picture.captions:
            yield captioner.picture_features.summarize(features), picture.captions[0]


def _choose_typical_caption(captions: Sequence[str]) -> str:
    """Return the caption that shares the most words with all others."""
    candidates = [text for text, _ in Counter(captions).most_common(_MAX_CANDIDATES)]
    bags = [Counter(split_words(text)) for text in candidates]

    def score_overlap(bag: Counter[str]) -> float:
        """Return the summed word overlap (Dice coefficient) with all candidates."""
        return sum(2 * (bag & other).total() / max(1, bag.total() + other.total()) for other in bags)

    return max(zip(candidates, bags, strict=True), key=lambda pair: score_overlap(pair[1]))[0]


def _caption_clips(captioner: VideoCaptioner, clips: Sequence[CaptionedClip]) -> VideoOutputs:
    """Caption the clips, and measure how much attention falls on the frames of events while the correct captions are
    read.
    """
    texts = [each.text for each in captioner.caption([each.file for each in clips])]
    pairs = [(row, caption) for row, each in enumerate(clips) if each.marks for caption in each.captions]
    if not pairs or not captioner.has_attention:
        return VideoOutputs(texts)
    mass, loaded_clips = np.zeros((len(clips), 2)), dict[int, Clip]()
    for row, _ in pairs:
        loaded_clips.setdefault(row, captioner.extract_features(clips[row].file))
    attentions = captioner.attend([(loaded_clips[row], caption) for row, caption in pairs])
    for (row, caption), attention in zip(pairs, attentions, strict=True):
        for share in _iter_event_shares(captioner, clips[row].marks, caption, attention, loaded_clips[row]):
            mass[row] += share, 1
    return VideoOutputs(texts, mass)


def _iter_event_shares(
    captioner: VideoCaptioner, events: Sequence[ClipEvent], caption: str, attention: CaptionAttention, clip: Clip
) -> Iterator[float]:
    """Yield, for each token of each event phrase in a caption of the clip, the share of its attention on the event's
    frames.
    """
    for event in events:
        event_mask = _build_event_mask(event, clip)
        for row in chain.from_iterable(_find_phrase_tokens(captioner, caption, event.phrase)):
            yield float(attention.weights[row, : len(event_mask)] @ event_mask)


def _build_event_mask(event: ClipEvent, clip: Clip) -> Float[np.ndarray, " T"]:
    """Return 1 for each frame of a clip that lies in an event, else 0."""
    return ((event.start <= clip.frame_indices) & (clip.frame_indices < event.stop)).astype(np.float64)
