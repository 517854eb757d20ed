"""One or two texts as the one sequence that an encoder reads, and long texts as windows that overlap.

A sequence is `bos A eos`, or `bos A eos B eos`; segments are 0 up to the first `eos` and 1 behind it (Devlin et al.
2019). `max_length` counts these ids too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.data.corpus import CHARACTERS_PER_TOKEN
from heedful.data.tokenizers import Special, Tokenizer
from heedful.errors import RecipeError


@dataclass(frozen=True)
class Joined:
    """Ids and segments of a sequence, and how many ids of the texts were `cut` because there was no room."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    cut: int


@dataclass(frozen=True)
class Window:
    """A question and a stretch of its context: `bos question eos context eos`.

    Attributes:
        ids: what the model reads.
        segments: 0 for the question, 1 for the context.
        begin: the index in `ids` of the first id of the context.
        offsets: the characters of the context that each of its ids here stands for, (start, stop).
        first: the number of the first of them among all ids of the context.
        central: whether each of them has more context around it here than in any other window.
    """

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    begin: int
    offsets: tuple[tuple[int, int], ...]
    first: int
    central: tuple[bool, ...]

    def locate(self, start: int, stop: int) -> tuple[int, int] | None:
        """The indices in `ids` of the first and the last id of characters `start` to `stop`; None if not all are here.

        Ids that share a character with the answer belong to it, so an answer that begins inside of a token is
        found with all of that token.
        """
        touched = [i for i, (low, high) in enumerate(self.offsets) if low < stop and high > start]
        if not touched or self.offsets[touched[0]][0] > start or self.offsets[touched[-1]][1] < stop:
            return None
        return self.begin + touched[0], self.begin + touched[-1]

    def cut(self, context: str, first: int, last: int) -> str:
        """The text from the id at index `first` to the one at `last`, both in the context and counted in `ids`."""
        return context[self.offsets[first - self.begin][0] : self.offsets[last - self.begin][1]]


def frame(tokenizer: Tokenizer, texts: Sequence[str], *, max_length: int) -> Joined:
    """One or two texts as a model reads them; of what is too long the longer text loses its end."""
    ids = [tokenizer.encode(text[: CHARACTERS_PER_TOKEN * max_length]) for text in texts]
    return joined(ids[0], ids[1] if len(ids) > 1 else None, special=tokenizer.special, max_length=max_length)


def joined(a: Sequence[int], b: Sequence[int] | None = None, *, special: Special, max_length: int) -> Joined:
    """One or two encoded texts as one sequence.

    Where there is no room for all, ids are taken from the end of the longer text, of the second if both are equally
    long, until there is: BERT's rule, which leaves of the shorter text as much as it can. An empty text stays empty:
    `bos eos`, `bos eos B eos` and `bos A eos eos` are sequences like any other. `RecipeError` where `max_length` has no
    room for bos and eos.
    """
    borders = 2 if b is None else 3
    room = max_length - borders
    if room < 0:
        raise RecipeError(f"max_length is {max_length}; begin and end alone need {borders}")
    others = 0 if b is None else len(b)
    half = room // 2
    # Each may have what the other leaves, and at least its half.
    first = min(len(a), max(room - others, room - half))
    second = min(others, max(room - len(a), half))
    ids = [special.bos, *a[:first], special.eos]
    segments = [0] * len(ids)
    if b is not None:
        ids += [*b[:second], special.eos]
        segments += [1] * (second + 1)
    return Joined(tuple(ids), tuple(segments), len(a) + others - first - second)


def windows(
    question: Sequence[int],
    context: Sequence[int],
    offsets: Sequence[tuple[int, int]],
    *,
    special: Special,
    max_length: int,
    stride: int,
    max_question: int = 64,
) -> list[Window]:
    """A question with each stretch of its context that fits, so that every id of the context is read at least once.

    Args:
        question: its ids; those behind `max_question` are dropped. It may be empty.
        context: its ids; an empty context gives one window.
        offsets: where in the context's text each of its ids stands (`data.offsets`).
        special: the tokenizer's ids with a meaning.
        max_length: ids in a window at most.
        stride: ids between the begins of two windows.
        max_question: ids of a question at most.

    Raises:
        RecipeError: there is no room for context, or the stride would leave a gap.
    """
    assert len(context) == len(offsets), f"{len(context)} ids and {len(offsets)} offsets"
    asked = question[:max_question]
    room = max_length - len(asked) - 3
    if room < 1:
        raise RecipeError(
            f"max_length is {max_length}, which leaves no room for context behind a question of {len(asked)}; raise it "
            "or lower max_question"
        )
    if not 1 <= stride <= room:
        raise RecipeError(f"stride is {stride}; with windows of {room} ids of context it must lie between 1 and {room}")
    starts = [0]
    while starts[-1] + room < len(context):
        starts.append(starts[-1] + stride)
    stretches = [range(start, min(start + room, len(context))) for start in starts]
    head = (special.bos, *asked, special.eos)
    return [
        Window(
            ids=(*head, *(context[i] for i in stretch), special.eos),
            segments=(0,) * len(head) + (1,) * (len(stretch) + 1),
            begin=len(head),
            offsets=tuple(offsets[i] for i in stretch),
            first=stretch.start,
            central=tuple(_most_central(i, stretches) == number for i in stretch),
        )
        for number, stretch in enumerate(stretches)
    ]


def _most_central(place: int, stretches: Sequence[range]) -> int:
    """The window in which an id is farthest from the nearer edge; of two alike the longer, then the first."""
    around = [
        (min(place - s.start, s.stop - 1 - place) + 0.01 * len(s), -number)
        for number, s in enumerate(stretches)
        if place in s
    ]
    return -max(around)[1]
