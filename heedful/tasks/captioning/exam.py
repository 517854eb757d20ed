"""What captioners are asked, and what their captions are worth, beside one for all and that of the nearest picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float

from heedful.characters import as_words
from heedful.data.offsets import offsets
from heedful.data.pictures import read_picture
from heedful.errors import DataError
from heedful.metrics.captions import ORDERS, CaptionBLEU, cider_d, words
from heedful.metrics.metric import Metric, Ratio, mean
from heedful.tasks.caption_writer import Looked
from heedful.tasks.captioning.data import Box, Captioned
from heedful.tasks.captioning.face import Captioner
from heedful.tasks.labelled import LabelledExam

_MOST: Final = 2000
"""Pictures of the training part that the nearest one is looked for in."""
_ALIKE: Final = 400
_FINENESS: Final = 5
"""Places along a region that attention may point to, its middle among them."""


@dataclass(frozen=True)
class Told:
    """What was said of the pictures.

    Attributes:
        texts: captions.
        nearest: those of the most similar pictures of the training part; None where none were looked for.
        pointed: of each picture, how often a caption looked at what it named, and how often it named something;
            None where nothing is known of boxes, or there is no attention.
        unread: the mean over its regions of (1 - all attention that a right caption pays)^2; None without attention.
    """

    texts: Sequence[str]
    nearest: Sequence[str] | None = None
    pointed: Float[np.ndarray, "N 2"] | None = None
    unread: Float[np.ndarray, " N"] | None = None


def caption_exam(pictures: Sequence[Captioned], *, train: Sequence[Captioned]) -> LabelledExam:
    """Pictures with captions of which any is right.

    Args:
        pictures: what is asked; those that cannot be read, or have no captions, are left out.
        train: pictures that tell what is said most often.

    Raises:
        DataError: none can be read.
    """
    left_out, readable = [], []
    for each in pictures:
        try:
            read_picture(each.picture)
        except DataError as error:
            left_out.append(str(error))
        else:
            readable += [each] if each.captions else []
    known = [caption for each in train for caption in each.captions]
    if not readable or not known:
        raise DataError("there is not a single picture with captions that can be read; check the files")
    references = [each.captions for each in readable]
    constant = _most_alike(known)

    def measure(told: Told) -> Mapping[str, Metric]:
        return _metrics(told, references)

    return LabelledExam(
        [each.picture.name for each in readable],
        references,
        ask=lambda user: _answers(user, readable, train),
        measure=measure,
        size=len(readable),
        total=len(train),
        constant=constant,
        baseline=Told([constant] * len(readable)),
        main="CIDEr-D",
        remarks=[f"left out: {error}" for error in left_out],
    )


def _metrics(told: Told, references: Sequence[Sequence[str]]) -> dict[str, Metric]:
    found: dict[str, Metric] = {
        f"BLEU-{order}": CaptionBLEU(told.texts, references, order=order) for order in range(1, ORDERS + 1)
    }
    found["CIDEr-D"] = cider_d(told.texts, references)
    pairs = zip(told.texts, references, strict=True)
    found["exact match"] = mean([100.0 * (words(text) in map(words, right)) for text, right in pairs])
    if told.nearest is not None:
        found["BLEU-4 of the nearest picture's caption"] = CaptionBLEU(told.nearest, references)
        found["CIDEr-D of the nearest picture's caption"] = cider_d(told.nearest, references)
    if told.pointed is not None:
        found["pointing"] = Ratio(100.0 * told.pointed[:, 0], told.pointed[:, 1])
    if told.unread is not None:
        found["unread"] = mean(told.unread)
    return found


def _answers(user: Captioner, pictures: Sequence[Captioned], train: Sequence[Captioned]) -> Told:
    texts = [each.text for each in user.caption([each.picture for each in pictures])]
    nearest = _nearest(user, pictures, train)
    if not user.attentive:
        return Told(texts, nearest)
    pairs = [(row, caption) for row, each in enumerate(pictures) for caption in each.captions if words(caption)]
    looked = user.attend([(pictures[row].picture, caption) for row, caption in pairs])
    pointed, unread, count = np.zeros((len(pictures), 2)), np.zeros(len(pictures)), np.zeros(len(pictures))
    for (row, caption), look in zip(pairs, looked, strict=True):
        unread[row] += (1 - look.weights.sum(0)).__pow__(2).mean()
        count[row] += 1
        pointed[row] += np.sum([*_pointed(user, pictures[row], caption, look), (0, 0)], axis=0)
    boxed = any(each.boxes for each in pictures)
    return Told(texts, nearest, pointed if boxed else None, unread / np.maximum(count, 1))


def _pointed(user: Captioner, picture: Captioned, caption: str, look: Looked) -> Iterator[tuple[int, int]]:
    """Of each name in a caption whether it looked at a box of that name, and 1: the pointing game (Zhang et al. 2016).

    Attention is the mean over the pieces of the name; see `_peak` for where it points to.
    """
    boxes: dict[str, list[Box]] = {}
    for box in picture.boxes:
        boxes.setdefault(box.name, []).append(box)
    if not boxes:
        return
    height, width = read_picture(picture.picture).shape[:2]
    pieces = offsets(user.target.tokenizer, caption)
    for name, places in boxes.items():
        for found in as_words(name).finditer(caption):
            rows = [n for n, (start, stop) in enumerate(pieces) if start < found.end() and stop > found.start()]
            if not rows:
                continue
            point = _peak(look.weights[rows].mean(0))
            yield int(any(_inside(user, point, box, height=height, width=width) for box in places)), 1


def _peak(grid: Float[np.ndarray, "rows columns"]) -> tuple[float, float]:
    """Where attention is highest, from 0 to 1, if each region's spreads around its middle (Xu et al. 2015, 5.4)."""

    def bell(regions: int) -> Float[np.ndarray, "places regions"]:
        places = (np.arange(_FINENESS * regions) + 0.5) / _FINENESS
        return np.asarray(np.exp(-0.5 * (places[:, None] - np.arange(regions) - 0.5) ** 2))

    spread = bell(grid.shape[0]) @ grid @ bell(grid.shape[1]).T
    row, column = np.unravel_index(int(spread.argmax()), spread.shape)
    return (column + 0.5) / spread.shape[1], (row + 0.5) / spread.shape[0]


