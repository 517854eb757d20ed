"""Encode labelled texts and choices as ids, and collate batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from heedful.data.batches import to_segmented_tokens
from heedful.data.corpus import ArraySpec, Corpus, ExampleEncoder
from heedful.data.encoder_inputs import encode_texts
from heedful.data.labelled import LabelledExample, MultipleChoiceExample
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.tasks.classification.recipe import AnswerType
from heedful.tensors import Tokens

_UINT32_RANGE = 2**32
"""Number of values of corpus sides without a vocabulary."""


@dataclass(frozen=True)
class ClassificationBatch:
    """A batch of texts and their labels.

    Attributes:
        tokens: one row for each text, or for each candidate of each choice.
        counts: number of rows of each example; 1 unless it is a choice.
        labels: class index or number of each example; of choices, for each row 1 if the candidate is right, else 0.
    """

    tokens: Tokens
    counts: Int[Tensor, " B"]
    labels: Int[Tensor, " N"] | Float[Tensor, " N"]


def build_example_encoding(
    tokenizer: Tokenizer,
    labels: LabelVocabulary | None,
    *,
    answer_type: AnswerType,
    max_length: int,
    requires_pairs: bool = False,
) -> ExampleEncoder[LabelledExample | MultipleChoiceExample]:
    """Build the encoding of labelled texts and choices: label, lengths of the rows (one for each text, pair or
    candidate) and of their first texts, numbers of truncated tokens, and ids.

    Choices without a right candidate are left out as empty: there is nothing to learn from them.

    Args:
        tokenizer: tokenizer of the texts.
        labels: the classes; None if there are none.
        answer_type: what is predicted.
        max_length: ids of a row at most.
        requires_pairs: whether the model reads only pairs of texts; encoding a single text is then a `DataError`.
    """

    def encode_example(example: LabelledExample | MultipleChoiceExample) -> Sequence[Sequence[float]]:
        """Return the label, the lengths and the ids of an example."""
        texts = example.candidates if isinstance(example, MultipleChoiceExample) else (example.texts,)
        if requires_pairs and any(len(text_tuple) < 2 for text_tuple in texts):
            raise DataError(
                f"{example.location}: has only one text, but this model reads two together; name the field of the "
                "second (pair), choose a task of pairs, or choose another model.kind"
            )
        rows = [encode_texts(tokenizer, text_tuple, max_length=max_length) for text_tuple in texts]
        return (
            _encode_label(example, labels, answer_type=answer_type),
            [len(row.ids) for row in rows],
            [row.segments.count(0) for row in rows],
            [row.num_truncated for row in rows],
            [number for row in rows for number in row.ids],
        )

    label_side = ArraySpec("<f4") if answer_type == "number" else _UINT32_RANGE
    sizes = {"lengths": max_length + 1, "first": max_length + 1, "cut": _UINT32_RANGE, "tokens": tokenizer.size}
    return ExampleEncoder({"label": label_side, **sizes}, encode_example, identity_key=_example_identity)


def collate_examples(
    corpus: Corpus, rows: Integer[np.ndarray, " B"], *, answer_type: AnswerType
) -> ClassificationBatch:
    """Collate the examples in `rows` of a corpus into a batch, padded on the right; `answer_type` says whether stored
    labels are numbers.
    """
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
    values = flat.view(np.float32) if answer_type == "number" else flat.astype(np.int64)
    return ClassificationBatch(to_segmented_tokens(ids, firsts), torch.tensor(counts), torch.from_numpy(values.copy()))


def compute_lengths(corpus: Corpus) -> Int[np.ndarray, "N 2"]:
    """Return the ids that each example of a corpus takes in a batch: its number of rows times the longest of them, in
    two equal columns, as batch planning expects sources and targets.
    """
    row_lengths = corpus["lengths"]
    starts = np.concatenate(([0], np.cumsum(row_lengths.lengths)))[:-1]
    longest = np.maximum.reduceat(row_lengths.stream, starts).astype(np.int64) * row_lengths.lengths
    return np.stack([longest, longest], 1)


def _example_identity(example: LabelledExample | MultipleChoiceExample) -> object:
    """Return a key that is equal for equal examples."""
    if isinstance(example, MultipleChoiceExample):
        return example.candidates, example.correct_indices
    return example.texts, example.label


def _encode_label(
    example: LabelledExample | MultipleChoiceExample, labels: LabelVocabulary | None, *, answer_type: AnswerType
) -> list[int] | list[float]:
    """Return the label as numbers: the id of the class, the number itself, or for choices 1 for each right candidate
    and 0 for the others (empty if none is right). Raise `DataError` for an example without a label or with an unknown
    class.
    """
    if isinstance(example, MultipleChoiceExample):
        if example.correct_indices is None:
            raise _missing_label_error(example.location)
        return (
            [int(number in example.correct_indices) for number in range(len(example.names))]
            if example.correct_indices
            else []
        )
    if example.label is None:
        raise _missing_label_error(example.location)
    if answer_type == "number":
        return [float(example.label)]
    assert labels is not None, "classes have names"
    number = labels.get_id(str(example.label))
    if number is None:
        raise DataError(
            f"{example.location}: the label {example.label!r} does not occur in the training text; correct it, or add "
            "a training example with it"
        )
    return [number]


def _missing_label_error(place: str) -> DataError:
    """Return the error of an example without a label."""
    return DataError(f"{place}: has no label; only texts with labels can be used for training and evaluation")
