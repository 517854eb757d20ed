"""Searches in native code find what searches in tensors find."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from heedful.architectures.build import (
    DataSizes,
    build_conditional_model,
    build_language_model,
    build_sequence_to_sequence,
)
from heedful.architectures.model import ConditionalModelConfig, LanguageModelConfig, ModelConfig
from heedful.engines.native.stack import replace_with_native
from heedful.generation import (
    AverageLength,
    GNMTLengthPenalty,
    MinimumLength,
    MinNewTokens,
    MultinomialSampler,
    NoLengthPenalty,
    NoRepeatNGram,
    RepetitionPenalty,
    RollingContextEngine,
    SuppressTokens,
    TopKFilter,
    decode_batch,
    native_kernels,
)
from heedful.generation.lexical_constraints import LexicalConstraints
from heedful.generation.logits_masks import SuppressAtStart
from heedful.generation.penalties import CountPenalty
from heedful.generation.prefill import GenerationRequest, StopOnToken
from heedful.generation.results import Hypotheses
from heedful.generation.samplers import GreedySampler
from heedful.generation.sampling import stream_samples
from heedful.generation.search import BeamSearch, DiverseBeamSearch, GreedySearch, SamplingSearch, SearchStrategy
from heedful.generation.topk import compute_logsumexp, top_k
from heedful.tensors import GreedySteps, Tokens

WORDS, EOS = 70, 2


def in_tensors(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(native_kernels, "find_library_for", lambda _: None)
        return call()


def strange(rows: int, columns: int) -> Tensor:
    """Numbers with many ties, both infinities and what is no number."""
    x = torch.randint(-3, 4, (rows, columns)).float() / 2
    kinds = torch.rand(rows, columns)
    x[kinds < 0.1] = -math.inf
    x[(kinds > 0.1) & (kinds < 0.12)] = 0.0
    x[(kinds > 0.12) & (kinds < 0.14)] = -0.0
    x[::3][kinds[::3] > 0.99] = math.nan
    x[1::3][kinds[1::3] > 0.99] = math.inf
    return x


@pytest.mark.parametrize("columns", [1, 5, 63, 64, 65, 300])
@pytest.mark.parametrize("width", [0, 1, 4])
def test_the_largest_are_the_largest(library: Any, monkeypatch: pytest.MonkeyPatch, columns: int, width: int) -> None:
    x = strange(12, columns)
    offsets = torch.randint(-2, 2, (12 // width, width)).float() if width else None
    for k in (1, 2, 10, 64):
        found = top_k(x, k, offsets=offsets)
        expected = in_tensors(monkeypatch, lambda k=k: top_k(x, k, offsets=offsets))
        torch.testing.assert_close(found.values, expected.values, equal_nan=True)
        if k > 1 or offsets is not None:  # one is found by another rule where there is no number
            assert torch.equal(found.ids, expected.ids)
            assert torch.equal(found.members, expected.members)


def test_zeros_are_equal_whatever_their_signs(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum is -0 only where both numbers are; of equal ones the first is taken."""
    x = torch.tensor([[-0.0, 0.0, -0.0, 0.0, -1.0], [-0.0, -0.0, 0.0, -1.0, 0.0]])
    offsets = torch.tensor([[-0.0, -0.0]])
    for k in (2, 3, 7):
        found = top_k(x, k, offsets=offsets)
        assert found.ids.tolist() == [[0, 1, 2, 3, 0, 1, 2][:k]]
        assert found.members.tolist() == [[0, 0, 0, 0, 1, 1, 1][:k]]
        expected = in_tensors(monkeypatch, lambda k=k: top_k(x, k, offsets=offsets))
        assert torch.equal(found.ids, expected.ids)


