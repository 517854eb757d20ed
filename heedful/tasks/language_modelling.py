"""Language modelling as a task: a stream of tokens in pieces, each token given those before it in its piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor, nn

from heedful.data.tokenizers import EOS
from heedful.evaluation.likelihood import perplexity
from heedful.models.language_model import LanguageModel
from heedful.tasks.interface import Loss, Rows, Task
from heedful.tasks.likelihood import cross_entropy
from heedful.values import Tokens, detach, move


@dataclass(frozen=True)
class TextBatch:
    """Pieces of text as they are read, and what follows each token; -1 is no label."""

    tokens: Tokens
    labels: Int[Tensor, "B T"]


class LanguageModelling(Task[TextBatch]):
    """Learning p(token | the tokens before it in its piece).

    The text is cut into pieces of `length` tokens, in each epoch at other places. An example is the place in the
    stream where a piece begins; what precedes the stream is the end of a document.

    Args:
        train: the ids of all documents, each with its end.
        validation: likewise.
        length: tokens of a piece.
        truncation: gradients stop, and the state goes on, after so many tokens (truncated back-propagation through
            time; Williams and Peng 1990); None lets them flow through the whole piece.
        smoothing: of the labels, over the whole vocabulary.
        batch_tokens: tokens in a batch.
        seed: of the order of pieces.
        device: where the model is.
    """

    metrics = frozenset({"loss", "perplexity"})

    def __init__(
        self,
        train: Integer[np.ndarray, " N"],
        validation: Integer[np.ndarray, " M"],
        *,
        length: int,
        truncation: int | None = None,
        smoothing: float = 0.0,
        batch_tokens: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self.train = train
        self.validation = validation
        self.length = length
        self.truncation = truncation
        self.smoothing = smoothing
        self.rows = max(1, batch_tokens // length)
        self.seed = seed
        self.device = device

    def plan(self, epoch: int) -> Sequence[Rows]:
        """The pieces of an epoch, shuffled; what stands before the first one, less than a piece, rests this time."""
        random = np.random.Philox(np.random.SeedSequence([self.seed, epoch]))
        first = int(random.random_raw(1)[0] % self.length) if len(self.train) > 2 * self.length else 0
        places = np.arange(first, len(self.train), self.length)
        shuffled = places[np.argsort(random.random_raw(len(places)), kind="stable")]
        return [shuffled[start : start + self.rows] for start in range(0, len(places), self.rows)]

    def batch(self, rows: Rows) -> TextBatch:
        """The pieces that begin at these places."""
        return move(_pieces(self.train, rows, length=self.length), self.device)

    def loss(self, model: LanguageModel, batch: TextBatch) -> Loss:
        """Label-smoothed negative log-likelihood of what follows each token."""
        smoothed, nll = self._sums(model, batch, smoothing=self.smoothing)
        return Loss(smoothed, int((batch.labels >= 0).sum()), {"nll": nll})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Loss (nats per token) and perplexity on the validation text, cut into pieces that are read one by one."""
        assert isinstance(model, LanguageModel)
        total = 0.0
        for rows in _in_order(self.validation, length=self.length, rows=self.rows):
            batch = move(_pieces(self.validation, rows, length=self.length), self.device)
            total += float(self._sums(model, batch, smoothing=0.0)[1])
        return {"loss": total / len(self.validation), "perplexity": perplexity(-total, len(self.validation))}

    def _sums(self, model: LanguageModel, batch: TextBatch, *, smoothing: float) -> tuple[Tensor, Tensor]:
        state = model.begin()
        sums = []
        for chunk, labels in self._chunks(batch):
            hidden, state = model(chunk, detach(state))
            real = (labels >= 0).flatten().nonzero().squeeze(1)
            sums.append(
                cross_entropy(
                    hidden.flatten(0, 1).index_select(0, real),
                    labels.flatten().index_select(0, real),
                    output=model.output,
                    smoothing=smoothing,
                )
            )
        smoothed, nll = (torch.stack(parts).sum() for parts in zip(*sums, strict=True))
        return smoothed, nll

    def _chunks(self, batch: TextBatch) -> Iterator[tuple[Tokens, Tensor]]:
        length = batch.labels.size(1)
        step = self.truncation or length
        for start in range(0, length, step):
            yield batch.tokens.span(start, start + step), batch.labels[:, start : start + step]


def _in_order(stream: Integer[np.ndarray, " N"], *, length: int, rows: int) -> Iterator[Rows]:
    places = np.arange(0, len(stream), length)
    for start in range(0, len(places), rows):
        yield places[start : start + rows]


def _pieces(stream: Integer[np.ndarray, " N"], places: Rows, *, length: int) -> TextBatch:
    """The pieces that begin at some places; the last may end before the others."""
    inside = places[:, None] + np.arange(min(length, len(stream) - int(places.min())))
    real = inside < len(stream)
    labels = np.where(real, stream[np.minimum(inside, len(stream) - 1)].astype(np.int64), -1)
    before = np.where(inside > 0, stream[np.clip(inside - 1, 0, len(stream) - 1)].astype(np.int64), EOS)
    positions = np.where(real, np.arange(inside.shape[1]), -1)
    tokens = Tokens(torch.from_numpy(before), torch.from_numpy(positions))
    return TextBatch(tokens, torch.from_numpy(labels))
