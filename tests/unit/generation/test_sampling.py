from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from heedful.errors import RecipeError, RunError
from heedful.generation import (
    GreedySampler,
    MinimumLength,
    MultinomialSampler,
    StopOnToken,
    SuppressTokens,
    TopKFilter,
    greedy_search,
    sampling_search,
    stream_samples,
)

EOS = 1
KEYS = [5, 2, 77, 31, 8, 64, 13]
PROMPTS = [(0,), (0, 4), (0, 2, 3), (0,), (0, 3), (0, 5, 5), (0,)]
PREFIXES = [(), (3,), (2, 4), (), (5, 0, 2), (4, 4), (2,)]


def padded(rows):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows])


def longhand_greedy(model, key, prompt, *, limit, prefix=(), forbidden=(), shortest=0):
    ids = prefix
    while len(ids) < limit:
        following = model.log_probabilities(key, prompt + ids)
        banned = {*forbidden, EOS} if len(ids) < shortest else set(forbidden)
        best = max((value, token) for token, value in enumerate(following) if token not in banned)[1]
        ids = (*ids, best)
        if best == EOS:
            break
    return ids


@pytest.mark.parametrize("vocabulary", [6, 900])
def test_greedy_search_equals_taking_the_best_each_time(history_model, prompts, vocabulary):
    for seed in range(4):
        model = history_model(vocabulary, seed=seed, bias=1.5)
        limits = [7, 1, 5, 9, 4, 6, 3]
        found = greedy_search(
            model.step,
            model.init_state(KEYS),
            prompts(PROMPTS),
            eos=EOS,
            max_new_tokens=torch.tensor(limits),
            prefix=padded(PREFIXES),
            filters=(SuppressTokens((0, 3)), MinimumLength(2, EOS)),
        )
        for key, prompt, prefix, limit, (h,) in zip(KEYS, PROMPTS, PREFIXES, limits, found, strict=True):
            answer = longhand_greedy(model, key, prompt, limit=limit, prefix=prefix, forbidden=(0, 3), shortest=2)
            assert (h.ids, h.finished) == ((answer[:-1], True) if answer[-1] == EOS else (answer, False))
            assert h.token_log_probabilities == pytest.approx(model.each(key, prompt, answer))
            assert h.log_probability == h.score == pytest.approx(sum(h.token_log_probabilities))


def test_finished_rows_leave_the_batch(history_model, prompts):
    model = history_model(8, bias=2.0)
    greedy_search(model.step, model.init_state(list(range(40))), prompts([(0,)] * 40), eos=EOS, max_new_tokens=60)
    rows = model.rows_stepped
    assert rows[0] == 40 and rows[-1] < 20 and sorted(rows, reverse=True) == rows


def test_streamed_columns_are_the_greedy_answers(history_model, prompts):
    model = history_model(30, seed=7, bias=3.0)
    limits = torch.tensor([4, 1, 9, 5, 7, 3, 8])
    arguments = (model.step, model.init_state(KEYS), prompts(PROMPTS))
    columns = list(stream_samples(*arguments, sampler=GreedySampler(), stop=StopOnToken(EOS), max_new_tokens=limits))
    expected = greedy_search(*arguments, eos=EOS, max_new_tokens=limits)
    for row, (h,) in enumerate(expected):
        answer = (*h.ids, EOS) if h.finished else h.ids
        positions = [int(column.positions[row, 0]) for column in columns]
        first = len(PROMPTS[row])
        assert positions == [*range(first, first + len(answer)), *[-1] * (len(columns) - len(answer))]
        assert tuple(int(column.ids[row, 0]) for column in columns[: len(answer)]) == answer
    assert len(columns) == max(len(h.token_log_probabilities) for (h,) in expected)


def test_a_stream_computes_no_further_than_it_is_read(history_model, prompts):
    model = history_model(30, bias=-9.0)
    stream = stream_samples(
        model.step,
        model.init_state([1]),
        prompts([(0,)]),
        sampler=GreedySampler(),
        stop=StopOnToken(EOS),
        max_new_tokens=1000,
    )
    for _ in range(3):
        next(stream)
    assert len(model.rows_stepped) == 3


def test_sampled_answers_are_as_frequent_as_they_are_probable(history_model, prompts):
    model = history_model(4, seed=3)
    samples = 4000
    (found,) = sampling_search(
        model.step,
        model.init_state([6]),
        prompts([(0, 2)]),
        eos=EOS,
        max_new_tokens=3,
        sampler=MultinomialSampler(seed=9),
        num_samples=samples,
    )
    assert len(found) == samples
    counts = Counter((*h.ids, EOS) if h.finished else h.ids for h in found)
    for answer, count in counts.items():
        probability = math.exp(model.total(6, (0, 2), answer))
        spread = math.sqrt(samples * probability * (1 - probability))
        assert abs(count - samples * probability) < 5 * spread + 1
    assert sum(math.exp(model.total(6, (0, 2), answer)) for answer in counts) > 0.95


