"""The objective of question answering about stories."""

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
    """Learn p(answer | facts, question).

    Attributes:
        max_facts: facts of the longest story; a story counts as this many of a batch's `batch_tokens`.
        linear_updates: number of initial updates in which scores are used as weights without a softmax (linear start,
            4.2).
        noise: probability of an empty memory before each fact (random noise, 4.1).
        updates_done: number of updates so far.
    """

    _: KW_ONLY
    max_facts: int
    linear_updates: int = 0
    noise: float = 0.0
    updates_done: int = field(default=0, init=False)
    metric_names = frozenset({"loss", "accuracy"})

    def collate(self, corpus: Corpus, rows: RowIndices) -> StoryBatch:
        """Collate stories."""
        return collate_stories(corpus, rows)

    def example_lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Return the number of facts, and a constant size per story, so that all batches have equally many stories."""
        facts = corpus["sizes"].lengths
        return np.stack([facts, np.full_like(facts, self.max_facts)], axis=1)

    def loss(self, model: MemoryNetwork, batch: StoryBatch) -> Loss:
        """Compute the negative log-likelihood of the answers of a batch."""
        story = batch.story
        if self.noise:
            story = replace(story, ages=insert_empty_memories(story.ages, share=self.noise))
        return _compute_loss(model(story, linear=self.updates_done < self.linear_updates), batch)

    def on_update(self, nll: float, *, member: str = "") -> None:
        """Count the update; the arguments are not used."""
        self.updates_done += 1

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the number of updates."""
        return {"done": torch.tensor(self.updates_done)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the number of updates, so that a linear start ends as planned."""
        self.updates_done = int(tensors["done"])

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute the loss (nats per known answer) and the accuracy of all answers, with the model's softmax."""
        assert isinstance(model, MemoryNetwork)
        total, num_known, num_correct = 0.0, 0, 0
        for batch in self.validation_batches():
            logits = model(batch.story)
            loss = _compute_loss(logits, batch)
            total, num_known = total + float(loss.total), num_known + loss.count
            num_correct += int((logits.argmax(1) == batch.answers).sum())
        return {"loss": total / max(num_known, 1), "accuracy": num_correct / len(self.validation)}


def insert_empty_memories(ages: Int[Tensor, "B S"], *, share: float) -> Int[Tensor, "B S"]:
    """Increase the ages of facts as if empty memories were inserted, one behind each fact with probability `share`."""
    gaps = (torch.rand(ages.shape, device=ages.device) < share) & (ages >= 0)
    return torch.where(ages >= 0, ages + gaps.flip(1).cumsum(1).flip(1), ages)


def _compute_loss(logits: Tensor, batch: StoryBatch) -> Loss:
    """Return the summed cross-entropy of the known answers."""
    is_known = batch.answers < logits.size(1)
    total = functional.cross_entropy(logits[is_known].float(), batch.answers[is_known], reduction="sum")
    return Loss(total, int(is_known.sum()))
