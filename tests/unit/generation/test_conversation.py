"""Searches that begin where others ended, and searches that are told to stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from threading import Event
from typing import Any

import pytest
import torch

from heedful.generation import (
    Deadline,
    GreedySampler,
    MultinomialSampler,
    NoLengthPenalty,
    StopOnToken,
    SuppressTokens,
    beam_search,
    greedy_search,
    sampling_search,
    stream_samples,
)
from heedful.generation.search import BeamSearch, DiverseBeamSearch, GreedySearch, SamplingSearch
from heedful.tensors import Tokens

EOS = 1
KEYS = [5, 2, 77, 31, 8, 64, 13]
PROMPTS = [(0,), (0, 4), (0, 2, 3), (0,), (0, 3), (0, 5, 5), (0,)]
LIMITS = torch.tensor([7, 1, 5, 9, 4, 6, 3])
SEARCHES = {
    "greedy": GreedySearch(EOS),
    "sampling": SamplingSearch(EOS, MultinomialSampler(seed=3)),
    "samples": SamplingSearch(EOS, MultinomialSampler(seed=4), num_samples=3),
    "beam": BeamSearch(EOS, 4, NoLengthPenalty()),
    "beams": BeamSearch(EOS, 4, NoLengthPenalty(), n_best=3, filters=(SuppressTokens((5,)),)),
    "groups": DiverseBeamSearch(EOS, 6, 3, 0.8, NoLengthPenalty(), n_best=3, filters=(SuppressTokens((5,)),)),
}


def streams(rows: int) -> torch.Tensor:
    return torch.arange(rows)


@dataclass
class Told:
    """Says stop when it is asked for the `at`-th time."""

    at: int
    asked: list[int] = field(default_factory=list)

    def __call__(self) -> bool:
        self.asked.append(1)
        return len(self.asked) > self.at


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("bias", [0.5, 2.5])
def test_a_conversation_goes_on_as_if_it_had_been_read_at_once(history_model, prompts, name, bias) -> None:
    """Three turns, in each of which every answer of the one before is a row; rows end at different times."""
    model, search = history_model(9, seed=2, bias=bias), SEARCHES[name]
    state, prompt, keys = model.init_state(KEYS), prompts(PROMPTS), KEYS
    histories, limit = list(PROMPTS), LIMITS
    for turn in range(3):
        given: dict[str, Any] = {"max_new_tokens": limit, "prefix": None, "rng_streams": streams(len(keys))}
        found = search.decode_with_state(model.step, state, prompt, **given)
        anew = search(model.step, model.init_state(keys), prompts(histories), **given)
        same(found.hypotheses, anew)
        rows = [row for row, answers in enumerate(found.hypotheses) for _ in answers]
        keys = [keys[row] for row in rows]
        answers = [(*h.ids, *([EOS] if h.finished else [])) for answers in found.hypotheses for h in answers]
        assert found.resume_state is not None
        assert found.resume_state.pending_tokens.ids[:, 0].tolist() == [answer[-1] for answer in answers]
        words = [(2, 3, 4)[: 1 + (row + turn) % 3] for row in range(len(rows))]
        histories = [(*histories[row], *said, *more) for row, said, more in zip(rows, answers, words, strict=True)]
        state, prompt = found.resume_state.state, found.resume_state.build_prompt(prompts(words))
        limit = limit[rows]


def same(found: Any, expected: Any) -> None:
    assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in expected]
    for one, other in zip(chain(*found), chain(*expected), strict=True):
        assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities)
        assert (one.finished, one.interrupted) == (other.finished, other.interrupted)


def test_nothing_is_read_again_in_the_next_turn(history_model, prompts) -> None:
    model, read = history_model(9, seed=2), []

    def step(tokens: Tokens, state: Any) -> Any:
        read.append(int((tokens.positions >= 0).sum()))
        return model.step(tokens, state)

    given: dict[str, Any] = {"max_new_tokens": torch.tensor([20]), "prefix": None, "rng_streams": streams(1)}
    found = SEARCHES["greedy"].decode_with_state(step, model.init_state([5]), prompts([(0, 4, 2, 3)]), **given)
    written = len(found.hypotheses[0][0].token_log_probabilities)
    assert sum(read) == 4 + written - 1
    read.clear()
    assert found.resume_state is not None
    SEARCHES["greedy"](step, found.resume_state.state, found.resume_state.build_prompt(prompts([(2, 3)])), **given)
    assert read[0] == 3, "the last token of the answer, and what is new"


def test_a_state_is_kept_only_if_it_is_wanted(history_model, prompts) -> None:
    model = history_model(9, seed=2, bias=2.5)
    for search in SEARCHES.values():
        given: dict[str, Any] = {"max_new_tokens": LIMITS, "prefix": None, "rng_streams": streams(7)}
        assert (
            search.decode_with_state(
                model.step, model.init_state(KEYS), prompts(PROMPTS), keep_state=False, **given
            ).resume_state
            is None
        )


def test_a_row_that_writes_nothing_has_nothing_unread(history_model, prompts) -> None:
    model, prefix = history_model(9, seed=2), torch.tensor([[4, 3], [5, -1]])
    given: dict[str, Any] = {"max_new_tokens": torch.tensor([2, 3]), "prefix": prefix, "rng_streams": streams(2)}
    for name in ("greedy", "beam"):
        found = SEARCHES[name].decode_with_state(model.step, model.init_state([5, 2]), prompts([(0,), (0, 2)]), **given)
        after = found.resume_state
        assert after is not None
        written = len(found.hypotheses[1][0].token_log_probabilities) - 1
        assert after.pending_tokens.positions.tolist() == [[-1], [2 + written]]
        assert after.positions.tolist() == [3, 3 + written]
        SEARCHES[name](model.step, after.state, after.build_prompt(prompts([(4,), (4, 4)])), **given)


@pytest.mark.parametrize("at", [0, 1, 2, 4, 30])
@pytest.mark.parametrize("name", ["greedy", "sampling", "samples"])
def test_a_search_that_is_told_to_stop_gives_what_it_has(history_model, prompts, name, at) -> None:
    model, told, search = history_model(9, seed=2, bias=2.0), Told(at), SEARCHES[name]
    given: dict[str, Any] = {"max_new_tokens": torch.full((7,), 12), "prefix": None, "rng_streams": streams(7)}
    whole = search(model.step, model.init_state(KEYS), prompts(PROMPTS), **given)
    model.rows_stepped.clear()
    found = search(model.step, model.init_state(KEYS), prompts(PROMPTS), until=told, **given)
    assert len(model.rows_stepped) == max(1, len(told.asked) - (told.asked != [] and len(told.asked) > at))
    for answers, expected in zip(found, whole, strict=True):
        by_ids = {h.ids: h for h in expected}
        assert len(answers) == len(expected)
        for h in answers:
            written = len(h.token_log_probabilities)
            assert written <= at
            if h.interrupted:
                assert (h.finished, written) == (False, at)
                assert any(ids[:at] == h.ids for ids in by_ids)
            else:
                assert h == by_ids[h.ids]
    assert sum(h.interrupted for h in chain(*found)) == sum(len(h.token_log_probabilities) > at for h in chain(*whole))


@pytest.mark.parametrize("at", [0, 1, 3, 5])
def test_a_beam_that_is_told_to_stop_gives_what_it_has(history_model, prompts, at) -> None:
    """It is the search whose limit was so short, except that it says so."""
    model, given = (
        history_model(9, seed=2, bias=1.0),
        {"width": 4, "eos": EOS, "n_best": 3, "length_penalty": NoLengthPenalty()},
    )
    arguments = (model.step, model.init_state(KEYS), prompts(PROMPTS))
    model.rows_stepped.clear()
    found = beam_search(*arguments, max_new_tokens=12, until=Told(at), **given)
    assert len(model.rows_stepped) == max(1, at)
    whole = beam_search(*arguments, max_new_tokens=12, **given)
    if at:
        short = beam_search(*arguments, max_new_tokens=at, **given)
        assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in short]
        assert [h.score for h in chain(*found)] == pytest.approx([h.score for h in chain(*short)])
    else:
        assert [[h.ids for h in row] for row in found] == [[()]] * 7
    for row, expected in zip(found, whole, strict=True):
        assert len({h.interrupted for h in row}) == 1, "more might have come for the whole sentence"
        assert row[0].interrupted or [h.ids for h in row] == [h.ids for h in expected]
    assert not any(h.interrupted for row in whole for h in row)
    if at == 5:
        assert {row[0].interrupted for row in found} == {True, False}
        assert any(h.interrupted and h.finished for row in found for h in row)


def test_a_search_that_was_cut_goes_on(history_model, prompts) -> None:
    """Told to stop in the middle, and begun again with nothing new to read but the last token."""
    model = history_model(9, seed=5, bias=-2.0)
    for name in ("greedy", "beam"):
        given: dict[str, Any] = {"prefix": None, "rng_streams": streams(7)}
        arguments = (model.step, model.init_state(KEYS), prompts(PROMPTS))
        first = SEARCHES[name].decode_with_state(*arguments, max_new_tokens=torch.full((7,), 9), until=Told(4), **given)
        assert first.resume_state is not None
        rest = SEARCHES[name](
            model.step,
            first.resume_state.state,
            first.resume_state.pending_tokens,
            max_new_tokens=torch.full((7,), 5),
            **given,
        )
        for row, ((begun,), (more,)) in enumerate(zip(first.hypotheses, rest, strict=True)):
            answer = (*begun.ids, *([EOS] if begun.finished else []), *more.ids)
            each = [*begun.token_log_probabilities, *more.token_log_probabilities]
            assert each[: len(answer)] == pytest.approx(model.each(KEYS[row], PROMPTS[row], answer))


def test_streams_are_searches(history_model, prompts) -> None:
    """With a prefix, with streams of chance, and with a state behind them."""
    model, prefix = history_model(9, seed=2, bias=1.0), torch.tensor([[3, -1], [2, 4], [-1, -1]])
    chance = torch.tensor([8, 1, 5])
    arguments = (model.step, model.init_state(KEYS[:3]), prompts(PROMPTS[:3]))
    given: dict[str, Any] = {"max_new_tokens": torch.tensor([7, 4, 9]), "prefix": prefix, "rng_streams": chance}
    stream = stream_samples(*arguments, sampler=MultinomialSampler(seed=9), stop=StopOnToken(EOS), **given)
    assert (stream.resume_state, stream.interrupted) == (None, None)
    columns = list(stream)
    expected = SEARCHES["sampling"].__class__(EOS, MultinomialSampler(seed=9)).decode_with_state(*arguments, **given)
    for row, (h,) in enumerate(expected.hypotheses):
        ids = [int(column.ids[row]) for column in columns if column.positions[row] >= 0]
        assert [*[n for n in prefix[row].tolist() if n >= 0], *ids] == [*h.ids, *([EOS] if h.finished else [])]
    assert stream.resume_state is not None and expected.resume_state is not None and stream.interrupted is not None
    assert not stream.interrupted.any()
    for one, other in ((stream.resume_state, expected.resume_state),):
        assert torch.equal(one.pending_tokens.ids, other.pending_tokens.ids)
        assert torch.equal(one.pending_tokens.positions, other.pending_tokens.positions)
        assert torch.equal(one.positions, other.positions)
    more = prompts([(4,), (4, 2), (3,)])
    again = [
        greedy_search(model.step, after.state, after.build_prompt(more), eos=EOS, max_new_tokens=5)
        for after in (stream.resume_state, expected.resume_state)
    ]
    same(*again)


def test_a_stream_that_is_told_to_stop_says_which_rows_were(history_model, prompts) -> None:
    model, told = history_model(9, seed=2, bias=2.0), Event()
    arguments = (model.step, model.init_state(KEYS), prompts(PROMPTS))
    stream = stream_samples(
        *arguments, sampler=GreedySampler(), stop=StopOnToken(EOS), max_new_tokens=12, until=told.is_set
    )
    columns = [next(stream), next(stream), next(stream)]
    told.set()
    assert next(stream, None) is None
    ended = [any(int(column.ids[row]) == EOS for column in columns) for row in range(7)]
    assert stream.interrupted is not None
    assert stream.interrupted.tolist() == [not each for each in ended]
    assert len(set(ended)) == 2


def test_deadlines_pass() -> None:
    assert Deadline.from_seconds(-1.0)()
    assert not Deadline.from_seconds(600.0)()


def test_samples_may_have_a_deadline(history_model, prompts) -> None:
    model = history_model(9)
    found = sampling_search(
        model.step,
        model.init_state([5]),
        prompts([(0,)]),
        eos=EOS,
        max_new_tokens=9,
        sampler=GreedySampler(),
        until=Deadline.from_seconds(-1.0),
    )
    assert found[0][0].interrupted and found[0][0].ids == ()


@pytest.mark.parametrize("name", SEARCHES)
def test_written_tokens_are_of_the_segment_of_the_last_one_given(history_model, prompts, name) -> None:
    """Whoever is speaking goes on; the other one's words are given with the next turn."""
    model, seen = history_model(9, seed=2, bias=1.0), {}

    def step(tokens: Tokens, state: Any) -> Any:
        assert tokens.segments is not None
        for row, key in enumerate(state[0].keys.tolist()):
            real = tokens.positions[row] >= 0
            for place, segment in zip(
                tokens.positions[row, real].tolist(), tokens.segments[row, real].tolist(), strict=True
            ):
                assert seen.setdefault((key, place), segment) == segment
        return model.step(tokens, state)

    keys, prefix = [5, 2], torch.tensor([[4], [-1]])
    given = {"max_new_tokens": torch.tensor([6, 4]), "prefix": prefix, "rng_streams": streams(2)}
    plain = prompts([(0, 4, 2), (0, 3)])  # the second padded on the left
    prompt = Tokens(plain.ids, plain.positions, torch.tensor([[0, 0, 1], [0, 1, 0]]))
    found = SEARCHES[name].decode_with_state(step, model.init_state(keys), prompt, **given)
    assert [seen[5, place] for place in range(4)] == [0, 0, 1, 1]
    assert all(segment == 1 for (key, place), segment in seen.items() if key == 5 and place > 1)
    assert [seen[2, place] for place in (0, 1)] == [1, 0]
    assert all(segment == 0 for (key, place), segment in seen.items() if key == 2 and place > 0)
    assert found.resume_state is not None and found.resume_state.pending_tokens.segments is not None
    rows = len(found.resume_state.positions)
    after, words = found.resume_state, prompts([(4, 4)] * rows)
    following = after.build_prompt(Tokens(words.ids, words.positions, torch.full_like(words.ids, 7)))
    assert following.segments is not None
    assert following.segments[:, 0].tolist() == after.pending_tokens.segments[:, 0].tolist()
    assert (following.segments[:, 1:] == 7).all()
    unsaid = after.build_prompt(words).segments
    assert unsaid is not None and not unsaid[:, 1:].any()


def test_a_stream_has_segments_too(history_model, prompts) -> None:
    model, plain = history_model(9, seed=2), prompts([(0, 4)])
    prompt = Tokens(plain.ids, plain.positions, torch.tensor([[0, 3]]))
    stream = stream_samples(
        model.step, model.init_state([5]), prompt, sampler=GreedySampler(), stop=StopOnToken(EOS), max_new_tokens=3
    )
    for column in stream:
        assert column.segments is not None and column.segments.tolist() == [[3]]
    assert stream.resume_state is not None and stream.resume_state.pending_tokens.segments is not None
    assert stream.resume_state.pending_tokens.segments.tolist() == [[3]]
