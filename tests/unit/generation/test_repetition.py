"""The repetition penalty in every search, against the formula in words."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from heedful.errors import RecipeError
from heedful.generation import (
    MinPFilter,
    MultinomialSampler,
    NoLengthPenalty,
    NoRepeatNGram,
    RepetitionPenalty,
    SuppressTokens,
    TopKFilter,
    TopPFilter,
    beam_search,
    greedy_search,
    sampling_search,
)
from heedful.generation.penalties import CountPenalty
from heedful.tensors import RowSelection, Tokens, select_rows

EOS = 1
KEYS = [5, 2, 77, 31, 8, 64, 13]
PROMPTS = [(0,), (0, 4), (0, 2, 3), (0,), (0, 3), (0, 5, 5), (0,)]


def raw(model, key, history):
    """The logits themselves: the penalty looks at their signs."""
    code = 0
    for token in history:
        code = (code * 31 + token + 7) % 997
    return model.table[(key * 131 + code) % 997].tolist()


def longhand(model, key, history, *, theta, spared=()):
    """log p after the penalty: CTRL's formula, token by token."""
    seen = set(history) - set(spared)
    logits = [
        (x / theta if x > 0 else x * theta) if token in seen else x for token, x in enumerate(raw(model, key, history))
    ]
    total = math.log(math.fsum(map(math.exp, logits)))
    return [x - total for x in logits]


@pytest.mark.parametrize("theta", [0.5, 1.0, 1.3, 5.0])
@pytest.mark.parametrize("padding", ["left", "right", "turns"])
def test_greedy_search_equals_the_formula(history_model, prompts, theta, padding):
    model = history_model(6, seed=3, bias=0.0)
    penalty = RepetitionPenalty(theta, exempt_ids=(EOS,))
    found = greedy_search(
        model.step,
        model.init_state(KEYS),
        prompts(PROMPTS, padding),
        eos=EOS,
        max_new_tokens=9,
        prefix=torch.tensor([[2, 3]] * 3 + [[4, -1]] * 4),
        filters=(SuppressTokens((0,)),),
        penalties=(penalty,),
    )
    for row, (key, prompt, (h,)) in enumerate(zip(KEYS, PROMPTS, found, strict=True)):
        ids = (2, 3) if row < 3 else (4,)
        while len(ids) < 9 and ids[-1] != EOS:
            following = longhand(model, key, prompt + ids, theta=theta, spared=(EOS,))
            ids = (*ids, max(range(1, 6), key=following.__getitem__))
        assert (*h.ids, EOS)[: len(ids)] == ids
        # what is reported is the model's own probability
        assert h.token_log_probabilities == pytest.approx(model.each(key, prompt, ids))


def test_no_penalty_is_a_theta_of_one(history_model, prompts):
    model = history_model(6)
    arguments = (model.step, model.init_state(KEYS), prompts(PROMPTS))
    settings = {"width": 3, "n_best": 3, "length_penalty": NoLengthPenalty(), "eos": EOS, "max_new_tokens": 6}
    with_one = beam_search(*arguments, penalties=(RepetitionPenalty(1.0),), **settings)
    without = beam_search(*arguments, **settings)
    assert [[h.ids for h in row] for row in with_one] == [[h.ids for h in row] for row in without]
    for one, other in zip(itertools.chain(*with_one), itertools.chain(*without), strict=True):
        assert (one.score, one.log_probability) == pytest.approx((other.score, other.log_probability))


@pytest.mark.parametrize("width", [1, 3])
def test_beams_carry_their_own_past(history_model, prompts, width):
    """Every beam is penalised for what it wrote itself, while beams change places and sentences drop out."""
    for seed in range(4):
        model = history_model(6, seed=seed, bias=0.0)
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
            penalties=(RepetitionPenalty(1.7),),
        )
        for key, prompt, limit, hypotheses in zip(KEYS, PROMPTS, limits, found, strict=True):
            live, ended = [(0.0, ())], []
            for _ in range(limit):
                candidates = [
                    (total + value, (*ids, token))
                    for total, ids in live
                    for token, value in enumerate(longhand(model, key, prompt + ids, theta=1.7))
                ]
                candidates = sorted(candidates, reverse=True)[: 2 * width]
                ended += [each for each in candidates[:width] if each[1][-1] == EOS]
                live = [each for each in candidates if each[1][-1] != EOS][:width]
            expected = (sorted(ended, reverse=True) + live)[:width]
            assert [(*h.ids, EOS) if h.finished else h.ids for h in hypotheses] == [ids for _, ids in expected]
            assert [h.score for h in hypotheses] == pytest.approx([total for total, _ in expected])
            own = [model.total(key, prompt, ids) for _, ids in expected]
            assert [h.log_probability for h in hypotheses] == pytest.approx(own)


