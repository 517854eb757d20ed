"""Answering questions about stories as a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.data.corpus import Corpus
from heedful.models.memory_network import MemoryNetwork
from heedful.tasks.stories.data import StoryBatch, collate_stories
from heedful.tasks.task import CorpusTask, Loss, Rows


@dataclass(eq=False)
class Stories(CorpusTask[StoryBatch]):
    """Learning p(answer | facts, question).

    Attributes:
        slots: what a story counts, of the `batch_tokens` of a batch: facts of the longest.
        linear: updates at first in which scores themselves are the weights of facts (linear start, 4.2).
        noise: how probable an empty memory is before each fact (random noise, 4.1).
        updates: that were done.
    """

    _: KW_ONLY
    slots: int
    linear: int = 0
    noise: float = 0.0
    done: int = field(default=0, init=False)
    metrics = frozenset({"loss", "accuracy"})

    def collate(self, corpus: Corpus, rows: Rows) -> StoryBatch:
        """Stories."""
        return collate_stories(corpus, rows)

    def lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Facts, and as much for each, so that batches have as many stories, with about as many facts each."""
        facts = corpus["sizes"].lengths
        return np.stack([facts, np.full_like(facts, self.slots)], axis=1)

    def loss(self, model: MemoryNetwork, batch: StoryBatch) -> Loss:
        """Negative log-likelihood of the answers."""
        story = batch.story
        if self.noise:
            story = replace(story, ages=with_gaps(story.ages, share=self.noise))
        return _loss(model(story, linear=self.done < self.linear), batch)

    def learned(self, nll: float, *, member: str = "") -> None:
        """Counts."""
        self.done += 1

    def tensors(self) -> Mapping[str, Tensor]:
        """How many updates there were."""
        return {"done": torch.tensor(self.done)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """So that a linear start ends when it should."""
        self.done = int(tensors["done"])

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Loss (nats per answer that is known) and accuracy of all answers, by the model as it will be used."""
        assert isinstance(model, MemoryNetwork)
        total, known, right = 0.0, 0, 0
        for batch in self.measured():
            logits = model(batch.story)
            loss = _loss(logits, batch)
            total, known = total + float(loss.total), known + loss.count
            right += int((logits.argmax(1) == batch.answers).sum())
        return {"loss": total / max(known, 1), "accuracy": right / len(self.validation)}


def with_gaps(ages: Int[Tensor, "B S"], *, share: float) -> Int[Tensor, "B S"]:
    """Ages of facts among which empty memories were put: each fact is followed by one with this probability."""
    gaps = (torch.rand(ages.shape, device=ages.device) < share) & (ages >= 0)
    return torch.where(ages >= 0, ages + gaps.flip(1).cumsum(1).flip(1), ages)


def _loss(logits: Tensor, batch: StoryBatch) -> Loss:
    known = batch.answers < logits.size(1)
    total = functional.cross_entropy(logits[known].float(), batch.answers[known], reduction="sum")
    return Loss(total, int(known.sum()))
