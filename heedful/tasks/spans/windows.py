"""Questions as windows of their contexts, for training and for reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor

from heedful.data.batches import paired_tokens
from heedful.data.corpus import Corpus, Encoding
from heedful.data.offsets import offsets
from heedful.data.questions import Question
from heedful.data.sequences import Window, windows
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.values import Tokens

NOWHERE: Final = 0
"""The index that says that a window holds no answer: that of the token which begins it (Devlin et al. 2019, 4.3)."""


@dataclass(frozen=True)
class Cutting:
    """How contexts are cut: see `sequences.windows`."""

    max_length: int
    stride: int
    max_question: int


@dataclass(frozen=True)
class Target:
    """A window, and the indices in its ids of the first and the last id of the answer; twice `NOWHERE` without one."""

    window: Window
    first: int
    last: int


@dataclass(frozen=True)
class WindowBatch:
    """Windows of contexts, and where their answers are.

    Attributes:
        tokens: question and context.
        possible: where an answer may begin or end: in the context, or at `NOWHERE`.
        first: the index of the first token of each answer.
        last: that of the last one.
    """

    tokens: Tokens
    possible: Bool[Tensor, "B T"]
    first: Int[Tensor, " B"]
    last: Int[Tensor, " B"]


def question_windows(
    tokenizer: Tokenizer, question: str, context: str, *, cutting: Cutting, place: str
) -> list[Window]:
    """A question with each stretch of its context.

    Raises:
        DataError: tokens of the context are not found again in its text; `place` says where that is.
    """
    try:
        where = offsets(tokenizer, context)
        return windows(
            tokenizer.encode(question),
            tokenizer.encode(context),
            where,
            special=tokenizer.special,
            max_length=cutting.max_length,
            stride=cutting.stride,
            max_question=cutting.max_question,
        )
    except (DataError, RecipeError) as error:
        raise type(error)(f"{place}: {error}") from None


def targets(tokenizer: Tokenizer, questions: Iterable[Question], *, cutting: Cutting) -> Iterator[Target]:
    """The windows of all questions; of several answers the first that is completely in a window counts there."""
    for question in questions:
        for window in question_windows(
            tokenizer, question.question, question.context, cutting=cutting, place=question.place
        ):
            found = (window.locate(answer.start, answer.stop) for answer in question.answers)
            yield Target(window, *next((place for place in found if place is not None), (NOWHERE, NOWHERE)))


def target_encoding(tokenizer: Tokenizer, *, max_length: int) -> Encoding[Target]:
    """Where the answer begins and ends, where the context begins, and the ids of a window."""
    sizes = dict.fromkeys(("first", "last", "begin"), max_length + 1)
    return Encoding(
        sizes | {"tokens": tokenizer.size},
        lambda target: ([target.first], [target.last], [target.window.begin], list(target.window.ids)),
        identity=lambda target: (target.window.ids, target.first, target.last),
    )


def collate_windows(corpus: Corpus, rows: Integer[np.ndarray, " B"]) -> WindowBatch:
    """The windows in `rows`, padded on the right."""
    begins, first, last = (torch.from_numpy(corpus[side].padded(rows)[:, 0]) for side in ("begin", "first", "last"))
    ids = [np.asarray(corpus["tokens"][row], dtype=np.int64) for row in rows]
    tokens = paired_tokens(ids, begins.tolist())
    return WindowBatch(tokens, _possible(tokens, begins), first, last)


def read_windows(chosen: Sequence[Window]) -> WindowBatch:
    """Windows whose answers are not known."""
    begins = torch.tensor([window.begin for window in chosen])
    tokens = paired_tokens([window.ids for window in chosen], begins.tolist())
    nowhere = torch.full_like(begins, NOWHERE)
    return WindowBatch(tokens, _possible(tokens, begins), nowhere, nowhere)


def _possible(tokens: Tokens, begins: Int[Tensor, " B"]) -> Bool[Tensor, "B T"]:
    """The context without its end, and the begin."""
    places = tokens.positions
    lengths = (places >= 0).sum(1, keepdim=True)
    inside = (places >= begins.unsqueeze(1)) & (places < lengths - 1)
    return inside | (places == NOWHERE)
