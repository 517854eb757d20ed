"""Weights of pairs: what files say, what batches hold, and what they do to the loss."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedful.architectures.build import build_sequence_to_sequence
from heedful.architectures.interface import DataSizes
from heedful.architectures.model import TransformerConfig
from heedful.data.batches import collate_pairs
from heedful.data.corpus import Corpus, build_pair_encoder, write_corpus
from heedful.data.readers import ReversedPairs, SentencePair, TsvPairReader
from heedful.data.sentence_weights import UsedPairs, WeightedPairs, build_weighted_encoder, parse_weight
from heedful.data.tokenizers import BOS, CharacterTokenizer
from heedful.data.word_alignments import build_aligned_encoder, collate_aligned_pairs
from heedful.errors import DataError
from heedful.tasks.generation_objective import LikelihoodCriterion

LETTERS = CharacterTokenizer("abcdefgh ", lowercase=False)
PAIRS = [("a b", "c d e f"), ("g", "h"), ("f e d", "a a"), ("c", "b g h")]


def reader(folder: Path, weights: str) -> WeightedPairs:
    (folder / "t.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    (folder / "t.weights").write_text(weights)
    return WeightedPairs(TsvPairReader(folder / "t.tsv"), folder / "t.weights")


def test_weights_come_with_their_pairs_and_pairs_without_one_are_left_out(tmp_path: Path) -> None:
    found = reader(tmp_path, "0.5\n0\n 1e-3 \n2\n")
    for _ in range(2):
        assert [(pair.source, pair.weight) for pair in found] == [("a b", 0.5), ("g", 0.0), ("f e d", 1e-3), ("c", 2.0)]
        used = UsedPairs(ReversedPairs(found))
        assert [(pair.target, pair.weight) for pair in used] == [("a b", 0.5), ("f e d", 1e-3), ("c", 2.0)]
    assert [path.name for path in used.paths] == ["t.tsv", "t.weights"], "both are hashed"


@pytest.mark.parametrize("line", ["", "-1", "-0.1", "nan", "inf", "1e39", "1,5", "one", "1 2", "0x1"])
def test_what_is_no_weight_is_named_with_its_place(line: str) -> None:
    with pytest.raises(DataError, match=r"^x:3: ") as raised:
        parse_weight(line, location="x:3")
    assert repr(line) in str(raised.value)
    assert "write one number" in str(raised.value)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("1\n1\n1\n", r"t\.tsv: 4 pairs, but .*t\.weights has 3 lines; write one weight for each pair"),
        ("1\n" * 6, r"t\.tsv: 4 pairs, but .*t\.weights has 6 lines"),
        ("1\n1\nhalf\n1\n", r"t\.weights:3: 'half' is not a weight"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path: Path, weights: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(reader(tmp_path, weights))


def write(folder: Path, weights: list[float], *, aligned: bool = False, order: list[int] | None = None) -> Corpus:
    encoder = build_pair_encoder(LETTERS, LETTERS, max_length=20)
    encoder = build_aligned_encoder(encoder, LETTERS, LETTERS) if aligned else encoder
    chosen = zip([PAIRS[row] for row in order or range(len(PAIRS))], weights, strict=True)
    pairs = [SentencePair(*pair, location="x", weight=weight) for pair, weight in chosen]
    return write_corpus(folder, pairs, encoder=build_weighted_encoder(encoder))


@pytest.mark.parametrize("aligned", [False, True])
def test_batches_hold_the_weights_of_their_rows(tmp_path: Path, aligned: bool) -> None:
    corpus = write(tmp_path / "c", [0.5, 1.0, 3.0, 2.0], aligned=aligned)
    batch: Any = (collate_aligned_pairs if aligned else collate_pairs)(corpus, np.array([2, 0, 2]), bos=BOS)
    assert batch.weights.tolist() == [3.0, 0.5, 3.0]


def mean_gradients(corpus: Corpus, rows: list[int], smoothing: float) -> tuple[float, float, dict[str, torch.Tensor]]:
    """The mean loss, the plain loss, and the gradient of the mean."""
    torch.manual_seed(4)
    config = TransformerConfig(d_model=8, heads=2, d_ff=8, layers=1, dropout=0.0)
    model = build_sequence_to_sequence(config, DataSizes(LETTERS.size, LETTERS.size, 20)).double()
    loss = LikelihoodCriterion(smoothing).loss(model, collate_pairs(corpus, np.array(rows), bos=BOS))
    (loss.total / loss.count).backward()  # type: ignore[no-untyped-call]
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return float(loss.total.detach()) / loss.count, float(loss.parts["nll"].total), gradients


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_weight_of_three_is_three_times_the_pair(tmp_path: Path, smoothing: float) -> None:
    weighted = mean_gradients(write(tmp_path / "a", [3.0, 1.0, 2.0, 0.5]), [0, 1, 2, 3], smoothing)
    repeated = write(tmp_path / "b", [2.0] * 13, order=[0] * 6 + [1] * 2 + [2] * 4 + [3])
    expected = mean_gradients(repeated, [*range(13)], smoothing)
    assert math.isclose(weighted[0], expected[0], rel_tol=1e-9)
    for name, gradient in weighted[2].items():
        torch.testing.assert_close(gradient, expected[2][name], rtol=1e-7, atol=1e-12)
    plain = mean_gradients(write(tmp_path / "c", [1.0] * 4), [0, 1, 2, 3], smoothing)
    assert math.isclose(weighted[1], plain[1], rel_tol=1e-9), "what is reported as nll has no weights"
    assert not math.isclose(weighted[0], plain[0], rel_tol=1e-3)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_weight_of_nothing_is_a_batch_without_the_pair(tmp_path: Path, smoothing: float) -> None:
    corpus = write(tmp_path / "a", [1.0, 0.0, 0.25, 0.0])
    found, expected = (mean_gradients(corpus, rows, smoothing) for rows in ([0, 1, 2, 3], [0, 2]))
    assert math.isclose(found[0], expected[0], rel_tol=1e-9)
    for name, gradient in found[2].items():
        torch.testing.assert_close(gradient, expected[2][name], rtol=1e-7, atol=1e-12)
