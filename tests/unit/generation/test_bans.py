"""What may not come, in every search, against the rules in words."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

from heedful.errors import RecipeError
from heedful.generation import (
    BadWord,
    BadWords,
    Ensemble,
    LogProbabilityMean,
    MinNewTokens,
    MultinomialSampler,
    NoLengthPenalty,
    NoRepeatNGram,
    RepetitionPenalty,
    beam_search,
    greedy_search,
    sampling_search,
    stream_samples,
)
from heedful.generation.prefill import StopOnToken
from heedful.tensors import RowSelection, Tokens, select_rows

EOS = 1
KEYS = [5, 2, 77, 31, 8, 64, 13]
PROMPTS = [(0,), (0, 4), (0, 2, 3), (0,), (0, 3), (0, 5, 5), (0,)]
WRITTEN = [(0,), (0, 4), (0, 2, 7), (0,), (0, 9), (0, 4, 4), (0,)]
"""Prompts that hold no forbidden word."""
SURFACES = ("", "", " ", "a", "b", "ab", " a", "B", "b a", ".")
JOINING = frozenset("abB")


def again(ids, n):
    """Whether the last n tokens stood there before."""
    grams = [tuple(ids[at : at + n]) for at in range(len(ids) - n + 1)]
    return bool(grams) and grams[-1] in grams[:-1]


def holds(patterns, text, *, ended):
    """Whether a text holds a word for good, which at its end shows only where it has ended, or the word is open."""
    return any(
        (sure or ended or match.end() < len(text))
        for pattern, sure in patterns
        for match in re.finditer(rf"(?={pattern})(?P<word>{pattern})", text)
    )


def patterns_of(closed, opened):
    """Words that stand alone, and beginnings, as patterns, with whether they are sure at the end of a text."""
    before, behind = "(?<![abB])", "(?![abB])"
    return [*((before + each + behind, False) for each in closed), *((before + each, True) for each in opened)]


def searched(model, key, prompt, *, width, limit, allowed):
    """Beam search in words; `allowed` says whether ids, the prompt's first, may come."""
    live, ended = [(0.0, ())], []
    for _ in range(limit):
        found = [
            (total + value, (*ids, token))
            for total, ids in live
            for token, value in enumerate(model.log_probabilities(key, prompt + ids))
            if allowed((*prompt, *ids, token), len(ids))
        ]
        found = sorted(found, reverse=True)[: 2 * width]
        ended += [each for each in found[:width] if each[1][-1] == EOS]
        live = [each for each in found if each[1][-1] != EOS][:width]
    return (sorted(ended, reverse=True) + live)[:width]


def compare(model, prompts, bans, *, width, limits, allowed, read=PROMPTS):
    settings = {"eos": EOS, "max_new_tokens": torch.tensor(limits), "logits_masks": bans}
    given = (model.step, model.init_state(KEYS), prompts(read))
    found = beam_search(*given, width=width, n_best=width, length_penalty=NoLengthPenalty(), **settings)
    rows = zip(KEYS, read, limits, found, strict=True)
    for row, (key, prompt, limit, hypotheses) in enumerate(rows):
        expected = searched(
            model, key, prompt, width=width, limit=limit, allowed=lambda ids, at, row=row: allowed(row, ids, at)
        )
        assert [(*h.ids, EOS) if h.finished else h.ids for h in hypotheses] == [ids for _, ids in expected]
        # ranking is by the model's own probabilities, which nothing makes larger
        assert [h.score for h in hypotheses] == pytest.approx([total for total, _ in expected])
        assert [h.log_probability for h in hypotheses] == pytest.approx([total for total, _ in expected])
    if width == 1:
        greedy = greedy_search(*given, **settings)
        assert [[h.ids for h in row] for row in greedy] == [[h.ids for h in row] for row in found]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("width", [1, 3])
def test_no_n_gram_comes_twice(history_model, prompts, n, width):
    for seed in range(3):
        model = history_model(8, seed=seed, bias=-1.0)
        ban = NoRepeatNGram(n, exempt_ids=(EOS,))
        compare(
            model,
            prompts,
            (ban,),
            width=width,
            limits=[7, 1, 5, 9, 4, 6, 2],
            allowed=lambda _, ids, __, n=n: ids[-1] == EOS or not again(ids, n),
        )


