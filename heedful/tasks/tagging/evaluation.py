"""Evaluation of taggers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from heedful.data.tagged import TaggedSentence
from heedful.errors import DataError
from heedful.metrics.entities import are_entity_tags, is_entity_tag
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.tagging.data import compute_tag_metrics, get_placeholder_tag
from heedful.tasks.tagging.predictor import Tagger


def build_tag_evaluator(sentences: Sequence[TaggedSentence], *, train: Iterable[TaggedSentence]) -> LabelEvaluator:
    """Build the evaluator of tagged sentences; answers are the tags of their words, resampled by sentences.

    It measures accuracy, and precision, recall and F1 of entities if tags mark entities.

    Args:
        sentences: the sentences to tag; a tag that the training text lacks always counts as wrong.
        train: training sentences, which tell the known tags and the most frequent one.

    Raises:
        DataError: there are no sentences.
    """
    counts, total = Counter[str](), 0
    for sentence in train:
        counts.update(sentence.tags)
        total += 1
    if not counts or not sentences:
        raise DataError("there are no sentences; check the file")
    most_frequent = min(counts, key=lambda tag: (-counts[tag], tag))
    words, references = [sentence.words for sentence in sentences], [sentence.tags for sentence in sentences]
    entities = are_entity_tags(list(counts))
    golds = references
    if entities:
        golds = [tuple(tag if is_entity_tag(tag) else get_placeholder_tag(tag) for tag in tags) for tags in references]
    unknown = Counter(tag for tags in references for tag in tags if tag not in counts)
    tag_list = ", ".join(sorted(unknown)[:8])
    warning = f"{unknown.total():,} words have a tag that the training text lacks ({tag_list}), and count as wrong"

    def tag_sentences(tagger: Tagger) -> list[list[str]]:
        """Return the predicted tags of all sentences."""
        return [[tag.name for tag in tags] for tags in tagger.tag(words)]

    return LabelEvaluator(
        words,
        references,
        predict_labels=tag_sentences,
        measure=lambda answers: compute_tag_metrics(answers, golds, entities=entities),
        size=sum(map(len, references)),
        num_train_examples=total,
        constant_answer=most_frequent,
        baseline_answers=[[most_frequent] * len(tags) for tags in references],
        main_metric="f1" if entities else "accuracy",
        data_warnings=(warning,) if unknown else (),
    )
