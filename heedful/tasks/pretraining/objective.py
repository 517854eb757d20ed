"""The pre-training objective: batches of masked passages and their loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from heedful.data.batches import pad_rows, to_tokens
from heedful.data.bucketing import batch_by_size
from heedful.data.random_numbers import SeededRandom
from heedful.data.tokenizers import Tokenizer
from heedful.tasks.objective import Loss, RowIndices, TrainingObjective
from heedful.tasks.pretraining.losses import MaskedBatch, PretrainingLoss
from heedful.tasks.pretraining.masking import MaskingStrategy, mask_tokens
from heedful.tasks.pretraining.passages import PassageSampler
from heedful.tensors import Tokens, move_to_device

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
        """Return the passage numbers of each batch of an epoch."""
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
        """Return a passage's ids, the start of its second segment, and 1, 0 or -1 for whether that follows."""
        passage = self.passages[number]
        stream, bos, eos = self.passages.documents.stream, self.special.bos, self.special.eos
        first = np.asarray(stream[passage.first.start : passage.first.stop], dtype=np.int64)
        if passage.second is None:
            return np.concatenate(([bos], first, [eos])), len(first) + 2, -1
        second = np.asarray(stream[passage.second.start : passage.second.stop], dtype=np.int64)
        return np.concatenate(([bos], first, [eos], second, [eos])), len(first) + 2, int(passage.follows)

    def _mask_ids(self, ids: np.ndarray, number: int) -> tuple[list[int], list[int]]:
        """Mask the ids of a passage; return the input ids, and the labels with -1 at positions that are not asked."""
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
        """Build the batch of these passages on the model's device."""
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
