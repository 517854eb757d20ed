"""The pre-training objective: batches of masked passages; BERT's losses, and ELECTRA's of replaced tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.data.batches import batch_by_size, pad_rows, to_tokens
from heedful.data.random_numbers import SeededRandom
from heedful.data.tokenizers import Tokenizer
from heedful.models.heads import MaskedLanguageModel, ReplacedTokenDetector
from heedful.models.predictions import cross_entropy
from heedful.tasks.objective import Loss, LossPart, RowIndices, TrainingObjective
from heedful.tasks.pretraining.data import MaskingStrategy, PassageSampler, mask_tokens
from heedful.tensors import Tokens, move_to_device


@dataclass(frozen=True)
class MaskedBatch:
    """A batch of passages in which some tokens are masked.

    Attributes:
        tokens: the model's input.
        labels: the original token at each masked position, -1 elsewhere.
        follows: for each row 1 if its second segment follows the first, 0 if not; -1 if that is not asked.
    """

    tokens: Tokens
    labels: Int[Tensor, "B T"]
    follows: Int[Tensor, " B"]


class PretrainingLoss(ABC):
    """Negative log-likelihood of masked tokens, plus `weight` times a second loss.

    Attributes:
        metrics: the names that `compute_metrics` returns.
        second_names: names of the second loss's sum and of its number of questions.
        weight: of one question of the second loss, in masked tokens.
    """

    metrics: ClassVar[frozenset[str]]
    second_names: ClassVar[tuple[str, str]]
    weight: float

    @property
    def part_names(self) -> frozenset[str]:
        """Names of the parts of the loss."""
        return frozenset({"nll", self.second_names[0]})

    @final
    def compute_loss(self, model: Any, batch: MaskedBatch) -> Loss:
        """Compute the training loss of a batch, summed over masked tokens."""
        sums, (second_name, count_name) = self.run_model(model, batch, learning=True), self.second_names
        parts = {
            "nll": LossPart(sums["masked"].detach(), sums["tokens"]),
            second_name: LossPart(sums[second_name].detach(), sums[count_name]),
        }
        return Loss(sums["masked"] + self.weight * sums[second_name], sums["tokens"], parts)

    @final
    def compute_batch_sums(self, model: Any, batch: MaskedBatch) -> Mapping[str, float]:
        """Return the sums over a batch that `compute_metrics` needs: losses, correct answers and questions."""
        return {name: float(value) for name, value in self.run_model(model, batch, learning=False).items()}

    @abstractmethod
    def run_model(self, model: Any, batch: MaskedBatch, *, learning: bool) -> dict[str, Any]:
        """Run the model on a batch; return sums of losses and counts by name, and if not `learning` also the numbers of
        correct answers.
        """

    @abstractmethod
    def compute_metrics(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Compute metrics by name from sums over all batches; arrays of resampled sums give arrays."""


@dataclass(frozen=True)
class _MaskedPredictions:
    """The model's predictions at the masked positions.

    Attributes:
        indices: the masked positions in the flattened batch.
        labels: the original tokens.
        vectors: inputs of the output layer; only these go through the vocabulary.
        nll: negative log-likelihood of the labels, summed.
    """

    indices: Int[Tensor, " N"]
    labels: Int[Tensor, " N"]
    vectors: Float[Tensor, "N d_model"]
    nll: Float[Tensor, ""]

    @classmethod
    def from_hidden(
        cls, model: MaskedLanguageModel, hidden: Float[Tensor, "B T d_model"], labels: Int[Tensor, "B T"]
    ) -> _MaskedPredictions:
        """Apply the masked language modelling head to the hidden states at masked positions, whose label is not -1."""
        indices = (labels >= 0).flatten().nonzero().squeeze(1)
        targets = labels.flatten().index_select(0, indices)
        vectors = model.masked(hidden.flatten(0, 1).index_select(0, indices))
        return cls(indices, targets, vectors, cross_entropy(vectors, targets, output=model.masked.output)[0])


