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
from heedful.generation.beam_state import BeamStep, trace_beams
from heedful.generation.continuous_batch import ContinuousBatch, FinishedRequest, _concat_tokens
from heedful.generation.decode_batch import BatchableSearch, StepHistory
from heedful.generation.lexical_constraints import LexicalConstraints
from heedful.generation.prefill import GenerationRequest
from heedful.generation.results import ResumeState
from heedful.generation.search import BeamSearch, DiverseBeamSearch, GreedySearch, SamplingSearch
from heedful.tensors import Tokens, concat_rows, select_rows

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
    "groups": (
        DiverseBeamSearch(EOS, 4, 2, 0.6, GNMTLengthPenalty(0.6), 3),
        DiverseBeamSearch(EOS, 4, 4, 1.0, GNMTLengthPenalty(1.0), 2, penalties=(RepetitionPenalty(1.2),)),
        BeamSearch(EOS, 4, GNMTLengthPenalty(0.6), 3),
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
    found = together(model, sentences, width=SEARCHES[name][0].rows_per_sentence)
    assert found.keys() == {each.key for each in sentences}
    for each in sentences:
        assert same(found[each.key], alone(model, each)), each


def test_what_knows_its_own_rows_may_have_company(history_model: Callable[..., Any]) -> None:
    """Terms that must be written, a listener, and a state that is kept: each as in a search of its own."""
    model = history_model(VOCABULARY, seed=3, eos=EOS, bias=-1.0)
    plain = BeamSearch(EOS, 3, GNMTLengthPenalty(0.6), 2)
    terms = LexicalConstraints((((4, 5),), ((3,), (6, 2))))
    steps: list[tuple[list[int], list[list[int]]]] = []

    def listen(step: BeamStep) -> None:
        done = step.done.tolist()
        steps.extend(
            (number, ids)
            for number, ids, over in zip(step.sentence_indices.tolist(), step.ids.tolist(), done, strict=True)
            if not over
        )

    first, second = ([Sentence(key, 0, plain, 14, key, ()) for key in keys] for keys in ((1, 2), (3, 4)))
    asked = [
        (plain, replace(request(first), constraints=terms)),
        (replace(plain, on_step=listen), request(second)),
        (plain, replace(request(second), keep_state=True)),
        (SamplingSearch(EOS, MultinomialSampler(seed=3), 3), replace(request(first), keep_state=True)),
    ]
    keys = [[1, 2], [3, 4], [3, 4], [1, 2]]
    running, found, tickets = ContinuousBatch(model.step, width=3), dict[int, FinishedRequest](), []
    for (search, wish), own in zip(asked, keys, strict=True):
        ids, left = running.add_requests(model.init_state(own), wish, search)
        tickets.append(list(ids))
        found.update({each.request_id: each for each in [*left, *running.step()]})
    while len(running):
        found.update({each.request_id: each for each in running.step()})
    heard, steps = steps, []
    for (search, wish), own, ids in zip(asked, keys, tickets, strict=True):
        expected = search.decode_request(model.step, model.init_state(own), wish)
        for number, hypotheses in zip(ids, expected.hypotheses, strict=True):
            assert same(found[number].hypotheses, hypotheses)
        if expected.resume_state is not None:
            mine = concat_rows([found[number].resume_state for number in ids])
            assert torch.equal(mine.state[0].codes, expected.resume_state.state[0].codes)
            assert torch.equal(mine.positions, expected.resume_state.positions)
    assert sorted(heard) == sorted(steps) and heard


def test_who_cannot_begin_is_not_gone_on_with(history_model: Callable[..., Any]) -> None:
    """An error that is nobody's fault is raised, and leaves no sentence behind that nobody knows."""

    class Broken:
        def init_state(self, tokens: Tokens, *, vocab_size: int) -> None:
            """Nothing is remembered."""

        def __call__(self, logits: Tensor, state: None) -> Tensor:
            raise ValueError("broken")

        def extend(self, state: None, ids: Tensor) -> None:
            """Likewise."""

    model = history_model(VOCABULARY, seed=4, eos=EOS, bias=-50.0)
    sentence = Sentence(1, 0, GreedySearch(EOS), 9, 1, ())
    running = ContinuousBatch(model.step, width=1)
    running.add_requests(model.init_state([1]), request([sentence]), GreedySearch(EOS))
    with pytest.raises(ValueError, match="broken"):
        running.add_requests(model.init_state([2]), request([sentence]), GreedySearch(EOS, logits_masks=(Broken(),)))
    assert len(running) == 1
    (left,) = running.run()
    assert same(left.hypotheses, alone(model, sentence))


def test_steps_of_rows_that_come_and_go_are_kept() -> None:
    """Against lists: what each row was given since it came."""
    dice, texts = random.Random(5), [[], []]
    history = StepHistory.empty_like(torch.zeros(2, dtype=torch.long), torch.zeros(2, 3))
    for step in range(40):
        ids = torch.tensor([dice.randrange(99) for _ in texts])
        vectors = ids.unsqueeze(1) + torch.tensor([0.0, 0.5, 0.25])
        history = history.append((ids, vectors))
        texts = [[*text, number] for text, number in zip(texts, ids.tolist(), strict=True)]
        if step % 3 == 1:
            kept = sorted(dice.sample(range(len(texts)), k=max(1, len(texts) - dice.randrange(3))))
            history, texts = select_rows(history, torch.tensor(kept)), [texts[row] for row in kept]
        if step % 5 == 2:
            count, length = dice.randrange(1, 4), dice.randrange(3)
            columns = torch.full((count, length), step), torch.full((count, length, 3), float(step))
            newer = StepHistory.empty_like(columns[0].new_zeros(count), torch.zeros(count, 3)).extend(columns)
            history, texts = concat_rows([history, newer]), [*texts, *([step] * length for _ in range(count))]
            assert len(history) == max(map(len, texts)), "older steps are dropped with those who had them"
        assert history.counts.tolist() == list(map(len, texts))
        rows = torch.tensor(dice.sample(range(len(texts)), k=dice.randint(1, len(texts))))
        found, vectors = select_rows(history, rows).to_columns()
        for row, ids_of_row, first in zip(rows.tolist(), found.tolist(), vectors[:, :, 0].tolist(), strict=True):
            size = len(texts[row])
            assert ids_of_row[:size] == [int(number) for number in first[:size]] == texts[row]


def test_beams_are_traced_alike_by_lists_and_by_tensors() -> None:
    origins, ids = torch.randint(0, 4, (12, 9, 4)), torch.randint(0, 50, (12, 9, 4))
    values, beams, counts = torch.randn(12, 9, 4), torch.randint(0, 4, (12, 3)), torch.randint(0, 10, (12, 3))
    many = trace_beams(origins, ids, values, beams=beams, counts=counts)
    for row in range(12):
        few = trace_beams(*(part[row : row + 1] for part in (origins, ids, values)), beams=beams[row : row + 1],
                          counts=counts[row : row + 1])  # fmt: skip
        for number, count in enumerate(counts[row].tolist()):
            for one, other in zip(few, many, strict=True):
                assert torch.equal(one[0, number, :count], other[row, number, :count])


def test_samples_of_a_sentence_are_drawn_apart(history_model: Callable[..., Any]) -> None:
    model = history_model(VOCABULARY, seed=1, eos=EOS, bias=-50.0)
    search = SamplingSearch(EOS, MultinomialSampler(seed=4), num_samples=6)
    asked = request([Sentence(3, 0, search, 8, 1, ())])
    hypotheses = search.decode_request(model.step, model.init_state([3]), asked).hypotheses[0]
    assert len({sample.ids for sample in hypotheses}) == 6, "ids of eight tokens hardly ever agree"


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


def test_rows_of_a_sentence_that_fails_at_once_hold_ids_that_a_model_can_read(
    history_model: Callable[..., Any],
) -> None:
    model, sizes = history_model(VOCABULARY, seed=4, eos=EOS, bias=-50.0), list[int]()

    def step(tokens: Tokens, state: Any) -> Any:
        sizes.append(len(torch.nn.functional.one_hot(tokens.ids, VOCABULARY)))
        return model.step(tokens, state)

    stuck = GreedySearch(EOS, (SuppressTokens(tuple(range(VOCABULARY))),))
    sentences = [Sentence(key, 0, GreedySearch(EOS), 9, 1, ()) for key in range(9)]
    running = ContinuousBatch(step, width=1)
    running.add_requests(model.init_state(list(range(9))), request(sentences), GreedySearch(EOS))
    _, (failed,) = running.add_requests(model.init_state([9]), request([Sentence(9, 0, stuck, 9, 1, ())]), stuck)
    assert isinstance(failed.error, RunError)
    running.step()
    assert sizes[-1] == 10, "it is not dropped yet"


@pytest.mark.parametrize("kind", ["greedy", "beam"])
def test_an_error_in_the_middle_costs_nobody_what_had_ended(kind: str, history_model: Callable[..., Any]) -> None:
    """Eight sentences end early and leave; then nothing may follow in the others, whose ninth row has no numbers."""
    model = history_model(VOCABULARY, seed=4, eos=EOS, bias=-50.0)
    calls = []

    def step(tokens: Tokens, state: Any) -> Any:
        logits, state = model.step(tokens, state)
        calls.append(len(logits))
        return (torch.full_like(logits, float("nan")) if len(calls) > 5 else logits), state

    sentences = [Sentence(key, 0, GreedySearch(EOS), 3 if key < 8 else 12, 1, ()) for key in range(10)]
    search = GreedySearch(EOS) if kind == "greedy" else BeamSearch(EOS, 3, GNMTLengthPenalty(0.6), 1)
    running = ContinuousBatch(step, width=search.rows_per_sentence)
    running.add_requests(model.init_state(list(range(10))), request(sentences), search)
    found = {each.request_id: each for each in running.run()}
    assert sorted(found) == list(range(10)) and not len(running)
    for key in range(10):
        assert isinstance(found[key].error, RunError) == (key >= 8)
        if key < 8:
            assert len(found[key].hypotheses[0].ids) == 3


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
