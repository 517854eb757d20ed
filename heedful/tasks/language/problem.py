"""Language modelling as a task: a stream of tokens in pieces, each token given those before it in its piece."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor, nn

from heedful.metrics.likelihood import perplexity
from heedful.models.language_model import LanguageModel
from heedful.tasks.language.pieces import Apart, Packed, TextBatch
from heedful.tasks.likelihood import cross_entropy
from heedful.tasks.task import Loss, Part, Rows, Task
from heedful.values import detach, move


class LanguageModelling(Task[TextBatch]):
    """Learning p(token | the tokens before it in its piece).

    The text is cut into pieces. An example is the place in the stream where a piece begins; what precedes the stream is
    the end of a document.

    Args:
        train: the ids of all documents, each with its end.
        validation: likewise.
        before: the id that ends documents and precedes the stream, as if another had ended there.
        length: tokens of a piece.
        cut: how a stream becomes pieces.
        truncation: gradients stop, and the state goes on, after so many tokens (truncated back-propagation through
            time; Williams and Peng 1990); None lets them flow through the whole piece.
        smoothing: of the labels, over the whole vocabulary.
        batch_tokens: tokens in a batch.
        seed: of the order of pieces.
        device: where the model is.
    """

    metrics = frozenset({"loss", "perplexity"})
    parts = frozenset({"nll"})

    def __init__(
        self,
        train: Integer[np.ndarray, " N"],
        validation: Integer[np.ndarray, " M"],
        *,
        before: int,
        length: int,
        cut: type[Packed] | type[Apart] = Packed,
        truncation: int | None = None,
        smoothing: float = 0.0,
        batch_tokens: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self.train = cut(train, before=before, length=length)
        self.validation = cut(validation, before=before, length=length)
        self.length = length
        self.truncation = truncation
        self.smoothing = smoothing
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.device = device

    def plan(self, epoch: int) -> Sequence[Rows]:
        """The pieces of an epoch, shuffled."""
        return self.train.plan(tokens=self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, rows: Rows) -> TextBatch:
        """The pieces that begin at these places."""
        return move(self.train.batch(rows), self.device)

    def loss(self, model: LanguageModel, batch: TextBatch) -> Loss:
        """Label-smoothed negative log-likelihood of what follows each token."""
        smoothed, nll = self._sums(model, batch, smoothing=self.smoothing)
        count = int((batch.labels >= 0).sum())
        return Loss(smoothed, count, {"nll": Part(nll, count)})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Loss (nats per token) and perplexity on the validation text, cut into pieces that are read one by one."""
        assert isinstance(model, LanguageModel)
        total, count = self.nats(model), len(self.validation.stream)
        return {"loss": total / count, "perplexity": perplexity(-total, count)}

    def nats(self, model: LanguageModel, *, context: int | None = None, stride: int | None = None) -> float:
        """The negative log-likelihood of the whole validation text, each token predicted once.

        Args:
            model: in evaluation mode.
            context: tokens that are read at a time; the length of a piece unless given.
            stride: of them, how many are predicted at a time, the others being read only (the first time all are): each
                token follows at least `context - stride` others. All unless given, which is fastest and knows least.

        Raises:
            RecipeError: the stride is not from 1 to the context.
        """
        context = self.length if context is None else context
        windows = self.validation.windows(context=context, stride=context if stride is None else stride)
        batches = self.validation.in_order(windows, tokens=max(self.batch_tokens, context))
        return math.fsum(float(self._sums(model, move(batch, self.device), smoothing=0.0)[1]) for _, batch in batches)

    def _sums(self, model: LanguageModel, batch: TextBatch, *, smoothing: float) -> tuple[Tensor, Tensor]:
        state, sums = model.begin(), []
        step = self.truncation or batch.labels.size(1)
        for start in range(0, batch.labels.size(1), step):
            chunk, following = batch.tokens.span(start, start + step), batch.labels[:, start : start + step]
            hidden, state = model(chunk, detach(state))
            hidden, labels = hidden.flatten(0, 1), following.flatten()
            real = (labels >= 0).nonzero().squeeze(1)
            if len(real) < len(labels):
                hidden, labels = hidden.index_select(0, real), labels.index_select(0, real)
            sums.append(cross_entropy(hidden, labels, output=model.output, smoothing=smoothing))
        smoothed, nll = (torch.stack(parts).sum() for parts in zip(*sums, strict=True))
        return smoothed, nll
