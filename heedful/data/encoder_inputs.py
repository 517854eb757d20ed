"""Build encoder inputs from one or two texts, and split long texts into overlapping windows.

A sequence is `bos A eos`, or `bos A eos B eos`; segments are 0 up to the first `eos` and 1 after it (Devlin et al.
2019). RoBERTa joins two texts as `bos A eos eos B eos` in segment 0 (`SpecialIds.doubles_separator`). `max_length`
counts these special ids too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.data.corpus import CHARACTERS_PER_TOKEN
from heedful.data.tokenizers import SpecialIds, Tokenizer
from heedful.errors import RecipeError


@dataclass(frozen=True)
class EncoderInput:
    """Ids and segments of a sequence, and the number of ids that were truncated (`num_truncated`)."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    num_truncated: int


@dataclass(frozen=True)
class ContextWindow:
    """A question and a part of its context: `bos question eos context eos`, or with two `eos` between them.

    Attributes:
        ids: ids of the sequence.
        segments: 0 for the question, 1 for the context; 0 for both if the separator is doubled.
        context_start: index in `ids` of the first id of the context.
        offsets: start and stop of each context id here, in characters of the context.
        first_index: index of the first context id here among all ids of the context.
        is_most_central: whether each context id has more context around it here than in any other window.
    """

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    context_start: int
    offsets: tuple[tuple[int, int], ...]
    first_index: int
    is_most_central: tuple[bool, ...]

    def find_token_span(self, start: int, stop: int) -> tuple[int, int] | None:
        """Return the indices in `ids` of the first and the last id of the characters `start` to `stop` of the context;
        None if not all of them are in this window.

        Ids that share a character with the answer belong to it, so an answer that begins inside a token includes all of
        that
        token.
        """
        overlapping = [i for i, (low, high) in enumerate(self.offsets) if low < stop and high > start]
        if not overlapping or self.offsets[overlapping[0]][0] > start or self.offsets[overlapping[-1]][1] < stop:
            return None
        return self.context_start + overlapping[0], self.context_start + overlapping[-1]

    def get_text(self, context: str, first: int, last: int) -> str:
        """Return the text from the id at index `first` to the id at index `last`; both count in `ids` and are in
        the context.
        """
        return context[self.offsets[first - self.context_start][0] : self.offsets[last - self.context_start][1]]


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], *, max_length: int) -> EncoderInput:
    """Encode one or two texts as a model reads them, with at most `max_length` ids; if they are too long, the longer
    text is truncated.
    """
    ids = [tokenizer.encode(text[: CHARACTERS_PER_TOKEN * max_length]) for text in texts]
    return build_encoder_input(
        ids[0], ids[1] if len(ids) > 1 else None, special=tokenizer.special, max_length=max_length
    )


def build_encoder_input(
    a: Sequence[int], b: Sequence[int] | None = None, *, special: SpecialIds, max_length: int
) -> EncoderInput:
    """Combine one or two sequences of ids into one encoder input, truncated to `max_length`.

    If there is no room for all, ids are removed from the end of the longer text, of the second if both are equally
    long, until they fit: BERT's rule, which keeps as much as possible of the shorter text. An empty text stays empty:
    `bos eos`, `bos eos B eos` and `bos A eos eos` are valid sequences. Raises `RecipeError` if `max_length` has no
    room for the special ids.
    """
    num_special = 2 if b is None else 2 + len(special.separator)
    room = max_length - num_special
    if room < 0:
        raise RecipeError(f"max_length is {max_length}; begin and end alone need {num_special}")
    length_b = 0 if b is None else len(b)
    half_room = room // 2
    # Each may use the room that the other leaves, and at least half of all.
    kept_a = min(len(a), max(room - length_b, room - half_room))
    kept_b = min(length_b, max(room - len(a), half_room))
    ids = [special.bos, *a[:kept_a], *(special.separator if b is not None else (special.eos,))]
    segments = [0] * len(ids)
    if b is not None:
        ids += [*b[:kept_b], special.eos]
        segments += [_get_second_segment(special)] * (kept_b + 1)
    return EncoderInput(tuple(ids), tuple(segments), len(a) + length_b - kept_a - kept_b)


def _get_second_segment(special: SpecialIds) -> int:
    """Return the segment of the second of two joined texts."""
    return 0 if special.doubles_separator else 1


def build_windows(
    question: Sequence[int],
    context: Sequence[int],
    offsets: Sequence[tuple[int, int]],
    *,
    special: SpecialIds,
    max_length: int,
    stride: int,
    max_question: int = 64,
) -> list[ContextWindow]:
    """Build windows of a question with parts of its context, so that every id of the context is in at least one window.
    A window has at most `max_length` ids, and its context begins `stride` ids after that of the window before.

    Args:
        question: ids of the question; those after `max_question` are dropped. It may be empty.
        context: ids of the context; an empty context gives one window.
        offsets: start and stop of each context id in the text of the context (`data.token_offsets`).
        special: the special ids of the tokenizer.
        max_length: largest number of ids in a window.
        stride: number of ids between the starts of two windows.
        max_question: largest number of ids of a question.

    Raises:
        RecipeError: there is no room for context, or the stride would leave a gap.
    """
    assert len(context) == len(offsets), f"{len(context)} ids and {len(offsets)} offsets"
    question_ids = question[:max_question]
    prefix = (special.bos, *question_ids, *special.separator)
    room = max_length - len(prefix) - 1
    if room < 1:
        raise RecipeError(
            f"max_length is {max_length}, which leaves no room for context behind a question of {len(question_ids)}; "
            "raise it or lower max_question"
        )
    if not 1 <= stride <= room:
        raise RecipeError(f"stride is {stride}; with windows of {room} ids of context it must lie between 1 and {room}")
    starts = [0]
    while starts[-1] + room < len(context):
        starts.append(starts[-1] + stride)
    ranges = [range(start, min(start + room, len(context))) for start in starts]
    return [
        ContextWindow(
            ids=(*prefix, *(context[i] for i in context_range), special.eos),
            segments=(0,) * len(prefix) + (_get_second_segment(special),) * (len(context_range) + 1),
            context_start=len(prefix),
            offsets=tuple(offsets[i] for i in context_range),
            first_index=context_range.start,
            is_most_central=tuple(_find_most_central(i, ranges) == window_index for i in context_range),
        )
        for window_index, context_range in enumerate(ranges)
    ]


def _find_most_central(index: int, ranges: Sequence[range]) -> int:
    """Return the index of the window in which an id of the context is farthest from the nearer edge, given the range of
    ids of each window; ties go to the longer window, then to the first.
    """
    margins = [
        (min(index - s.start, s.stop - 1 - index) + 0.01 * len(s), -window_index)
        for window_index, s in enumerate(ranges)
        if index in s
    ]
    return -max(margins)[1]