def test_samples_follow_penalty_temperature_top_k_top_p_and_min_p_in_this_order(history_model, prompts):
    model, rows = history_model(9, seed=6, bias=0.0), 6000
    filters = (TopKFilter(6), TopPFilter(0.93), MinPFilter(0.12))
    found = sampling_search(
        model.step,
        model.init_state([4]),
        prompts([(0, 2, 3, 2)]),
        eos=EOS,
        max_new_tokens=1,
        sampler=MultinomialSampler(1.6, filters=filters, seed=4),
        num_samples=rows,
        penalties=(RepetitionPenalty(2.0),),
    )[0]
    logits = [x / 1.6 for x in longhand(model, 4, (0, 2, 3, 2), theta=2.0)]
    ranked = sorted(range(9), key=lambda token: -logits[token])[:6]
    weights = {token: math.exp(logits[token]) for token in ranked}
    mass, kept = 0.0, []
    for token in ranked:
        if mass < 0.93 * sum(weights.values()):
            kept.append(token)
        mass += weights[token]
    kept = [token for token in kept if weights[token] >= 0.12 * weights[ranked[0]]]
    total = sum(weights[token] for token in kept)
    drawn = [EOS if h.finished else h.ids[0] for h in found]
    assert set(drawn) <= set(kept)
    for token in kept:
        p = weights[token] / total
        assert drawn.count(token) == pytest.approx(rows * p, abs=5 * math.sqrt(rows * p * (1 - p)) + 1)


def test_samples_do_not_depend_on_their_neighbours(history_model, prompts):
    model = history_model(40, seed=4, bias=2.0)
    settings = {"eos": EOS, "sampler": MultinomialSampler(0.8, seed=21), "num_samples": 3}
    settings |= {"penalties": (RepetitionPenalty(1.4),)}
    together = sampling_search(model.step, model.init_state(KEYS), prompts(PROMPTS), max_new_tokens=20, **settings)
    for row, key in enumerate(KEYS):
        streams = torch.tensor([row])
        alone = sampling_search(
            model.step,
            model.init_state([key]),
            prompts([PROMPTS[row]]),
            max_new_tokens=20,
            rng_streams=streams,
            **settings,
        )
        assert alone == [together[row]]


def test_what_is_remembered_can_be_selected():
    torch.manual_seed(0)
    penalty = RepetitionPenalty(1.5, exempt_ids=(2,))
    read = Tokens(torch.tensor([[0, 3, 4], [2, 2, 1]]), torch.tensor([[-1, 0, 1], [0, 1, -1]]))
    state = penalty.init_state(read, vocab_size=6)
    assert state.tolist() == [[-1, 3, 4], [-1, -1, -1]]
    after = penalty.extend(
        select_rows(state, RowSelection.from_indices(torch.tensor([1, 0, 0]))), torch.tensor([5, 2, 0])
    )
    assert after.tolist() == [[-1, -1, -1, 5], [-1, 3, 4, -1], [-1, 3, 4, 0]]
    assert state.tolist() == [[-1, 3, 4], [-1, -1, -1]], "the older state stays valid"
    logits = torch.tensor([[2.0, -1.0, 3.0, 4.0, -2.0, 0.0]])
    assert penalty(logits, state[:1]).tolist() == [[2.0, -1.0, 3.0, pytest.approx(4 / 1.5), -3.0, 0.0]]


@pytest.mark.parametrize("theta", [0.6, 1.0, 1.7])
def test_penalties_and_masks_equal_loops_over_tokens(theta: float) -> None:
    """Random texts of few different tokens, so that many occur several times, with padding anywhere in the prompt."""
    torch.manual_seed(int(10 * theta))
    rows, size = 5, 6
    ids = torch.randint(size, (rows, 7))
    positions = torch.where(torch.rand(rows, 7) < 0.3, -1, torch.arange(7))
    read, written = Tokens(ids, positions), torch.randint(size, (4, rows))
    logits = torch.randn(rows, size).masked_fill(torch.rand(rows, size) < 0.2, -math.inf)
    processors = RepetitionPenalty(theta, (2,)), CountPenalty(0.3, 0.2), NoRepeatNGram(2, (3,))
    states = [processor.init_state(read, vocab_size=size) for processor in processors]
    for new_ids in written:
        states = [processor.extend(state, new_ids) for processor, state in zip(processors, states, strict=True)]
    results = [processor(logits.clone(), state) for processor, state in zip(processors, states, strict=True)]
    for row, (repetition, count, mask) in enumerate(zip(*results, strict=True)):
        own, new = logits[row].tolist(), written[:, row].tolist()
        text = [*ids[row][positions[row] >= 0].tolist(), *new]
        pairs = {pair for pair in itertools.pairwise(text) if pair[1] != 3}
        for token, value in enumerate(own):
            changed = value / theta if value > 0 else value * theta
            assert repetition[token] == pytest.approx(changed if token in text and token != 2 else value)
            assert count[token] == pytest.approx(value - 0.2 * new.count(token) - 0.3 * (token in new), abs=1e-6)
            assert mask[token] == (-math.inf if (text[-1], token) in pairs else value)


def test_searches_without_a_penalty_keep_nothing(history_model, prompts, monkeypatch):
    """Filters that need no history pay for none."""
    monkeypatch.setattr(RepetitionPenalty, "init_state", lambda *_, **__: pytest.fail("a history was begun"))
    model = history_model(6)
    greedy_search(
        model.step,
        model.init_state([1]),
        prompts([(0,)]),
        eos=EOS,
        max_new_tokens=3,
        filters=(MinPFilter(0.1), TopKFilter(3)),
    )


@pytest.mark.parametrize("theta", [0.0, -1.0, math.nan, math.inf])
def test_wrong_penalties_are_explained(theta):
    with pytest.raises(RecipeError, match=f"repetition penalty: {theta}"):
        RepetitionPenalty(theta)
