"""Matching: what is lost and measured, what is learned, and what commands make of it."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedful.architectures.build import build_encoder
from heedful.architectures.stack import EncoderConfig
from heedful.data.corpus import Corpus, ExampleEncoder, write_corpus
from heedful.data.readers import SentencePair
from heedful.errors import DataError
from heedful.metrics.classification import rank_paired_targets
from heedful.models.heads import MAX_SCALE, TextMatcher
from heedful.tasks.matching.task import (
    MatchingObjective,
    build_matching_evaluator,
    contrastive_loss,
    find_shared_texts,
    number_texts,
)

CPU = torch.device("cpu")


def units(rows: int, seed: int, d: int = 5) -> torch.Tensor:
    made = torch.randn(rows, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return made / made.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_the_loss_is_that_of_the_papers_in_plain_loops(margin: float) -> None:
    """Both ways; what two pairs have in common does not tell them apart."""
    source, target, scale = units(6, 1), units(6, 2), 7.0
    alike = np.zeros((6, 6), dtype=bool)
    alike[1, 4] = alike[4, 1] = True
    total = 0.0
    for i in range(6):
        others = [j for j in range(6) if j != i and not alike[i, j]]
        own = math.exp(scale * (float(source[i] @ target[i]) - margin))
        there = sum(math.exp(scale * float(source[i] @ target[j])) for j in others)
        back = sum(math.exp(scale * float(source[j] @ target[i])) for j in others)
        total -= 0.5 * (math.log(own / (own + there)) + math.log(own / (own + back)))
    found = contrastive_loss(source, target, torch.from_numpy(alike), scale=torch.tensor(scale), margin=margin)
    assert float(found) == pytest.approx(total, rel=1e-9)


def test_a_single_pair_has_nothing_to_be_told_from() -> None:
    assert (
        float(contrastive_loss(units(1, 1), units(1, 2), torch.zeros(1, 1, dtype=torch.bool), scale=torch.tensor(9.0)))
        == 0
    )


def test_pairs_with_a_text_in_common() -> None:
    found = find_shared_texts(number_texts(["a", "b", "a", "c"], ["1", "2", "3", "2"]))
    assert {(int(i), int(j)) for i, j in np.argwhere(found)} == {(0, 2), (2, 0), (1, 3), (3, 1)}


def test_ranks_in_plain_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties are lost, but not those with a text that is the same; as many at a time as there is room for."""
    dice = np.random.default_rng(1)
    sources, targets = (dice.integers(-1, 2, (30, 3)) / 2 for _ in "st")
    same = number_texts(dice.integers(0, 25, 30).tolist(), dice.integers(0, 25, 30).tolist())
    alike, found = find_shared_texts(same), rank_paired_targets(sources, targets, same)
    for way, table in enumerate((sources @ targets.T, targets @ sources.T)):
        for row in range(30):
            before = [j for j in range(30) if j != row and not alike[row, j] and table[row, j] >= table[row, row]]
            assert found[way, row] == 1 + len(before)
    monkeypatch.setattr("heedful.metrics.classification._ROW_BATCH", 7)
    assert rank_paired_targets(sources, targets, same).tolist() == found.tolist()


def test_who_says_the_same_of_all_finds_nothing() -> None:
    """However products are rounded in their columns."""
    same = np.full((37, 101), 1 / np.sqrt(101), dtype=np.float32)
    assert rank_paired_targets(same, same, number_texts(range(37))).tolist() == [[37] * 37] * 2


def matcher(**options: Any) -> TextMatcher:
    torch.manual_seed(4)
    config = EncoderConfig.model_validate({"d_model": 8, "heads": 2, "layers": 1, "dropout": 0.0})
    given = {"temperature": 0.1, "is_trainable": True, **options}
    return TextMatcher(build_encoder(config, vocabulary=20, longest=16), **given)


def corpus(folder: Path, rows: int = 23) -> Corpus:
    dice = random.Random(3)
    texts = [
        tuple([2, *(dice.randrange(4, 20) for _ in range(dice.randint(1, 9))), 3] for _ in "st") for _ in range(rows)
    ]
    return write_corpus(folder, texts, encoder=ExampleEncoder({"source": 20, "target": 20}, lambda each: each))


def matching(text: Corpus, **options: Any) -> MatchingObjective:
    return MatchingObjective(
        text, text, **{"batch_pairs": 6, "batch_tokens": 30, "margin": 0.0, "seed": 1, "device": CPU, **options}
    )


def test_a_batch_that_is_read_in_pieces_is_the_batch(tmp_path: Path) -> None:
    """Other shapes sum in another order, hence 1e-5 of unit vectors."""
    text, model = corpus(tmp_path / "c"), matcher().eval()
    rows = np.array([5, 0, 17, 3, 9])
    pieces, whole = (matching(text, batch_tokens=tokens).build_batch(rows) for tokens in (20, 1000))
    assert len(pieces.source.chunks) > 1 == len(whole.source.chunks)
    with torch.no_grad():
        for side in ("source", "target"):
            found, expected = (getattr(batch, side).embed(model) for batch in (pieces, whole))
            assert (found - expected).abs().max() < 1e-5
            for vector, row in zip(found, rows, strict=True):
                alone = getattr(matching(text).build_batch(np.array([row])), side).embed(model)[0]
                assert (vector - alone).abs().max() < 1e-5


def test_every_pair_is_in_one_batch_of_an_epoch_and_sizes_are_alike(tmp_path: Path) -> None:
    task = matching(corpus(tmp_path / "c"))
    plan = task.plan_epoch(0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(23))
    assert [len(rows) for rows in plan] == [6, 6, 6, 5]
    assert np.concatenate(plan).tolist() == np.concatenate(task.plan_epoch(0)).tolist()
    assert np.concatenate(plan).tolist() != np.concatenate(task.plan_epoch(1)).tolist()


def test_what_is_measured_is_what_is_lost(tmp_path: Path) -> None:
    text, model = corpus(tmp_path / "c"), matcher().eval()
    task = matching(text, batch_pairs=23, margin=0.2)
    with torch.no_grad():
        batch = task.build_batch(np.arange(23))
        loss, measured = task.loss(model, batch), task.evaluate(model)
    assert measured["loss"] == pytest.approx(float(loss.parts["nll"].total) / 23, rel=1e-5)
    assert float(loss.total) > float(loss.parts["nll"].total), "the margin is not measured"
    vectors = [getattr(batch, side).embed(model).detach().numpy() for side in ("source", "target")]
    closest = vectors[0] @ vectors[1].T
    right = (closest.argmax(1) == np.arange(23)).mean() + (closest.argmax(0) == np.arange(23)).mean()
    assert measured["recall"] == pytest.approx(right / 2)


@pytest.mark.parametrize("learned", [True, False])
def test_the_temperature_is_learned_or_stays(tmp_path: Path, learned: bool) -> None:
    model, task = matcher(is_trainable=learned), matching(corpus(tmp_path / "c"))
    assert float(model.scale.detach()) == pytest.approx(10.0)
    task.loss(model, task.build_batch(np.arange(6))).total.backward()
    assert (model.log_scale.grad is not None) == learned
    assert float(matcher(temperature=1e-4).scale.detach()) == MAX_SCALE


def test_nothing_to_ask_is_an_error() -> None:
    with pytest.raises(DataError, match="there are no pairs"):
        build_matching_evaluator([SentencePair("a", "", "x:1")], num_train_pairs=3)
