"""Reading on where positions end, against cropping by hand."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from heedful.attention import LearnedPosition, MultiHeadAttention, ProjectionAggregation, causal
from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.residual import PreNorm
from heedful.blocks.transformer import TransformerLayer, TransformerStack
from heedful.errors import RecipeError
from heedful.generation import (
    MultinomialSampler,
    NoLengthPenalty,
    RepetitionPenalty,
    RollingContextEngine,
    beam_search,
    count_kept_tokens,
    greedy_search,
    sampling_search,
)
from heedful.models.generative import LanguageModel
from heedful.models.transformer import TransformerDecoder
from heedful.tensors import Tokens, concat_rows

LONGEST, VOCABULARY, EOS = 8, 11, 1


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    """GPT in small; a position beyond its table is an IndexError."""
    torch.manual_seed(5)
    layers = [
        TransformerLayer(
            MultiHeadAttention(12, 2, aggregation=ProjectionAggregation(12)),
            FeedForward(12, 24, activation=nn.GELU(), dropout=0.0),
            residual=lambda: PreNorm(12, 0.0),
        )
        for _ in range(2)
    ]
    embedding = TokenEmbedding(build_embedding(VOCABULARY, 12), position=LearnedPosition(LONGEST, 12))
    stack = TransformerStack(embedding, layers, visibility=causal, final_norm=nn.LayerNorm(12))
    made = LanguageModel(TransformerDecoder(stack), output=nn.Linear(12, VOCABULARY)).double().eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


@pytest.fixture(scope="module")
def parted(model: LanguageModel) -> LanguageModel:
    """The same with segments."""
    made = copy.deepcopy(model)
    embedding = next(module for module in made.modules() if isinstance(module, TokenEmbedding))
    embedding.segments = nn.Embedding(3, 12).double()
    nn.init.normal_(embedding.segments.weight, std=0.5)
    return made


def windowed(model: LanguageModel, kept: int | None = None) -> RollingContextEngine:
    return RollingContextEngine(model, max_context=LONGEST, kept_tokens=kept)


def cropped(ids: list[int], kept: int) -> list[int]:
    """What is still read of a text, by hand, one token after the other."""
    context: list[int] = []
    for token in ids:
        context.append(token)
        if len(context) > LONGEST:
            context = context[-kept:]
    return context


def by_hand(model: LanguageModel, ids: list[int], kept: int) -> torch.Tensor:
    """Logits after a text: what is left of it, read anew by a model without a cache."""
    context = torch.tensor([cropped(ids, kept)])
    return model.step(Tokens(context, torch.arange(context.size(1)).unsqueeze(0)), model.init_state())[0][0, -1]


def row(ids: list[int]) -> Tokens:
    return Tokens(torch.tensor([ids]), torch.arange(len(ids)).unsqueeze(0))


def in_one_batch(texts: list[list[int]], *, left: bool) -> Tokens:
    width = max(map(len, texts))
    ids, positions = torch.full((len(texts), width), 7), torch.full((len(texts), width), -1)
    for number, text in enumerate(texts):
        first = width - len(text) if left else 0
        ids[number, first : first + len(text)] = torch.tensor(text)
        positions[number, first : first + len(text)] = torch.arange(len(text))
    return Tokens(ids, positions)


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("kept", [1, 3, 4, 7, 8])
@pytest.mark.parametrize("chunks", [[29], [1] * 29, [5, 1, 8, 2, 9, 4]])
def test_any_chunks_equal_cropping_by_hand(model: LanguageModel, kept: int, chunks: list[int]) -> None:
    torch.manual_seed(kept)
    ids = torch.randint(2, VOCABULARY, (29,)).tolist()
    expected = torch.stack([by_hand(model, ids[: t + 1], kept) for t in range(29)])
    reader = windowed(model, kept)
    state, found, at = reader.init_state(), [], 0
    for size in chunks:
        logits, state = reader.step(row(ids).slice_columns(at, at + size), state)
        found.append(logits[0])
        at += size
    torch.testing.assert_close(torch.cat(found), expected)


TEXTS = [[2], [3, 4, 5], [6, 7, 8, 9, 10, 2, 3], [4] * 8, [5, 6, 7, 8, 9, 10, 2, 3, 4, 5, 6]]


@torch.no_grad()
@pytest.mark.parametrize("left", [True, False])
def test_greedy_search_in_a_batch_is_what_each_row_gives_by_hand(model: LanguageModel, left: bool) -> None:
    reader = windowed(model)
    limit = torch.tensor([30, 12, 25, 3, 18])
    found = greedy_search(reader.step, reader.init_state(), in_one_batch(TEXTS, left=left), eos=0, max_new_tokens=limit)
    for text, most, (h,) in zip(TEXTS, limit.tolist(), found, strict=True):
        ids = list(text)
        for _ in range(most):
            ids.append(int(by_hand(model, ids, LONGEST // 2).argmax()))
            if ids[-1] == 0:
                break
        assert (*h.ids, 0)[: len(ids) - len(text)] == tuple(ids[len(text) :])


class Forgetful:
    """Reads what is left of every text anew at each step."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def step(self, tokens: Tokens, state: object) -> tuple[torch.Tensor, object]:
        ids = torch.where(tokens.positions >= 0, tokens.ids, -1)
        past = ids if state is None else torch.cat((state, ids), 1)  # type: ignore[arg-type]
        rows = [[number for number in text if number >= 0] for text in past.tolist()]
        return torch.stack([by_hand(self.model, text, LONGEST // 2) for text in rows]).unsqueeze(1), past


@pytest.mark.usefixtures("unchecked")
def test_beams_and_samples_survive_being_read_again(model: LanguageModel) -> None:
    reader, plain = windowed(model), Forgetful(model)
    prompt = in_one_batch([[2], [3], [4]], left=True)
    wide = {
        "width": 3,
        "n_best": 3,
        "length_penalty": NoLengthPenalty(),
        "eos": EOS,
        "max_new_tokens": torch.tensor([21, 9, 30]),
    }
    found = beam_search(reader.step, reader.init_state(), prompt, **wide)  # type: ignore[arg-type]
    expected = beam_search(plain.step, None, prompt, **wide)  # type: ignore[arg-type]
    assert [[h.ids for h in each] for each in found] == [[h.ids for h in each] for each in expected]
    assert max(len(h.ids) for each in found for h in each) > 2 * LONGEST
    drawn = {
        "sampler": MultinomialSampler(0.9, seed=3),
        "num_samples": 3,
        "eos": EOS,
        "max_new_tokens": 25,
        "penalties": (RepetitionPenalty(1.2),),
    }
    one = sampling_search(reader.step, reader.init_state(), prompt, **drawn)  # type: ignore[arg-type]
    other = sampling_search(plain.step, None, prompt, **drawn)  # type: ignore[arg-type]
    assert [[h.ids for h in each] for each in one] == [[h.ids for h in each] for each in other]
    assert max(len(h.ids) for each in one for h in each) > 2 * LONGEST


def test_long_texts_are_read_again_in_pieces(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    reader, texts = windowed(model, 7), [torch.randint(2, VOCABULARY, (n,)).tolist() for n in (20, 3, 13)]
    whole, _ = reader.step(in_one_batch(texts, left=True), reader.init_state())
    monkeypatch.setattr("heedful.generation.wrapped_engines._CHUNK_COLUMNS", 3)
    parts, _ = reader.step(in_one_batch(texts, left=True), reader.init_state())
    torch.testing.assert_close(parts[:, -1], whole[:, -1])


@pytest.mark.parametrize("kept", [None, 1, 3, 8])
def test_what_is_remembered_of_a_text(kept: int | None) -> None:
    for length in range(1, 40):
        ids = list(range(length))
        number = count_kept_tokens(length, max_context=LONGEST, kept_tokens=kept)
        assert cropped(ids, kept or LONGEST // 2) == ids[length - number :]


def test_a_wrong_number_is_explained(model: LanguageModel) -> None:
    for kept in (0, 9):
        with pytest.raises(RecipeError, match=f"keeping {kept} of 8 tokens"):
            windowed(model, kept)


@pytest.mark.parametrize("sizes", [(17,), (1,) * 17, (5, 6, 6), (9, 1, 7)])
def test_segments_are_read_again_with_their_tokens(parted: LanguageModel, sizes: tuple[int, ...]) -> None:
    """Tokens that do not say are of segment 0, also where others of the row do."""
    ids, kept = torch.randint(VOCABULARY, (1, 17)), 5
    segments = torch.randint(3, (1, 17))
    segments[:, :5] = 0
    engine, parts, at = windowed(parted, kept), [], 0
    state = engine.init_state()
    for size in sizes:
        span = slice(at, at + size)
        said = None if at + size <= 5 else segments[:, span]
        logits, state = engine.step(Tokens(ids[:, span], torch.arange(at, at + size).unsqueeze(0), said), state)
        parts.append(logits)
        at += size
    for length in range(1, 18):
        left = cropped(list(range(length)), kept)
        text = Tokens(ids[:, left], torch.arange(len(left)).unsqueeze(0), segments[:, left])
        expected = parted.step(text, parted.init_state())[0][0, -1]
        torch.testing.assert_close(torch.cat(parts, 1)[0, length - 1], expected)


def test_states_with_and_without_segments_are_joined(parted: LanguageModel) -> None:
    engine, texts = windowed(parted), [torch.randint(VOCABULARY, (1, 9)) for _ in range(2)]
    segments, at = torch.randint(3, (1, 9)), torch.arange(9).unsqueeze(0)
    states = [
        engine.step(Tokens(texts[0], at, segments), engine.init_state())[1],
        engine.step(Tokens(texts[1], at), engine.init_state())[1],
    ]
    newer = Tokens(torch.tensor([[3] * 6, [4] * 6]), torch.arange(9, 15).repeat(2, 1))
    found, _ = engine.step(newer, concat_rows(states))
    for row, state in enumerate(states):
        alone, _ = engine.step(Tokens(newer.ids[row : row + 1], newer.positions[:1]), state)
        torch.testing.assert_close(found[row : row + 1], alone)
