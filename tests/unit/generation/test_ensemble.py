from __future__ import annotations

import math

import pytest
import torch

from heedful.errors import RecipeError
from heedful.generation import (
    Ensemble,
    GNMTLengthPenalty,
    LogProbabilityMean,
    ProbabilityMean,
    beam_search,
    greedy_search,
)

EOS = 1
KEYS = [5, 2, 77]
PROMPTS = [(0,), (0, 4), (0, 2, 3)]
AVERAGES = [ProbabilityMean(), LogProbabilityMean()]


@pytest.mark.parametrize("average", AVERAGES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("size", [1, 3])
def test_identical_members_are_one_model(history_model, prompts, average, size):
    one = history_model(9, seed=4)
    ensemble = Ensemble([history_model(9, seed=4) for _ in range(size)], average)
    settings = {"width": 3, "eos": EOS, "max_new_tokens": 8, "length_penalty": GNMTLengthPenalty(0.6), "n_best": 3}
    expected = beam_search(one.step, one.init_state(KEYS), prompts(PROMPTS), **settings)
    found = beam_search(ensemble.step, ensemble.init_state(KEYS), prompts(PROMPTS), **settings)
    for several, others in zip(found, expected, strict=True):
        assert [h.ids for h in several] == [h.ids for h in others]
        assert [h.score for h in several] == pytest.approx([h.score for h in others])


@pytest.mark.parametrize("average", AVERAGES, ids=lambda one: type(one).__name__)
def test_scores_are_those_of_the_average(history_model, prompts, average):
    members = [history_model(7, seed=seed) for seed in range(3)]
    ensemble = Ensemble(members, average)
    found = greedy_search(ensemble.step, ensemble.init_state(KEYS), prompts(PROMPTS), eos=EOS, max_new_tokens=5)
    for key, prompt, (h,) in zip(KEYS, PROMPTS, found, strict=True):
        for at, (token, value) in enumerate(zip((*h.ids, EOS), h.token_log_probabilities, strict=False)):
            each = [model.log_probabilities(key, prompt + h.ids[:at]) for model in members]
            if isinstance(average, ProbabilityMean):
                mean = [sum(map(math.exp, column)) for column in zip(*each, strict=True)]
            else:
                mean = [math.exp(sum(column) / 3) for column in zip(*each, strict=True)]
            assert mean[token] == max(mean)
            assert math.exp(value) == pytest.approx(mean[token] / sum(mean))


def test_a_probability_too_small_for_its_type_survives():
    logits = torch.tensor([[[0.0, -300.0]]])
    assert ProbabilityMean()([logits, logits])[0, 0, 1].item() == pytest.approx(-300.0)


def test_members_must_agree(history_model, prompts):
    ensemble = Ensemble([history_model(6), history_model(7)])
    with pytest.raises(RecipeError, match=r"vocabularies of \[6, 7\]"):
        greedy_search(ensemble.step, ensemble.init_state([1]), prompts([(0,)]), eos=EOS, max_new_tokens=3)
    with pytest.raises(RecipeError, match="no models"):
        Ensemble([])
