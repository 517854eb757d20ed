"""Training objectives: batches of each epoch, a summed loss, and validation metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Generic, Protocol, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import default_collate

from heedful.data.batches import CorpusMixture, batch_by_size, batch_randomly, sum_tokens_by_text
from heedful.data.corpus import Corpus
from heedful.models.predictions import Predictions
from heedful.tensors import move_to_device

Batch = TypeVar("Batch")
RowIndices = Int[np.ndarray, " rows"]


@dataclass(frozen=True)
class LossPart:
    """A detached sum over `count` labels, for reports."""

    total: Float[Tensor, ""]
    count: float


@dataclass(frozen=True)
class Loss:
    """A loss summed over `count` labels, never averaged, so that accumulated and distributed sums equal those of one
    large batch.

    Attributes:
        total: the summed loss to minimise, in nats.
        count: number of labels in the sum; if examples have weights, the sum of the weights of the labels.
        parts: further sums to report, each with its own count; their names are among `TrainingObjective.part_names`.
        predictions: the predicted distributions, for losses that compare them; None if the loss has none.
    """

    total: Float[Tensor, ""]
    count: float
    parts: Mapping[str, LossPart] = field(default_factory=dict)
    predictions: Predictions | None = None


class TrainingObjective(ABC, Generic[Batch]):
    """Data, loss and metrics that training optimises and measures."""

    metric_names: frozenset[str]
    """Names of the metrics that `evaluate` returns, the same in every call."""
    part_names: frozenset[str] = frozenset()
    """Names of the loss parts, which also processes without a share of a batch must know."""
    has_predictions: bool = False
    """Whether the losses have `predictions`."""

    @abstractmethod
    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Return the example indices of each batch of an epoch; a pure function of the seed and the epoch."""

    def plan_updates(self, epoch: int, *, accumulate: int) -> Sequence[Sequence[RowIndices]]:
        """Group the batches of an epoch into updates of `accumulate` batches, in the order of `plan_epoch`; the last
        may be smaller.

        An objective whose losses cannot all be added overrides this to say which batches belong together.
        """
        plan = self.plan_epoch(epoch)
        return [plan[start : start + accumulate] for start in range(0, len(plan), accumulate)]

    def member_name(self, rows: RowIndices) -> str:
        """Return the name of the task that the examples in `rows` belong to; empty if there is only one task."""
        return ""

    @abstractmethod
    def build_batch(self, rows: RowIndices) -> Batch:
        """Build the batch of the examples in `rows`, on the model's device."""

    @abstractmethod
    def loss(self, model: Any, batch: Batch) -> Loss:
        """Compute the loss of a batch."""

    @abstractmethod
    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute metrics on the validation data; the model is in evaluation mode and gradients are off."""

    def compute_unigram_loss(self) -> float | None:
        """Return the loss on the validation data of a model that knows only how frequent each label is in the training
        data (`measure_unigram_loss`); None if labels are not tokens, as by default.
        """
        return None

    def choose_device(self, model_device: torch.device, requested: torch.device | None) -> torch.device:
        """Return the device for batches: the requested one, else the model's device. It is called before the first
        batch.
        """
        return requested or model_device

    def on_update(self, nll: float, *, member: str = "") -> None:
        """Handle the end of an update, given its mean negative log-likelihood, which is the same in all processes;
        does nothing by default.

        Args:
            nll: mean of the loss part of that name, or of the loss if there is no such part.
            member: of several tasks, the one that the update belongs to.
        """
        return

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the objective's own state, to be saved with the optimizer's state; empty by default."""
        return {}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state that `state_dict` returned, given as `tensors`; does nothing by default."""
        return


@dataclass(eq=False)
class CorpusObjective(TrainingObjective[Batch]):
    """A training objective whose examples are the rows of a corpus.

    Abstract: subclasses define the batch and the loss.

    Attributes:
        train: training examples.
        validation: validation examples.
        batch_tokens: padded tokens in a batch.
        seed: seed of the order of examples.
        device: the model's device.
        mix_tokens: maps the token count of each text of `train` to the tokens to take from it per epoch; None takes
            all.
    """

    train: Corpus
    validation: Corpus
    _: KW_ONLY
    batch_tokens: int
    seed: int
    device: torch.device
    mix_tokens: Callable[[Sequence[int]], Sequence[float]] | None = None

    @abstractmethod
    def collate(self, corpus: Corpus, rows: RowIndices) -> Batch:
        """Collate some examples of a corpus into a batch."""

    def example_lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Return the padded length of each example, in two columns (source and target, or twice the same) as batch
        planning expects.
        """
        return corpus.lengths

    @final
    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Return batches of examples of similar length, of all examples or of the epoch's mixture."""
        lengths, order = self._train_lengths, {"max_tokens": self.batch_tokens, "seed": self.seed, "epoch": epoch}
        if self._mixture is None:
            return batch_by_size(lengths, **order)
        rows = self._mixture.sample_epoch(epoch)
        return [rows[batch] for batch in batch_by_size(lengths[rows], **order)]

    @final
    def build_batch(self, rows: RowIndices) -> Batch:
        """Build the batch of these training examples."""
        return move_to_device(self.collate(self.train, rows), self.device)

    @final
    def validation_batches(self) -> Iterator[Batch]:
        """Iterate over the validation data in batches."""
        for rows in batch_by_size(self.example_lengths(self.validation), max_tokens=self.batch_tokens, seed=0, epoch=0):
            yield move_to_device(self.collate(self.validation, rows), self.device)

    @final
    def choose_device(self, model_device: torch.device, requested: torch.device | None) -> torch.device:
        """Return the requested device, or the objective's own device."""
        self.device = requested or self.device
        return self.device

    @cached_property
    def _train_lengths(self) -> Int[np.ndarray, "N 2"]:
        return self.example_lengths(self.train)

    @cached_property
    def _mixture(self) -> CorpusMixture | None:
        """Mixture from which each epoch draws its examples, with a share for each training text; None if the training
        data are a single text.
        """
        if len(self.train.text_reports) < 2:
            return None
        counts, lengths = [text.kept for text in self.train.text_reports], self._train_lengths[:, -1]
        tokens = sum_tokens_by_text(lengths, counts)
        return CorpusMixture(lengths, counts, tokens if self.mix_tokens is None else self.mix_tokens(tokens), self.seed)


