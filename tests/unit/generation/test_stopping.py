"""Rows that end where an object says so, with a memory of its own."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from heedful.generation import (
    AnyCriterion,
    GreedySampler,
    MultinomialSampler,
    NoLengthPenalty,
    StopOnToken,
    beam_search,
    greedy_search,
    stream_samples,
)
from heedful.generation import sampling_search as sampled

EOS = 1
KEYS = [5, 2, 77, 31, 8, 64, 13]
PROMPTS = [(0,), (0, 4), (0, 2, 3), (0,), (0, 3), (0, 5, 5), (0,)]


@dataclass(frozen=True)
class AtSum:
    """Ends a row when its tokens add up to a number."""

    number: int

    def init_state(self, written: Tensor) -> Tensor:
        return written.clamp(min=0).sum(1)

    def __call__(self, ids: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return state + ids >= self.number, state + ids


def longhand(ids, *, number, prefix=()):
    """As far as the tokens go until they add up."""
    for at in range(len(prefix), len(ids)):
        if ids[at] != EOS and sum(ids[: at + 1]) >= number:
            return ids[: at + 1]
    return ids


def test_greedy_search_and_streams_end_where_the_stop_says(history_model, prompts):
    model = history_model(8, seed=2, bias=-1.0)
    arguments = (model.step, model.init_state(KEYS), prompts(PROMPTS))
    prefix = torch.tensor([[2, -1], [3, 3], [-1, -1], [-1, -1], [4, -1], [-1, -1], [2, 2]])
    whole = greedy_search(*arguments, eos=EOS, max_new_tokens=15, prefix=prefix)
    model.rows_stepped.clear()
    found = greedy_search(*arguments, eos=EOS, max_new_tokens=15, prefix=prefix, stop=AtSum(20))
    assert any(sum(h.ids) >= 20 for (h,) in found)
    for (h,), (free,), forced in zip(found, whole, prefix.tolist(), strict=True):
        ids = (*free.ids, EOS) if free.finished else free.ids
        expected = longhand(ids, number=20, prefix=[number for number in forced if number >= 0])
        assert (*h.ids, EOS)[: len(expected)] == expected and len(h.ids) <= len(expected)
        assert h.finished == (expected[-1] == EOS)
        assert len(h.token_log_probabilities) == len(expected)
    free = [len(h.token_log_probabilities) - int((prefix[row] >= 0).sum()) for row, (h,) in enumerate(found)]
    assert len(model.rows_stepped) == max(free), "the prompt, and a step for each token but the last"
    assert model.rows_stepped[-1] < len(KEYS), "rows that have ended are dropped"


def test_a_stream_ends_like_a_search(history_model, prompts):
    model = history_model(8, seed=2, bias=-1.0)
    arguments = (model.step, model.init_state(KEYS), prompts(PROMPTS))
    expected = greedy_search(*arguments, eos=EOS, max_new_tokens=15, stop=AtSum(20))
    columns = list(
        stream_samples(
            *arguments, sampler=GreedySampler(), stop=AnyCriterion((StopOnToken(EOS), AtSum(20))), max_new_tokens=15
        )
    )
    for row, (h,) in enumerate(expected):
        ids = [int(column.ids[row, 0]) for column in columns if int(column.positions[row, 0]) >= 0]
        assert tuple(ids) == ((*h.ids, EOS) if h.finished else h.ids)


def test_samples_end_one_by_one(history_model, prompts):
    model = history_model(8, seed=2, bias=-1.0)
    arguments = (model.step, model.init_state(KEYS), prompts(PROMPTS))
    settings = {"eos": EOS, "max_new_tokens": 12, "sampler": MultinomialSampler(1.2, seed=3), "num_samples": 4}
    free, ended = sampled(*arguments, **settings), sampled(*arguments, stop=AtSum(15), **settings)
    for whole, cut in zip(free, ended, strict=True):
        expected = {longhand((*h.ids, EOS) if h.finished else h.ids, number=15) for h in whole}
        assert {(*h.ids, EOS) if h.finished else h.ids for h in cut} == expected
        assert [h.score for h in cut] == sorted((h.score for h in cut), reverse=True)


@pytest.mark.parametrize("width", [1, 3])
def test_hypotheses_of_a_beam_end_too(history_model, prompts, width):
    for seed in range(4):
        model = history_model(7, seed=seed, bias=-0.5)
        limits = [7, 1, 5, 9, 4, 6, 2]
        found = beam_search(
            model.step,
            model.init_state(KEYS),
            prompts(PROMPTS),
            width=width,
            eos=EOS,
            max_new_tokens=torch.tensor(limits),
            length_penalty=NoLengthPenalty(),
            n_best=width,
            stop=AtSum(14),
        )
        stopped = 0
        for key, prompt, limit, hypotheses in zip(KEYS, PROMPTS, limits, found, strict=True):
            live, ended = [(0.0, ())], []
            for _ in range(limit):
                candidates = [
                    (total + value, (*ids, token))
                    for total, ids in live
                    for token, value in enumerate(model.log_probabilities(key, prompt + ids))
                ]
                candidates = sorted(candidates, reverse=True)[: 2 * width]
                ends = [ids[-1] == EOS or sum(ids) >= 14 for _, ids in candidates]
                ended += [each for each, end in zip(candidates[:width], ends, strict=False) if end]
                live = [each for each, end in zip(candidates, ends, strict=True) if not end][:width]
            expected = (sorted(ended, reverse=True) + live)[:width]
            assert [(*h.ids, EOS) if h.finished else h.ids for h in hypotheses] == [ids for _, ids in expected]
            assert [h.log_probability for h in hypotheses] == pytest.approx([total for total, _ in expected])
            for h, (_, ids) in zip(hypotheses, expected, strict=True):
                assert h.token_log_probabilities == pytest.approx(model.each(key, prompt, ids))
                stopped += not h.finished and sum(h.ids) >= 14
        assert stopped
