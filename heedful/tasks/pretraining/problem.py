"""Pre-training as a task: passages with hidden tokens, and what a model is asked about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from heedful.data.batches import padded, tokens_of
from heedful.data.bucketing import plan_batches
from heedful.data.chance import Chance
from heedful.data.tokenizers import Tokenizer
from heedful.tasks.pretraining.masking import Masking, hide
from heedful.tasks.pretraining.objectives import MaskedBatch, Objective
from heedful.tasks.pretraining.passages import Passages
from heedful.tasks.task import Loss, Rows, Task
from heedful.values import Tokens, move

_HIDING: Final = 2
_VALIDATION: Final = 0


class MaskedPassages:
    """Passages of a corpus as batches: pieced together, hidden and padded.

    What is hidden is a function of the passage's number, so it changes from epoch to epoch (the dynamic masking of Liu
    et al. 2019) and stays the same however rows are dealt out.

    Args:
        passages: of a corpus made with `sentence_encoding`.
        tokenizer: it was made with; has a mask.
        masking: chooses what is asked for.
    """

    def __init__(self, passages: Passages, *, tokenizer: Tokenizer, masking: Masking) -> None:
        special = tokenizer.special
        assert special.mask is not None, "a vocabulary to pre-train with has a mask"
        self.passages = passages
        self.masking = masking
        self.special = special
        self.mask = special.mask
        self.continues = tokenizer.continues()
        silent = special.silent | {special.unk}
        self.words = np.array([number for number in range(tokenizer.size) if number not in silent])

    def plan(self, epoch: int, *, tokens: int, seed: int) -> Sequence[Rows]:
        """The numbers of the passages of each batch of an epoch."""
        numbers, lengths = self.passages.plan(epoch)
        both = np.stack([lengths, lengths], 1)
        return [numbers[rows] for rows in plan_batches(both, tokens=tokens, seed=seed, epoch=epoch)]

    def batch(self, numbers: Rows) -> MaskedBatch:
        """The passages with these numbers."""
        read, labels, segments, follows = [], [], [], []
        for number in numbers.tolist():
            ids, second, follow = self._pieced(number)
            hidden, asked = self._hidden(ids, number)
            read.append(hidden)
            labels.append(asked)
            segments.append([0] * second + [1] * (len(ids) - second))
            follows.append(follow)
        tokens = tokens_of(padded(read))
        parts = torch.from_numpy(np.maximum(padded(segments), 0))
        return MaskedBatch(
            Tokens(tokens.ids, tokens.positions, parts), torch.from_numpy(padded(labels)), torch.tensor(follows)
        )

    def _pieced(self, number: int) -> tuple[np.ndarray, int, int]:
        """The ids of a passage, where its second part begins, and whether that follows."""
        passage = self.passages[number]
        stream, bos, eos = self.passages.text.stream, self.special.bos, self.special.eos
        first = np.asarray(stream[passage.first.start : passage.first.stop], dtype=np.int64)
        if passage.second is None:
            return np.concatenate(([bos], first, [eos])), len(first) + 2, -1
        second = np.asarray(stream[passage.second.start : passage.second.stop], dtype=np.int64)
        return np.concatenate(([bos], first, [eos], second, [eos])), len(first) + 2, int(passage.follows)

    def _hidden(self, ids: np.ndarray, number: int) -> tuple[list[int], list[int]]:
        chance = Chance(self.passages.seed, number, _HIDING)
        places = np.flatnonzero((ids != self.special.bos) & (ids != self.special.eos))
        text = ids[places]
        chosen = self.masking.choose(self.continues[text], chance)
        read, labels = ids.copy(), np.full(len(ids), -1)
        read[places] = hide(text, chosen, mask=self.mask, words=self.words, chance=chance)
        labels[places[chosen]] = text[chosen]
        return read.tolist(), labels.tolist()


class Pretraining(Task[MaskedBatch]):
    """Learning to read from passages alone.

    Args:
        train: passages to learn from.
        validation: passages to be measured on, always hidden in the same way.
        objective: what is asked.
        batch_tokens: padded tokens in a batch.
        seed: of the order of passages.
        device: where the model is.
    """

    def __init__(
        self,
        train: MaskedPassages,
        validation: MaskedPassages,
        *,
        objective: Objective,
        batch_tokens: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self.train = train
        self.validation = validation
        self.objective = objective
        self.metrics = objective.metrics
        self.parts = objective.parts
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.device = device

    def plan(self, epoch: int) -> Sequence[Rows]:
        """Batches of passages of similar length."""
        return self.train.plan(epoch, tokens=self.batch_tokens, seed=self.seed)

    def batch(self, rows: Rows) -> MaskedBatch:
        """These passages."""
        return move(self.train.batch(rows), self.device)

    def loss(self, model: Any, batch: MaskedBatch) -> Loss:
        """The objective's."""
        return self.objective.loss(model, batch)

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """The objective's metrics."""
        totals: Counter[str] = Counter()
        for numbers in self.validation.plan(_VALIDATION, tokens=self.batch_tokens, seed=0):
            totals.update(self.objective.sums(model, move(self.validation.batch(numbers), self.device)))
        return {name: float(value) for name, value in self.objective.metrics_of(totals).items()}
