"""What taggers are asked, and what their answers are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import final

import numpy as np

from heedful.errors import DataError
from heedful.metrics.classes import accuracy
from heedful.metrics.entities import are_entities, entity_scores, spans
from heedful.metrics.weighted import Ratio, Weighted, hits
from heedful.tasks.exam import Exam
from heedful.tasks.tagging.data import TaggedSentence
from heedful.tasks.tagging.face import Tagger


@final
class TagExam(Exam):
    """Sentences whose words have tags; sentences are what is drawn.

    Args:
        train: sentences that tell which tags there are, and which is most frequent.
        sentences: what is asked.

    Raises:
        DataError: there are no sentences.
    """

    def __init__(self, *, train: Iterable[TaggedSentence], sentences: Sequence[TaggedSentence]) -> None:
        counts = Counter[str]()
        self.total = 0
        for sentence in train:
            counts.update(sentence.tags)
            self.total += 1
        if not counts or not sentences:
            raise DataError("there is not a single sentence; check the file")
        most = min(counts, key=lambda tag: (-counts[tag], tag))
        self.sentences = sentences
        self.size = sum(len(sentence.tags) for sentence in sentences)
        self.constant = most
        self.baseline = [[most] * len(sentence.tags) for sentence in sentences]
        self.entities = are_entities(list(counts))
        self.main = "f1" if self.entities else "accuracy"

    @property
    def asked(self) -> Sequence[Hashable]:
        """The words."""
        return [sentence.words for sentence in self.sentences]

    @property
    def right(self) -> Sequence[Hashable]:
        """The tags."""
        return [sentence.tags for sentence in self.sentences]

    def answers(self, user: object) -> Sequence[Sequence[str]]:
        """The tags of all words."""
        assert isinstance(user, Tagger)
        return [[tag.name for tag in tags] for tags in user.tag([sentence.words for sentence in self.sentences])]

    def measured(self, answers: Sequence[Sequence[str]]) -> Mapping[str, float]:
        """The share of right tags; precision, recall and F1 of entities where tags are of entities."""
        golds = [sentence.tags for sentence in self.sentences]
        right = accuracy([tag for tags in answers for tag in tags], [tag for tags in golds for tag in tags])
        if not self.entities:
            return {"accuracy": right}
        micro = entity_scores(answers, golds).micro
        return {"accuracy": right, "precision": micro.precision, "recall": micro.recall, "f1": micro.f1}

    def weighted(self, answers: Sequence[Sequence[str]]) -> Mapping[str, Weighted]:
        """The same for any weights of sentences."""
        pairs = [(found, each.tags) for found, each in zip(answers, self.sentences, strict=True)]
        right = np.array([hits(found, golds).sum() for found, golds in pairs])
        metrics: dict[str, Weighted] = {"accuracy": Ratio(right, np.array([float(len(golds)) for _, golds in pairs]))}
        if self.entities:
            found = [(set(spans(mine)), set(spans(golds))) for mine, golds in pairs]
            both = np.array([float(len(mine & golds)) for mine, golds in found])
            said, there = (np.array([float(len(pair[side])) for pair in found]) for side in (0, 1))
            metrics |= {"precision": Ratio(both, said), "recall": Ratio(both, there)}
            metrics["f1"] = Ratio(2 * both, said + there)
        return metrics
