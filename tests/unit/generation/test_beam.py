from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import pytest
import torch

from heedful.errors import RecipeError, RunError
from heedful.generation import (
    AverageLength,
    GNMTLengthPenalty,
    MinimumLength,
    NoLengthPenalty,
    PowerLengthPenalty,
    SuppressTokens,
    beam_search,
    greedy_search,
    score_target,
)
from heedful.tensors import RowSelection, Tokens

EOS = 1
KEYS = [5, 2, 77, 31, 8, 64, 13]
PROMPTS = [(0,), (0, 4), (0, 2, 3), (0,), (0, 3), (0, 5, 5), (0,)]
PREFIXES = [(), (3,), (2, 4), (), (5, 0, 2), (4, 4), (2,)]
DIVISORS = {
    NoLengthPenalty(): lambda _: 1,
    **{
        GNMTLengthPenalty(alpha): lambda length, alpha=alpha: ((5 + length) / 6) ** alpha
        for alpha in (0.6, 0.8, 1.0, 2.5, -0.7)
    },
    AverageLength(): lambda length: length,
    PowerLengthPenalty(0.7): lambda length: length**0.7,
}
"""What log-probabilities of so many tokens are divided by."""
PENALTIES = list(DIVISORS)


def longhand(model, key, prompt, *, width, limit, penalty, n_best, prefix=(), forbidden=(), shortest=0):
    """Beam search in words: it never stops early and never forgets a finished hypothesis."""

    def scored(total, length):
        return total / DIVISORS[penalty](max(length, 1))

    live, finished = [(model.total(key, prompt, prefix), prefix)], []
    for length in range(len(prefix) + 1, limit + 1):
        candidates = []
        for total, ids in live:
            following = model.log_probabilities(key, prompt + ids)
            for token, log_probability in enumerate(following):
                if token not in forbidden and not (token == EOS and length <= shortest):
                    candidates.append((total + log_probability, (*ids, token)))
        candidates = sorted(candidates, reverse=True)[: 2 * width]
        finished += [(scored(t, length), t, ids[:-1]) for t, ids in candidates[:width] if ids[-1] == EOS]
        live = [(t, ids) for t, ids in candidates if ids[-1] != EOS][:width]
    finished = sorted(finished, reverse=True)
    cut = [(scored(total, len(ids)), total, ids) for total, ids in sorted(live, reverse=True)]
    return [(*entry, True) for entry in finished][:n_best] + [(*entry, False) for entry in cut][
        : max(0, n_best - len(finished))
    ]


def same(found, expected):
    assert [h.ids for h in found] == [ids for _, _, ids, _ in expected]
    assert [h.finished for h in found] == [finished for *_, finished in expected]
    assert [h.score for h in found] == pytest.approx([score for score, *_ in expected])
    assert [h.log_probability for h in found] == pytest.approx([total for _, total, *_ in expected])


def padded(rows):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows])


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize(("width", "n_best"), [(1, 1), (2, 1), (3, 3), (5, 2)])
def test_equals_the_longhand_search(history_model, prompts, penalty, width, n_best):
    for seed in range(3):
        model = history_model(6, seed=seed)
        limits = [7, 1, 5, 9, 4, 6, 2]
        found = beam_search(
            model.step,
            model.init_state(KEYS),
            prompts(PROMPTS),
            width=width,
            eos=EOS,
            max_new_tokens=torch.tensor(limits),
            length_penalty=penalty,
            n_best=n_best,
        )
        for key, prompt, limit, hypotheses in zip(KEYS, PROMPTS, limits, found, strict=True):
            expected = longhand(model, key, prompt, width=width, limit=limit, penalty=penalty, n_best=n_best)
            same(hypotheses, expected)


@pytest.mark.parametrize("width", [1, 4])
def test_prefixes_and_filters_equal_the_longhand_search(history_model, prompts, width):
    model = history_model(7, seed=3)
    filters = (SuppressTokens((0, 6)), MinimumLength(3, EOS))
    settings = {"width": width, "limit": 5, "penalty": GNMTLengthPenalty(0.8), "n_best": width, "shortest": 3}
    found = beam_search(
        model.step,
        model.init_state(KEYS),
        prompts(PROMPTS),
        width=width,
        eos=EOS,
        max_new_tokens=5,
        length_penalty=GNMTLengthPenalty(0.8),
        n_best=width,
        prefix=padded(PREFIXES),
        filters=filters,
    )
    for key, prompt, prefix, hypotheses in zip(KEYS, PROMPTS, PREFIXES, found, strict=True):
        same(hypotheses, longhand(model, key, prompt, prefix=prefix, forbidden=(0, 6), **settings))
        for hypothesis in hypotheses:
            assert hypothesis.ids[: len(prefix)] == prefix
            assert len(hypothesis.ids) >= 3 and not {0, 6} & set(hypothesis.ids[len(prefix) :])


