from __future__ import annotations

import math

import pytest
import torch

from heedful.errors import RecipeError
from heedful.generation import GreedySampler, MultinomialSampler, SamplerContext, SuppressTokens, TopKFilter
from heedful.generation.samplers import draw_uniform


def progress(rows, length=0):
    return SamplerContext(torch.full((rows,), length), torch.arange(rows))


def chi_square(counts, probabilities):
    """Pearson's statistic, and its 99.99 % quantile for so many categories (Wilson and Hilferty 1931)."""
    expected = probabilities * counts.sum()
    freedom = len(counts) - 1
    quantile = freedom * (1 - 2 / (9 * freedom) + 3.719 * math.sqrt(2 / (9 * freedom))) ** 3
    return ((counts - expected) ** 2 / expected).sum().item(), quantile


def test_uniform_numbers_are_uniform_over_streams_lengths_and_seeds():
    streams = draw_uniform(3, progress(50_000), count=1)[0]
    lengths = draw_uniform(3, SamplerContext(torch.arange(50_000), torch.full((50_000,), 8)), count=2)[1]
    seeds = torch.cat([draw_uniform(seed, progress(1), count=1)[0] for seed in range(-500, 500)])
    for numbers in (streams, lengths, seeds):
        assert numbers.min() >= 0 and numbers.max() < 1
        counts = torch.histc(numbers, 20, 0, 1)
        statistic, quantile = chi_square(counts, torch.full((20,), 1 / 20, dtype=torch.float64))
        assert statistic < quantile
        lagged = torch.stack((numbers[:-1], numbers[1:])).corrcoef()[0, 1]
        assert abs(lagged) < 4 / math.sqrt(len(numbers))


def test_draws_of_one_place_are_independent():
    first, second = draw_uniform(0, progress(50_000, length=2), count=2)
    following = draw_uniform(0, progress(50_000, length=3), count=1)[0]
    correlations = torch.stack((first, second, following)).corrcoef() - torch.eye(3)
    assert correlations.abs().max() < 4 / math.sqrt(50_000)


@pytest.mark.parametrize("columns", [3, 100])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_frequencies_are_the_probabilities(columns, temperature, dtype):
    torch.manual_seed(columns)
    row = torch.randn(columns).to(dtype)
    rows = 60_000
    ids = MultinomialSampler(temperature, seed=5)(row.repeat(rows, 1), progress(rows))
    statistic, quantile = chi_square(ids.bincount(minlength=columns).double(), (row.double() / temperature).softmax(0))
    assert statistic < quantile


def test_only_tokens_that_pass_the_filters_are_drawn():
    torch.manual_seed(1)
    row = torch.randn(300)
    allowed = row.index_fill(0, torch.tensor([4, 9]), -math.inf).topk(3).indices
    pick = MultinomialSampler(3.0, filters=(SuppressTokens((4, 9)), TopKFilter(3)), seed=1)
    ids = pick(row.repeat(3000, 1), progress(3000))
    assert set(ids.tolist()) == set(allowed.tolist())


def test_a_row_draws_the_same_wherever_it_stands():
    torch.manual_seed(2)
    logits = torch.randn(20, 500)
    where = SamplerContext(torch.randint(9, (20,)), torch.randint(2**40, (20,)))
    pick = MultinomialSampler(seed=11)
    ids = pick(logits.clone(), where)
    order = torch.randperm(20)[:7]
    assert torch.equal(pick(logits[order], SamplerContext(where.lengths[order], where.rng_streams[order])), ids[order])
    assert not torch.equal(MultinomialSampler(seed=12)(logits.clone(), where), ids)


def test_best_is_the_first_of_the_largest():
    logits = torch.tensor([[0.0, 2.0, 2.0, 1.0], [5.0, 2.0, 2.0, 9.0]])
    assert GreedySampler()(logits.clone(), progress(2)).tolist() == [1, 3]
    assert GreedySampler((SuppressTokens((1, 3)),))(logits.clone(), progress(2)).tolist() == [2, 0]


@pytest.mark.parametrize("pick", [GreedySampler(), MultinomialSampler(), MultinomialSampler(0.7)], ids=str)
@pytest.mark.parametrize("columns", [5, 300])
def test_rows_without_a_possible_token_are_reported(pick, columns):
    logits = torch.zeros(4, columns)
    logits[1] = -math.inf
    logits[2] = math.nan
    logits[3, 1:] = -math.inf
    ids = pick(logits, progress(4)).tolist()
    assert ids[1:] == [-1, -1, 0] and 0 <= ids[0] < columns


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_wrong_temperatures_are_explained(temperature):
    with pytest.raises(RecipeError, match=f"temperature: {temperature}"):
        MultinomialSampler(temperature)


def test_seeds_must_fit():
    with pytest.raises(RecipeError, match="seed: 9223372036854775808"):
        MultinomialSampler(seed=2**63)
