"""Windows of contexts with their question, for training and for prediction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor

from heedful.data.batches import to_segmented_tokens
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.encoder_inputs import ContextWindow, build_windows
from heedful.data.questions import ExtractiveQuestion
from heedful.data.token_offsets import compute_offsets
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.tensors import Tokens

NO_ANSWER: Final = 0
"""The index that says that a window holds no answer: that of the token which begins it (Devlin et al. 2019, 4.3)."""


@dataclass(frozen=True)
class WindowSettings:
    """How contexts are cut into windows: see `heedful.data.encoder_inputs.build_windows`."""

    max_length: int
    stride: int
    max_question: int


@dataclass(frozen=True)
class LabelledWindow:
    """A window, and the indices of the first and last id of the answer; both are `NO_ANSWER` without one."""

    window: ContextWindow
    answer_start: int
    answer_end: int


@dataclass(frozen=True)
class WindowBatch:
    """A batch of windows with the answer positions.

    Attributes:
        tokens: question and context.
        answer_mask: where an answer may start or end: in the context, or at `NO_ANSWER`.
        answer_starts: index of the first token of each answer.
        answer_ends: index of the last token of each answer.
    """

    tokens: Tokens
    answer_mask: Bool[Tensor, "B T"]
    answer_starts: Int[Tensor, " B"]
    answer_ends: Int[Tensor, " B"]


def split_into_windows(
    tokenizer: Tokenizer, question: str, context: str, *, settings: WindowSettings, location: str
) -> list[ContextWindow]:
    """Cut a context into windows as the settings say, and return each combined with the question.

    Raises:
        DataError: tokens of the context cannot be aligned with its text; the message starts with `location`.
    """
    try:
        token_offsets = compute_offsets(tokenizer, context)
        return build_windows(
            tokenizer.encode(question),
            tokenizer.encode(context),
            token_offsets,
            special=tokenizer.special,
            max_length=settings.max_length,
            stride=settings.stride,
            max_question=settings.max_question,
        )
    except (DataError, RecipeError) as error:
        raise type(error)(f"{location}: {error}") from None


def label_windows(
    tokenizer: Tokenizer, questions: Iterable[ExtractiveQuestion], *, settings: WindowSettings
) -> Iterator[LabelledWindow]:
    """Cut the contexts of all questions into windows as the settings say, and yield them with labels; each window gets
    the first answer that lies completely in it.
    """
    for question in questions:
        for window in split_into_windows(
            tokenizer, question.question, question.context, settings=settings, location=question.location
        ):
            positions = (window.find_token_span(answer.start, answer.stop) for answer in question.answers)
            yield LabelledWindow(
                window, *next((position for position in positions if position is not None), (NO_ANSWER, NO_ANSWER))
            )


def build_window_encoding(tokenizer: Tokenizer, *, max_length: int) -> ExampleEncoder[LabelledWindow]:
    """Return the encoding of a window of at most `max_length` ids: answer start and end, context start, and ids."""
    sizes = dict.fromkeys(("first", "last", "begin"), max_length + 1)
    return ExampleEncoder(
        sizes | {"tokens": tokenizer.size},
        lambda target: (
            [target.answer_start],
            [target.answer_end],
            [target.window.context_start],
            list(target.window.ids),
        ),
        identity_key=lambda target: (target.window.ids, target.answer_start, target.answer_end),
    )


def collate_windows(corpus: Corpus, rows: Integer[np.ndarray, " B"], *, in_one_segment: bool = False) -> WindowBatch:
    """Collate the given rows of a corpus, padded on the right. `in_one_segment` says whether the context is in segment
    0 too, as in `ContextWindow.segments`.
    """
    context_starts, answer_starts, answer_ends = (
        torch.from_numpy(corpus[side].collate_ids(rows)[:, 0]) for side in ("begin", "first", "last")
    )
    ids = [np.asarray(corpus["tokens"][row], dtype=np.int64) for row in rows]
    tokens = to_segmented_tokens(ids, list(map(len, ids)) if in_one_segment else context_starts.tolist())
    return WindowBatch(tokens, _build_answer_mask(tokens, context_starts), answer_starts, answer_ends)


def batch_unlabelled_windows(windows_to_read: Sequence[ContextWindow]) -> WindowBatch:
    """Batch windows without known answers."""
    context_starts = torch.tensor([window.context_start for window in windows_to_read])
    first_lengths = [window.segments.count(0) for window in windows_to_read]
    tokens = to_segmented_tokens([window.ids for window in windows_to_read], first_lengths)
    no_answer = torch.full_like(context_starts, NO_ANSWER)
    return WindowBatch(tokens, _build_answer_mask(tokens, context_starts), no_answer, no_answer)


def _build_answer_mask(tokens: Tokens, context_starts: Int[Tensor, " B"]) -> Bool[Tensor, "B T"]:
    """Return a mask of the context tokens without the end token, and of the start token."""
    positions = tokens.positions
    lengths = (positions >= 0).sum(1, keepdim=True)
    is_context = (positions >= context_starts.unsqueeze(1)) & (positions < lengths - 1)
    return is_context | (positions == NO_ANSWER)
