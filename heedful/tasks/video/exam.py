"""What is asked of models that say what happens in clips, and what their captions are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from heedful.characters import as_words
from heedful.data.clips import Clip
from heedful.data.offsets import offsets
from heedful.errors import DataError
from heedful.metrics.captions import CaptionBLEU, cider_d, words
from heedful.metrics.metric import Metric, Ratio, mean
from heedful.tasks.caption_writer import Looked
from heedful.tasks.labelled import LabelledExam
from heedful.tasks.video.data import CaptionedClip, Event
from heedful.tasks.video.face import VideoCaptioner


@dataclass(frozen=True)
class Told:
    """What was said of the clips.

    Attributes:
        texts: captions.
        mass: of each clip, the share of attention that what captions name gets in its frames, summed over these words,
            and how many words that are; None where nobody knows the frames, or there is no attention.
    """

    texts: Sequence[str]
    mass: Float[np.ndarray, "N 2"] | None = None


def video_exam(
    clips: Sequence[CaptionedClip], *, train: Sequence[CaptionedClip], see: Callable[[Path], Clip]
) -> LabelledExam:
    """Clips with captions of which any is right.

    Args:
        clips: what is asked; those that cannot be read, or have no captions, are left out.
        train: clips that tell what is said most often.
        see: reads a clip.

    Raises:
        DataError: none can be read.
    """
    left_out, readable, even = list[str](), list[CaptionedClip](), list[tuple[float, float]]()
    for each in clips:
        try:
            clip = see(each.clip)
        except DataError as error:
            left_out.append(str(error))
            continue
        if each.captions:
            readable.append(each)
            even.append((sum(_within(event, clip).mean() for event in each.events), len(each.events)))
    known = Counter(caption for each in train for caption in each.captions)
    if not readable or not known:
        raise DataError("there is not a single clip with captions that can be read; check the files")
    references = [each.captions for each in readable]
    constant = known.most_common(1)[0][0]
    return LabelledExam(
        [each.clip.name for each in readable],
        references,
        ask=lambda user: _answers(user, readable),
        measure=lambda told: _metrics(told, references),
        size=len(readable),
        total=len(train),
        constant=constant,
        baseline=Told([constant] * len(readable), np.array(even) if any(each.events for each in readable) else None),
        main="exact match",
        remarks=[f"left out: {error}" for error in left_out],
    )


def _metrics(told: Told, references: Sequence[Sequence[str]]) -> Mapping[str, Metric]:
    pairs = zip(told.texts, references, strict=True)
    found: dict[str, Metric] = {
        "exact match": mean([100.0 * (words(text) in map(words, right)) for text, right in pairs]),
        "BLEU-4": CaptionBLEU(told.texts, references),
        "CIDEr-D": cider_d(told.texts, references),
    }
    if told.mass is not None:
        found["attention mass"] = Ratio(100.0 * told.mass[:, 0], told.mass[:, 1])
    return found


def _answers(user: VideoCaptioner, clips: Sequence[CaptionedClip]) -> Told:
    texts = [each.text for each in user.caption([each.clip for each in clips])]
    asked = [(row, caption) for row, each in enumerate(clips) if each.events for caption in each.captions]
    if not asked or not user.attentive:
        return Told(texts)
    mass, kept = np.zeros((len(clips), 2)), dict[int, Clip]()
    for row, _ in asked:
        kept.setdefault(row, user.see(clips[row].clip))
    looked = user.attend([(kept[row], caption) for row, caption in asked])
    for (row, caption), look in zip(asked, looked, strict=True):
        for share in _shares(user, clips[row].events, caption, look, kept[row]):
            mass[row] += share, 1
    return Told(texts, mass)


def _shares(user: VideoCaptioner, events: Sequence[Event], caption: str, look: Looked, clip: Clip) -> Iterator[float]:
    """Of each token of each phrase in a caption, how much of its attention is on the frames where it happens."""
    pieces = offsets(user.target.tokenizer, caption)
    for event in events:
        right = _within(event, clip)
        for found in as_words(event.phrase).finditer(caption):
            for n, (start, stop) in enumerate(pieces):
                if start < found.end() and stop > found.start():
                    yield float(look.weights[n, : len(right)] @ right)


def _within(event: Event, clip: Clip) -> Float[np.ndarray, " T"]:
    """1 for each frame that was taken of an event."""
    return ((event.start <= clip.numbers) & (clip.numbers < event.stop)).astype(np.float64)
