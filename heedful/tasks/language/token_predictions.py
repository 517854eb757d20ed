"""The most probable tokens of a language model at each position of a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.data.batches import pad_rows, to_tokens
from heedful.generation.results import upcast_logits
from heedful.generation.topk import compute_logsumexp, top_k
from heedful.models.interface import Engine, State
from heedful.tensors import Tokens, move_to_device

_MAX_STEP_TOKENS: Final = 1024
"""Tokens of all rows in one step: the logits of whole documents would fill the memory."""


@dataclass(frozen=True)
class TokenPrediction:
    """The log-probability of a token, and the most probable tokens at its position.

    Attributes:
        log_probability: log-probability of the token, given all before it, in nats.
        top_tokens: the most probable ids at its position with their log-probabilities, best first.
    """

    log_probability: float
    top_tokens: tuple[tuple[int, float], ...]


@final
@dataclass(frozen=True)
class TokenPredictor:
    """Predicts the tokens at all positions of a batch of documents.

    Attributes:
        engine: a decoder without a source.
        start_id: the id that begins every document, without a prediction of its own.
        top_k: number of top tokens at each position.
    """

    engine: Engine[None]
    start_id: int
    top_k: int

    def __call__(self, documents: Sequence[Sequence[int]]) -> list[list[TokenPrediction]]:
        """Return the predictions at each position of documents of ids; none may be empty."""
        inputs = move_to_device(
            to_tokens(pad_rows([[self.start_id, *ids[:-1]] for ids in documents])), self.engine.device
        )
        predictions: list[list[TokenPrediction]] = [[] for _ in documents]
        step_tokens, state = max(1, _MAX_STEP_TOKENS // len(documents)), self.engine.init_state(None)
        for start in range(0, inputs.ids.size(1), step_tokens):
            logits, state = self.engine.step(inputs.slice_columns(start, start + step_tokens), state)
            for row, ids in enumerate(documents):
                predictions[row] += _iter_predictions(logits[row], ids[start : start + step_tokens], self.top_k)
        return predictions


@final
class IncrementalTokenPredictor:
    """Predicts the tokens of one document that arrives in parts.

    Args:
        engine: a decoder without a source.
        start_id: the id that begins every document, without a prediction of its own.
        top_k: number of top tokens at each position.
    """

    def __init__(self, engine: Engine[None], *, start_id: int, top_k: int) -> None:
        self._engine = engine
        self._top_k = top_k
        self._last = start_id
        self._count = 0
        self._state: State = engine.init_state(None)

    @torch.inference_mode()
    def predict_next(self, ids: Sequence[int]) -> list[TokenPrediction]:
        """Append ids to the document, and return the predictions at their positions."""
        predictions: list[TokenPrediction] = []
        for start in range(0, len(ids), _MAX_STEP_TOKENS):
            chunk = list(ids[start : start + _MAX_STEP_TOKENS])
            inputs = torch.tensor([[self._last, *chunk[:-1]]], device=self._engine.device)
            positions = torch.arange(self._count, self._count + len(chunk), device=inputs.device).unsqueeze(0)
            logits, self._state = self._engine.step(Tokens(inputs, positions), self._state)
            self._last, self._count = chunk[-1], self._count + len(chunk)
            predictions += _iter_predictions(logits[0], chunk, self._top_k)
        return predictions


def _iter_predictions(logits: Float[Tensor, "T V"], ids: Sequence[int], num_top: int) -> Iterator[TokenPrediction]:
    """Yield, for each id, its log-probability and the `num_top` most probable tokens at its position, given a row of
    logits for each; further rows are ignored.
    """
    if not ids:
        return
    logits = upcast_logits(logits[: len(ids)]).contiguous()
    totals = compute_logsumexp(logits)
    chosen = logits.gather(1, torch.tensor([ids], device=logits.device).T).squeeze(1) - totals
    best = top_k(logits, min(num_top, logits.size(1))) if num_top else None
    values = [[]] * len(ids) if best is None else (best.values - totals.unsqueeze(1)).tolist()
    top_ids_by_position = [[]] * len(ids) if best is None else best.ids.tolist()
    for log_prob, top_ids, top_log_probs in zip(chosen.tolist(), top_ids_by_position, values, strict=True):
        yield TokenPrediction(log_prob, tuple(zip(top_ids, top_log_probs, strict=True)))
