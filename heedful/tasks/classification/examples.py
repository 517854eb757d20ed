"""Labelled texts and choices as sequences of ids, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from heedful.data.batches import paired_tokens
from heedful.data.corpus import Corpus, Encoding, Items
from heedful.data.labelled import Choice, Labelled
from heedful.data.labels import Labels
from heedful.data.sequences import frame
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.tasks.classification.recipe import Verdict
from heedful.values import Tokens

_NUMBERS = 2**32
"""Values of a side that keeps what has no vocabulary."""


@dataclass(frozen=True)
class ExampleBatch:
    """Texts and what is to be said of them.

    Attributes:
        tokens: a row for each text, or for each candidate of each choice, one after the other.
        counts: of each example the rows that it has; 1 unless it is a choice.
        labels: of each example the number of its class, or the number itself; of choices of each row 1 where the
            candidate is right, else 0.
    """

    tokens: Tokens
    counts: Int[Tensor, " B"]
    labels: Int[Tensor, " N"] | Float[Tensor, " N"]


def example_encoding(
    tokenizer: Tokenizer, labels: Labels | None, *, answered: Verdict, max_length: int, paired: bool = False
) -> Encoding[Labelled | Choice]:
    """The rows of an example one after the other, where each begins and its second part, what was cut, and the label.

    Choices without a right candidate are left out as empty: there is nothing to learn from them.

    Args:
        tokenizer: of the texts.
        labels: the classes; None where there are none.
        answered: what is said of an example.
        max_length: ids of a row at most.
        paired: whether the model reads nothing but two texts together; encoding a single one is then a `DataError`.
    """

    def encode(example: Labelled | Choice) -> Sequence[Sequence[float]]:
        texts = example.candidates if isinstance(example, Choice) else (example.texts,)
        if paired and any(len(each) < 2 for each in texts):
            raise DataError(
                f"{example.place}: one text alone, and this model reads two together; name the field of the second "
                "(pair), take a task of pairs, or choose another model.kind"
            )
        rows = [frame(tokenizer, each, max_length=max_length) for each in texts]
        return (
            _label(example, labels, answered=answered),
            [len(row.ids) for row in rows],
            [row.segments.count(0) for row in rows],
            [row.cut for row in rows],
            [number for row in rows for number in row.ids],
        )

    said = Items("<f4") if answered == "number" else _NUMBERS
    sizes = {"lengths": max_length + 1, "first": max_length + 1, "cut": _NUMBERS, "tokens": tokenizer.size}
    return Encoding({"label": said, **sizes}, encode, identity=_identity)


def collate_examples(corpus: Corpus, rows: Integer[np.ndarray, " B"], *, answered: Verdict) -> ExampleBatch:
    """The examples in `rows`, padded on the right."""
    ids: list[np.ndarray] = []
    firsts, counts, labels = [], [], []
    for row in rows.tolist():
        lengths = corpus["lengths"][row].astype(np.int64)
        ids += np.split(corpus["tokens"][row], np.cumsum(lengths)[:-1])
        firsts += corpus["first"][row].tolist()
        counts.append(len(lengths))
        labels.append(corpus["label"][row])
    flat = np.concatenate(labels) if labels else np.zeros(0, dtype=np.uint32)
    # older corpora keep the bits of a number as a whole one
    known = flat.view(np.float32) if answered == "number" else flat.astype(np.int64)
    return ExampleBatch(paired_tokens(ids, firsts), torch.tensor(counts), torch.from_numpy(known.copy()))


def example_lengths(corpus: Corpus) -> Int[np.ndarray, "N 2"]:
    """Ids that each example takes in a batch: its rows padded to the longest of them; twice, as batches are planned."""
    side = corpus["lengths"]
    starts = np.concatenate(([0], np.cumsum(side.lengths)))[:-1]
    longest = np.maximum.reduceat(side.stream, starts).astype(np.int64) * side.lengths
    return np.stack([longest, longest], 1)


def _identity(example: Labelled | Choice) -> object:
    if isinstance(example, Choice):
        return example.candidates, example.right
    return example.texts, example.label


def _label(example: Labelled | Choice, labels: Labels | None, *, answered: Verdict) -> list[int] | list[float]:
    if isinstance(example, Choice):
        if example.right is None:
            raise _unlabelled(example.place)
        return [int(number in example.right) for number in range(len(example.names))] if example.right else []
    if example.label is None:
        raise _unlabelled(example.place)
    if answered == "number":
        return [float(example.label)]
    assert labels is not None, "classes have names"
    number = labels.id(str(example.label))
    if number is None:
        raise DataError(
            f"{example.place}: the label {example.label!r} does not occur in the training text; mend it, or add an "
            "example with it there"
        )
    return [number]


def _unlabelled(place: str) -> DataError:
    return DataError(f"{place}: no label; only texts with labels can be learned from and measured")
