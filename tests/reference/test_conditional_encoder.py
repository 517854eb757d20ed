"""Conditional encoding and word-by-word attention of Rocktäschel et al. 2016, compared with plain loops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.architectures.build_recurrent import build_conditional_encoder
from heedful.architectures.classifiers import ConditionalConfig
from heedful.inspection.capture import watch_attention
from heedful.models.recurrent_encoder import ConditionalEncoder
from heedful.tensors import Tokens

D = 5
KINDS = ("none", "last", "word_by_word")
each_kind = pytest.mark.parametrize("attention", KINDS)
PAIRS = [([1, 4, 5, 6, 2], [7, 8, 2]), ([1, 2], [9, 3, 4, 5, 2]), ([1, 6, 2], [2]), ([1, 8, 7, 6, 5, 4, 2], [3, 2])]


def build_encoder(attention: str, *, layers: int = 1) -> ConditionalEncoder:
    config = ConditionalConfig.model_validate(
        {"d_model": D, "d_embedding": 4, "layers": layers, "attention": attention, "dropout": 0.0}
    )
    return build_conditional_encoder(config, vocabulary=10).eval()


def build_tokens(pairs: list[tuple[list[int], list[int]]]) -> Tokens:
    width = max(len(first) + len(second) for first, second in pairs)
    ids = torch.zeros(len(pairs), width, dtype=torch.long)
    positions, segments = torch.full_like(ids, -1), torch.zeros_like(ids)
    for row, (first, second) in enumerate(pairs):
        count = len(first) + len(second)
        ids[row, :count] = torch.tensor(first + second)
        positions[row, :count] = torch.arange(count)
        segments[row, len(first) : count] = 1
    return Tokens(ids, positions, segments)


def run_lstm(cell: Any, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Compute an LSTM by the paper's equations 1 to 6, one vector at a time."""
    h, c = state
    outputs = []
    for vector in x:
        gates = cell.input.weight @ vector + cell.input.bias + cell.recurrent.weight @ h + cell.recurrent.bias
        i, f, new, o = gates.split(D)
        c = f.sigmoid() * c + i.sigmoid() * new.tanh()
        h = o.sigmoid() * c.tanh()
        outputs.append(h)
    return torch.stack(outputs), (h, c)


def encode_pair(model: Any, first: list[int], second: list[int]) -> tuple[Tensor, Tensor]:
    """Return Y and the outputs for the hypothesis, which starts from the cell of the premise."""
    table, scale = model.embedding.table.weight, model.embedding.scale
    zero = torch.zeros(D)
    y, (_, memory) = run_lstm(model.premise.layers[0].cell, table[first] * scale, (zero, zero))
    h, _ = run_lstm(model.hypothesis.layers[0].cell, table[second] * scale, (zero, memory))
    return y, h


def compute_attention(y: Tensor, score: Any, query: Tensor) -> tuple[Tensor, Tensor]:
    """Return r and alpha: M = tanh(W_y Y + W_h h ...), alpha = softmax(w^T M), r = Y alpha^T."""
    width = len(query)
    of_query, of_premise = score.weight.weight[:, :width], score.weight.weight[:, width:]
    m = torch.stack([torch.tanh(of_premise @ each + of_query @ query) for each in y])
    alpha = (m @ score.energy.weight[0]).softmax(0)
    return alpha @ y, alpha


def compute_output(model: Any, first: list[int], second: list[int]) -> tuple[Tensor, list[Tensor]]:
    y, h = encode_pair(model, first, second)
    compare = model.comparison
    last = compare.end.weight @ h[-1]
    if hasattr(compare, "of_last"):
        r, alpha = compute_attention(y, compare.of_last.score, h[-1])
        return torch.tanh(compare.context.weight @ r + last), [alpha]
    if hasattr(compare, "of_words"):
        r, alphas = torch.zeros(D), []
        for output in h:
            found, alpha = compute_attention(y, compare.of_words.score, torch.cat((output, r)))
            r = found + torch.tanh(compare.recurrent.weight @ r)
            alphas.append(alpha)
        return torch.tanh(compare.context.weight @ r + last), alphas
    return torch.tanh(last), []


