"""Beams whose hypotheses must hold terms, against dynamic beam allocation in words."""

from __future__ import annotations

import random

import pytest
import torch

from heedful.errors import RecipeError
from heedful.generation import (
    Ensemble,
    GNMTLengthPenalty,
    LogProbabilityMean,
    MultinomialSampler,
    NoLengthPenalty,
    NoRepeatNGram,
    SuppressTokens,
)
from heedful.generation.lexical_constraints import LexicalConstraints
from heedful.generation.prefill import GenerationRequest
from heedful.generation.search import BeamSearch, GreedySearch, SamplingSearch

EOS = 1
KEYS = [5, 2, 77, 31, 8, 64, 13]
PROMPTS = [(0,), (0, 4), (0, 2, 3), (0,), (0, 3), (0, 5, 5), (0,)]
LIMITS = [9, 12, 15, 9, 14, 11, 10]
WANTED = [((3, 4),), (), ((2,), (5, 2)), ((6, 6, 2),), (), ((2, 3), (3, 4), (7,)), ((4,),)]
JOINED = frozenset({6, 7})


def written(terms, ids, joined, *, ended=True):
    """Numbers of the terms that stand in ids and are no part of a longer word; at an end that is none, nobody knows."""
    return {
        number
        for number, term in enumerate(terms)
        for at in range(len(ids) - len(term) + 1)
        if ids[at : (end := at + len(term))] == term and (ended if end == len(ids) else ids[end] not in joined)
    }


def bank(terms, ids, joined):
    held = written(terms, ids, joined)
    partial = [
        size
        for number, term in enumerate(terms)
        if number not in held
        for size in range(1, len(term))
        if ids[len(ids) - size :] == term[:size]
    ]
    return sum(len(terms[number]) for number in held) + max(partial, default=0)


def advancing(terms, ids, joined):
    held = written(terms, ids, joined)
    missing = [term for number, term in enumerate(terms) if number not in held]
    begun = [term[size] for term in missing for size in range(1, len(term)) if ids[len(ids) - size :] == term[:size]]
    return {term[0] for term in missing} | set(begun)


def longhand(model, key, prompt, terms, *, width, limit, penalty, joined):
    """Post and Vilar's algorithm with lists: all histories are read again wherever something is asked of them."""
    live, ended = [(0.0, ())], []
    for length in range(1, limit + 1):
        everything = {
            (*ids, token): total + value
            for total, ids in live
            for token, value in enumerate(model.log_probabilities(key, prompt + ids))
        }
        ranked = sorted(everything, key=everything.get, reverse=True)
        if not terms:
            found = ranked[: 2 * width]
            ended += [(everything[ids] / penalty(length), ids) for ids in found[:width] if ids[-1] == EOS]
            live = [(everything[ids], ids) for ids in found if ids[-1] != EOS][:width]
            continue
        found = set(ranked[: 2 * width])
        for _, ids in live:
            mine = [each for each in ranked if each[:-1] == ids and each[-1] != EOS]
            found.add(mine[0])
            if written(terms, ids, joined) - written(terms, ids, joined, ended=False):
                found.add(next(each for each in mine if each[-1] not in joined))
            found |= {(*ids, token) for token in advancing(terms, ids, joined)}
            found.add((*ids, EOS))
        found = [ids for ids in ranked if ids in found]
        found = [ids for ids in found if ids[-1] != EOS or len(written(terms, ids[:-1], joined)) == len(terms)]
        banks = {}
        for ids in found:
            banks.setdefault(bank(terms, ids[:-1] if ids[-1] == EOS else ids, joined), []).append(ids)
        order = sorted(banks, reverse=True)
        ended += [(everything[ids] / penalty(length), ids) for ids in banks[order[0]][:width] if ids[-1] == EOS]
        lives = [each for number in order if (each := [ids for ids in banks[number] if ids[-1] != EOS])]
        if length == limit:
            lives = lives[:1]
        share = max(1, width // len(lives))
        kept = [ids for each in lives for ids in each[:share]][:width]
        rest = [ids for ids in found if any(ids in each[share:] for each in lives)]
        kept += rest[: width - len(kept)]
        live = sorted(((everything[ids], ids) for ids in kept), reverse=True)
    cut = [(total / penalty(len(ids)), ids) for total, ids in live]
    return (sorted(ended, reverse=True) + cut)[:width]


def searched(model, prompts, search, *, terms=WANTED, joined=JOINED, rows=range(7), limits=LIMITS, keep=False):
    request = GenerationRequest(
        prompts([PROMPTS[row] for row in rows]),
        torch.tensor([limits[row] for row in rows]),
        constraints=LexicalConstraints(tuple(terms[row] for row in rows), joined),
        keep_state=keep,
    )
    return search.decode_request(model.step, model.init_state([KEYS[row] for row in rows]), request)


@pytest.mark.parametrize("width", [1, 2, 3, 6])
@pytest.mark.parametrize("penalty", [NoLengthPenalty(), GNMTLengthPenalty(0.8)], ids=str)
def test_equals_the_longhand_search(history_model, prompts, width, penalty):
    for seed in range(6):
        model = history_model(8, seed=seed)
        found = searched(model, prompts, BeamSearch(EOS, width, penalty, width)).hypotheses
        for row, (key, prompt, terms, hypotheses) in enumerate(zip(KEYS, PROMPTS, WANTED, found, strict=True)):
            divisor = (lambda _: 1) if isinstance(penalty, NoLengthPenalty) else (lambda n: ((5 + n) / 6) ** 0.8)
            expected = longhand(
                model, key, prompt, terms, width=width, limit=LIMITS[row], penalty=divisor, joined=JOINED
            )
            assert [(*h.ids, EOS) if h.finished else h.ids for h in hypotheses] == [ids for _, ids in expected]
            assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected])
            own = [model.total(key, prompt, ids) for _, ids in expected]
            assert [h.log_probability for h in hypotheses] == pytest.approx(own)


