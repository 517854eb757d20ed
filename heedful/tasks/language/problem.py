"""Language modelling as a task: a stream of tokens in pieces, each token given those before it in its piece."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor, nn

from heedful.data.bucketing import plan_batches, plan_by_length
from heedful.errors import RecipeError
from heedful.metrics.likelihood import perplexity
from heedful.models.language_model import LanguageModel
from heedful.tasks.likelihood import cross_entropy
from heedful.tasks.task import Loss, Part, Rows, Task
from heedful.values import Tokens, detach, move

Stream = Integer[np.ndarray, " N"]


@dataclass(frozen=True)
class TextBatch:
    """Pieces of text as they are read, and what follows each token; -1 is no label."""

    tokens: Tokens
    labels: Int[Tensor, "B T"]


@dataclass(frozen=True)
class Windows:
    """Stretches of a stream, each read from position 0.

    Attributes:
        starts: where each begins.
        stops: behind the last token that it predicts.
        asked: the first token that it is asked for; those before it are read only.
    """

    starts: Rows
    stops: Rows
    asked: Rows


class Pieces(ABC):
    """A stream of tokens, each document with its end, in pieces; a piece is named by the place where it begins.

    Args:
        stream: the ids.
        before: the id that ends documents; it precedes the stream, as if another had ended there.
        length: most tokens of a piece.
    """

    def __init__(self, stream: Stream, *, before: int, length: int) -> None:
        self.stream = stream
        self.before = before
        self.length = length
        self._ends = self.ends()

    @abstractmethod
    def plan(self, *, tokens: int, seed: int, epoch: int) -> Sequence[Rows]:
        """The batches of an epoch, each of about so many tokens: a function of the arguments alone."""

    @abstractmethod
    def ends(self) -> Rows:
        """Where each text ends; no piece is in two of them."""

    def texts(self) -> tuple[Rows, Rows]:
        """Where each text begins, and where it ends."""
        return np.append(0, self._ends[:-1]), self._ends

    def batch(self, places: Rows) -> TextBatch:
        """The pieces that begin at these places, each a piece's length or up to where its text ends."""
        ends = self._ends[np.searchsorted(self._ends, places, side="right")]
        return self.read(Windows(places, np.minimum(places + self.length, ends), places))

    def windows(self, *, context: int, stride: int) -> Windows:
        """Stretches of at most `context` tokens of one text, each `stride` tokens behind the one before it.

        Every token is asked for once: in its text's first stretch, or else with at least `context - stride` tokens
        of the stretch before it.

        Raises:
            RecipeError: the stride is not from 1 to the context.
        """
        if not 1 <= stride <= context:
            raise RecipeError(f"stride: {stride}; must be from 1 to {context}, the tokens that are read at a time")
        first, last = self.texts()
        # behind a text's first stretch there is one for every `stride` tokens that are left
        counts = 1 + -(-np.maximum(last - first - context, 0) // stride)
        text = np.repeat(np.arange(len(first)), counts)
        number = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = first[text] + number * stride
        stops = np.minimum(starts + context, last[text])
        return Windows(starts, stops, np.where(number > 0, starts + context - stride, starts))

    def read(self, windows: Windows) -> TextBatch:
        """Stretches as a batch, padded on the right; what is not asked for has no label."""
        inside = windows.starts[:, None] + np.arange(int((windows.stops - windows.starts).max()))
        real = inside < windows.stops[:, None]
        inside = np.minimum(inside, len(self.stream) - 1)
        labels = np.where(real & (inside >= windows.asked[:, None]), self.stream[inside].astype(np.int64), -1)
        before = np.where(inside > 0, self.stream[np.maximum(inside - 1, 0)].astype(np.int64), self.before)
        positions = torch.arange(inside.shape[1]).expand(inside.shape)
        if not real.all():  # else all rows are one in memory, and what they see is found out once
            positions = torch.where(torch.from_numpy(real), positions, -1)
        tokens = Tokens(torch.from_numpy(np.where(real, before, 0)), positions)
        return TextBatch(tokens, torch.from_numpy(labels))

    def in_order(self, windows: Windows, *, tokens: int) -> Iterator[tuple[Rows, TextBatch]]:
        """All of some stretches in batches of about so many tokens, the longest first.

        With each come the places in the stream of what it is asked for, row by row.
        """
        lengths = windows.stops - windows.starts
        for rows in plan_by_length(lengths, tokens=tokens, rows=max(1, tokens)):
            asked, stops = windows.asked[rows], windows.stops[rows]
            places = np.concatenate([np.arange(*bounds) for bounds in zip(asked, stops, strict=True)])
            yield places, self.read(Windows(windows.starts[rows], stops, asked))


@final
class Packed(Pieces):
    """Documents stand one behind the other and pieces are cut anywhere, in each epoch at other places."""

    def plan(self, *, tokens: int, seed: int, epoch: int) -> Sequence[Rows]:
        """The pieces, shuffled; what stands before the first one, less than a piece, rests this time."""
        rows = max(1, tokens // self.length)
        random = np.random.Philox(np.random.SeedSequence([seed, epoch]))
        first = int(random.random_raw(1)[0] % self.length) if len(self.stream) > 2 * self.length else 0
        places = np.arange(first, len(self.stream), self.length)
        shuffled = places[np.argsort(random.random_raw(len(places)), kind="stable")]
        return [shuffled[start : start + rows] for start in range(0, len(places), rows)]

    def ends(self) -> Rows:
        """The stream is one text."""
        return np.array([len(self.stream)])


@final
class Apart(Pieces):
    """No piece has tokens of two documents: it begins a document, or goes on with one that is longer than a piece."""

    def plan(self, *, tokens: int, seed: int, epoch: int) -> Sequence[Rows]:
        """Pieces of like length together, shuffled."""
        windows = self.windows(context=self.length, stride=self.length)
        lengths = windows.stops - windows.starts
        found = plan_batches(np.stack((lengths, lengths), 1), tokens=tokens, seed=seed, epoch=epoch)
        return [windows.starts[rows] for rows in found]

    def ends(self) -> Rows:
        """Of the documents, each with its end."""
        ends = np.flatnonzero(self.stream == self.before) + 1
        return ends if len(ends) and ends[-1] == len(self.stream) else np.append(ends, len(self.stream))


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
        train: Stream,
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
