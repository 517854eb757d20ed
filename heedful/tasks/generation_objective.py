"""Training objective of models that generate a target from a source: loss criteria, perplexity, metrics of texts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention.hooks import SOURCE_AXIS, WRITTEN_AXIS
from heedful.attention.normalizers import MovingBaseline, SampleStatistics, compute_reinforce_loss
from heedful.data.batches import PairBatch
from heedful.data.corpus import Corpus
from heedful.inspection.capture import find_attention_sites, watch_attention
from heedful.models.generative import ConditionalModel
from heedful.models.predictions import Predictions
from heedful.recipes.training import DecoderTrainingConfig
from heedful.tasks.objective import (
    CorpusObjective,
    Loss,
    LossPart,
    RowIndices,
    measure_unigram_loss,
)
from heedful.tensors import Tokens


def decorrelation_penalty(weights: Iterable[Float[Tensor, "B H Q K"]]) -> Float[Tensor, ""]:
    """Sum |A A^T - I|^2 (Frobenius) over attention calls and queries, where row j of A is head j's weights.

    Off the diagonal it pushes heads apart, on the diagonal it makes each head attend to few keys (Lin et al. 2017, eq.
    8, there for the hops of a sentence embedding; here for multi-head attention). Queries without visible keys, such as
    padding, do not count.
    """
    penalties = []
    for call_weights in weights:
        heads = call_weights.transpose(1, 2)
        gram = heads @ heads.transpose(-2, -1)
        identity = torch.eye(gram.size(-1), dtype=gram.dtype, device=gram.device)
        is_real = (heads.sum((-2, -1)) > 0).to(gram.dtype)
        penalties.append(((gram - identity).square().sum((-2, -1)) * is_real).sum())
    assert penalties, "decorrelation needs attention weights"
    return torch.stack([p.float() for p in penalties]).sum()


class Criterion(ABC):
    """A loss summed over the labels of a batch; its part `nll` is the unsmoothed negative log-likelihood."""

    part_names: frozenset[str]
    """Names of the loss parts."""

    @abstractmethod
    def loss(self, model: ConditionalModel[Any], batch: PairBatch[Any]) -> Loss:
        """Compute the loss of a batch."""

    def on_update(self, nll: float) -> None:
        """Handle the end of an update, given its mean `nll`, which is the same in all processes; does nothing by
        default.
        """
        return

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the criterion's state; empty by default."""
        return {}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state that `state_dict` returned, given as `tensors`."""
        return


def select_labelled(predictions: Predictions, batch: PairBatch[Any]) -> tuple[Predictions, Int[Tensor, " labels"]]:
    """Return the predictions at the positions of a batch that have a label, and these labels; the weights of pairs
    become those of their labels.
    """
    has_label = batch.labels >= 0
    rows = has_label.flatten().nonzero().squeeze(1)
    weights = None if batch.weights is None else batch.weights.repeat_interleave(has_label.sum(1))
    return predictions.select(rows).with_weights(weights), batch.labels.flatten().index_select(0, rows)


@final
class LikelihoodCriterion(Criterion):
    """Label-smoothed negative log-likelihood of the targets (Szegedy et al. 2016, section 7).

    The loss of a pair with a weight is multiplied by it, and so is the number of its labels: the mean is weighted. The
    part `nll` has no weights.

    Args:
        smoothing: probability taken from the right token and spread over the vocabulary.
    """

    part_names = frozenset({"nll"})

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def loss(self, model: ConditionalModel[Any], batch: PairBatch[Any]) -> Loss:
        """Run the model on a batch and compute the loss of all labels."""
        return self.compute_loss(model.predict(batch.source, batch.target), batch)

    def compute_loss(self, predictions: Predictions, batch: PairBatch[Any]) -> Loss:
        """Compute the loss from the predictions for all target tokens of a batch."""
        labelled, labels = select_labelled(predictions, batch)
        smoothed, nll = labelled.compute_cross_entropy(labels, smoothing=self.smoothing)
        count = len(labels) if labelled.weights is None else float(labelled.weights.double().sum())
        return Loss(smoothed, count, {"nll": LossPart(nll, len(labels))}, labelled)


@final
class DecorrelationCriterion(Criterion):
    """The likelihood plus a penalty on similar attention heads (see `decorrelation_penalty`).

    Args:
        likelihood: likelihood of the targets.
        weight: weight of the penalty per label.
    """

    part_names = frozenset({"nll", "decorrelation"})

    def __init__(self, likelihood: LikelihoodCriterion, *, weight: float) -> None:
        self.likelihood = likelihood
        self.weight = weight

    def loss(self, model: ConditionalModel[Tokens], batch: PairBatch[Tokens]) -> Loss:
        """Compute the likelihood loss of a batch plus the weighted penalty."""
        with watch_attention(model, detach=False) as weights:
            likelihood = self.likelihood.loss(model, batch)
        # padding also has queries where everything is visible; they must not count
        real_queries = {SOURCE_AXIS: batch.source.positions >= 0, WRITTEN_AXIS: batch.target.positions >= 0}
        penalty = decorrelation_penalty(
            call_weights * real_queries[site.declaration.queries][:, None, :, None]
            for name, site in find_attention_sites(model).items()
            for call_weights in weights.get(name, ())
        )
        total = likelihood.total + self.weight * penalty
        parts = {**likelihood.parts, "decorrelation": LossPart(penalty.detach(), likelihood.count)}
        return replace(likelihood, total=total, parts=parts)


class AddedTermCriterion(Criterion):
    """Another criterion, `base`, plus a term that is reported as a part of the loss, `part`.

    Abstract: subclasses define the loss.
    """

    def __init__(self, base: Criterion, *, part: str) -> None:
        self.base = base
        self.part_names = base.part_names | {part}

    def on_update(self, nll: float) -> None:
        """Forward the update's mean `nll` to the base criterion."""
        self.base.on_update(nll)

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the base criterion's state."""
        return self.base.state_dict()

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the base criterion's state."""
        self.base.load_state_dict(tensors)


