"""What a language model expected at each place of a document, beside what stands there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.data.batches import padded, tokens_of
from heedful.generation.ranking import normalisers, top_k
from heedful.generation.scoring import at_least_single
from heedful.models.interface import Engine, State
from heedful.values import Tokens, move

_AT_ONCE: Final = 1024
"""Tokens of all rows that are read in one step: logits of whole documents would fill the memory."""


@dataclass(frozen=True)
class Place:
    """A token of a document.

    Attributes:
        log_probability: of the token, given all before it, in nats.
        likeliest: the most probable ids at its place with their log-probabilities, best first.
    """

    log_probability: float
    likeliest: tuple[tuple[int, float], ...]


@final
@dataclass(frozen=True)
class Expecting:
    """Tells what an engine expects at the places of documents, which it reads side by side.

    Attributes:
        engine: looks at no source.
        before: the id that begins every document and is no place.
        most: ids that are told of each place.
    """

    engine: Engine[None]
    before: int
    most: int

    def __call__(self, documents: Sequence[Sequence[int]]) -> list[list[Place]]:
        """Of documents that are given as ids; none may be empty."""
        read = move(tokens_of(padded([[self.before, *ids[:-1]] for ids in documents])), self.engine.device)
        found: list[list[Place]] = [[] for _ in documents]
        span, state = max(1, _AT_ONCE // len(documents)), self.engine.begin(None)
        for start in range(0, read.ids.size(1), span):
            logits, state = self.engine.step(read.span(start, start + span), state)
            for row, ids in enumerate(documents):
                found[row] += _places(logits[row], ids[start : start + span], self.most)
        return found


@final
class Reading:
    """A document that is read as it comes.

    Args:
        engine: looks at no source.
        before: the id that begins every document and is no place.
        most: ids that are told of each place.
    """

    def __init__(self, engine: Engine[None], *, before: int, most: int) -> None:
        self._engine = engine
        self._most = most
        self._last = before
        self._count = 0
        self._state: State = engine.begin(None)

    @torch.inference_mode()
    def on(self, ids: Sequence[int]) -> list[Place]:
        """The places of the next ids of the document."""
        found: list[Place] = []
        for start in range(0, len(ids), _AT_ONCE):
            piece = list(ids[start : start + _AT_ONCE])
            row = torch.tensor([[self._last, *piece[:-1]]], device=self._engine.device)
            positions = torch.arange(self._count, self._count + len(piece), device=row.device).unsqueeze(0)
            logits, self._state = self._engine.step(Tokens(row, positions), self._state)
            self._last, self._count = piece[-1], self._count + len(piece)
            found += _places(logits[0], piece, self._most)
        return found


def _places(logits: Float[Tensor, "T V"], ids: Sequence[int], most: int) -> Iterator[Place]:
    """The places of these ids; what stands behind them is nobody's."""
    if not ids:
        return
    logits = at_least_single(logits[: len(ids)]).contiguous()
    totals = normalisers(logits)
    chosen = logits.gather(1, torch.tensor([ids], device=logits.device).T).squeeze(1) - totals
    best = top_k(logits, min(most, logits.size(1))) if most else None
    values = [[]] * len(ids) if best is None else (best.values - totals.unsqueeze(1)).tolist()
    others = [[]] * len(ids) if best is None else best.ids.tolist()
    for own, names, each in zip(chosen.tolist(), others, values, strict=True):
        yield Place(own, tuple(zip(names, each, strict=True)))
