"""Diverse beam search against the same in words, and what is promised of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from heedful.errors import RecipeError
from heedful.generation import (
    GNMTLengthPenalty,
    MinimumLength,
    NoLengthPenalty,
    NoRepeatNGram,
    RepetitionPenalty,
    StopOnToken,
    SuppressTokens,
)
from heedful.generation.diverse_beam_decoding import merge_groups
from heedful.generation.lexical_constraints import LexicalConstraints
from heedful.generation.prefill import GenerationRequest
from heedful.generation.results import HypothesisBatch
from heedful.generation.search import BeamSearch, DiverseBeamSearch

EOS = 1
KEYS = [5, 2, 77, 31, 8, 64, 13]
PROMPTS = [(0,), (0, 4), (0, 2, 3), (0,), (0, 3), (0, 5, 5), (0,)]
LIMITS = [7, 1, 5, 9, 4, 6, 2]


def longhand(model, key, prompt, *, width, groups, diversity, limit, alpha, n_best, prefix=()):
    """Groups of beams in words: none forgets what it finished, and scores are the model's own.

    A group that has all that is wanted of it, none of which its live hypotheses can beat, takes no more tokens.
    """

    def scored(total, length):
        return total / ((5 + max(length, 1)) / 6) ** alpha

    size, kept = width // groups, min(width // groups, n_best)

    def beaten(group, length):
        worst = sorted(finished[group], reverse=True)[kept - 1 : kept]
        best = max((total for total, _ in live[group]), default=-1e9)
        return bool(worst) and scored(best, max(limit, length + 1)) <= worst[0][0]

    live = [[(model.total(key, prompt, prefix), prefix)] for _ in range(groups)]
    finished = [[] for _ in range(groups)]
    for length in range(len(prefix) + 1, limit + 1):
        taken = [0] * model.vocabulary
        for group in range(groups):
            if beaten(group, length - 1):
                continue
            candidates = []
            for total, ids in live[group]:
                following = model.log_probabilities(key, prompt + ids)
                for token, log_probability in enumerate(following):
                    rank = total + log_probability - diversity * taken[token]
                    candidates.append((rank, total + log_probability, (*ids, token)))
            candidates = sorted(candidates, reverse=True)[: 2 * size]
            finished[group] += [(scored(t, length), t, ids[:-1]) for _, t, ids in candidates[:size] if ids[-1] == EOS]
            live[group] = [(t, ids) for _, t, ids in candidates if ids[-1] != EOS][:size]
            for _, ids in live[group]:
                taken[ids[-1]] += 1
    ended, cut = [], []
    for group in range(groups):
        own = sorted(finished[group], reverse=True)[:kept]
        ended += own
        cut += [(scored(total, len(ids)), total, ids) for total, ids in sorted(live[group], reverse=True)][
            : kept - len(own)
        ]
    best = {(ids, whole): (score, total, ids, whole) for part, whole in ((ended, True), (cut, False))
            for score, total, ids in sorted(part, reverse=True)}  # fmt: skip
    return list(best.values())[:n_best]


def same(found, expected):
    assert [(h.ids, h.finished) for h in found] == [(ids, finished) for _, _, ids, finished in expected]
    assert [h.score for h in found] == pytest.approx([score for score, *_ in expected])
    assert [h.log_probability for h in found] == pytest.approx([total for _, total, *_ in expected])
    for h in found:
        assert sum(h.token_log_probabilities) == pytest.approx(h.log_probability)


def searched(search, model, prompts, *, limits=LIMITS, prefix=None):
    request = GenerationRequest(prompts(PROMPTS), torch.tensor(limits), prefix)
    return search.decode_request(model.step, model.init_state(KEYS), request).hypotheses


@pytest.mark.parametrize("diversity", [0.0, 0.4, 2.5])
@pytest.mark.parametrize("sizes", [(2, 2, 1), (3, 3, 3), (4, 2, 2), (6, 3, 4), (3, 1, 3)], ids=str)
def test_equals_the_longhand_search(history_model, prompts, diversity, sizes):
    width, groups, n_best = sizes
    for seed, bias in ((0, 0.5), (1, 2.0), (2, 4.0), (3, 1.0), (4, 0.0), (5, 3.0)):
        model = history_model(6, seed=seed, bias=bias)
        found = searched(
            DiverseBeamSearch(EOS, width, groups, diversity, GNMTLengthPenalty(0.6), n_best), model, prompts
        )
        for key, prompt, limit, hypotheses in zip(KEYS, PROMPTS, LIMITS, found, strict=True):
            settings = {"width": width, "groups": groups, "diversity": diversity, "n_best": n_best}
            same(hypotheses, longhand(model, key, prompt, limit=limit, alpha=0.6, **settings))


def test_one_group_is_a_beam(history_model, prompts):
    """In every respect: penalties, bans, filters, prefixes, stops, and where the model then stands."""
    prefix = torch.tensor([[3, -1], [-1, -1], [2, 4], [5, -1], [-1, -1], [4, 4], [-1, -1]])
    parts = {
        "filters": (SuppressTokens((2,)), MinimumLength(2, EOS)),
        "penalties": (RepetitionPenalty(1.3),),
        "logits_masks": (NoRepeatNGram(2, exempt_ids=(EOS,)),),
    }
    for seed in range(4):
        model = history_model(8, seed=seed, bias=1.0)
        request = GenerationRequest(
            prompts(PROMPTS), torch.tensor(LIMITS), prefix if seed % 2 else None, stop=StopOnToken(4), keep_state=True
        )
        beam = BeamSearch(EOS, 4, GNMTLengthPenalty(0.8), 3, **parts).decode_request(
            model.step, model.init_state(KEYS), request
        )
        group = DiverseBeamSearch(EOS, 4, 1, 0.7, GNMTLengthPenalty(0.8), 3, **parts).decode_request(
            model.step, model.init_state(KEYS), request
        )
        assert group.hypotheses == beam.hypotheses
        assert beam.resume_state is not None and group.resume_state is not None
        assert torch.equal(group.resume_state.positions, beam.resume_state.positions)
        assert torch.equal(group.resume_state.state[0].codes, beam.resume_state.state[0].codes)


def test_the_first_group_is_a_beam_of_its_width(history_model, prompts):
    model = history_model(9, seed=5)
    beam = searched(BeamSearch(EOS, 2, GNMTLengthPenalty(0.6), 2), model, prompts)
    found = searched(DiverseBeamSearch(EOS, 6, 3, 5.0, GNMTLengthPenalty(0.6), 6), model, prompts)
    for mine, others in zip(beam, found, strict=True):
        assert {h.ids for h in mine if h.finished} <= {h.ids for h in others}


def test_what_is_asked_of_a_beam_holds_in_every_group(history_model, prompts):
    model = history_model(9, seed=3, bias=1.0)
    prefix = torch.tensor([[3, -1], [-1, -1], [2, 4], [5, -1], [-1, -1], [4, 4], [-1, -1]])
    search = DiverseBeamSearch(
        EOS,
        6,
        3,
        1.0,
        NoLengthPenalty(),
        6,
        (SuppressTokens((0, 6)),),
        (RepetitionPenalty(1.2),),
        (NoRepeatNGram(1, exempt_ids=(EOS,)),),
    )
    limits = [9] * len(KEYS)
    found = searched(search, model, prompts, prefix=prefix, limits=limits)
    for row, (key, prompt, hypotheses) in enumerate(zip(KEYS, PROMPTS, found, strict=True)):
        forced = tuple(token for token in prefix[row].tolist() if token >= 0)
        assert len({(h.ids, h.finished) for h in hypotheses}) == len(hypotheses) > 1
        for h in hypotheses:
            free = h.ids[len(forced) :]
            assert h.ids[: len(forced)] == forced and not {0, 6} & set(free)
            assert len(set(free)) == len(free) and not set(free) & {*prompt, *forced}
            whole = (*h.ids, EOS) if h.finished else h.ids
            assert h.token_log_probabilities == pytest.approx(model.each(key, prompt, whole)), "the model's own"
    plain = searched(replace(search, penalties=(), logits_masks=()), model, prompts, limits=limits)
    for key, prompt, hypotheses in zip(KEYS, PROMPTS, plain, strict=True):
        for h in hypotheses:
            assert h.score == pytest.approx(model.total(key, prompt, (*h.ids, EOS) if h.finished else h.ids))


def test_a_sentence_does_not_depend_on_its_neighbours(history_model, prompts):
    model = history_model(150, seed=4, bias=4.0)
    search, limits = DiverseBeamSearch(EOS, 6, 3, 0.8, GNMTLengthPenalty(1.0), 6), [3, 30, 8, 1, 12, 20, 5]
    together = searched(search, model, prompts, limits=limits)
    rows = list(model.rows_stepped)
    assert rows[:2] == [7, 42] and rows[-1] < 42, "sentences that are done leave the batch"
    for row, key in enumerate(KEYS):
        request = GenerationRequest(prompts([PROMPTS[row]]), limits[row])
        assert search.decode_request(model.step, model.init_state([key]), request).hypotheses == [together[row]]


def test_groups_differ_more_the_more_is_asked(history_model, prompts):
    """Tokens at the same place of several answers: how many of them differ."""

    def differing(diversity):
        seen = whole = 0
        for seed in range(6):
            model = history_model(12, seed=seed, bias=-2.0)
            for hypotheses in searched(
                DiverseBeamSearch(EOS, 4, 4, diversity, GNMTLengthPenalty(0.6), 4), model, prompts, limits=[6] * 7
            ):
                for column in zip(*(h.ids for h in hypotheses), strict=False):
                    seen, whole = seen + len(set(column)), whole + 4
        return seen / whole

    none, little, much = map(differing, (0.0, 0.5, 4.0))
    assert none < little < much
    assert none == pytest.approx(0.25), "groups that do not avoid each other find the same, which is given once"


def test_mistakes_are_told(history_model, prompts):
    model = history_model(6)
    with pytest.raises(RecipeError, match="groups: 2 cannot share a beam of 5 evenly"):
        searched(DiverseBeamSearch(EOS, 5, 2, 0.5, NoLengthPenalty()), model, prompts)
    with pytest.raises(RecipeError, match="n-best: 5 of a beam of width 4"):
        searched(DiverseBeamSearch(EOS, 4, 2, 0.5, NoLengthPenalty(), 5), model, prompts)
    request = GenerationRequest(prompts([(0,)]), 4, constraints=LexicalConstraints((((3,),),)))
    with pytest.raises(RecipeError, match="groups of beams that avoid each other cannot search for them"):
        DiverseBeamSearch(EOS, 4, 2, 0.5, NoLengthPenalty()).decode_request(model.step, model.init_state([1]), request)


def ended(ids, score, *, finished):
    counts, log_probabilities = torch.tensor([[len(ids)]]), torch.full((1, 1, 3), -0.5)
    padded = torch.tensor([[[*ids, *[0] * (3 - len(ids))]]])
    had, scores = torch.tensor([[finished]]), torch.tensor([[score]])
    return HypothesisBatch(counts, had, scores, scores, padded, log_probabilities, torch.tensor([[False]])), had


def test_a_text_that_lives_is_not_lost_to_one_that_ended_alike():
    both = [ended([4, 5], -1.0, finished=True), ended([4, 5], -0.5, finished=False)]
    found = merge_groups(both, n_best=2)
    assert (found.scores.tolist(), found.finished.tolist()) == ([[-1.0, -0.5]], [[True, False]])
    same = merge_groups([both[0], ended([4, 5], -1.5, finished=True), ended([4], -2.0, finished=True)], n_best=3)
    assert same.scores.tolist() == [[-1.0, -2.0, float("-inf")]]
