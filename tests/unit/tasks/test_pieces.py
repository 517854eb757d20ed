"""How text is cut: documents one behind the other or apart, and stretches that overlap."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from heedful.architectures.build import build_language_model
from heedful.architectures.recurrent import RecurrentDecoderConfig
from heedful.errors import RecipeError
from heedful.models.generative import LanguageModel
from heedful.tasks.language.objective import (
    DocumentPieces,
    LanguageModelingObjective,
    PackedPieces,
    compute_token_nats,
)
from heedful.tensors import Tokens

EOS, LENGTH = 2, 7
DOCUMENTS = [
    [5, 6, 7],
    [8],
    [9, 4, 5, 6, 7, 8, 9],
    [4, 4, 5, 6, 6, 7, 8, 9, 9, 5, 4, 6, 7, 8, 4, 5],
    [6, 6],
    [7, 5, 4, 8, 9, 6],
]
STREAM = np.array([number for text in DOCUMENTS for number in (*text, EOS)], dtype=np.uint16)


def apart(stream: np.ndarray = STREAM) -> DocumentPieces:
    return DocumentPieces(stream, start_id=EOS, length=LENGTH)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    torch.manual_seed(4)
    config = RecurrentDecoderConfig.model_validate({"d_model": 12, "dropout": 0.0, "layers": 1})
    made = build_language_model(config, vocabulary=10).double().eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.7)
    return made


def task(cut: type[PackedPieces] | type[DocumentPieces], *, batch_tokens: int = 30) -> LanguageModelingObjective:
    settings = {"start_id": EOS, "length": LENGTH, "pieces_class": cut, "batch_tokens": batch_tokens, "seed": 3}
    return LanguageModelingObjective(STREAM, STREAM, device=torch.device("cpu"), **settings)  # type: ignore[arg-type]


def longhand(model: LanguageModel, texts: list[list[int]], *, context: int, stride: int) -> float:
    """Each token by itself: behind which others it stands is worked out in words."""
    total = 0.0
    for text in texts:
        read = [EOS, *text[:-1]]
        for at, token in enumerate(text):
            # the first stretch predicts all of its tokens, each later one the `stride` behind those
            begin = 0 if at < context else ((at - context) // stride + 1) * stride
            seen = torch.tensor([read[begin : at + 1]])
            assert at < context or context - stride < seen.size(1) <= context
            logits, _ = model.step(Tokens(seen, torch.arange(seen.size(1)).unsqueeze(0)), model.init_state())
            total -= float(logits[0, -1].log_softmax(-1)[token])
    return total


def nats(model: LanguageModel, made: LanguageModelingObjective, *, context: int, stride: int) -> float:
    """Of the whole validation text."""
    return float(
        compute_token_nats(
            model,
            made.validation,
            context=context,
            stride=stride,
            batch_tokens=made.batch_tokens,
            device=torch.device("cpu"),
        ).sum()
    )


WHOLE = {PackedPieces: [STREAM.tolist()], DocumentPieces: [[*text, EOS] for text in DOCUMENTS]}


@torch.no_grad()
@pytest.mark.parametrize("cut", [PackedPieces, DocumentPieces])
@pytest.mark.parametrize(("context", "stride"), [(7, 7), (7, 3), (7, 1), (12, 5), (1, 1), (100, 1), (100, 100)])
def test_every_token_is_predicted_once_behind_enough_others(
    model: LanguageModel, cut: type[PackedPieces] | type[DocumentPieces], context: int, stride: int
) -> None:
    expected = longhand(model, WHOLE[cut], context=context, stride=stride)
    for batch_tokens in (1, 30):
        found = nats(model, task(cut, batch_tokens=batch_tokens), context=context, stride=stride)
        assert found == pytest.approx(expected, rel=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("cut", [PackedPieces, DocumentPieces])
def test_a_stride_of_the_whole_context_is_reading_piece_by_piece(
    model: LanguageModel, cut: type[PackedPieces] | type[DocumentPieces]
) -> None:
    measured = task(cut).evaluate(model)
    total = nats(model, task(cut), context=LENGTH, stride=LENGTH)
    assert measured["loss"] == pytest.approx(total / len(STREAM), rel=1e-12)
    assert measured["perplexity"] == pytest.approx(math.exp(total / len(STREAM)), rel=1e-12)
    other = nats(model, task(cut), context=LENGTH, stride=1)
    assert other != pytest.approx(total, rel=1e-4), "more context tells something else"


@pytest.mark.parametrize("stride", [0, 8, -1])
def test_a_stride_that_does_not_fit_is_explained(model: LanguageModel, stride: int) -> None:
    with pytest.raises(RecipeError, match=f"stride: {stride}; must be from 1 to 7"):
        nats(model, task(PackedPieces), context=LENGTH, stride=stride)


def test_documents_apart_are_never_in_one_piece() -> None:
    pieces = apart()
    expected = sorted(
        ([EOS, *text, EOS][start : start + LENGTH], [*text, EOS][start : start + LENGTH])
        for text in DOCUMENTS
        for start in range(0, len(text) + 1, LENGTH)
    )
    for epoch in range(4):
        found = []
        for rows in pieces.plan_epoch(tokens=21, seed=1, epoch=epoch):
            batch = pieces.build_batch(rows)
            assert batch.labels.numel() <= 21
            for ids, positions, labels in zip(batch.tokens.ids, batch.tokens.positions, batch.labels, strict=True):
                size = int((labels >= 0).sum())
                assert positions.tolist() == [*range(size), *[-1] * (len(positions) - size)]
                assert (labels[size:] == -1).all()
                found.append((ids[:size].tolist(), labels[:size].tolist()))
        assert sorted((read[: len(labels)], labels) for read, labels in found) == sorted(
            (read[: len(labels)], labels) for read, labels in expected
        )


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return [rows.tolist() for rows in apart(np.tile(STREAM, 30)).plan_epoch(tokens=40, seed=seed, epoch=epoch)]

    assert order(1, 0) == order(1, 0)
    assert len({str(order(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4


def test_rows_of_like_length_stand_together() -> None:
    pieces = apart(np.tile(STREAM, 50))
    real = padded = 0
    for rows in pieces.plan_epoch(tokens=70, seed=1, epoch=0):
        labels = pieces.build_batch(rows).labels
        real, padded = real + int((labels >= 0).sum()), padded + labels.numel()
    assert real == 50 * len(STREAM)
    assert padded < 1.1 * real


def test_a_text_whose_end_is_missing_is_a_document() -> None:
    stream = np.array([5, 6, EOS, 7, 8, 9], dtype=np.uint16)
    first, last = apart(stream).get_text_bounds()
    assert (first.tolist(), last.tolist()) == ([0, 3], [3, 6])
    batch = apart(stream).build_batch(np.array([0, 3]))
    assert batch.tokens.ids.tolist() == [[EOS, 5, 6], [EOS, 7, 8]]
    assert batch.labels.tolist() == [[5, 6, EOS], [7, 8, 9]]


@torch.no_grad()
def test_the_loss_of_documents_apart_is_that_of_each_alone(model: LanguageModel) -> None:
    what = task(DocumentPieces)
    total = sum(float(what.loss(model, what.build_batch(rows)).total) for rows in what.plan_epoch(0))
    assert total == pytest.approx(longhand(model, WHOLE[DocumentPieces], context=LENGTH, stride=LENGTH), rel=1e-9)