Example_co = TypeVar("Example_co", covariant=True)


class ExampleSequence(Protocol[Example_co]):
    """A sequence of examples with a length and indexing: a list, a tensor, or a map-style dataset of PyTorch."""

    def __len__(self) -> int:
        """Return the number of examples."""
        ...

    def __getitem__(self, index: int, /) -> Example_co:
        """Return one example."""
        ...


class ExampleObjective(TrainingObjective[Batch], Generic[Example_co, Batch]):
    """A training objective on examples in memory; subclasses define the loss, and may define collation.

    `evaluate` returns the loss per label of the validation examples, and the mean of each loss part: a loss with a part
    `accuracy`, the number of right answers and of all answers, is measured by accuracy too.

    Abstract: `loss`.

    Args:
        train: training examples.
        validation: validation examples.
        batch_size: examples in a batch at most.
        seed: seed of their order.
    """

    def __init__(
        self,
        train: ExampleSequence[Example_co],
        validation: ExampleSequence[Example_co],
        *,
        batch_size: int = 32,
        seed: int = 1,
    ) -> None:
        self.train = train
        self.validation = validation
        self.batch_size = batch_size
        self.seed = seed
        self.device = torch.device("cpu")
        if not hasattr(type(self), "metric_names"):
            self.metric_names = frozenset({"loss", *self.part_names})

    def collate(self, examples: Sequence[Example_co]) -> Batch:
        """Collate examples into a batch on the CPU: tensors and numbers are stacked, also inside tuples and
        dictionaries.
        """
        batch: Any = default_collate(list(examples))
        if isinstance(batch, list):
            batch = tuple(batch)
        stacked: Batch = batch
        return stacked

    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Return all examples, shuffled, in batches of equal size."""
        return batch_randomly(len(self.train), max_rows=self.batch_size, seed=self.seed, epoch=epoch)

    @final
    def build_batch(self, rows: RowIndices) -> Batch:
        """Build the batch of the examples in `rows` on the model's device."""
        return self._collate_on_device(self.train, rows)

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Return the loss per label and the mean of each loss part on the validation examples."""
        totals: dict[str, Tensor | float] = defaultdict(float)
        counts: dict[str, float] = defaultdict(float)
        rows = np.arange(len(self.validation))
        for start in range(0, len(rows), self.batch_size):
            loss = self.loss(model, self._collate_on_device(self.validation, rows[start : start + self.batch_size]))
            for name, part in {**loss.parts, "loss": LossPart(loss.total, loss.count)}.items():
                totals[name] += part.total.detach().double()
                counts[name] += part.count
        return {name: float(totals[name]) / max(1, counts[name]) for name in sorted({"loss", *self.part_names})}

    @final
    def choose_device(self, model_device: torch.device, requested: torch.device | None) -> torch.device:
        """Return the requested device, else a GPU if there is one."""
        self.device = requested or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return self.device

    def _collate_on_device(self, examples: ExampleSequence[Example_co], rows: RowIndices) -> Batch:
        return move_to_device(self.collate([examples[int(row)] for row in rows]), self.device)


_BLOCK_TOKENS: Final = 1 << 22
"""Tokens of a stream that are counted at a time."""


def measure_unigram_loss(train: Integer[np.ndarray, " N"], validation: Integer[np.ndarray, " M"]) -> float:
    """Return the mean -log p of the validation tokens in nats, where p is the share of a token in the training tokens,
    with one added to each count.
    """
    size = 1 + max(int(stream.max()) for stream in (train, validation))
    train_counts, counts = (
        sum(
            (
                np.bincount(stream[start : start + _BLOCK_TOKENS], minlength=size)
                for start in range(0, len(stream), _BLOCK_TOKENS)
            ),
            np.zeros(size, dtype=np.int64),
        )
        for stream in (train, validation)
    )
    nats = np.log(train_counts.sum() + size) - np.log(train_counts + 1)
    return float((counts * nats).sum() / counts.sum())


@final
@dataclass(frozen=True)
class UnitNames:
    """Plural nouns for what a task counts.

    Attributes:
        examples: elements of a batch.
        labels: what the loss is summed over; the same word if each example has one label.
        corpus_examples: elements of a corpus.
        contents: what is counted in a corpus besides its elements.
        contents_side: corpus side that holds the contents; None for the last one, empty for none.
    """

    examples: str = "examples"
    labels: str = "tokens"
    corpus_examples: str = "examples"
    contents: str = "tokens"
    contents_side: str | None = None

    def describe_size(self, corpus: Corpus, part: str) -> str:
        """Describe the size of a corpus, as in `400 training examples, 2,100 tokens`; `part` is the word for the part
        of the data.
        """
        text = f"{corpus.report.kept:,} {part} {self.corpus_examples}"
        if self.contents_side == "":
            return text
        side = list(corpus.sides.values())[-1] if self.contents_side is None else corpus[self.contents_side]
        return f"{text}, {len(side.stream):,} {self.contents}"

    def describe_speed(self, *, labels: float, examples: float) -> str:
        """Describe the training speed, given labels and examples per second; only examples if both count the same."""
        example_rate = f"{_format_rate(examples)} {self.examples}/s"
        return (
            example_rate if self.labels == self.examples else f"{_format_rate(labels)} {self.labels}/s  {example_rate}"
        )


def _format_rate(number: float) -> str:
    """Format a rate, with one decimal if it is small."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def combine_passes(first: Loss, second: Loss, *, alpha: float) -> Loss:
    """Combine the losses of two passes over a batch with different dropout: their mean, plus alpha / 4 times the
    divergences of their predictions in both directions, KL(p || q) + KL(q || p) (R-Drop, Liang et al. 2021, eq. 4,
    divided by 2 so that the loss without dropout is that of one pass).

    The part `r_drop` is the mean of both divergences for each label.
    """
    assert first.predictions is not None, "only losses with predictions can be compared"
    assert second.predictions is not None, "only losses with predictions can be compared"
    divergence = _sum_divergences(first.predictions, second.predictions)
    parts = {
        name: LossPart((part.total + second.parts[name].total) / 2, part.count) for name, part in first.parts.items()
    }
    parts["r_drop"] = LossPart(divergence.detach() / 2, first.count)
    return replace(first, total=(first.total + second.total) / 2 + alpha / 4 * divergence, parts=parts)


def _sum_divergences(first: Predictions, second: Predictions) -> Float[Tensor, ""]:
    """Return the sum over all vectors of KL(p || q) + KL(q || p) = sum_w (p(w) - q(w)) (log p(w) - log q(w)), each
    multiplied by the vector's weight. The logits of a chunk exist at one time, also in the backward pass.
    """
    size = first.chunk_rows
    weights = torch.ones(len(first), device=first.device) if first.weights is None else first.weights

    def sum_chunk(p: Predictions, q: Predictions, weights: Tensor) -> Tensor:
        """Return the sum of one chunk."""
        log_p, log_q = p.compute_log_probabilities(), q.compute_log_probabilities()
        total: Tensor = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(1) @ weights.to(log_p.dtype)
        return total

    chunks = zip(first.split(size), second.split(size), torch.split(weights, size), strict=True)
    return torch.stack([checkpoint(sum_chunk, *chunk, use_reentrant=False) for chunk in chunks]).sum()
