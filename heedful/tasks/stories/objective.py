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
from heedful.tasks.objective import CorpusObjective, Loss, RowIndices
from heedful.tasks.stories.data import StoryBatch, collate_stories


@dataclass(eq=False)
class StoriesObjective(CorpusObjective[StoryBatch]):
    """Learning p(answer | facts, question).

    Attributes:
        max_facts: what a story counts, of the `batch_tokens` of a batch: facts of the longest.
        linear_updates: updates at first in which scores themselves are the weights of facts (linear start, 4.2).
        noise: how probable an empty memory is before each fact (random noise, 4.1).
        updates_done: that were done.
    """

    _: KW_ONLY
    max_facts: int
    linear_updates: int = 0
    noise: float = 0.0
    updates_done: int = field(default=0, init=False)
    metric_names = frozenset({"loss", "accuracy"})

    def collate(self, corpus: Corpus, rows: RowIndices) -> StoryBatch:
        """Stories."""
        return collate_stories(corpus, rows)

    def example_lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Facts, and as much for each, so that batches have as many stories, with about as many facts each."""
        facts = corpus["sizes"].lengths
        return np.stack([facts, np.full_like(facts, self.max_facts)], axis=1)

    def loss(self, model: MemoryNetwork, batch: StoryBatch) -> Loss:
        """Negative log-likelihood of the answers."""
        story = batch.story
        if self.noise:
            story = replace(story, ages=insert_empty_memories(story.ages, share=self.noise))
        return _compute_loss(model(story, linear=self.updates_done < self.linear_updates), batch)

    def on_update(self, nll: float, *, member: str = "") -> None:
        """Counts."""
        self.updates_done += 1

    def state_dict(self) -> Mapping[str, Tensor]:
        """How many updates there were."""
        return {"done": torch.tensor(self.updates_done)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """So that a linear start ends when it should."""
        self.updates_done = int(tensors["done"])

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Loss (nats per answer that is known) and accuracy of all answers, by the model as it will be used."""
        assert isinstance(model, MemoryNetwork)
        total, num_known, num_correct = 0.0, 0, 0
        for batch in self.validation_batches():
            logits = model(batch.story)
            loss = _compute_loss(logits, batch)
            total, num_known = total + float(loss.total), num_known + loss.count
            num_correct += int((logits.argmax(1) == batch.answers).sum())
        return {"loss": total / max(num_known, 1), "accuracy": num_correct / len(self.validation)}


def insert_empty_memories(ages: Int[Tensor, "B S"], *, share: float) -> Int[Tensor, "B S"]:
    """Ages of facts among which empty memories were put: each fact is followed by one with this probability."""
    gaps = (torch.rand(ages.shape, device=ages.device) < share) & (ages >= 0)
    return torch.where(ages >= 0, ages + gaps.flip(1).cumsum(1).flip(1), ages)


def _compute_loss(logits: Tensor, batch: StoryBatch) -> Loss:
    is_known = batch.answers < logits.size(1)
    total = functional.cross_entropy(logits[is_known].float(), batch.answers[is_known], reduction="sum")
    return Loss(total, int(is_known.sum()))