def test_prefix_at_the_limit_is_the_whole_answer(history_model, prompts):
    model = history_model(6)
    found = beam_search(
        model.step,
        model.init_state([4, 9, 3]),
        prompts([(0,), (0, 2), (0,)]),
        width=3,
        eos=EOS,
        max_new_tokens=2,
        length_penalty=GNMTLengthPenalty(0.6),
        n_best=2,
        prefix=padded([(4, 5), (), (3, 3, 3)]),
    )
    assert [h.ids for h in found[0]] == [(4, 5)] and [h.ids for h in found[2]] == [(3, 3, 3)]
    assert not found[0][0].finished and found[0][0].token_log_probabilities == pytest.approx(
        model.each(4, (0,), (4, 5))
    )
    same(found[1], longhand(model, 9, (0, 2), width=3, limit=2, penalty=GNMTLengthPenalty(0.6), n_best=2))


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_as_wide_as_the_tree_is_exhaustive(history_model, prompts, penalty):
    vocabulary, limit = 4, 4
    model = history_model(vocabulary, seed=9)
    words = [token for token in range(vocabulary) if token != EOS]
    answers = [(*ids, EOS) for n in range(limit) for ids in itertools.product(words, repeat=n)]
    answers += itertools.product(words, repeat=limit)
    width = vocabulary * len(words) ** (limit - 1)
    found = beam_search(
        model.step,
        model.init_state([3, 8]),
        prompts([(0,), (0, 2)]),
        width=width,
        eos=EOS,
        max_new_tokens=limit,
        length_penalty=penalty,
        n_best=width,
    )
    for key, prompt, hypotheses in zip([3, 8], [(0,), (0, 2)], found, strict=True):
        truth = {}
        for answer in answers:
            truth[answer] = model.total(key, prompt, answer) / DIVISORS[penalty](len(answer))
        complete = {ids: value for ids, value in truth.items() if ids[-1] == EOS}
        best = max(complete, key=complete.__getitem__)
        assert hypotheses[0].ids == best[:-1]
        every = {(*h.ids, EOS) if h.finished else h.ids: h.score for h in hypotheses}
        assert every == pytest.approx({ids: truth[ids] for ids in every})
        assert complete.keys() <= every.keys()


def test_width_one_without_penalty_is_greedy(history_model, prompts):
    for seed in range(5):
        model = history_model(40, seed=seed, bias=2.0)
        arguments = (model.step, model.init_state(KEYS), prompts(PROMPTS))
        beam = beam_search(*arguments, width=1, eos=EOS, max_new_tokens=12, length_penalty=NoLengthPenalty())
        greedy = greedy_search(*arguments, eos=EOS, max_new_tokens=12)
        for (one,), (other,) in zip(beam, greedy, strict=True):
            assert (one.ids, one.finished) == (other.ids, other.finished)
            assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities)


def test_a_sentence_does_not_depend_on_its_neighbours(history_model, prompts):
    model = history_model(150, seed=4, bias=4.0)
    settings = {"width": 4, "eos": EOS, "length_penalty": GNMTLengthPenalty(1.0), "n_best": 4}
    limits = torch.tensor([3, 30, 8, 1, 12, 20, 5])
    together = beam_search(model.step, model.init_state(KEYS), prompts(PROMPTS), max_new_tokens=limits, **settings)
    for row, key in enumerate(KEYS):
        prompt = prompts([PROMPTS[row]])
        alone = beam_search(model.step, model.init_state([key]), prompt, max_new_tokens=int(limits[row]), **settings)
        assert alone == [together[row]]