@pytest.mark.parametrize("width", [1, 4])
def test_each_row_has_its_least_length(history_model, prompts, width):
    model, least = history_model(6, bias=2.0), (0, 3, 9, 1, -2, 4, 2)
    compare(
        model,
        prompts,
        (MinNewTokens(EOS, least),),
        width=width,
        limits=[7, 5, 5, 9, 4, 6, 8],
        allowed=lambda row, ids, at: ids[-1] != EOS or at >= least[row],
    )


FORBIDDEN = [
    ([BadWord("ab")], ["ab"], []),
    ([BadWord("ab", ignore_case=True), BadWord("a a")], ["a[bB]", "a a"], []),
    ([BadWord("a", is_prefix=True)], [], ["a"]),
    ([BadWord("b."), BadWord("bab")], ["bab"], [r"b\."]),
]


@pytest.mark.parametrize("case", FORBIDDEN, ids=str)
@pytest.mark.parametrize("width", [1, 3])
def test_forbidden_words_come_in_no_cutting_and_everything_else_may(history_model, prompts, case, width):
    words, closed, opened = case
    patterns = patterns_of(closed, opened)
    ban = BadWords(words, token_texts=SURFACES, word_characters=JOINING, eos=EOS)

    def allowed(_, ids, __):
        text = "".join(SURFACES[token] for token in ids)
        return not holds(patterns, text, ended=ids[-1] == EOS)

    for seed in range(4):
        model = history_model(len(SURFACES), seed=seed, bias=-1.0)
        compare(model, prompts, (ban,), width=width, limits=[9, 1, 5, 9, 8, 6, 2], allowed=allowed, read=WRITTEN)


def test_words_are_read_the_same_however_far_the_automaton_is_known():
    """Rows of the automaton that are copied from others are those that would be found alone."""
    words = [
        BadWord("ab"),
        BadWord("abab"),
        BadWord("ba", ignore_case=True),
        BadWord("b", is_prefix=True),
        BadWord(". a"),
    ]
    for length in range(4):
        for ids in itertools.product(range(2, len(SURFACES)), repeat=length):
            fresh = BadWords(words, token_texts=SURFACES, word_characters=JOINING, eos=EOS)
            text = "".join(SURFACES[token] for token in ids)
            patterns = [*patterns_of(["ab", "abab", "[bB]a"], ["b"]), (r"\. a(?![abB])", False)]
            if holds(patterns, text, ended=False):
                continue
            read = Tokens(torch.tensor([ids], dtype=torch.long), torch.arange(length).unsqueeze(0))
            state = fresh.init_state(read, vocab_size=len(SURFACES))
            banned = (fresh(torch.zeros(1, len(SURFACES)), state) < 0)[0].tolist()
            wanted = [holds(patterns, text + surface, ended=token == EOS) for token, surface in enumerate(SURFACES)]
            assert banned == wanted, text


def test_a_word_that_no_token_makes_longer_is_not_begun():
    """Where pieces are whole words, nothing but another word can follow; the last piece of a word counts, too."""
    surfaces = ("", "", " a", " b", ",")
    ban = BadWords([BadWord("a"), BadWord("b b")], token_texts=surfaces, word_characters=JOINING, eos=EOS)
    read = Tokens(torch.tensor([[0, 0], [0, 3], [0, 4]]), torch.tensor([[0, -1], [0, 1], [0, 1]]))
    logits = ban(torch.zeros(3, 5), ban.init_state(read, vocab_size=5))
    assert [row.isinf().nonzero().flatten().tolist() for row in logits] == [[2], [2, 3], [2]]