@pytest.mark.slow
def test_all_terms_are_held_wherever_the_limit_leaves_room(history_model, prompts):
    chance = random.Random(3)
    for seed in range(30):
        model, rows = history_model(9, seed=seed, bias=chance.choice([-2.0, 0.5, 4.0])), range(7)
        terms = [
            tuple({tuple(chance.choices(range(2, 9), k=chance.randint(1, 4))) for _ in range(chance.randint(0, 4))})
            for _ in rows
        ]
        terms = [tuple(term for term in each if not set(term[1:]) & JOINED) for each in terms]
        limits = [2 * sum(map(len, each)) + 1 for each in terms]
        for width in (1, 2, 5):
            search = BeamSearch(EOS, width, NoLengthPenalty(), width)
            found = searched(model, prompts, search, terms=terms, limits=limits).hypotheses
            for mine, hypotheses in zip(terms, found, strict=True):
                for h in hypotheses:
                    assert not h.finished or len(written(mine, h.ids, JOINED)) == len(mine)
                assert len(written(mine, hypotheses[0].ids, JOINED)) == len(mine)


def test_who_has_no_terms_notices_nothing(history_model, prompts):
    """Not even in rounding; nor does anybody notice neighbours, or where a sentence stands."""
    model = history_model(60, seed=4, bias=3.0)
    search = BeamSearch(EOS, 4, GNMTLengthPenalty(1.0), 4, filters=(SuppressTokens((0,)),))
    together = searched(model, prompts, search).hypotheses
    free = searched(model, prompts, search, terms=[()] * 7).hypotheses
    for row, terms in enumerate(WANTED):
        if not terms:
            assert together[row] == free[row]
        (alone,) = searched(model, prompts, search, rows=[row]).hypotheses
        assert alone == together[row]
    plain = search.decode_request(
        model.step, model.init_state(KEYS), GenerationRequest(prompts(PROMPTS), torch.tensor(LIMITS))
    )
    assert plain.hypotheses == free


def test_terms_in_a_forced_prefix_count(history_model, prompts):
    model, terms = history_model(8), LexicalConstraints((((4, 5),), ((4, 5), (2,))), JOINED)
    for prefix, held in (([[4, 5], [4, 5]], True), ([[5, 4], [3, 4]], False)):
        request = GenerationRequest(prompts([(0,), (0,)]), 9, torch.tensor(prefix), constraints=terms)
        found = (
            BeamSearch(EOS, 4, NoLengthPenalty())
            .decode_request(model.step, model.init_state([3, 4]), request)
            .hypotheses
        )
        for (best,), wanted in zip(found, terms.terms_by_row, strict=True):
            assert len(written(wanted, best.ids, JOINED)) == len(wanted)
            assert held == (written(wanted[:1], best.ids[:2], frozenset()) == {0})


def test_nothing_is_left_to_do_where_a_prefix_holds_all(history_model, prompts):
    search, prefix = BeamSearch(EOS, 3, NoLengthPenalty(), 3), torch.tensor([[4, 5], [2, 3]])
    for seed in range(4):
        model = history_model(8, seed=seed)
        free, held = (
            search.decode_request(
                model.step,
                model.init_state([3, 4]),
                GenerationRequest(prompts([(0,), (0,)]), 9, prefix, constraints=terms),
            )
            for terms in (None, LexicalConstraints((((4, 5),), ((3,), (2, 3)))))
        )
        assert held.hypotheses == free.hypotheses


def test_what_is_forbidden_is_not_written_even_if_it_must_be(history_model, prompts):
    model = history_model(8)
    for kind in ({"filters": (SuppressTokens((4,)),)}, {"logits_masks": (NoRepeatNGram(1, exempt_ids=(EOS,)),)}):
        terms = [((3, 3), (2,)) if "logits_masks" in kind else ((3, 4), (2,))] * 7
        search = BeamSearch(EOS, 3, NoLengthPenalty(), **kind)
        for (best,) in searched(model, prompts, search, terms=terms, limits=[4] * 7).hypotheses:
            assert not best.finished, "it never holds all that it must"
            assert 4 not in best.ids if "filters" in kind else len(set(best.ids)) == len(best.ids)


def test_an_ensemble_of_one_model_twice_is_that_model(history_model, prompts):
    model = history_model(8, seed=6)
    both = Ensemble([model, model], LogProbabilityMean())
    search = BeamSearch(EOS, 3, NoLengthPenalty(), 3)
    alone, together = (searched(each, prompts, search).hypotheses for each in (model, both))
    assert [[h.ids for h in row] for row in alone] == [[h.ids for h in row] for row in together]


@pytest.mark.parametrize(
    "search", [GreedySearch(EOS), SamplingSearch(EOS, MultinomialSampler())], ids=["greedy", "sampling"]
)
def test_other_searches_say_that_they_cannot(history_model, prompts, search):
    with pytest.raises(RecipeError, match="terms that must be written: only beam search"):
        searched(history_model(8), prompts, search)