@each_kind
def test_pairs_are_encoded_as_in_the_paper(attention: str) -> None:
    model = build_encoder(attention)
    with watch_attention(model) as weights:
        memory = model(build_tokens(PAIRS))
    found = [each for calls in weights.values() for each in calls]
    assert len(found) == {"none": 0, "last": 1, "word_by_word": 5}[attention]
    for row, (first, second) in enumerate(PAIRS):
        expected, alphas = compute_output(model, first, second)
        torch.testing.assert_close(memory.summary[row], expected)
        for step, alpha in enumerate(alphas):
            torch.testing.assert_close(found[step][row, 0, : len(first)], alpha)
            assert not found[step][row, 0, len(first) :].any(), "only the premise is attended to"
        y, h = encode_pair(model, first, second)
        torch.testing.assert_close(memory.values[row, memory.positions[row] >= 0], torch.cat((y, h)))
        assert memory.positions[row][memory.positions[row] >= 0].tolist() == [*range(len(first) + len(second))]


@each_kind
def test_other_pairs_of_the_batch_do_not_matter(attention: str) -> None:
    model = build_encoder(attention, layers=2)
    together = model(build_tokens(PAIRS)).summary
    for row, pair in enumerate(PAIRS):
        torch.testing.assert_close(model(build_tokens([pair])).summary[0], together[row])
    given = build_tokens(PAIRS)
    left = Tokens(*(torch.nn.functional.pad(part, (3, 0), value=fill) for part, fill in (
        (given.ids, 0), (given.positions, -1), (given.segments, 0))))  # fmt: skip
    torch.testing.assert_close(model(left).summary, together)
    other = torch.where(given.positions >= 0, given.ids, 9)
    torch.testing.assert_close(model(Tokens(other, given.positions, given.segments)).summary, together)


def test_the_premise_reaches_conditional_encoding_only_through_the_cell() -> None:
    """If the cell ends with the same state, the premise does not matter; otherwise it does."""
    model: Any = build_encoder("none")
    one, other = build_tokens([([1, 4, 5, 2], [7, 8, 2])]), build_tokens([([1, 6, 9, 2], [7, 8, 2])])
    assert not torch.allclose(model(one).summary, model(other).summary)
    cell = model.premise.layers[0].cell
    with (
        torch.no_grad()
    ):  # a cell that ignores its input and forgets everything, although its outputs still depend on words
        cell.input.bias[:D] = -1e9
        cell.input.bias[D : 2 * D] = -1e9
    torch.testing.assert_close(model(one).summary, model(other).summary)
    attentive: Any = build_encoder("last")
    cell = attentive.premise.layers[0].cell
    with torch.no_grad():
        cell.input.bias[D : 2 * D] = -1e9
        cell.input.weight.mul_(5)
    # here the cell depends only on the last word, which is the same; attention also reads the others
    with torch.no_grad():
        cell.recurrent.weight.zero_()
    assert not torch.allclose(attentive(one).summary, attentive(other).summary)
    alone: Any = build_encoder("none")
    alone.premise.load_state_dict(attentive.premise.state_dict())
    torch.testing.assert_close(alone(one).summary, alone(other).summary)


def test_the_output_of_the_premise_is_not_passed_on() -> None:
    """h before the hypothesis is zero: with an empty cell, the hypothesis is encoded as if it were alone."""
    model: Any = build_encoder("none")
    with torch.no_grad():
        model.premise.layers[0].cell.input.bias[:D] = -1e9
    found = model(build_tokens([([1, 4, 5, 2], [7, 8, 2])])).summary[0]
    table, scale = model.embedding.table.weight, model.embedding.scale
    alone, _ = run_lstm(model.hypothesis.layers[0].cell, table[[7, 8, 2]] * scale, (torch.zeros(D), torch.zeros(D)))
    torch.testing.assert_close(found, torch.tanh(model.comparison.end.weight @ alone[-1]))


@each_kind
def test_gradients_reach_everything(attention: str) -> None:
    model = build_encoder(attention, layers=2)
    model(build_tokens(PAIRS)).summary.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if name != "embedding.table.weight":
            assert parameter.grad.abs().sum() > 0, name
    grad = model.embedding.table.weight.grad
    assert grad is not None
    assert grad[1:].abs().sum(1).gt(0).all(), "each word of both texts counts"
    assert not grad[0].any()


def test_a_row_without_a_second_text_is_an_error() -> None:
    model = build_encoder("last")
    with pytest.raises(AssertionError, match="a row has no second text"):
        model(build_tokens([([1, 4, 2], [5, 2]), ([1, 4, 5, 2], [])]))
    with pytest.raises(AssertionError, match="segments separate"):
        model(Tokens.from_ids(torch.tensor([[1, 2, 3]]), pad=0))
