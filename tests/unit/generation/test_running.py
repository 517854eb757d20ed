"""Sentences that join and leave a search at any step get what they get alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.errors import RunError
from heedful.generation import (
    GNMTLengthPenalty,
    Hypothesis,
    MinNewTokens,
    MultinomialSampler,
    NoRepeatNGram,
    RepetitionPenalty,
    StopOnToken,
    SuppressTokens,
    TopKFilter,
)
from heedful.generation.continuous_batch import ContinuousBatch, FinishedRequest, _concat_tokens
from heedful.generation.decode_batch import BatchableSearch
from heedful.generation.prefill import GenerationRequest
from heedful.generation.results import ResumeState
from heedful.generation.search import BeamSearch, GreedySearch, SamplingSearch
from heedful.tensors import Tokens

EOS = 1
VOCABULARY = 9
SEARCHES: dict[str, tuple[BatchableSearch, ...]] = {
    "greedy": (GreedySearch(EOS), GreedySearch(EOS, (SuppressTokens((3, 4)),))),
    "sampling": (
        SamplingSearch(EOS, MultinomialSampler(seed=3)),
        SamplingSearch(EOS, MultinomialSampler(0.7, (TopKFilter(4),), seed=5)),
        GreedySearch(EOS, penalties=(RepetitionPenalty(1.4),)),
    ),
    "samples": (SamplingSearch(EOS, MultinomialSampler(seed=3), 3), BeamSearch(EOS, 3, GNMTLengthPenalty(0.6), 2)),
    "beams": (
        BeamSearch(EOS, 4, GNMTLengthPenalty(0.6), 3),
        BeamSearch(EOS, 4, GNMTLengthPenalty(1.0), 1, logits_masks=(NoRepeatNGram(2),)),
        BeamSearch(EOS, 4, GNMTLengthPenalty(0.0), 4, penalties=(RepetitionPenalty(1.2),)),
    ),
}


@dataclass(frozen=True)
class Sentence:
    """What is asked for one sentence, and when."""

    key: int
    at: int
    search: BatchableSearch
    limit: int
    stream: int
    prefix: tuple[int, ...]
    bans: bool = False
    stop: bool = False


def request(sentences: Sequence[Sentence]) -> GenerationRequest:
    count = len(sentences)
    longest = max(len(each.prefix) for each in sentences)
    prefix = [[*each.prefix, *[-1] * (longest - len(each.prefix))] for each in sentences]
    return GenerationRequest(
        Tokens(torch.zeros(count, 1, dtype=torch.long), torch.zeros(count, 1, dtype=torch.long)),
        torch.tensor([each.limit for each in sentences]),
        torch.tensor(prefix) if longest else None,
        torch.tensor([each.stream for each in sentences]),
        StopOnToken(5) if sentences[0].stop else None,
        logits_masks=(MinNewTokens(EOS, (3,) * count),) if sentences[0].bans else (),
    )


def alone(model: Any, sentence: Sentence) -> list[Hypothesis]:
    return sentence.search.decode_request(model.step, model.init_state([sentence.key]), request([sentence])).hypotheses[
        0
    ]


def drawn(searches: Sequence[BatchableSearch], *, seed: int, count: int = 24) -> list[Sentence]:
    dice = random.Random(seed)
    made = []
    for key in range(count):
        limit = dice.choice((1, 3, 12, 12, 25))
        prefix = tuple(dice.choices(range(2, VOCABULARY), k=dice.choice((0, 0, 1, min(2, limit)))))
        extra = dice.random()
        search = dice.choice(searches)
        made.append(
            Sentence(key, dice.randrange(14), search, limit, key + 1, prefix, bans=extra < 0.15, stop=extra > 0.85)
        )
    return made


def together(model: Any, sentences: Sequence[Sentence], *, width: int) -> dict[int, list[Hypothesis]]:
    """Each admitted at its step, those that are asked alike as one."""
    running, owners, found = ContinuousBatch(model.step, width=width), {}, {}

    def leave(left: Sequence[FinishedRequest]) -> None:
        for each in left:
            assert each.error is None
            found[owners[each.request_id]] = list(each.hypotheses)

    for step in range(200):
        groups: dict[Any, list[Sentence]] = {}
        for each in sentences:
            if each.at == step:
                groups.setdefault((id(each.search), each.bans, each.stop), []).append(each)
        for own in groups.values():
            tickets, left = running.add_requests(
                model.init_state([each.key for each in own]), request(own), own[0].search
            )
            owners.update(zip(tickets, (each.key for each in own), strict=True))
            leave(left)
        leave(running.step())
        if step > 14 and not len(running):
            break
    assert not len(running)
    return found


def same(one: Sequence[Hypothesis], other: Sequence[Hypothesis]) -> bool:
    return len(one) == len(other) and all(
        a.ids == b.ids
        and (a.finished, a.interrupted) == (b.finished, b.interrupted)
        and a.score == pytest.approx(b.score, abs=1e-9)
        and a.log_probability == pytest.approx(b.log_probability, abs=1e-9)
        and a.token_log_probabilities == pytest.approx(b.token_log_probabilities, abs=1e-9)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SEARCHES)
def test_company_changes_nothing(name: str, seed: int, history_model: Callable[..., Any]) -> None:
    model = history_model(VOCABULARY, seed=seed, eos=EOS)
    sentences = drawn(SEARCHES[name], seed=seed)
    width = 3 if name == "samples" else 4 if name == "beams" else 1
    found = together(model, sentences, width=width)
    assert found.keys() == {each.key for each in sentences}
    for each in sentences:
        assert same(found[each.key], alone(model, each)), each


def test_rows_are_shared(history_model: Callable[..., Any]) -> None:
    """What is asked at different times is read by the model in one step."""
    model = history_model(VOCABULARY, seed=1, eos=EOS, bias=-50.0)
    running = ContinuousBatch(model.step, width=1)
    for key in range(4):
        running.add_requests(
            model.init_state([key]), request([Sentence(key, 0, GreedySearch(EOS), 20, 1, ())]), GreedySearch(EOS)
        )
        running.step()
    model.rows_stepped.clear()
    running.step()
    assert model.rows_stepped == [4]
    running.abort([0, 2])
    assert len(running) == 2
    running.step()
    assert model.rows_stepped == [4, 2], "those who left take no place any more"


def test_who_leaves_harms_nobody(history_model: Callable[..., Any]) -> None:
    model = history_model(VOCABULARY, seed=2, eos=EOS)
    sentences = [replace(each, at=0, bans=False, stop=False) for each in drawn([SEARCHES["beams"][0]], seed=9, count=8)]
    running = ContinuousBatch(model.step, width=4)
    tickets, left = running.add_requests(
        model.init_state([each.key for each in sentences]), request(sentences), sentences[0].search
    )
    found = {each.request_id: each.hypotheses for each in left}
    for step in range(60):
        if step == 2:
            running.abort(list(tickets)[:3])
        found.update({each.request_id: each.hypotheses for each in running.step()})
    assert not len(running)
    stayed = [ticket for ticket in tickets if ticket in found]
    assert set(list(tickets)[3:]) <= set(stayed)
    for ticket in stayed:
        assert same(found[ticket], alone(model, sentences[ticket]))


def test_a_search_that_is_told_to_end_gives_what_it_has(history_model: Callable[..., Any]) -> None:
    model = history_model(VOCABULARY, seed=2, eos=EOS, bias=-50.0)
    over = False
    asked = replace(request([Sentence(7, 0, GreedySearch(EOS), 30, 1, ())]), until=lambda: over)
    running = ContinuousBatch(model.step, width=1)
    running.add_requests(model.init_state([7]), asked, GreedySearch(EOS))
    running.add_requests(
        model.init_state([8]), request([Sentence(8, 0, GreedySearch(EOS), 30, 1, ())]), GreedySearch(EOS)
    )
    running.step()
    over = True
    (left,) = running.step()
    assert (left.request_id, left.hypotheses[0].interrupted, len(left.hypotheses[0].ids)) == (0, True, 2)
    assert len(running) == 1


@pytest.mark.parametrize(
    "search", [GreedySearch(EOS), BeamSearch(EOS, 3, GNMTLengthPenalty(0.6), 1)], ids=["greedy", "beam"]
)
def test_the_best_so_far_becomes_the_answer(search: BatchableSearch, history_model: Callable[..., Any]) -> None:
    model = history_model(VOCABULARY, seed=4, eos=EOS, bias=-4.0)
    running = ContinuousBatch(model.step, width=1 if isinstance(search, GreedySearch) else 3)
    tickets, left = running.add_requests(model.init_state([5]), request([Sentence(5, 0, search, 12, 1, (3,))]), search)
    seen = [running.partial_outputs(tickets)]
    while not left:
        left = running.step()
        seen.append(running.partial_outputs(tickets))
    answer = list(left[0].hypotheses[0].ids)
    texts = [each[0] for each in seen if each]
    assert texts and all(text[0] == 3 for text in texts), "a forced prefix is a part of it"
    assert running.partial_outputs(tickets) == {}
    assert len({len(text) for text in texts}) > 3, "it grows, whatever ended early and is worse"
    if isinstance(search, GreedySearch):
        assert all(answer[: len(text)] == text for text in texts)
        assert [len(text) for text in texts] == list(range(2, len(texts) + 2))


def test_what_ended_early_and_is_worse_hides_nothing() -> None:
    """A beam keeps what has ended, however bad it is, until something better has."""
    chances = torch.tensor([0.01, 0.15, 0.5, 0.34]).log().double()

    def step(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
        return chances.expand(*tokens.ids.shape, -1).clone(), state

    search = BeamSearch(EOS, 3, GNMTLengthPenalty(1.0), 1)
    running = ContinuousBatch(step, width=3)
    asked = request([Sentence(0, 0, search, 5, 1, ())])
    (ticket,), _ = running.add_requests(torch.zeros(1), asked, search)
    seen = [running.partial_outputs([ticket])[ticket]]
    for _ in range(3):
        running.step()
        seen.append(running.partial_outputs([ticket])[ticket])
    assert seen == [[2], [2, 2], [2, 2, 2], [2, 2, 2, 2]]


def test_where_nothing_may_follow_only_that_party_fails(history_model: Callable[..., Any]) -> None:
    model = history_model(VOCABULARY, seed=4, eos=EOS, bias=-50.0)
    stuck = GreedySearch(EOS, (SuppressTokens(tuple(range(VOCABULARY))),))
    running = ContinuousBatch(model.step, width=1)
    running.add_requests(
        model.init_state([1]), request([Sentence(1, 0, GreedySearch(EOS), 9, 1, ())]), GreedySearch(EOS)
    )
    _, left = running.add_requests(model.init_state([2]), request([Sentence(2, 0, stuck, 9, 1, ())]), stuck)
    assert [(each.request_id, isinstance(each.error, RunError)) for each in left] == [(1, True)]
    assert len(running) == 1
    found: list[FinishedRequest] = []
    while len(running):
        found += running.step()
    assert same(found[0].hypotheses, alone(model, Sentence(1, 0, GreedySearch(EOS), 9, 1, ())))


def test_it_does_not_grow(history_model: Callable[..., Any]) -> None:
    """A search that never ends holds no more than those who are in it."""
    model = history_model(VOCABULARY, seed=6, eos=EOS)
    search, running, sizes = SEARCHES["beams"][0], ContinuousBatch(model.step, width=4), []
    for key in range(120):
        running.add_requests(model.init_state([key]), request([Sentence(key, 0, search, 12, 1, ())]), search)
        running.step()
        sizes.append(_numbers(running))
    assert max(sizes[60:]) <= max(sizes[:60]) * 1.5


def _numbers(running: ContinuousBatch) -> int:
    def held(value: Any) -> int:
        if isinstance(value, Tensor):
            return value.numel()
        if isinstance(value, tuple | list):
            return sum(map(held, value))
        return sum(map(held, vars(value).values())) if hasattr(value, "__dict__") and not callable(value) else 0

    return sum(held(table.batch) for table in running._entries)


def test_tokens_without_segments_get_segment_0_beside_others() -> None:
    ids, places = torch.tensor([[5], [6]]), torch.tensor([[3], [-1]])
    plain, parted = Tokens(ids, places), Tokens(ids + 2, places + 1, torch.tensor([[2], [4]]))
    for parts, wanted in (([plain, parted], [0, 0, 2, 4]), ([parted, plain], [2, 4, 0, 0])):
        found = _concat_tokens(parts)
        assert found.segments is not None
        assert found.segments.flatten().tolist() == wanted
        assert found.ids.tolist() == [row for part in parts for row in part.ids.tolist()]
    assert _concat_tokens([plain, plain]).segments is None


@pytest.mark.parametrize("behind", [True, False])
def test_a_prompt_behind_tokens_without_segments_leaves_these_segment_0(behind: bool) -> None:
    ids, places, segments = torch.tensor([[5], [6]]), torch.tensor([[0], [0]]), torch.tensor([[2], [4]])
    plain, parted = Tokens(ids, places), Tokens(ids, places, segments)
    unread, tokens = (plain, parted) if behind else (parted, plain)
    found = ResumeState(None, unread, torch.tensor([1, 1])).build_prompt(tokens)
    assert found.segments is not None
    assert found.segments.tolist() == ([[0, 2], [0, 4]] if behind else [[2, 0], [4, 0]])
