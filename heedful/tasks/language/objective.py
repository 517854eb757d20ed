"""Training objective of language models: a token stream in pieces, each token given those before it in its piece."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn

from heedful.data.batches import batch_by_length, batch_by_size
from heedful.errors import RecipeError
from heedful.metrics.likelihood import perplexity
from heedful.models.generative import LanguageModel
from heedful.models.predictions import SoftmaxPredictions, cross_entropy
from heedful.tasks.objective import Loss, LossPart, RowIndices, TrainingObjective, measure_unigram_loss
from heedful.tensors import Tokens, detach, move_to_device

TokenStream = Integer[np.ndarray, " N"]


@dataclass(frozen=True)
class TextBatch:
    """Pieces of text as input tokens, and the label of each; -1 means no label."""

    tokens: Tokens
    labels: Int[Tensor, "B T"]


@dataclass(frozen=True)
class ContextWindows:
    """Windows of a token stream, each read from position 0.

    Attributes:
        starts: start of each window.
        stops: end of each window, exclusive.
        label_starts: first token of each window that has a label; those before it are context.
    """

    starts: RowIndices
    stops: RowIndices
    label_starts: RowIndices


class TextPieces(ABC):
    """A token stream of documents with their ends, cut into pieces; a piece is identified by its start.

    Args:
        stream: the ids.
        start_id: the id that ends documents; it precedes the stream, as if another document had ended there.
        length: tokens of a piece at most.
    """

    def __init__(self, stream: TokenStream, *, start_id: int, length: int) -> None:
        self.stream = stream
        self.start_id = start_id
        self.length = length
        self._ends = self.find_text_ends()

    @abstractmethod
    def plan_epoch(self, *, tokens: int, seed: int, epoch: int) -> Sequence[RowIndices]:
        """Return the starts of the pieces in each batch of an epoch, each batch of about `tokens` tokens; a pure
        function of the arguments.
        """

    @abstractmethod
    def find_text_ends(self) -> RowIndices:
        """Return the index in the stream where each text ends; no piece spans two texts."""

    def get_text_bounds(self) -> tuple[RowIndices, RowIndices]:
        """Return the stream indices of the start and the end of each text."""
        return np.append(0, self._ends[:-1]), self._ends

    def build_batch(self, starts: RowIndices) -> TextBatch:
        """Build the batch of the pieces with these starts, each of the piece length or up to the end of its text."""
        ends = self._ends[np.searchsorted(self._ends, starts, side="right")]
        return self.build_window_batch(ContextWindows(starts, np.minimum(starts + self.length, ends), starts))

    def build_windows(self, *, context: int, stride: int) -> ContextWindows:
        """Build windows of at most `context` tokens of one text, each `stride` tokens after the one before it.

        Every token has a label once: in its text's first window, or else with at least `context - stride` tokens of
        context.

        Raises:
            RecipeError: the stride is not from 1 to the context.
        """
        if not 1 <= stride <= context:
            raise RecipeError(f"stride: {stride}; must be from 1 to {context}, the tokens that are read at a time")
        first, last = self.get_text_bounds()
        # behind a text's first stretch there is one for every `stride` tokens that are left
        counts = 1 + -(-np.maximum(last - first - context, 0) // stride)
        text = np.repeat(np.arange(len(first)), counts)
        number = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = first[text] + number * stride
        stops = np.minimum(starts + context, last[text])
        return ContextWindows(starts, stops, np.where(number > 0, starts + context - stride, starts))

    def build_window_batch(self, windows: ContextWindows) -> TextBatch:
        """Build a batch of windows, padded on the right; context tokens have no label."""
        indices = windows.starts[:, None] + np.arange(int((windows.stops - windows.starts).max()))
        real = indices < windows.stops[:, None]
        indices = np.minimum(indices, len(self.stream) - 1)
        labels = np.where(real & (indices >= windows.label_starts[:, None]), self.stream[indices].astype(np.int64), -1)
        previous_ids = np.where(indices > 0, self.stream[np.maximum(indices - 1, 0)].astype(np.int64), self.start_id)
        positions = torch.arange(indices.shape[1]).expand(indices.shape)
        if not real.all():  # else all rows share one memory, and their mask is computed once
            positions = torch.where(torch.from_numpy(real), positions, -1)
        tokens = Tokens(torch.from_numpy(np.where(real, previous_ids, 0)), positions)
        return TextBatch(tokens, torch.from_numpy(labels))

    def iter_window_batches(self, windows: ContextWindows, *, tokens: int) -> Iterator[tuple[RowIndices, TextBatch]]:
        """Yield windows in batches of about `tokens` tokens, longest first, each with the stream indices of its
        labels, row by row.
        """
        lengths = windows.stops - windows.starts
        for rows in batch_by_length(lengths, max_tokens=tokens, max_rows=max(1, tokens)):
            label_starts, stops = windows.label_starts[rows], windows.stops[rows]
            indices = np.concatenate([np.arange(*bounds) for bounds in zip(label_starts, stops, strict=True)])
            yield indices, self.build_window_batch(ContextWindows(windows.starts[rows], stops, label_starts))


@final
class PackedPieces(TextPieces):
    """Pieces of concatenated documents, cut at other places in each epoch."""

    def plan_epoch(self, *, tokens: int, seed: int, epoch: int) -> Sequence[RowIndices]:
        """Return the starts of the pieces of an epoch, shuffled, in batches of about `tokens` tokens; the tokens before
        the first piece, fewer than a piece, are skipped in this epoch.
        """
        rows = max(1, tokens // self.length)
        rng = np.random.Philox(np.random.SeedSequence([seed, epoch]))
        offset = int(rng.random_raw(1)[0] % self.length) if len(self.stream) > 2 * self.length else 0
        starts = np.arange(offset, len(self.stream), self.length)
        shuffled = starts[np.argsort(rng.random_raw(len(starts)), kind="stable")]
        return [shuffled[start : start + rows] for start in range(0, len(starts), rows)]

    def find_text_ends(self) -> RowIndices:
        """Return the end of the stream, which is one text."""
        return np.array([len(self.stream)])


@final
class DocumentPieces(TextPieces):
    """Pieces that never contain tokens of two documents; a long document has several."""

    def plan_epoch(self, *, tokens: int, seed: int, epoch: int) -> Sequence[RowIndices]:
        """Return the starts of the pieces of an epoch, in shuffled batches of similar length and about `tokens` ids."""
        windows = self.build_windows(context=self.length, stride=self.length)
        lengths = windows.stops - windows.starts
        batches = batch_by_size(np.stack((lengths, lengths), 1), max_tokens=tokens, seed=seed, epoch=epoch)
        return [windows.starts[rows] for rows in batches]

    def find_text_ends(self) -> RowIndices:
        """Return the end of each document."""
        ends = np.flatnonzero(self.stream == self.start_id) + 1
        return ends if len(ends) and ends[-1] == len(self.stream) else np.append(ends, len(self.stream))


class LanguageModelingObjective(TrainingObjective[TextBatch]):
    """Training objective of p(token | the tokens before it in its piece).

    The text is cut into pieces. An example is the start of a piece in the stream; the stream is preceded by the end of
    a document.

    Args:
        train: ids of all training documents, each with its end.
        validation: ids of all validation documents.
        start_id: the id that ends documents and precedes the stream.
        length: tokens of a piece.
        pieces_class: how a stream is cut into pieces.
        truncation: tokens after which gradients stop while the state goes on (truncated back-propagation through time;
            Williams and Peng 1990); None lets them flow through the whole piece.
        smoothing: label smoothing over the whole vocabulary.
        batch_tokens: tokens in a batch.
        seed: seed of the order of pieces.
        device: the model's device.
    """

    metric_names = frozenset({"loss", "perplexity"})
    part_names = frozenset({"nll"})
    has_predictions = True

    def __init__(
        self,
        train: TokenStream,
        validation: Integer[np.ndarray, " M"],
        *,
        start_id: int,
        length: int,
        pieces_class: type[PackedPieces] | type[DocumentPieces] = PackedPieces,
        truncation: int | None = None,
        smoothing: float = 0.0,
        batch_tokens: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self.train = pieces_class(train, start_id=start_id, length=length)
        self.validation = pieces_class(validation, start_id=start_id, length=length)
        self._streams = (train, validation)
        self.length = length
        self.truncation = truncation
        self.smoothing = smoothing
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.device = device

    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Return the starts of the pieces in each batch of an epoch, shuffled."""
        return self.train.plan_epoch(tokens=self.batch_tokens, seed=self.seed, epoch=epoch)

    def compute_unigram_loss(self) -> float:
        """Return the loss of the frequencies of tokens alone."""
        return measure_unigram_loss(*self._streams)

    def build_batch(self, rows: RowIndices) -> TextBatch:
        """Build the batch of the pieces that start at `rows` of the stream."""
        return move_to_device(self.train.build_batch(rows), self.device)

    def loss(self, model: LanguageModel, batch: TextBatch) -> Loss:
        """Compute the label-smoothed negative log-likelihood of each next token of a batch; gradients stop after
        `truncation` tokens if it is set.
        """
        state, sums, vectors = model.init_state(), [], []
        step = self.truncation or batch.labels.size(1)
        for start in range(0, batch.labels.size(1), step):
            hidden, state = model(batch.tokens.slice_columns(start, start + step), detach(state))
            labelled = _select_labelled(hidden, batch.labels[:, start : start + step])
            sums.append(cross_entropy(*labelled, output=model.output, smoothing=self.smoothing))
            vectors.append(labelled[0])
        smoothed, nll = (torch.stack(parts).sum() for parts in zip(*sums, strict=True))
        count = int((batch.labels >= 0).sum())
        predictions = SoftmaxPredictions(torch.cat(vectors) if len(vectors) > 1 else vectors[0], model.output)
        return Loss(smoothed, count, {"nll": LossPart(nll, count)}, predictions)

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute the loss (nats per token) and the perplexity of the validation text, cut into pieces."""
        assert isinstance(model, LanguageModel)
        nats = compute_token_nats(
            model,
            self.validation,
            context=self.length,
            stride=self.length,
            batch_tokens=self.batch_tokens,
            device=self.device,
        )
        total, count = math.fsum(nats), len(nats)
        return {"loss": total / count, "perplexity": perplexity(-total, count)}


@torch.no_grad()
def compute_token_nats(
    model: LanguageModel,
    pieces: TextPieces,
    *,
    context: int,
    stride: int,
    batch_tokens: int,
    device: torch.device,
) -> Float[np.ndarray, " N"]:
    """Compute -log p of each token of a stream in nats, given those before it in its window.

    Args:
        model: the model in evaluation mode.
        pieces: the stream.
        context: tokens of a window.
        stride: tokens of each window that are scored, the others being context (the first window of a text is scored
            as a whole): each token follows at least `context - stride` others.
        batch_tokens: tokens in a batch; at least one window.
        device: device of the model.

    Raises:
        RecipeError: the stride is not from 1 to the context.
    """
    nats = np.zeros(len(pieces.stream))
    windows = pieces.build_windows(context=context, stride=stride)
    for indices, batch in pieces.iter_window_batches(windows, tokens=max(batch_tokens, context)):
        tokens, labels = move_to_device((batch.tokens, batch.labels), device)
        hidden, _ = model(tokens, model.init_state())
        vectors, numbers = _select_labelled(hidden, labels)
        likelihoods = SoftmaxPredictions(vectors, model.output).compute_log_likelihoods(numbers)
        nats[indices] = -likelihoods.double().cpu().numpy()
    return nats


def _select_labelled(
    hidden: Float[Tensor, "B T d_model"], labels: Int[Tensor, "B T"]
) -> tuple[Float[Tensor, "N d_model"], Int[Tensor, " N"]]:
    """Return the hidden vectors of the tokens that have labels, and these labels."""
    vectors, numbers = hidden.flatten(0, 1), labels.flatten()
    positions = (numbers >= 0).nonzero().squeeze(1)
    if len(positions) == len(numbers):
        return vectors, numbers
    return vectors.index_select(0, positions), numbers.index_select(0, positions)