def test_samples_follow_bans_and_do_not_depend_on_their_neighbours(history_model, prompts):
    model = history_model(len(SURFACES), seed=4, bias=-1.0)
    bans = (
        NoRepeatNGram(2, exempt_ids=(EOS,)),
        BadWords([BadWord("ab")], token_texts=SURFACES, word_characters=JOINING, eos=EOS),
    )
    settings = {"eos": EOS, "sampler": MultinomialSampler(1.5, seed=21), "num_samples": 5, "logits_masks": bans}
    settings |= {"max_new_tokens": 20, "penalties": (RepetitionPenalty(1.2),)}
    together = sampling_search(model.step, model.init_state(KEYS), prompts(PROMPTS), **settings)
    for row, key in enumerate(KEYS):
        given = (model.step, model.init_state([key]), prompts([PROMPTS[row]]))
        (alone,) = sampling_search(*given, rng_streams=torch.tensor([row]), **settings)
        assert [h.ids for h in alone] == [h.ids for h in together[row]]
        assert [h.log_probability for h in alone] == pytest.approx([h.log_probability for h in together[row]])
        for h in together[row]:
            ids = (*PROMPTS[row], *h.ids)
            assert not any(again(ids[:end], 2) for end in range(len(PROMPTS[row]) + 1, len(ids) + 1))
            text = "".join(SURFACES[token] for token in ids)
            assert not holds(patterns_of(["ab"], []), text, ended=h.finished)


def test_a_stream_is_what_greedy_search_finds(history_model, prompts):
    model, bans = history_model(8, seed=2, bias=-1.0), (NoRepeatNGram(2, exempt_ids=(EOS,)),)
    given = {"max_new_tokens": 9, "logits_masks": bans}
    ((whole,),) = greedy_search(model.step, model.init_state([3]), prompts([(0, 2)]), eos=EOS, **given)
    from heedful.generation import GreedySampler

    columns = stream_samples(
        model.step, model.init_state([3]), prompts([(0, 2)]), sampler=GreedySampler(), stop=StopOnToken(EOS), **given
    )
    ids = tuple(int(column.ids[0, 0]) for column in columns)
    assert ids == ((*whole.ids, EOS) if whole.finished else whole.ids)


def test_an_ensemble_of_one_model_twice_is_that_model(history_model, prompts):
    model = history_model(len(SURFACES), seed=6, bias=-1.0)
    both = Ensemble([model, model], LogProbabilityMean())
    bans = (
        NoRepeatNGram(3, exempt_ids=(EOS,)),
        BadWords([BadWord("ab")], token_texts=SURFACES, word_characters=JOINING, eos=EOS),
    )
    settings = {"width": 3, "eos": EOS, "max_new_tokens": 9, "length_penalty": NoLengthPenalty(), "logits_masks": bans}
    alone = beam_search(model.step, model.init_state(KEYS), prompts(PROMPTS), **settings)
    together = beam_search(both.step, both.init_state(KEYS), prompts(PROMPTS), **settings)
    assert [[h.ids for h in row] for row in alone] == [[h.ids for h in row] for row in together]


def test_what_is_remembered_can_be_selected():
    ban = NoRepeatNGram(2)
    read = Tokens(torch.tensor([[0, 3, 4], [2, 5, 1]]), torch.tensor([[-1, 1, 0], [0, 1, -1]]))
    state = ban.init_state(read, vocab_size=6)
    assert state.tolist() == [[-1, 4, 3], [-1, 2, 5]], "in the order of the positions"
    after = ban.extend(select_rows(state, RowSelection.from_indices(torch.tensor([1, 0, 0]))), torch.tensor([2, 4, 0]))
    assert after.tolist() == [[-1, 2, 5, 2], [-1, 4, 3, 4], [-1, 4, 3, 0]]
    logits = ban(torch.zeros(3, 6), after)
    assert [row.isinf().nonzero().flatten().tolist() for row in logits] == [[5], [3], []]


def test_wrong_bans_are_explained():
    with pytest.raises(RecipeError, match="n-gram: n is 0; must be at least 1"):
        NoRepeatNGram(0)
    with pytest.raises(RecipeError, match="forbidden word: one is empty"):
        BadWords([BadWord("a"), BadWord("")], token_texts=SURFACES, word_characters=JOINING, eos=EOS)