def _inside(user: Captioner, point: tuple[float, float], box: Box, *, height: int, width: int) -> bool:
    """Whether a point of the square, from 0 to 1, is in a box of the picture."""
    left, top = user.framing.placed(box.left, box.top, height=height, width=width)
    right, bottom = user.framing.placed(box.left + box.width, box.top + box.height, height=height, width=width)
    return left <= point[0] <= right and top <= point[1] <= bottom


def _nearest(user: Captioner, pictures: Sequence[Captioned], train: Sequence[Captioned]) -> list[str] | None:
    """The first caption of the picture most like each, by the cosine of what is kept of them, without their mean."""
    known = list(_gists(user, train[:: max(1, len(train) // _MOST)]))
    if not known:
        return None
    table = np.stack([gist for gist, _ in known])
    table = table - (middle := table.mean(0))
    asked = np.stack([gist for gist, _ in _gists(user, pictures)]) - middle
    near = (asked @ table.T) / np.maximum(np.linalg.norm(table, axis=1), 1e-9)
    return [known[place][1] for place in near.argmax(1)]


def _gists(user: Captioner, pictures: Sequence[Captioned]) -> Iterator[tuple[np.ndarray, str]]:
    for each in pictures:
        try:
            kept = user.see(each.picture)
        except DataError:
            continue
        if each.captions:
            yield user.sight.gist(kept), each.captions[0]


def _most_alike(captions: Sequence[str]) -> str:
    """The caption that has most of its words in common with the others: the most frequent one, or the plainest."""
    candidates = [text for text, _ in Counter(captions).most_common(_ALIKE)]
    bags = [Counter(words(text)) for text in candidates]

    def alike(bag: Counter[str]) -> float:
        return sum(2 * (bag & other).total() / max(1, bag.total() + other.total()) for other in bags)

    return max(zip(candidates, bags, strict=True), key=lambda pair: alike(pair[1]))[0]