def test_nbest_is_sorted_distinct_and_within_the_limits(history_model, prompts):
    model = history_model(30, seed=1, bias=1.0)
    limits = torch.tensor([3, 9, 1, 6, 2, 12, 4])
    found = beam_search(
        model.step,
        model.init_state(KEYS),
        prompts(PROMPTS),
        width=6,
        eos=EOS,
        max_new_tokens=limits,
        length_penalty=GNMTLengthPenalty(0.6),
        n_best=6,
    )
    for hypotheses, limit in zip(found, limits.tolist(), strict=True):
        assert len({(h.ids, h.finished) for h in hypotheses}) == len(hypotheses) == 6
        ranks = [(h.finished, h.score) for h in hypotheses]
        assert ranks == sorted(ranks, reverse=True)
        assert all(len(h.ids) + h.finished <= limit for h in hypotheses)
        for h in hypotheses:
            assert len(h.token_log_probabilities) == len(h.ids) + h.finished
            assert sum(h.token_log_probabilities) == pytest.approx(h.log_probability)


def test_finished_sentences_leave_the_batch_and_the_search_ends_early(history_model, prompts):
    model = history_model(8, seed=2, bias=6.0)
    beam_search(
        model.step,
        model.init_state(list(range(40))),
        prompts([(0,)] * 40),
        width=3,
        eos=EOS,
        max_new_tokens=60,
        length_penalty=NoLengthPenalty(),
    )
    rows = model.rows_stepped
    assert rows[0] == 40 and len(rows) < 30
    assert all(later <= earlier for earlier, later in itertools.pairwise(rows[1:]))
    assert rows[-1] < 3 * 40 / 2


@dataclass(frozen=True)
class Counted:
    """Counts how often rows are rearranged, and how."""

    seen: list[RowSelection]

    def reorder(self, rows: RowSelection) -> Counted:
        self.seen.append(rows)
        return self


@pytest.mark.parametrize("width", [1, 3])
def test_rows_that_stay_where_they_are_are_not_rearranged(width):
    """After three starts of different merit every beam has one likely continuation, so their order stays."""

    def step(tokens, state):
        logits = torch.full((*tokens.ids.shape, 6), -50.0)
        if state[0] is None:
            logits[:, :, 2:5] = torch.tensor([3.0, 2.0, 1.0])
        else:
            logits[:, :, 2] = 0.0
        return logits, (torch.zeros(len(tokens.ids)), state[1])

    prompt = Tokens(torch.zeros(2, 1, dtype=torch.long), torch.zeros(2, 1, dtype=torch.long))
    counted = Counted([])
    found = beam_search(
        step,
        (None, counted),
        prompt,
        width=width,
        eos=EOS,
        max_new_tokens=6,
        length_penalty=NoLengthPenalty(),
        n_best=width,
    )
    assert [h.ids for h in found[1]] == [(2, 2, 2, 2, 2, 2), (3, 2, 2, 2, 2, 2), (4, 2, 2, 2, 2, 2)][:width]
    assert [rows.origin.tolist() for rows in counted.seen] == ([[0, 0, 0, 1, 1, 1]] if width == 3 else [])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_coarse_logits_are_added_in_single_precision(history_model, prompts, dtype):
    model = history_model(200, seed=6, bias=3.0, dtype=dtype)
    settings = {"width": 3, "eos": EOS, "max_new_tokens": 10, "length_penalty": GNMTLengthPenalty(0.6), "n_best": 3}
    found = beam_search(model.step, model.init_state(KEYS), prompts(PROMPTS), **settings)
    for key, prompt, hypotheses in zip(KEYS, PROMPTS, found, strict=True):
        for h in hypotheses:
            answer = (*h.ids, EOS) if h.finished else h.ids
            assert h.token_log_probabilities == pytest.approx(model.each(key, prompt, answer), abs=1e-4)