def test_samples_do_not_depend_on_batch_or_order(history_model, prompts):
    model = history_model(150, seed=4, bias=4.0)
    pick = MultinomialSampler(0.8, filters=(TopKFilter(40),), seed=21)
    settings = {"eos": EOS, "sampler": pick, "num_samples": 3}
    limits = torch.tensor([3, 30, 8, 1, 12, 20, 5])
    together = sampling_search(model.step, model.init_state(KEYS), prompts(PROMPTS), max_new_tokens=limits, **settings)
    for row, key in enumerate(KEYS):
        alone = sampling_search(
            model.step,
            model.init_state([key]),
            prompts([PROMPTS[row]]),
            max_new_tokens=int(limits[row]),
            rng_streams=torch.tensor([row]),
            **settings,
        )
        assert alone == [together[row]]
    assert any(len({h.ids for h in hypotheses}) > 1 for hypotheses in together)


def test_samples_of_equal_sentences_are_drawn_one_by_one(history_model, prompts):
    """No sample takes the chance of another row's: twelve long texts of one model are twelve different texts."""
    model = history_model(150, seed=4, bias=-9.0)
    found = sampling_search(
        model.step,
        model.init_state([5] * 3),
        prompts([(0,)] * 3),
        eos=EOS,
        max_new_tokens=12,
        sampler=MultinomialSampler(seed=3),
        num_samples=4,
    )
    assert len({h.ids for hypotheses in found for h in hypotheses}) == 12


def test_samples_are_ranked_and_scored_by_the_model_without_temperature(history_model, prompts):
    model = history_model(12, seed=5)
    found = sampling_search(
        model.step,
        model.init_state(KEYS),
        prompts(PROMPTS),
        eos=EOS,
        max_new_tokens=6,
        sampler=MultinomialSampler(2.5, filters=(SuppressTokens((0,)),), seed=2),
        num_samples=4,
        prefix=padded(PREFIXES),
    )
    for key, prompt, prefix, hypotheses in zip(KEYS, PROMPTS, PREFIXES, found, strict=True):
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True) and len(scores) == 4
        for h in hypotheses:
            answer = (*h.ids, EOS) if h.finished else h.ids
            assert h.ids[: len(prefix)] == prefix
            assert h.token_log_probabilities == pytest.approx(model.each(key, prompt, answer))
            assert h.log_probability == pytest.approx(sum(h.token_log_probabilities))


def test_prefix_at_the_limit_is_the_whole_answer(history_model, prompts):
    model = history_model(6)
    for keys, forced in (([4, 9], [(4, 5), ()]), ([4, 9], [(4, 5), (3, 3, 3)])):
        found = greedy_search(
            model.step, model.init_state(keys), prompts([(0,), (0,)]), eos=EOS, max_new_tokens=2, prefix=padded(forced)
        )
        assert found[0][0].ids == (4, 5) and not found[0][0].finished
        assert found[0][0].log_probability == pytest.approx(model.total(4, (0,), (4, 5)))
        expected = longhand_greedy(model, 9, (0,), limit=2, prefix=forced[1])
        assert found[1][0].ids == tuple(token for token in expected if token != EOS)


def test_a_row_without_a_possible_token_stops_the_stream_with_an_error(history_model, prompts):
    model = history_model(6)
    pick = MultinomialSampler(filters=(SuppressTokens(tuple(range(6))),))
    stream = stream_samples(
        model.step, model.init_state([1]), prompts([(0,)]), sampler=pick, stop=StopOnToken(EOS), max_new_tokens=5
    )
    with pytest.raises(RunError, match="sentence 1 of the batch: no token may follow"):
        next(stream)


def test_wrong_arguments_are_explained(history_model, prompts):
    model = history_model(6)
    arguments = (model.step, model.init_state([1]), prompts([(0,)]))
    with pytest.raises(RecipeError, match="samples: 0"):
        sampling_search(*arguments, eos=EOS, max_new_tokens=5, sampler=GreedySampler(), num_samples=0)
    with pytest.raises(RecipeError, match="limit: 0"):
        greedy_search(*arguments, eos=EOS, max_new_tokens=0)
    with pytest.raises(RecipeError, match="prefix: contains 1"):
        greedy_search(*arguments, eos=EOS, max_new_tokens=3, prefix=torch.tensor([[1]]))
