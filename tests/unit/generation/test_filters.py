from __future__ import annotations

import math

import pytest
import torch

from heedful.errors import RecipeError
from heedful.generation import MinimumLength, MinPFilter, SuppressTokens, TopKFilter, TopPFilter


def kept(one, logits, lengths=None):
    """Which columns of each row a filter leaves, after checking that it leaves their logits alone."""
    lengths = torch.zeros(len(logits), dtype=torch.long) if lengths is None else lengths
    after = one(logits.clone(), lengths)
    left = after > -math.inf
    assert torch.equal(after[left], logits[left])
    return [set(row.nonzero().flatten().tolist()) for row in left]


@pytest.fixture(params=[(5, 40), (3, 1500)], ids=str)
def logits(request):
    torch.manual_seed(sum(request.param))
    return (
        torch.randn(request.param, dtype=torch.float64)
        * torch.tensor([[0.1], [1.0], [8.0], [1.0], [3.0]])[: request.param[0]]
    )


def test_forbidden_tokens_are_impossible(logits):
    everything = set(range(logits.size(1)))
    assert kept(SuppressTokens((0, 7, 39)), logits) == [everything - {0, 7, 39}] * len(logits)
    assert kept(SuppressTokens(()), logits) == [everything] * len(logits)


def test_short_sentences_may_not_end(logits):
    everything = set(range(logits.size(1)))
    lengths = torch.arange(len(logits))
    expected = [everything - {2} if length < 2 else everything for length in lengths.tolist()]
    assert kept(MinimumLength(2, eos=2), logits, lengths) == expected


@pytest.mark.parametrize("k", [1, 4, 39, 5000])
def test_top_k_leaves_the_k_most_probable(logits, k):
    expected = [set(row.argsort(descending=True)[:k].tolist()) for row in logits]
    assert kept(TopKFilter(k), logits) == expected


def test_top_k_leaves_no_more_where_tokens_are_equal():
    assert kept(TopKFilter(2), torch.tensor([[1.0, 3.0, 1.0, 1.0]])) == [{1, 0}]


@pytest.mark.parametrize("p", [1e-9, 0.3, 0.9, 0.9999, 1.0])
def test_top_p_leaves_the_smallest_set_that_is_probable_enough(logits, p):
    for row, columns in zip(logits, kept(TopPFilter(p), logits), strict=True):
        probabilities = row.softmax(0)
        ranked = probabilities.argsort(descending=True).tolist()
        assert columns == set(ranked[: len(columns)])
        mass = math.fsum(probabilities[list(columns)].tolist())
        assert mass >= p - 1e-9  # a sum of 1 is rounded to either side of it
        assert len(columns) == 1 or mass - probabilities[ranked[len(columns) - 1]] < p + 1e-9


def test_top_p_ends_where_the_probability_is_exactly_reached(logits):
    """`p` is a sum that the filter itself forms, so nothing is rounded between the two."""
    ranked = logits.sort(dim=1, descending=True).values[:, :256]
    mass = (ranked - logits.logsumexp(1, keepdim=True)).exp().cumsum(1)
    for row, count in ((0, 1), (1, 2), (2, 1), (2, 3)):
        if mass[row, count - 1] < 1:
            assert len(kept(TopPFilter(float(mass[row, count - 1])), logits)[row]) == count


def test_min_p_compares_with_the_most_probable(logits):
    probabilities = logits.softmax(1)
    for p in (0.01, 0.5, 1.0):
        ratio = probabilities / probabilities.amax(1, keepdim=True)
        expected = [set((row >= p - 1e-12).nonzero().flatten().tolist()) for row in ratio]
        assert kept(MinPFilter(p), logits) == expected


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TopKFilter(0), "top-k: 0"),
        (lambda: TopPFilter(0.0), "top-p: 0.0"),
        (lambda: TopPFilter(1.5), "top-p: 1.5"),
        (lambda: TopPFilter(math.nan), "top-p: nan"),
        (lambda: MinPFilter(-1.0), "min-p: -1.0"),
    ],
)
def test_wrong_settings_are_explained(build, message):
    with pytest.raises(RecipeError, match=message):
        build()