def test_groups_are_counted_whose_rows_are_all_done(library: Any) -> None:
    rows, no, yes = 8, False, True
    done = torch.tensor([yes, no, no, no, yes, yes, no, no])
    ended = torch.tensor([no, no, no, yes, no, no, yes, yes])
    numbers = torch.arange(rows)
    after, _, at, counts = native_kernels.update_rows(
        library,
        torch.zeros(rows, 5),
        torch.zeros(rows),
        sampled_ids=torch.ones(rows, dtype=torch.long),
        has_ended=ended,
        limits=torch.full((rows,), 99),
        fields_before=(numbers, numbers, done),
        num_samples=2,
    )
    assert after[2].tolist() == [yes, no, no, yes, yes, yes, yes, yes]
    assert at.tolist() == [-1, 1, 2, 3, -1, -1, 6, 7]
    assert counts == [2, -1], "the last two groups of four"


@pytest.mark.parametrize("columns", [1, 4, 15, 16, 17, 1000])
def test_normalisers_add_up_to_one(library: Any, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    x = torch.cat((strange(9, columns), torch.randn(4, columns) * 30, torch.full((1, columns), -math.inf)))
    x = torch.cat((x, torch.full((1, columns), math.inf), torch.full((1, columns), math.nan)))
    found = compute_logsumexp(x)
    torch.testing.assert_close(found.double(), x.double().logsumexp(1), rtol=1e-6, atol=2e-6, equal_nan=True)


class Flatter:
    """A penalty that every token feels, so that what is ranked by is never what the model says."""

    def init_state(self, tokens: Tokens, *, vocab_size: int) -> None:
        """Nothing is remembered."""

    def __call__(self, logits: Tensor, state: None) -> Tensor:
        return logits / 2

    def extend(self, state: None, ids: Tensor) -> None:
        """Likewise."""


SEARCHES: list[SearchStrategy] = [
    GreedySearch(EOS),
    GreedySearch(EOS, (SuppressTokens((5, 6)), MinimumLength(3, EOS)), (RepetitionPenalty(1.5),)),
    *(
        BeamSearch(EOS, width, penalty, n_best)
        for width, penalty, n_best in (
            (1, NoLengthPenalty(), 1),
            (2, AverageLength(), 1),
            (5, AverageLength(), 5),
            (6, GNMTLengthPenalty(0.6), 1),
            (4, GNMTLengthPenalty(-0.5), 2),
        )
    ),
    BeamSearch(EOS, 3, GNMTLengthPenalty(1.0), 2, (SuppressTokens((5, 6)),), None, (RepetitionPenalty(1.5),)),
    BeamSearch(EOS, 40, NoLengthPenalty(), 3),
    DiverseBeamSearch(EOS, 6, 3, 0.7, GNMTLengthPenalty(0.6), 6),
    DiverseBeamSearch(EOS, 4, 2, 2.0, NoLengthPenalty(), 2, (SuppressTokens((5, 6)),), (RepetitionPenalty(1.5),)),
    BeamSearch(EOS, 3, NoLengthPenalty(), 1, (), None, (Flatter(),)),
    SamplingSearch(EOS, MultinomialSampler(0.8, (TopKFilter(9),), seed=4), 3),
]


def step(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """Logits that depend on all that was read, a hash of which is the state; few words are probable, so that hypotheses
    that are longer may still win."""
    logits = []
    for column, position in zip(tokens.ids.unbind(1), tokens.positions.unbind(1), strict=True):
        state = torch.where(position >= 0, (state * 31 + column * 7 + position) % 1009, state)
        angle = state.unsqueeze(1) * (1 + torch.arange(WORDS)) * 0.37
        ends = 2 * (torch.arange(WORDS) == EOS) * (state % 3 == 0).unsqueeze(1)
        logits.append(6 * angle.sin() + ends - 30 * (torch.arange(WORDS) > 5))
    return torch.stack(logits, 1), state


def searched(search: SearchStrategy) -> list[Hypotheses]:
    rows = 60
    prompt = Tokens(torch.ones(rows, 1, dtype=torch.long), torch.zeros(rows, 1, dtype=torch.long))
    prefix = torch.tensor([[4, 7], [9, -1], [-1, -1]] * 20)
    limit = torch.tensor([1, 9, 12, 3, 2, 25] * 10)
    found = search(
        step, torch.arange(rows) * 13, prompt, max_new_tokens=limit, prefix=prefix, rng_streams=torch.arange(rows) + 5
    )
    return list(found)


@pytest.mark.parametrize(
    "search", SEARCHES, ids=lambda search: f"{type(search).__name__}-{getattr(search, 'width', 1)}"
)
def test_hypotheses_are_the_same(library: Any, monkeypatch: pytest.MonkeyPatch, search: SearchStrategy) -> None:
    found, expected = searched(search), in_tensors(monkeypatch, lambda: searched(search))
    assert [[each.ids for each in row] for row in found] == [[each.ids for each in row] for row in expected]
    for mine, others in zip(found, expected, strict=True):
        for each, other in zip(mine, others, strict=True):
            assert each.finished == other.finished
            assert each.score == pytest.approx(other.score, rel=1e-5, abs=1e-5)
            assert each.log_probability == pytest.approx(other.log_probability, rel=1e-5, abs=1e-5)


def test_limits_may_be_a_column_of_a_table(library: Any) -> None:
    """What is not side by side in memory is copied, and the copy is there as long as it is read."""
    rows = 60
    prompt = Tokens(torch.ones(rows, 1, dtype=torch.long), torch.zeros(rows, 1, dtype=torch.long))
    limits, search = torch.tensor([[7, 3], [8, 9], [9, 12]] * 20), SamplingSearch(EOS, MultinomialSampler(seed=2))
    for limit in limits.unbind(1):
        found = search(
            step, torch.arange(rows), prompt, max_new_tokens=limit, prefix=None, rng_streams=torch.arange(rows)
        )
        assert all(len(each[0].ids) <= most for each, most in zip(found, limit.tolist(), strict=True))


@pytest.mark.parametrize("width", [1, 4])
def test_terms_and_bans_are_the_same(library: Any, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    prompt = Tokens(torch.ones(20, 1, dtype=torch.long), torch.zeros(20, 1, dtype=torch.long))
    terms = LexicalConstraints(tuple(((5, 3), (4,)) if row % 3 else () for row in range(20)), frozenset({3}))
    request = GenerationRequest(prompt, 14, constraints=terms, logits_masks=(MinNewTokens(EOS, tuple(range(20))),))
    search = BeamSearch(EOS, width, GNMTLengthPenalty(0.6), width, logits_masks=(NoRepeatNGram(3, exempt_ids=(EOS,)),))

    def found() -> Hypotheses:
        return search.decode_request(step, torch.arange(20) * 13, request).hypotheses

    mine, others = found(), in_tensors(monkeypatch, found)
    assert [[each.ids for each in row] for row in mine] == [[each.ids for each in row] for row in others]
    assert any(each.finished for row in mine for each in row)


def test_a_row_without_a_token_is_an_error_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.errors import RunError

    everything, told = GreedySearch(EOS, (SuppressTokens(tuple(range(WORDS))),)), []
    for search in (lambda: searched(everything), lambda: in_tensors(monkeypatch, lambda: searched(everything))):
        with pytest.raises(RunError) as raised:
            search()
        told.append(str(raised.value))
    assert told[0] == told[1]


def models() -> dict[str, Any]:
    """Engines of native code that write: given a source, given nothing, and with a longest context."""
    torch.manual_seed(5)
    table = {"kind": "transformer", "d_model": 12, "heads": 2, "layers": 2, "positions": {"kind": "rotary"}}
    language = TypeAdapter(LanguageModelConfig).validate_python(table)
    config = TypeAdapter(ModelConfig).validate_python({**table, "d_ff": 20})
    prompted = TypeAdapter(ConditionalModelConfig).validate_python({"kind": "decoder_only", "decoder": table})
    found = {
        "translator": build_sequence_to_sequence(config, DataSizes(WORDS, WORDS, 30)),
        "writer": build_language_model(language, vocabulary=WORDS),
        "decoder-only": build_conditional_model(prompted, DataSizes(WORDS, WORDS, 60)),
    }
    for model in found.values():
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.9)
        assert replace_with_native(model.eval())
    return {**found, "windowed": RollingContextEngine(found["writer"], max_context=9, kept_tokens=4)}


RULES: dict[str, dict[str, Any]] = {
    "none": {},
    "penalty": {"penalties": (RepetitionPenalty(3.0),)},
    "mask": {"logits_masks": (NoRepeatNGram(2),)},
    "both": {"penalties": (RepetitionPenalty(0.5, (5, 6)),), "logits_masks": (NoRepeatNGram(3, (5, 6)),)},
}


@pytest.mark.parametrize("width", [0, 1, 4], ids=["greedy", "beam-1", "beam-4"])
@pytest.mark.parametrize("name", ["translator", "writer", "decoder-only", "windowed"])
@pytest.mark.parametrize(
    "case", [(1, "none"), (3, "none"), (20, "none"), (3, "penalty"), (20, "mask"), (20, "both")], ids=str
)
@torch.inference_mode()
def test_several_steps_in_one_call_find_the_same(
    library: Any, monkeypatch: pytest.MonkeyPatch, name: str, case: tuple[int, str], width: int
) -> None:
    (rows, rules), engine = case, models()[name]
    source = None if name in ("writer", "windowed") else Tokens.from_ids(torch.randint(3, WORDS, (rows, 4)), pad=0)
    prompt = Tokens.from_ids(torch.randint(3, WORDS, (rows, 3)), pad=0)
    limit = torch.randint(6, 25, (rows,))
    calls = []

    def searched(ahead: int, *, eos: int, forbidden: tuple[int, ...]) -> Any:
        monkeypatch.setattr(decode_batch, "_LOOKAHEAD_TOKENS", ahead)
        monkeypatch.setattr(decode_batch, "_MIN_LOOKAHEAD_STEPS", 0)
        step = engine.step
        # what matters is the last that is forbidden and, with three rows, the only one
        filters = (SuppressTokens(forbidden), *([] if rows == 3 else [SuppressTokens((0, 1))]))
        search: Any = GreedySearch(eos, filters, **RULES[rules])
        if width:
            search = BeamSearch(eos, width, GNMTLengthPenalty(0.6), width, filters, **RULES[rules])
        first = search.decode_with_state(
            step, engine.init_state(source), prompt, max_new_tokens=limit, prefix=None, rng_streams=torch.arange(rows)
        )
        count = len(first.resume_state.positions)
        again = torch.ones(count, 1, dtype=torch.long)
        more = search(
            step,
            first.resume_state.state,
            first.resume_state.build_prompt(Tokens(again, torch.zeros_like(again))),
            max_new_tokens=torch.full((count,), 4),
            prefix=None,
            rng_streams=torch.arange(count),
        )
        return [*first.hypotheses, *more]

    decode = type(engine).decode_steps
    monkeypatch.setattr(type(engine), "decode_steps", lambda *a, **b: calls.append(decode(*a, **b)) or calls[-1])
    usual = [row[0].ids for row in searched(0, eos=0, forbidden=())]
    second = max((ids[1] for ids in usual if len(ids) > 1), default=usual[0][0])
    # what would be written, so that it matters; and so with what ends a row
    forbidden = (second if rows == 3 else usual[0][0],)
    usual = [row[0].ids for row in searched(0, eos=0, forbidden=forbidden)]
    latest, eos = max((at, ids[at]) for ids in usual for at in range(len(ids)) if ids[at] not in ids[:at])
    eos = eos if latest else EOS
    expected = searched(0, eos=eos, forbidden=forbidden)
    assert not calls
    found = searched(640, eos=eos, forbidden=forbidden)
    is_supported = not (name == "windowed" and width)  # beams are not decoded ahead in a context that moves on
    assert any(call is not None for call in calls) == is_supported, "or nothing is compared"
    for mine, others in zip(found, expected, strict=True):
        for one, other in zip(mine, others, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, rel=1e-4, abs=1e-4)
            assert one.score == pytest.approx(other.score, rel=1e-4, abs=1e-4)
            equal = [each for each in others if each.score == pytest.approx(one.score, rel=1e-4, abs=1e-4)]
            assert (one.ids, one.finished) in [(each.ids, each.finished) for each in equal], "in any order"


@torch.inference_mode()
def test_several_steps_in_one_call_are_for_searches_that_engines_know(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = models()["writer"]
    monkeypatch.setattr(
        type(engine), "decode_steps", lambda *_, **__: pytest.fail("the engine does not know the search")
    )
    prompt = Tokens(torch.ones(1, 1, dtype=torch.long), torch.zeros(1, 1, dtype=torch.long))
    for search, options in (
        (GreedySearch(EOS, (MinimumLength(3, EOS),)), {}),
        (GreedySearch(EOS, (), (CountPenalty(0.5),)), {}),
        (GreedySearch(EOS, (), (RepetitionPenalty(1.5), RepetitionPenalty(2.0))), {}),
        (GreedySearch(EOS, (), (RepetitionPenalty(1.5),), (NoRepeatNGram(2, (EOS,)),)), {}),
        (GreedySearch(EOS), {"until": lambda: False}),
        (SamplingSearch(EOS, MultinomialSampler(), 2), {}),
        (BeamSearch(EOS, 2, NoLengthPenalty(), filters=(MinimumLength(3, EOS),)), {}),
        (BeamSearch(EOS, 2, NoLengthPenalty(), on_step=lambda _: None), {}),
        (BeamSearch(EOS, 2, NoLengthPenalty(), penalties=(CountPenalty(0.5),)), {}),
        (BeamSearch(EOS, 2, NoLengthPenalty(), logits_masks=(SuppressAtStart((4,)),)), {}),
        (BeamSearch(EOS, 33, NoLengthPenalty()), {}),
        (DiverseBeamSearch(EOS, 4, 2, 0.5, NoLengthPenalty()), {}),
    ):
        search(
            engine.step,
            engine.init_state(),
            prompt,
            max_new_tokens=torch.tensor([5]),
            prefix=None,
            rng_streams=torch.arange(1),
            **options,
        )
    tokens = stream_samples(
        engine.step, engine.init_state(), prompt, sampler=GreedySampler(), stop=StopOnToken(EOS), max_new_tokens=5
    )
    assert len(list(tokens)) <= 5


@torch.inference_mode()
def test_too_few_positions_are_no_error() -> None:
    """Rows may end before they come to it, so it is no error that they could."""
    config = TypeAdapter(LanguageModelConfig).validate_python(
        {"kind": "transformer", "d_model": 12, "heads": 2, "layers": 1, "positions": {"kind": "learned", "length": 8}}
    )
    engine = build_language_model(config, vocabulary=WORDS).eval()
    replace_with_native(engine)
    tokens = Tokens(torch.full((1, 1), 5), torch.zeros(1, 1, dtype=torch.long))
    _, state = engine.step(tokens, engine.init_state())
    numbers = torch.tensor([1])
    steps = GreedySteps(numbers + 19, EOS, torch.tensor([0]), 12, None, numbers, numbers, numbers < 0)
    assert engine.decode_steps(Tokens(tokens.ids, tokens.positions + 1), state, search=steps) is None
    logits, _ = engine.step(Tokens(tokens.ids, tokens.positions + 1), state)
    assert bool(logits.isfinite().all())
