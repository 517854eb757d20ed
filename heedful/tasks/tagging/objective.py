"""The objective of tagging: each word of a sentence has a label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor, nn

from heedful.data.corpus import Corpus
from heedful.data.labels import LabelVocabulary
from heedful.metrics.spans import are_entity_tags
from heedful.models.heads import TokenClassifier
from heedful.tasks.likelihood import cross_entropy
from heedful.tasks.objective import CorpusObjective, Loss, LossPart, RowIndices
from heedful.tasks.tagging.data import TaggedBatch, collate_tagged, compute_tag_metrics, list_tags_with_placeholders


@dataclass(eq=False)
class TaggingObjective(CorpusObjective[TaggedBatch]):
    """Learn p(tag | sentence) at the first token of each word.

    Attributes:
        smoothing: label smoothing over all tags.
        tags: the tag names.
    """

    _: KW_ONLY
    smoothing: float = 0.0
    tags: LabelVocabulary
    part_names = frozenset({"nll"})

    def __post_init__(self) -> None:
        self.has_entities = are_entity_tags(self.tags.names)
        self.metric_names = frozenset({"loss", "accuracy", *(("f1",) if self.has_entities else ())})

    def collate(self, corpus: Corpus, rows: RowIndices) -> TaggedBatch:
        """Collate sentences."""
        return collate_tagged(corpus, rows)

    def loss(self, model: TokenClassifier, batch: TaggedBatch) -> Loss:
        """Compute the label-smoothed negative log-likelihood of the tags of a batch."""
        hidden, labels = _select_tagged(model, batch)
        smoothed, nll = cross_entropy(hidden, labels, output=model.output, smoothing=self.smoothing)
        return Loss(smoothed, len(labels), {"nll": LossPart(nll, len(labels))})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute the loss (nats per word with a known tag), tag accuracy, and F1 of entities if tags mark them."""
        assert isinstance(model, TokenClassifier)
        names = list_tags_with_placeholders(self.tags)
        total, count = 0.0, 0
        predictions: list[list[str]] = []
        golds: list[list[str]] = []
        for batch in self.validation_batches():
            hidden, labels = _select_tagged(model, batch)
            known = (labels < self.tags.size).nonzero().squeeze(1)
            known_inputs = (hidden.index_select(0, known), labels.index_select(0, known))
            total += float(cross_entropy(*known_inputs, output=model.output)[1])
            count += len(known)
            words = (batch.tags >= 0).sum(1).tolist()
            predictions += _split_by_sentence(model.output(hidden).argmax(-1), words, names)
            golds += _split_by_sentence(labels, words, names)
        metrics = compute_tag_metrics(predictions, golds, entities=self.has_entities)
        return {"loss": total / max(count, 1)} | {name: metrics[name].value for name in self.metric_names - {"loss"}}


def _split_by_sentence(numbers: Tensor, words: Sequence[int], names: Sequence[str]) -> list[list[str]]:
    """Split flat tag numbers into lists of tag names, one list per sentence; `words` has the number of words of each
    sentence.
    """
    return [[names[number] for number in part.tolist()] for part in torch.split(numbers, list(words))]


def _select_tagged(model: TokenClassifier, batch: TaggedBatch) -> tuple[Tensor, Tensor]:
    """Return the hidden states of tokens that have a tag, and those tags."""
    indices = (batch.tags >= 0).flatten().nonzero().squeeze(1)
    hidden: Tensor = model(batch.tokens)
    return hidden.flatten(0, 1).index_select(0, indices), batch.tags.flatten().index_select(0, indices)