@final
class DoublyStochasticCriterion(AddedTermCriterion):
    """Another criterion plus lambda sum_i (1 - sum_t alpha_ti)^2, so that all source slots get attention (Xu et al.
    2015, 4.2.1).

    alpha_ti is the weight of target token t on slot i, the mean over heads; each attention to a memory adds its own
    term. The part `unread` is the sum of squares per target. All rows must have equally many slots, as pictures have.

    Args:
        other: the other criterion.
        weight: lambda.
    """

    def __init__(self, other: Criterion, *, weight: float) -> None:
        super().__init__(other, part="unread")
        self.weight = weight

    def loss(self, model: ConditionalModel[Any], batch: PairBatch[Any]) -> Loss:
        """Compute the base criterion's loss of a batch plus the weighted penalty on slots with little attention."""
        with watch_attention(model, detach=False) as weights_by_site:
            loss = self.base.loss(model, batch)
        real = (batch.labels >= 0).unsqueeze(-1)
        penalty = loss.total.new_zeros(())
        for name, site in find_attention_sites(model).items():
            if site.declaration.kind == "cross" and (calls := weights_by_site.get(name)):
                weights = torch.cat([call.mean(1) if call.dim() == 4 else call for call in calls], 1)
                penalty = penalty + (1 - torch.where(real, weights, 0.0).sum(1)).square().sum()
        parts = {**loss.parts, "unread": LossPart(penalty.detach(), len(batch.labels))}
        return replace(loss, total=loss.total + self.weight * penalty, parts=parts)


@final
class ReinforceCriterion(Criterion):
    """The likelihood plus the REINFORCE gradient of hard attention, whose slots are sampled from the softmax (Xu et
    al. 2015, 4.1).

    The reward of all samples of a sentence is the log-likelihood of its target minus a baseline. The baseline is a
    moving mean per label over updates, multiplied by the number of labels, so that long sentences are not penalised for
    their length.

    Args:
        likelihood: likelihood of the targets.
        reward: lambda_r (the equation after 12), the weight of the reward; 1 gives the gradient of the paper's lower
            bound.
        entropy: lambda_e, the weight of the samples' entropy.
        decay: decay of the baseline.
    """

    part_names = frozenset({"nll", "entropy"})

    def __init__(
        self, likelihood: LikelihoodCriterion, *, reward: float = 1.0, entropy: float = 0.002, decay: float = 0.9
    ) -> None:
        self.likelihood = likelihood
        self.reward = reward
        self.entropy = entropy
        self.baseline = MovingBaseline(decay=decay)

    def loss(self, model: ConditionalModel[Any], batch: PairBatch[Any]) -> Loss:
        """Compute the likelihood loss of a batch; its gradient includes those of expected reward and entropy."""
        with watch_attention(model, detach=False) as weights_by_site:
            predictions = model.predict(batch.source, batch.target)
        likelihood = self.likelihood.compute_loss(predictions, batch)
        real = batch.labels >= 0
        reward = _sentence_log_likelihoods(predictions, batch.labels)
        expected_reward = self.baseline.value * real.sum(1, keepdim=True)
        weight, total, entropy = self.reward, likelihood.total, torch.zeros_like(likelihood.total)
        for samples in _iter_samples(weights_by_site):
            terms = compute_reinforce_loss(
                samples, reward=weight * reward, baseline=weight * expected_reward, entropy_weight=self.entropy
            )
            surrogate_loss = torch.where(real, terms, 0.0).sum()
            total = total + (surrogate_loss - surrogate_loss.detach())  # its value means nothing
            entropy += torch.where(real, samples.entropy, 0.0).sum().detach()
        parts = {**likelihood.parts, "entropy": LossPart(entropy, likelihood.count)}
        return replace(likelihood, total=total, parts=parts)

    def on_update(self, nll: float) -> None:
        """Update the baseline with the mean log-likelihood of the update's labels, minus `nll`."""
        self.baseline = self.baseline.update(torch.tensor(-nll, dtype=torch.float64))

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the baseline."""
        return {"baseline": torch.tensor(self.baseline.value, dtype=torch.float64)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the baseline."""
        self.baseline = MovingBaseline(float(tensors["baseline"]), self.baseline.decay)


