"""What trained models are asked, and what their answers are worth: the same questions for all of them.

An exam knows how to ask a classifier, a tagger or an answerer, what would be answered without reading, and each metric
twice: as the number that is reported, and for any weights of the examples, of which intervals and tests are made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np
from jaxtyping import Float

from heedful.data.labelled import Choice, Labelled
from heedful.data.questions import Question
from heedful.errors import DataError
from heedful.metrics.answers import answer_scores, exact_match, normalised, token_f1
from heedful.metrics.classes import accuracy
from heedful.metrics.entities import are_entities, entity_scores, spans
from heedful.metrics.weighted import Correlation, Matthews, Mean, Ratio, Weighted, f1, grouped, hits, mean
from heedful.tasks.benchmarks.definitions import Definition, Example, Metric, Prediction, majority, measure
from heedful.tasks.classification.face import Classifier
from heedful.tasks.spans.face import Answerer
from heedful.tasks.tagging.data import TaggedSentence
from heedful.tasks.tagging.face import Tagger

_OF_GROUPS: Final[frozenset[str]] = frozenset({"exact_groups", "f1a", "parity"})


class Exam(ABC):
    """Examples with right answers.

    Attributes:
        size: how many labels or answers are compared.
        total: how many examples there are to learn from.
        constant: what is right most often in the training text; empty for saying nothing, None where each example has
            candidates of its own.
        baseline: that answer to each example.
        main: the metric that is looked at first.
    """

    size: int
    total: int
    constant: Prediction | None
    baseline: Sequence[Any]
    main: str

    @property
    @abstractmethod
    def asked(self) -> Sequence[Hashable]:
        """The texts of each example."""

    @property
    @abstractmethod
    def right(self) -> Sequence[Hashable]:
        """What is right of each."""

    @abstractmethod
    def answers(self, user: object) -> Sequence[Any]:
        """What a trained model, as its users see it, says of each example."""

    @abstractmethod
    def measured(self, answers: Sequence[Any]) -> Mapping[str, float]:
        """The metrics of some answers, from 0 to 1 (correlations from -1)."""

    @abstractmethod
    def weighted(self, answers: Sequence[Any]) -> Mapping[str, Weighted]:
        """The same metrics for any weights of the examples, or of groups of examples that belong together."""


@final
class ClassExam(Exam):
    """Texts with classes or numbers, or candidates of which some are right.

    Args:
        definition: which metrics there are.
        train: labelled examples that tell what is most frequent.
        examples: what is asked.

    Raises:
        DataError: there are no examples, or some have no label.
    """

    def __init__(self, definition: Definition, *, train: Iterable[Example], examples: Sequence[Example]) -> None:
        seen = list(train)
        always = majority(definition, seen, examples)
        self.definition = definition
        self.examples = examples
        self.size = len(examples)
        self.total = len(seen)
        self.constant = always.prediction
        self.baseline = always.answers
        self.main = definition.metrics[0]

    @property
    def asked(self) -> Sequence[Hashable]:
        """The texts, or those of all candidates."""
        return [each.candidates if isinstance(each, Choice) else _texts(each) for each in self.examples]

    @property
    def right(self) -> Sequence[Hashable]:
        """Labels, or the right candidates and what counts as their names."""
        return [(each.right, each.golds) if isinstance(each, Choice) else _label(each) for each in self.examples]

    def answers(self, user: object) -> Sequence[Prediction]:
        """Classes, numbers, or the numbers of candidates."""
        assert isinstance(user, Classifier)
        choices = [example.candidates for example in self.examples if isinstance(example, Choice)]
        if choices:
            return [chosen.number for chosen in user.choose(choices)]
        return [found.label for found in user.classify([_texts(example) for example in self.examples])]

    def measured(self, answers: Sequence[Prediction]) -> Mapping[str, float]:
        """The metrics of the definition."""
        return measure(self.definition, answers, self.examples)

    def weighted(self, answers: Sequence[Prediction]) -> Mapping[str, Weighted]:
        """The same for any weights."""
        found: dict[str, Weighted] = {name: self._weighted(name, answers) for name in self.definition.metrics}
        if not _OF_GROUPS & found.keys():
            return found
        groups = [each.group for each in self.examples if isinstance(each, Labelled)]
        return {
            name: grouped(metric, groups) if name not in _OF_GROUPS and isinstance(metric, Ratio) else metric
            for name, metric in found.items()
        }

    def _weighted(self, name: Metric, answers: Sequence[Prediction]) -> Weighted:
        """One metric; none of the others is prepared, because not every metric suits every task."""
        golds, classes = [_label(each) for each in self.examples], self.definition.labels
        pairs = list(zip(answers, self.examples, strict=True))
        made: dict[Metric, Callable[[], Weighted]] = {
            "accuracy": lambda: mean([_is_right(answer, each) for answer, each in pairs]),
            "f1": lambda: f1(answers, golds, positive=classes[-1]),
            "macro_f1": lambda: Mean(tuple(f1(answers, golds, positive=label) for label in classes)),
            "matthews": lambda: Matthews(answers, golds),
            "pearson": lambda: Correlation(_numbers(answers), _numbers(golds)),
            "spearman": lambda: Correlation(_numbers(answers), _numbers(golds), ranked=True),
            "exact_groups": lambda: self._of_groups(name, answers, golds),
            "f1a": lambda: self._of_groups(name, answers, golds),
            "parity": lambda: self._of_groups(name, answers, golds),
            "exact_match": lambda: mean([_of_names(exact_match, answer, each) for answer, each in pairs]),
            "answer_f1": lambda: mean([_of_names(token_f1, answer, each) for answer, each in pairs]),
        }
        return made[name]()

    def _of_groups(self, name: Metric, answers: Sequence[Prediction], golds: Sequence[Hashable]) -> Weighted:
        groups = [each.group for each in self.examples if isinstance(each, Labelled)]
        positive = self.definition.labels[-1]
        decided, there = [a == positive for a in answers], [g == positive for g in golds]
        if name == "f1a":
            return grouped(f1(decided, there, positive=True), groups)
        if name == "exact_groups":
            wrong = grouped(mean(1 - hits(decided, there)), groups)
            return mean([count == 0 for count in wrong.above])
        members: dict[Hashable, set[Hashable]] = {}
        for group, answer in zip(groups, answers, strict=True):
            members.setdefault(group, set()).add(answer)
        return mean([len(names) == 1 for names in members.values()])


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


@final
class QuestionExam(Exam):
    """Questions about texts, some perhaps without an answer.

    Args:
        total: questions to learn from.
        questions: what is asked.

    Raises:
        DataError: there are no questions.
    """

    def __init__(self, *, total: int, questions: Sequence[Question]) -> None:
        if not questions:
            raise DataError("there is not a single question; check the file")
        self.questions = questions
        self.size = len(questions)
        self.total = total
        self.constant = ""
        self.baseline = [""] * len(questions)
        self.main = "answer_f1"

    @property
    def asked(self) -> Sequence[Hashable]:
        """Questions and contexts."""
        return [(each.question, each.context) for each in self.questions]

    @property
    def right(self) -> Sequence[Hashable]:
        """The gold answers."""
        return [tuple(golds) for golds in self._golds]

    def answers(self, user: object) -> Sequence[str]:
        """Texts, empty for none."""
        assert isinstance(user, Answerer)
        return [each.text for each in user.answer_all([(each.question, each.context) for each in self.questions])]

    def measured(self, answers: Sequence[str]) -> Mapping[str, float]:
        """Exact match and F1; if some have no answer, F1 of those that have one and how often others got none."""
        scores = answer_scores(answers, self._golds)
        metrics = {"exact_match": scores.all.exact, "answer_f1": scores.all.f1}
        if scores.answerable.questions and scores.unanswerable.questions:
            metrics |= {"answerable_f1": scores.answerable.f1, "unanswerable": scores.unanswerable.exact}
        return metrics

    def weighted(self, answers: Sequence[str]) -> Mapping[str, Weighted]:
        """The same for any weights."""
        pairs = list(zip(answers, self._golds, strict=True))
        exact, overlap = (np.array([score(a, golds) for a, golds in pairs]) for score in (exact_match, token_f1))
        there = np.array([float(any(normalised(gold) for gold in golds)) for _, golds in pairs])
        metrics: dict[str, Weighted] = {"exact_match": mean(exact), "answer_f1": mean(overlap)}
        if 0 < there.sum() < len(there):
            metrics["answerable_f1"] = Ratio(overlap * there, there)
            metrics["unanswerable"] = Ratio(exact * (1 - there), 1 - there)
        return metrics

    @property
    def _golds(self) -> list[list[str]]:
        return [[answer.text for answer in question.answers] for question in self.questions]


def _texts(example: Example) -> tuple[str, ...]:
    assert isinstance(example, Labelled)
    return example.texts


def _label(example: Example) -> str | float | None:
    return example.label if isinstance(example, Labelled) else None


def _is_right(answer: Prediction, example: Example) -> bool:
    return answer in (example.right or ()) if isinstance(example, Choice) else answer == _label(example)


def _numbers(values: Sequence[Any]) -> Float[np.ndarray, " N"]:
    return np.array([float(value) for value in values])


def _of_names(score: Callable[[str, Sequence[str]], float], answer: Prediction, example: Example) -> float:
    """Of the name of a candidate."""
    assert isinstance(example, Choice)
    return score(example.names[int(answer)], example.golds)
