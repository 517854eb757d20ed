"""Searches in native code find what searches in tensors find."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.generation import (
    AverageLength,
    Forbid,
    LengthPenalty,
    MinimumLength,
    Multinomial,
    NoPenalty,
    RepetitionPenalty,
    TopK,
    Wu,
    native,
)
from heedful.generation.hypotheses import Hypotheses
from heedful.generation.ranking import normalisers, top_k
from heedful.generation.search import Beam, Greedy, Sampling, Search
from heedful.values import Tokens

WORDS, EOS = 70, 2


def in_tensors(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(native, "library_for", lambda _: None)
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


@pytest.mark.parametrize("columns", [1, 4, 15, 16, 17, 1000])
def test_normalisers_add_up_to_one(library: Any, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    x = torch.cat((strange(9, columns), torch.randn(4, columns) * 30, torch.full((1, columns), -math.inf)))
    x = torch.cat((x, torch.full((1, columns), math.inf), torch.full((1, columns), math.nan)))
    found = normalisers(x)
    torch.testing.assert_close(found.double(), x.double().logsumexp(1), rtol=1e-6, atol=2e-6, equal_nan=True)


SEARCHES: list[Search] = [
    Greedy(EOS),
    Greedy(EOS, (Forbid((5, 6)), MinimumLength(3, EOS)), (RepetitionPenalty(1.5),)),
    *(
        Beam(EOS, width, penalty, n_best)
        for width, penalty, n_best in ((1, NoPenalty(), 1), (2, Wu(0.6), 1), (5, AverageLength(), 5), (4, Wu(-0.5), 2))
    ),
    Beam(EOS, 3, Wu(1.0), 2, (Forbid((5, 6)),), None, (RepetitionPenalty(1.5),)),
    Beam(EOS, 40, NoPenalty(), 3),
    Sampling(EOS, Multinomial(0.8, (TopK(9),), seed=4), 3),
]


def step(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """Logits that depend on all that was read, a hash of which is the state."""
    logits = []
    for column, position in zip(tokens.ids.unbind(1), tokens.positions.unbind(1), strict=True):
        state = torch.where(position >= 0, (state * 31 + column * 7 + position) % 1009, state)
        angle = state.unsqueeze(1) * (1 + torch.arange(WORDS)) * 0.37
        logits.append(3 * angle.sin() + 2 * (torch.arange(WORDS) == EOS) * (state % 5 == 0).unsqueeze(1))
    return torch.stack(logits, 1), state


def searched(search: Search, penalty: LengthPenalty | None = None) -> list[Hypotheses]:
    rows = 6
    prompt = Tokens(torch.ones(rows, 1, dtype=torch.long), torch.zeros(rows, 1, dtype=torch.long))
    prefix = torch.tensor([[4, 7], [9, -1], [-1, -1]] * 2)
    limit = torch.tensor([1, 9, 12, 3, 2, 15])
    found = search(step, torch.arange(rows) * 13, prompt, limit=limit, prefix=prefix, streams=torch.arange(rows) + 5)
    return list(found)


@pytest.mark.parametrize(
    "search", SEARCHES, ids=lambda search: f"{type(search).__name__}-{getattr(search, 'width', 1)}"
)
def test_hypotheses_are_the_same(library: Any, monkeypatch: pytest.MonkeyPatch, search: Search) -> None:
    found, expected = searched(search), in_tensors(monkeypatch, lambda: searched(search))
    assert [[each.ids for each in row] for row in found] == [[each.ids for each in row] for row in expected]
    for mine, others in zip(found, expected, strict=True):
        for each, other in zip(mine, others, strict=True):
            assert each.finished == other.finished
            assert each.score == pytest.approx(other.score, rel=1e-5, abs=1e-5)
            assert each.log_probability == pytest.approx(other.log_probability, rel=1e-5, abs=1e-5)


def test_a_row_without_a_token_is_an_error_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.errors import RunError

    everything = Greedy(EOS, (Forbid(tuple(range(WORDS))),))
    for search in (lambda: searched(everything), lambda: in_tensors(monkeypatch, lambda: searched(everything))):
        with pytest.raises(RunError) as raised:
            search()
        assert "sentence 2" in str(raised.value), str(raised.value)
