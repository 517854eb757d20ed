"""The features that compare two texts, in plain loops: common n-grams, TF-IDF, aligned tokens, differences."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from heedful.architectures.build import build_text_classifier
from heedful.architectures.classifiers import SiameseConfig
from heedful.models.pair_encoder import ALIGNMENT_SCALE, DIFFERENCE_SCALE, LONGEST_NGRAM, PairEncoder
from heedful.tensors import Tokens

BOS, EOS = 1, 2
Pair = tuple[list[int], list[int]]
PAIRS: list[Pair] = [
    ([4, 5, 6, 7, 8], [4, 5, 6, 9]),
    ([4, 4, 5], [5, 4, 4, 4]),
    ([], [3, 4]),
    ([9, 3, 7], []),
    ([6], [6]),
    ([8, 7, 6, 5, 4, 3], [3, 4, 5, 6, 7, 8]),
]


def build_tokens(pairs: list[Pair], *, before: int = 0) -> Tokens:
    """Build `bos A eos B eos`, with columns of padding before and after."""
    rows = [([BOS, *first, EOS], [*second, EOS]) for first, second in pairs]
    width = before + max(len(first) + len(second) for first, second in rows)
    ids = torch.full((len(rows), width), 5)
    positions, segments = torch.full_like(ids, -1), torch.zeros_like(ids)
    for row, (first, second) in enumerate(rows):
        stop = before + len(first) + len(second)
        ids[row, before:stop] = torch.tensor(first + second)
        positions[row, before:stop] = torch.arange(stop - before)
        segments[row, before + len(first) : stop] = 1
    return Tokens(ids, positions, segments)


@pytest.fixture
def encoder() -> PairEncoder:
    torch.manual_seed(3)
    config = SiameseConfig(d_model=6, features=7)
    made = build_text_classifier(config, vocabulary=10, outputs=2, longest=99).eval().encoder
    assert isinstance(made, PairEncoder)
    made.fit([build_tokens(PAIRS[:2]), build_tokens(PAIRS[2:])], ignored_ids=(BOS, EOS))
    return made


def compute_idf(token: int) -> float:
    having = sum(token in text for pair in PAIRS for text in pair)
    return math.log((1 + 2 * len(PAIRS)) / (1 + having)) + 1


def compare_values(one: float, other: float) -> list[float]:
    return [min(one, other), max(one, other), one - other]


def compute_overlaps(first: list[int], second: list[int]) -> list[float]:
    found: list[float] = []
    for length in range(1, LONGEST_NGRAM + 1):
        sides = [[tuple(text[i : i + length]) for i in range(len(text) - length + 1)] for text in (first, second)]

        def compute_mean_idf(ngram: tuple[int, ...]) -> float:
            return sum(map(compute_idf, ngram)) / len(ngram)

        def count_once(_: tuple[int, ...]) -> float:
            return 1.0

        for weigh in (compute_mean_idf, count_once):
            shares = []
            for own, other in (sides, sides[::-1]):
                whole = sum(map(weigh, own))
                shares.append(sum(weigh(each) for each in own if each in other) / whole if whole else 0.0)
            found += compare_values(shares[0], shares[1])
        one, two = ({each: n * compute_mean_idf(each) for each, n in Counter(side).items()} for side in sides)
        norms = [math.sqrt(sum(value**2 for value in each.values())) for each in (one, two)]
        product = sum(value * two.get(each, 0.0) for each, value in one.items())
        found.append(product / (norms[0] * norms[1]) if product else 0.0)
    return found


def compute_mean(values: list[Tensor], weights: list[float]) -> Tensor:
    if not values:
        return torch.zeros(6)
    return sum((v * w for v, w in zip(values, weights, strict=True)), torch.zeros(6)) / sum(weights)


def align_tokens(table: Tensor, own: list[int], other: list[int]) -> tuple[float, Tensor]:
    """Return how similar the tokens are to their aligned tokens, and the mean difference."""
    close, far = [], []
    for token in own:
        found = torch.zeros(6)
        if other:
            cosines = functional.cosine_similarity(table[token], table[other], dim=-1)
            found = (ALIGNMENT_SCALE * cosines).softmax(0) @ table[other]
        close.append(float(functional.cosine_similarity(table[token], found, dim=0)))
        far.append((table[token] - found).abs())
    weights = [compute_idf(token) for token in own]
    whole = sum(weights) or 1.0
    return sum(w * c for w, c in zip(weights, close, strict=True)) / whole, compute_mean(far, weights)


def compare_texts(table: Tensor, first: list[int], second: list[int]) -> tuple[Tensor, Tensor]:
    u, v = (
        compute_mean([table[token] for token in text], [compute_idf(token) for token in text])
        for text in (first, second)
    )
    (close, a), (close_too, b) = align_tokens(table, first, second), align_tokens(table, second, first)
    one, other = len(first), len(second)
    evidence = [
        *compute_overlaps(first, second),
        abs(one - other),
        one + other,
        abs(math.log((1 + one) / (1 + other))),
    ]
    near = torch.tensor([float(functional.cosine_similarity(u, v, dim=0)), *compare_values(close, close_too)])
    difference = torch.cat((u, v, (u - v).abs(), u * v, a + b, a - b, near))
    return torch.tensor(evidence), DIFFERENCE_SCALE * difference


@torch.no_grad()
def test_pairs_are_compared_as_described(encoder: PairEncoder) -> None:
    table: Any = encoder.embedding.table.weight
    evidence, difference = map(torch.stack, zip(*(compare_texts(table, *pair) for pair in PAIRS), strict=True))
    spread = evidence.std(0, correction=0)
    torch.testing.assert_close(encoder.mean, evidence.mean(0), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(encoder.deviation, torch.where(spread > 1e-6, spread, 1.0), atol=1e-4, rtol=1e-4)
    standard = (evidence - encoder.mean) / encoder.deviation
    expected = encoder.hidden(torch.cat((standard, difference), -1)).relu()
    torch.testing.assert_close(encoder(build_tokens(PAIRS)).summary, expected, atol=1e-3, rtol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("before", [0, 3])
def test_other_pairs_and_padding_do_not_matter(encoder: PairEncoder, before: int) -> None:
    together = encoder(build_tokens(PAIRS, before=before))
    for row, pair in enumerate(PAIRS):
        alone = encoder(build_tokens([pair]))
        torch.testing.assert_close(together.summary[row], alone.summary[0], atol=1e-5, rtol=1e-5)
        real = together.positions[row] >= 0
        torch.testing.assert_close(together.values[row][real], alone.values[0], atol=1e-6, rtol=1e-6)


def test_counted_weights_are_fixed_and_the_others_learn(encoder: PairEncoder) -> None:
    encoder(build_tokens(PAIRS)).summary.sum().backward()
    counted = {"rarity", "mean", "deviation"}
    learning = {name for name, each in encoder.named_parameters() if each.grad is not None and each.grad.any()}
    assert learning == {name for name, _ in encoder.named_parameters()} - counted
    encoder.requires_grad_(True)
    encoder.freeze_statistics()
    assert {name for name, each in encoder.named_parameters() if not each.requires_grad} == counted