def _sentence_log_likelihoods(predictions: Predictions, labels: Int[Tensor, "B T"]) -> Float[Tensor, "B 1"]:
    """Return the log-likelihood of the labels of each sentence, without a gradient; -1 means no label."""
    flat = labels.flatten()
    rows = (flat >= 0).nonzero().squeeze(1)
    token_log_likelihoods = predictions.select(rows).compute_log_likelihoods(flat[rows])
    sums = token_log_likelihoods.new_zeros(len(labels)).index_add(0, rows // labels.size(1), token_log_likelihoods)
    return sums.unsqueeze(1)


def _iter_samples(weights_by_site: Mapping[str, Sequence[Tensor]]) -> Iterator[SampleStatistics]:
    """Yield the sampled weights of all steps and their distributions for each hard attention, from the recorded weights
    by module path.
    """
    for name, calls in weights_by_site.items():
        if distributions := weights_by_site.get(f"{name}.choose"):
            yield SampleStatistics.from_weights(torch.cat(list(calls), 1), torch.cat(list(distributions), 1))


def build_criterion(config: DecoderTrainingConfig) -> Criterion:
    """Build the criterion of a training config: REINFORCE if configured, else the label-smoothed likelihood."""
    likelihood = LikelihoodCriterion(config.label_smoothing)
    if (reinforce_config := config.reinforce) is not None:
        return ReinforceCriterion(
            likelihood,
            reward=reinforce_config.reward,
            entropy=reinforce_config.entropy,
            decay=reinforce_config.baseline_decay,
        )
    return likelihood


@dataclass(frozen=True)
class GenerationMetrics:
    """Metrics that need texts generated by the model.

    Attributes:
        names: names of the metrics.
        measure: computes all of them for a model in evaluation mode.
    """

    names: frozenset[str]
    measure: Callable[[nn.Module], Mapping[str, float]]


@final
@dataclass(eq=False)
class GenerationObjective(CorpusObjective[PairBatch[Any]]):
    """Training objective of p(target | source), for any kind of source.

    Attributes:
        collate_fn: collates some examples of a corpus into a batch.
        criterion: the loss to minimise.
        generation_metrics: metrics besides the unsmoothed loss (nats per label), its perplexity, and accuracy: the
            share of labels that are the most probable token given those before them.
        target_side: name of the side of the corpora that holds the targets.
    """

    _: KW_ONLY
    target_side: str = "target"
    collate_fn: Callable[[Corpus, RowIndices], PairBatch[Any]]
    criterion: Criterion = field(default_factory=LikelihoodCriterion)
    generation_metrics: GenerationMetrics | None = None
    has_predictions = True

    def __post_init__(self) -> None:
        self.metric_names = frozenset(
            {"loss", "perplexity", "accuracy"} | (self.generation_metrics.names if self.generation_metrics else set())
        )
        self.part_names = self.criterion.part_names

    def collate(self, corpus: Corpus, rows: RowIndices) -> PairBatch[Any]:
        """Collate examples with `collate_fn`."""
        return self.collate_fn(corpus, rows)

    def example_lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Return the lengths of source and target; other sides take no space in a batch."""
        return corpus.lengths[:, :2]

    def compute_unigram_loss(self) -> float:
        """Return the loss of the frequencies of target tokens alone, without ends."""
        train, validation = (corpus[self.target_side].stream for corpus in (self.train, self.validation))
        return measure_unigram_loss(train, validation)

    def loss(self, model: ConditionalModel[Any], batch: PairBatch[Any]) -> Loss:
        """Compute the criterion's loss of a batch."""
        return self.criterion.loss(model, batch)

    def on_update(self, nll: float, *, member: str = "") -> None:
        """Forward the update's mean `nll` to the criterion; `member` is not used."""
        self.criterion.on_update(nll)

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the criterion's state."""
        return self.criterion.state_dict()

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the criterion's state."""
        self.criterion.load_state_dict(tensors)

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute loss, perplexity and accuracy per token on the validation data, and the metrics of generated texts if
        there are any.
        """
        assert isinstance(model, ConditionalModel)
        total, right, count = 0.0, 0, 0
        for batch in self.validation_batches():
            predictions, labels = select_labelled(model.predict(batch.source, batch.target), batch)
            nll, hits = predictions.score_labels(labels)
            total, right, count = total + float(nll), right + int(hits), count + len(labels)
        scores = self.generation_metrics.measure(model) if self.generation_metrics is not None else {}
        loss = total / count
        return {"loss": loss, "perplexity": _compute_perplexity(loss), "accuracy": right / count, **scores}


def _compute_perplexity(nll: float) -> float:
    """Compute exp(nll); infinity if it overflows."""
    return math.exp(nll) if nll < np.log(np.finfo(float).max) else math.inf
