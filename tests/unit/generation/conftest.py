"""A model that predicts from its sentence and its whole history, and that checks how it is driven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from heedful.generation import native_kernels
from heedful.tensors import RowSelection, Tokens

CODES = 997


@dataclass(frozen=True)
class Past:
    keys: Tensor
    codes: Tensor
    expected: Tensor


@dataclass(frozen=True)
class Shared:
    """What the beams of a sentence share, kept once for each group; no row may leave its group unless it is free."""

    keys: Tensor
    width: int

    def reorder(self, rows: RowSelection) -> Shared:
        if rows.ignores_groups:
            return Shared(self.keys[rows.origin // self.width], 1)
        groups = torch.arange(len(self.keys)) if rows.groups is None else rows.groups
        assert len(rows.origin) == len(groups) * rows.width
        assert torch.equal(rows.origin // self.width, groups.repeat_interleave(rows.width))
        return Shared(self.keys[groups], rows.width)

    def concat(self, others: Sequence[Shared]) -> Shared:
        assert all(other.width == self.width for other in others)
        return Shared(torch.cat([self.keys, *(other.keys for other in others)]), self.width)


@dataclass
class HistoryModel:
    """Random logits, drawn once for each sentence and history; a bias makes the end of sentence likely."""

    vocabulary: int
    seed: int = 0
    eos: int = 1
    bias: float = 0.5
    dtype: torch.dtype = torch.float64
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    rows_stepped: list[int] = field(default_factory=list)
    identities: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = torch.Generator().manual_seed(self.seed)
        self.table = torch.randn(CODES, self.vocabulary, generator=chance, dtype=torch.float64) * 1.5
        self.table[:, self.eos] += self.bias
        self.table = self.table.to(self.dtype)

    def init_state(self, keys: list[int]):
        tensor = torch.tensor(keys)
        return Past(tensor, torch.zeros_like(tensor), torch.zeros_like(tensor)), (Shared(tensor, 1), None)

    def step(self, tokens: Tokens, state):
        past, (shared, nothing) = state
        assert torch.equal(shared.keys.repeat_interleave(shared.width), past.keys)
        self.rows_stepped.append(len(tokens.ids))
        codes, expected, columns = past.codes, past.expected, []
        for ids, positions in zip(tokens.ids.unbind(1), tokens.positions.unbind(1), strict=True):
            real = positions >= 0
            assert torch.equal(positions[real], expected[real])
            codes = torch.where(real, (codes * 31 + ids + 7) % CODES, codes)
            expected = expected + real
            logits = self.table[(past.keys * 131 + codes) % CODES]
            columns.append(torch.where(real.unsqueeze(1), logits, 1000.0 * ids.unsqueeze(1)))
        return torch.stack(columns, 1), (Past(past.keys, codes, expected), (shared, nothing))

    def log_probabilities(self, key: int, history: tuple[int, ...]) -> list[float]:
        """What may follow a history, the prompt included, found without tensors of rows or states."""
        code = 0
        for token in history:
            code = (code * 31 + token + 7) % CODES
        return self.table[(key * 131 + code) % CODES].double().log_softmax(0).tolist()

    def total(self, key: int, prompt: tuple[int, ...], answer: tuple[int, ...]) -> float:
        return sum(self.each(key, prompt, answer))

    def each(self, key: int, prompt: tuple[int, ...], answer: tuple[int, ...]) -> list[float]:
        return [self.log_probabilities(key, prompt + answer[:at])[token] for at, token in enumerate(answer)]


@pytest.fixture(autouse=True)
def _tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches in tensors are meant here; those in native code are compared with them (tests/unit/native)."""
    monkeypatch.setattr(native_kernels, "find_library_for", lambda _: None)


@pytest.fixture
def history_model():
    return HistoryModel


@pytest.fixture
def prompts():
    """A batch of prompts from lists of ids, padded to one length on the left, on the right or by turns."""

    def build(rows: list[tuple[int, ...]], padding: str = "turns") -> Tokens:
        length = max(map(len, rows))
        ids = torch.full((len(rows), length), 3)
        positions = torch.full((len(rows), length), -1)
        for row, tokens in enumerate(rows):
            left = padding == "left" or (padding == "turns" and row % 2)
            first = length - len(tokens) if left else 0
            ids[row, first : first + len(tokens)] = torch.tensor(tokens)
            positions[row, first : first + len(tokens)] = torch.arange(len(tokens))
        return Tokens(ids, positions)

    return build