@final
class MaskedTokenLoss(PretrainingLoss):
    """Masked language modelling, plus sentence-pair classification if the model has it (Devlin et al. 2019, 3.1).

    Args:
        weight: of a sentence pair, in masked tokens.
    """

    metrics = frozenset({"loss", "masked_loss", "masked_accuracy", "pair_loss", "pair_accuracy"})
    second_names = ("pair", "pairs")

    def __init__(self, *, weight: float) -> None:
        self.weight = weight

    def compute_metrics(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Compute losses (nats per masked token and per pair) and accuracies; `loss` is the sum of both mean losses.

        Without sentence pairs, their metrics are 0.
        """
        tokens, pairs = np.maximum(1.0, sums["tokens"]), np.maximum(1.0, sums["pairs"])
        masked, pair = sums["masked"] / tokens, sums["pair"] / pairs
        return {
            "loss": masked + pair,
            "masked_loss": masked,
            "masked_accuracy": sums["masked_right"] / tokens,
            "pair_loss": pair,
            "pair_accuracy": sums["pair_right"] / pairs,
        }

    def run_model(self, model: MaskedLanguageModel, batch: MaskedBatch, *, learning: bool) -> dict[str, Any]:
        """Predict the masked tokens of a batch, and whether the second segment follows the first; return sums of losses
        and counts by name, with correct tokens only if not `learning`.
        """
        memory = model(batch.tokens)
        predictions = _MaskedPredictions.from_hidden(model, memory.values, batch.labels)
        sums: dict[str, Any] = {"masked": predictions.nll, "tokens": len(predictions.indices)}
        sums |= {"pair": predictions.nll.new_zeros(()), "pairs": 0, "pair_right": 0}
        if not learning:
            sums["masked_right"] = (model.masked.output(predictions.vectors).argmax(-1) == predictions.labels).sum()
        if model.relation is not None:
            logits = model.relation(memory.summary)
            sums["pair"] = functional.cross_entropy(logits.float(), batch.follows, reduction="sum")
            sums["pairs"] = len(batch.follows)
            sums["pair_right"] = (logits.argmax(-1) == batch.follows).sum()
        return sums


@final
class ReplacedTokenLoss(PretrainingLoss):
    """The generator's masked language modelling loss, plus `weight` times the detector's loss.

    Masked tokens are replaced by samples from the generator; a sample that equals the original counts as not replaced
    (Clark et al. 2020, section 2). No gradient flows through the sampling.

    Args:
        weight: lambda, 50 in the paper, for means over masked tokens and over all tokens.
        share: share of masked tokens, which turns those means into sums: a detector decision counts `weight` times
            `share`.
    """

    metrics = frozenset({"loss", "masked_loss", "masked_accuracy", "replaced_loss", "replaced_found", "replaced_right"})
    second_names = ("verdict", "all")

    def __init__(self, *, weight: float, share: float) -> None:
        self.mean_weight = weight
        self.weight = weight * share

    def compute_metrics(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Compute the generator's loss and accuracy on masked tokens, and the detector's on all tokens.

        `replaced_found` is the detector's recall of replaced tokens, `replaced_right` its accuracy; `loss` is the
        weighted sum that is minimised.
        """
        tokens, total = np.maximum(1.0, sums["tokens"]), np.maximum(1.0, sums["all"])
        masked, detection = sums["masked"] / tokens, sums["verdict"] / total
        return {
            "loss": masked + self.mean_weight * detection,
            "masked_loss": masked,
            "masked_accuracy": sums["masked_right"] / tokens,
            "replaced_loss": detection,
            "replaced_found": sums["found"] / np.maximum(1.0, sums["replaced"]),
            "replaced_right": sums["right"] / total,
        }

    def run_model(self, model: ReplacedTokenDetector, batch: MaskedBatch, *, learning: bool) -> dict[str, Any]:
        """Replace the masked tokens of a batch with the generator and run the detector; return sums of losses and
        counts by name. With `learning` tokens are sampled, else the most probable ones are taken.
        """
        generator, is_token = model.generator, batch.tokens.positions >= 0
        assert generator is not None, "a model in training has a generator"
        predictions = _MaskedPredictions.from_hidden(generator, generator(batch.tokens).values, batch.labels)
        with torch.no_grad():
            replacements = _choose_replacements(generator.masked.output(predictions.vectors), draws=learning)
            is_masked = batch.labels >= 0
            ids = (
                torch.where(is_masked, batch.labels, batch.tokens.ids)
                .flatten()
                .index_copy(0, predictions.indices, replacements)
            )
            ids = ids.view_as(batch.labels)
            is_replaced = is_masked & (ids != batch.labels)
        detector_input = Tokens(ids, batch.tokens.positions, batch.tokens.segments)
        logits = model(detector_input).float()
        is_detected = logits > 0
        return {
            "masked": predictions.nll,
            "masked_right": (replacements == predictions.labels).sum(),
            "tokens": len(predictions.indices),
            "verdict": functional.binary_cross_entropy_with_logits(
                logits[is_token], is_replaced[is_token].float(), reduction="sum"
            ),
            "all": int(is_token.sum()),
            "replaced": is_replaced.sum(),
            "found": (is_detected & is_replaced).sum(),
            "right": ((is_detected == is_replaced) & is_token).sum(),
        }


def _choose_replacements(logits: Float[Tensor, "N V"], *, draws: bool) -> Int[Tensor, " N"]:
    """Return the most probable token of each row of logits, or a sample if `draws`."""
    if not draws:
        return logits.argmax(-1)
    # the largest of log-probabilities with Gumbel noise is a draw
    noise = -torch.empty_like(logits).exponential_().log()
    return (logits + noise).argmax(-1)


_MASKING_STREAM: Final = 2
_VALIDATION_EPOCH: Final = 0


class MaskedPassageBatches:
    """Batches of passages from a corpus: assembled, masked and padded.

    What is masked is determined by the passage's number, so it differs between epochs (dynamic masking, Liu et al.
    2019) and does not depend on how rows are distributed over processes.

    Args:
        passages: of a corpus made with `build_sentence_encoding`.
        tokenizer: of the corpus; has a mask token.
        masking: chooses the tokens to predict.
    """

    def __init__(self, passages: PassageSampler, *, tokenizer: Tokenizer, masking: MaskingStrategy) -> None:
        special = tokenizer.special
        assert special.mask is not None, "a vocabulary to pre-train with has a mask"
        self.passages = passages
        self.masking = masking
        self.special = special
        self.mask_id = special.mask
        self.continues_word = tokenizer.get_continuation_mask()
        silent = special.skipped_ids | {special.unk}
        self.word_ids = np.array([number for number in range(tokenizer.size) if number not in silent])

    def plan_epoch(self, epoch: int, *, tokens: int, seed: int) -> Sequence[RowIndices]:
        """Return the passage numbers of each batch of an epoch; a batch has about `tokens` tokens, and the seed
        shuffles.
        """
        numbers, lengths = self.passages.plan(epoch)
        lengths_per_side = np.stack([lengths, lengths], 1)
        return [numbers[rows] for rows in batch_by_size(lengths_per_side, max_tokens=tokens, seed=seed, epoch=epoch)]

    def build_batch(self, numbers: RowIndices) -> MaskedBatch:
        """Build a batch from passage numbers."""
        inputs, labels, segments, follows = [], [], [], []
        for number in numbers.tolist():
            ids, second_start, follow = self._assemble_ids(number)
            masked_ids, masked_labels = self._mask_ids(ids, number)
            inputs.append(masked_ids)
            labels.append(masked_labels)
            segments.append([0] * second_start + [1] * (len(ids) - second_start))
            follows.append(follow)
        tokens = to_tokens(pad_rows(inputs))
        segment_ids = torch.from_numpy(np.maximum(pad_rows(segments), 0))
        return MaskedBatch(
            Tokens(tokens.ids, tokens.positions, segment_ids), torch.from_numpy(pad_rows(labels)), torch.tensor(follows)
        )

    def _assemble_ids(self, number: int) -> tuple[np.ndarray, int, int]:
        """Return the ids of the passage with this number, the start of its second segment, and 1 or 0 for whether that
        segment follows, or -1 without one.
        """
        passage = self.passages[number]
        stream, bos, eos = self.passages.documents.stream, self.special.bos, self.special.eos
        first = np.asarray(stream[passage.first.start : passage.first.stop], dtype=np.int64)
        if passage.second is None:
            return np.concatenate(([bos], first, [eos])), len(first) + 2, -1
        second = np.asarray(stream[passage.second.start : passage.second.stop], dtype=np.int64)
        return np.concatenate(([bos], first, [eos], second, [eos])), len(first) + 2, int(passage.follows)

    def _mask_ids(self, ids: np.ndarray, number: int) -> tuple[list[int], list[int]]:
        """Mask ids of the passage with this number; return the input ids, and the labels with -1 where nothing is
        predicted.
        """
        rng = SeededRandom(self.passages.seed, number, _MASKING_STREAM)
        text_indices = np.flatnonzero((ids != self.special.bos) & (ids != self.special.eos))
        text = ids[text_indices]
        chosen = self.masking.choose_tokens(self.continues_word[text], rng)
        inputs, labels = ids.copy(), np.full(len(ids), -1)
        inputs[text_indices] = mask_tokens(text, chosen, mask=self.mask_id, words=self.word_ids, rng=rng)
        labels[text_indices[chosen]] = text[chosen]
        return inputs.tolist(), labels.tolist()


class PretrainingObjective(TrainingObjective[MaskedBatch]):
    """Pre-training of an encoder on masked passages.

    Args:
        train: training passages.
        validation: validation passages, always masked in the same way.
        pretraining_loss: computes losses and metrics.
        batch_tokens: padded tokens in a batch.
        seed: of the order of passages.
        device: of the model.
    """

    def __init__(
        self,
        train: MaskedPassageBatches,
        validation: MaskedPassageBatches,
        *,
        pretraining_loss: PretrainingLoss,
        batch_tokens: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self.train = train
        self.validation = validation
        self.pretraining_loss = pretraining_loss
        self.metric_names = pretraining_loss.metrics
        self.part_names = pretraining_loss.part_names
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.device = device

    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Return batches of passage numbers of similar length."""
        return self.train.plan_epoch(epoch, tokens=self.batch_tokens, seed=self.seed)

    def build_batch(self, rows: RowIndices) -> MaskedBatch:
        """Build the batch of the passages with the numbers `rows` on the model's device."""
        return move_to_device(self.train.build_batch(rows), self.device)

    def loss(self, model: Any, batch: MaskedBatch) -> Loss:
        """Compute the pre-training loss of a batch."""
        return self.pretraining_loss.compute_loss(model, batch)

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute the metrics on the validation passages."""
        totals: Counter[str] = Counter()
        for numbers in self.validation.plan_epoch(_VALIDATION_EPOCH, tokens=self.batch_tokens, seed=0):
            totals.update(
                self.pretraining_loss.compute_batch_sums(
                    model, move_to_device(self.validation.build_batch(numbers), self.device)
                )
            )
        return {name: float(value) for name, value in self.pretraining_loss.compute_metrics(totals).items()}