def test_forced_decoding_gives_the_same_scores(history_model, prompts):
    model = history_model(20, seed=8)
    found = beam_search(
        model.step,
        model.init_state(KEYS),
        prompts([(0,)] * len(KEYS)),
        width=3,
        eos=EOS,
        max_new_tokens=6,
        length_penalty=GNMTLengthPenalty(1.0),
        filters=(SuppressTokens((0, 2)),),
    )
    best = [hypotheses[0] for hypotheses in found]
    answers = [(*h.ids, EOS) if h.finished else h.ids for h in best]
    labels = padded(answers)
    ids = torch.cat((torch.zeros(len(KEYS), 1, dtype=torch.long), labels[:, :-1]), 1)
    positions = torch.where(labels >= 0, torch.arange(labels.size(1)), -1)
    scores = score_target(model.step, model.init_state(KEYS), Tokens(ids.clamp(min=0), positions), labels=labels)
    assert scores.log_probability.tolist() == pytest.approx([h.log_probability for h in best])
    assert scores.count.tolist() == [len(answer) for answer in answers]
    for h, row in zip(best, scores.token_log_probabilities.tolist(), strict=True):
        assert row[: len(h.token_log_probabilities)] == pytest.approx(h.token_log_probabilities)
        assert not any(row[len(h.token_log_probabilities) :])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("vocabulary", [70, 3000])
def test_equal_hypotheses_come_in_the_order_of_their_ids(history_model, prompts, dtype, vocabulary):
    model = history_model(vocabulary, eos=3, dtype=dtype)
    model.table = torch.zeros_like(model.table)
    found = beam_search(
        model.step,
        model.init_state([1, 2]),
        prompts([(0,), (0,)]),
        width=4,
        eos=3,
        max_new_tokens=2,
        length_penalty=NoLengthPenalty(),
        n_best=4,
    )
    for hypotheses in found:
        assert [(h.ids, h.finished) for h in hypotheses] == [
            ((), True),
            ((0,), True),
            ((0, 0), False),
            ((0, 1), False),
        ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "beam width: 0"),
        ({"n_best": 4}, "n-best: 4 of a beam of width 3"),
        ({"max_new_tokens": 0}, "limit: 0"),
        ({"max_new_tokens": torch.tensor([4, -2])}, "limit: -2"),
        ({"prefix": torch.tensor([[2, 1], [3, -1]])}, "prefix: contains 1"),
        ({"prefix": torch.tensor([[-1, 2], [3, -1]])}, "after a -1"),
    ],
)
def test_wrong_arguments_are_explained(history_model, prompts, change, message):
    model = history_model(6)
    settings = {"width": 3, "eos": EOS, "max_new_tokens": 4, "length_penalty": NoLengthPenalty(), **change}
    with pytest.raises(RecipeError, match=message):
        beam_search(model.step, model.init_state([1, 2]), prompts([(0,), (0,)]), **settings)


def test_prompts_that_cannot_be_continued_are_explained(history_model):
    model = history_model(6)
    settings = {"width": 3, "eos": EOS, "max_new_tokens": 4, "length_penalty": NoLengthPenalty()}
    ids = torch.zeros(2, 2, dtype=torch.long)
    empty = Tokens(ids, torch.tensor([[0, 1], [-1, -1]]))
    with pytest.raises(RecipeError, match="row 1 is empty"):
        beam_search(model.step, model.init_state([1, 2]), empty, **settings)


@pytest.mark.parametrize("wrong", ["filters", "nan"])
def test_no_possible_token_is_an_error_that_names_the_sentence(history_model, prompts, wrong):
    model = history_model(6)
    filters = ()
    if wrong == "filters":
        filters = (lambda logits, _: logits.index_fill(0, torch.tensor([len(logits) - 1]), -math.inf),)
    else:
        model.table[(131 * 9 + 7) % 997] = math.nan
    for search in (
        lambda *args: beam_search(
            *args, width=1, eos=EOS, max_new_tokens=1, length_penalty=NoLengthPenalty(), filters=filters
        ),
        lambda *args: greedy_search(*args, eos=EOS, max_new_tokens=1, filters=filters),
    ):
        with pytest.raises(RunError, match="sentence 2 of the batch: no token may follow"):
            search(model.step, model.init_state([1, 9]), prompts([(0,), (0,)]))


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_divisors_are_positive_and_monotone(penalty):
    divisors = penalty.compute_divisors(torch.arange(1.0, 300.0, dtype=torch.float64))
    assert (divisors > 0).all()
    steps = divisors.diff()
    assert (steps >= 0).all() or (steps <= 0).all()
    if isinstance(penalty, GNMTLengthPenalty):
        assert divisors[6].item() == pytest.approx(2.0**penalty.alpha)


def test_alpha_must_be_a_number():
    with pytest.raises(RecipeError, match="alpha is nan"):
        GNMTLengthPenalty(math.nan)
