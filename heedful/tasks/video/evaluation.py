"""Evaluation of video captioning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from heedful.characters import compile_word_pattern
from heedful.data.clips import Clip
from heedful.data.token_offsets import compute_offsets
from heedful.errors import DataError
from heedful.metrics.captions import CaptionBLEU, cider_d, split_words
from heedful.metrics.metric import Metric, RatioMetric, build_mean_metric
from heedful.tasks.base_captioner import CaptionAttention
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.video.data import CaptionedClip, ClipEvent
from heedful.tasks.video.predictor import VideoCaptioner


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


def build_video_evaluator(
    clips: Sequence[CaptionedClip], *, train: Sequence[CaptionedClip], read_clip: Callable[[Path], Clip]
) -> LabelEvaluator:
    """Build the evaluator of clips with several reference captions, any of which is correct.

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
            clip = read_clip(example.clip)
        except DataError as error:
            left_out.append(str(error))
            continue
        if example.captions:
            readable.append(example)
            uniform_mass.append(
                (sum(_build_event_mask(event, clip).mean() for event in example.events), len(example.events))
            )
    caption_counts = Counter(caption for example in train for caption in example.captions)
    if not readable or not caption_counts:
        raise DataError("no clip with captions can be read; check the files")
    references = [example.captions for example in readable]
    constant = caption_counts.most_common(1)[0][0]
    return LabelEvaluator(
        [example.clip.name for example in readable],
        references,
        predict_labels=lambda user: _caption_clips(user, readable),
        measure=lambda told: _compute_metrics(told, references),
        size=len(readable),
        num_train_examples=len(train),
        constant_answer=constant,
        baseline_answers=VideoOutputs(
            [constant] * len(readable), np.array(uniform_mass) if any(example.events for example in readable) else None
        ),
        main_metric="exact match",
        data_warnings=[f"left out: {error}" for error in left_out],
    )


def _compute_metrics(outputs: VideoOutputs, references: Sequence[Sequence[str]]) -> Mapping[str, Metric]:
    """Return exact match, BLEU-4, CIDEr-D and, where known, the attention mass, by name."""
    pairs = zip(outputs.texts, references, strict=True)
    metrics: dict[str, Metric] = {
        "exact match": build_mean_metric(
            [100.0 * (split_words(text) in map(split_words, correct)) for text, correct in pairs]
        ),
        "BLEU-4": CaptionBLEU(outputs.texts, references),
        "CIDEr-D": cider_d(outputs.texts, references),
    }
    if outputs.event_mass is not None:
        metrics["attention mass"] = RatioMetric(100.0 * outputs.event_mass[:, 0], outputs.event_mass[:, 1])
    return metrics


def _caption_clips(captioner: VideoCaptioner, clips: Sequence[CaptionedClip]) -> VideoOutputs:
    """Caption the clips with a captioner, and measure its attention to the frames of events."""
    texts = [each.text for each in captioner.caption([each.clip for each in clips])]
    pairs = [(row, caption) for row, each in enumerate(clips) if each.events for caption in each.captions]
    if not pairs or not captioner.has_attention:
        return VideoOutputs(texts)
    mass, loaded_clips = np.zeros((len(clips), 2)), dict[int, Clip]()
    for row, _ in pairs:
        loaded_clips.setdefault(row, captioner.extract_features(clips[row].clip))
    attentions = captioner.attend([(loaded_clips[row], caption) for row, caption in pairs])
    for (row, caption), attention in zip(pairs, attentions, strict=True):
        for share in _iter_event_shares(captioner, clips[row].events, caption, attention, loaded_clips[row]):
            mass[row] += share, 1
    return VideoOutputs(texts, mass)


def _iter_event_shares(
    captioner: VideoCaptioner, events: Sequence[ClipEvent], caption: str, attention: CaptionAttention, clip: Clip
) -> Iterator[float]:
    """Yield, for each token of each event phrase in a caption, the share of its attention on the event's frames."""
    pieces = compute_offsets(captioner.target.tokenizer, caption)
    for event in events:
        event_mask = _build_event_mask(event, clip)
        for match in compile_word_pattern(event.phrase).finditer(caption):
            for n, (start, stop) in enumerate(pieces):
                if start < match.end() and stop > match.start():
                    yield float(attention.weights[n, : len(event_mask)] @ event_mask)


def _build_event_mask(event: ClipEvent, clip: Clip) -> Float[np.ndarray, " T"]:
    """Return 1 for each frame of a clip that lies in an event, else 0."""
    return ((event.start <= clip.frame_indices) & (clip.frame_indices < event.stop)).astype(np.float64)
