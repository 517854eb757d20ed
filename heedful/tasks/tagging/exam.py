"""What taggers are asked, and what their answers are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import final

from heedful.errors import DataError
from heedful.metrics.entities import are_entities, may_be_part
from heedful.metrics.metric import Metric
from heedful.recipes.recipe import Recipe
from heedful.tasks.labelled import LabelledExam
from heedful.tasks.tagging.data import TaggedSentence, stand_in, tag_metrics
from heedful.tasks.tagging.face import Tagger


@final
class TagExam(LabelledExam):
    """Sentences whose words have tags; sentences are what is drawn.

    Args:
        train: sentences that tell which tags there are, and which is most frequent.
        sentences: what is asked. A tag that the training text lacks can only be got wrong.

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
        unknown = Counter(tag for sentence in sentences for tag in sentence.tags if tag not in counts)
        self.remarks = (unknown_tags(unknown),) if unknown else ()

    @property
    def asked(self) -> Sequence[Hashable]:
        """The words."""
        return [sentence.words for sentence in self.sentences]

    @property
    def right(self) -> Sequence[Hashable]:
        """The tags."""
        return [sentence.tags for sentence in self.sentences]

    def answers(self, user: Tagger, recipe: Recipe) -> Sequence[Sequence[str]]:
        """The tags of all words."""
        return [[tag.name for tag in tags] for tags in user.tag([sentence.words for sentence in self.sentences])]

    def metrics(self, answers: Sequence[Sequence[str]]) -> Mapping[str, Metric]:
        """The share of right tags; precision, recall and F1 of entities where tags are of entities."""
        golds = [sentence.tags for sentence in self.sentences]
        if self.entities:
            golds = [tuple(tag if may_be_part(tag) else stand_in(tag) for tag in tags) for tags in golds]
        return tag_metrics(answers, golds, entities=self.entities)


def unknown_tags(counts: Mapping[str, int]) -> str:
    """A remark about tags that the training text lacks."""
    shown = ", ".join(sorted(counts)[:8])
    return f"{sum(counts.values()):,} words have a tag that the training text lacks ({shown}), and count as wrong"
