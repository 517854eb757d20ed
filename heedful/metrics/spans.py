"""Metrics of spans: answers to questions, as SQuAD defines them, and entities, as conlleval counts them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from heedful.errors import DataError
from heedful.metrics.metric import Metric, RatioMetric, build_mean_metric

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerThreshold:
    """The best threshold on the no-answer score: below it an answer is given; `score` is the mean that this reaches."""

    threshold: float
    score: float


def normalize_answer(answer: str) -> str:
    """Lowercase an answer, and remove ASCII punctuation, the articles a, an and the, and extra spaces.

    The steps and their order are those of SQuAD's evaluation scripts (Rajpurkar et al. 2016).
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """Return 1 if the answer equals a gold answer after normalisation, else 0. If there is no gold answer, only the
    empty answer gets 1.
    """
    return float(max(normalize_answer(answer) == gold for gold in _normalize_golds(golds)))


def token_f1(answer: str, golds: Sequence[str]) -> float:
    """Return the best F1 between the words of the answer and those of a gold answer, all normalised. An empty answer
    gets 1 if there is no gold answer, else 0.
    """
    words = normalize_answer(answer).split()
    return max(_compute_overlap(words, gold.split()) for gold in _normalize_golds(golds))


def compute_answer_metrics(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, Metric]:
    """Compute `exact_match` and `answer_f1`, the means over all questions.

    If some questions have an answer and others have none (SQuAD 2.0), also `answerable_f1`, the mean of the former, and
    `unanswerable`, the share of the latter that got no answer.

    Args:
        answers: one for each question; the empty text says that there is none.
        golds: the gold answers of each question; empty if the text does not answer it.

    Raises:
        DataError: no questions, or not as many answers.
    """
    _check_lengths(answers, golds)
    pairs = list(zip(answers, golds, strict=True))
    exact_scores, f1_scores = (
        np.array([score(answer, gold) for answer, gold in pairs]) for score in (exact_match, token_f1)
    )
    has_answer = np.array([float(any(_normalize_golds(gold))) for gold in golds])
    metrics: dict[str, Metric] = {
        "exact_match": build_mean_metric(exact_scores),
        "answer_f1": build_mean_metric(f1_scores),
    }
    if 0 < has_answer.sum() < len(has_answer):
        metrics |= {
            "answerable_f1": RatioMetric(f1_scores * has_answer, has_answer),
            "unanswerable": RatioMetric(exact_scores * (1 - has_answer), 1 - has_answer),
        }
    return metrics


def find_best_threshold(
    answers: Sequence[str],
    golds: Sequence[Sequence[str]],
    *,
    no_answer_scores: Sequence[float],
    metric: Callable[[str, Sequence[str]], float] = token_f1,
) -> AnswerThreshold:
    """Return the threshold on the no-answer score, below which an answer is given, with the best mean of `metric` on
    these questions (SQuAD 2.0's `best_f1_thresh`).

    Args:
        answers: the best answer to each question, whether or not there should be one.
        golds: the gold answers of each; empty if the text does not answer it.
        no_answer_scores: score of having no answer to each; higher is more likely.
        metric: `token_f1` or `exact_match`.

    Returns:
        A threshold; questions with a score at or above it should not be answered.

    Raises:
        DataError: no questions, or not as many answers or scores.
    """
    _check_lengths(answers, golds)
    _check_lengths(no_answer_scores, golds)
    num_unanswerable = sum(not any(_normalize_golds(gold)) for gold in golds)
    # Starting with no answers, each answered question adds its score and loses the score that no answer would get.
    order = sorted(range(len(no_answer_scores)), key=lambda i: no_answer_scores[i])
    gains = [metric(answers[i], golds[i]) - (not any(_normalize_golds(golds[i]))) for i in order]
    best_total, threshold = float(num_unanswerable), no_answer_scores[order[0]]
    for num_answered, total in enumerate(accumulate(gains, initial=float(num_unanswerable))):
        next_score = no_answer_scores[order[num_answered]] if num_answered < len(order) else float("inf")
        # Questions with equal scores are answered together or not at all.
        is_boundary = (
            num_answered == len(order) or num_answered == 0 or next_score > no_answer_scores[order[num_answered - 1]]
        )
        if is_boundary and total > best_total:
            best_total, threshold = total, next_score
    return AnswerThreshold(threshold, best_total / len(golds))


def _normalize_golds(golds: Sequence[str]) -> list[str]:
    """Normalise the gold answers, and leave out those that are empty then; return one empty text if none remains. Raise
    `DataError` for a single text instead of a list.
    """
    if isinstance(golds, str):
        raise DataError("gold answers must be a list of texts, not one text: put it into a list")
    return [gold for gold in map(normalize_answer, golds) if gold] or [""]


def _compute_overlap(words: Sequence[str], gold: Sequence[str]) -> float:
    """Return the F1 of the words of an answer and of a gold answer, each word as often as it occurs. If one side is
    empty, it is 1 if the other is empty too, else 0.
    """
    if not words or not gold:
        return float(not words and not gold)
    common = sum((Counter(words) & Counter(gold)).values())
    return 2 * common / (len(words) + len(gold))


def _check_lengths(answers: Sequence[object], golds: Sequence[object]) -> None:
    """Raise `DataError` unless there are questions, and an answer or score for each; `golds` has the gold answers of
    each.
    """
    if len(answers) != len(golds):
        raise DataError(f"{len(answers):,} answers or scores but {len(golds):,} questions: each needs its own")
    if not golds:
        raise DataError("no questions to score: answers and gold answers are empty")


_OPENS = frozenset("BSU")
_CLOSES = frozenset("ELSU")
_PREFIXES = frozenset("BIELSU")


class EntitySpan(NamedTuple):
    """Words from `start` up to `stop`, and the type of the entity."""

    start: int
    stop: int
    type: str


def extract_spans(tags: Sequence[str]) -> list[EntitySpan]:
    """Return the entities of a sentence from the tags of its words, in the schemes BIO, IO and BILOU (BIOES).

    Raises:
        DataError: a tag that is neither `O` nor a prefix with a type, such as `B-person`.
    """
    entities: list[EntitySpan] = []
    start, current_type, previous_prefix = 0, "", "O"
    for index, tag in enumerate(tags):
        prefix, entity_type = _split_tag(tag)
        begins = prefix in _OPENS or (
            prefix != "O" and (previous_prefix == "O" or previous_prefix in _CLOSES or entity_type != current_type)
        )
        if previous_prefix != "O" and (begins or prefix == "O" or previous_prefix in _CLOSES):
            entities.append(EntitySpan(start, index, current_type))
        if begins:
            start, current_type = index, entity_type
        previous_prefix = prefix
    if previous_prefix != "O":
        entities.append(EntitySpan(start, len(tags), current_type))
    return entities


def are_entity_tags(tags: Sequence[str]) -> bool:
    """Return whether all tags are valid entity tags, and at least one is not `O`."""
    return all(map(is_entity_tag, tags)) and any(tag != "O" for tag in tags)


def is_entity_tag(tag: str) -> bool:
    """Return whether a tag is a valid entity tag or `O`."""
    try:
        _split_tag(tag)
    except DataError:
        return False
    return True


def compute_entity_metrics(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Metric]:
    """Compute `precision`, `recall` and `f1` over the entities of all sentences; weights are per sentence.

    An entity is correct if its first word, last word and type are.

    Args:
        predicted: the tags of each sentence's words.
        gold: the gold tags of each sentence.

    Raises:
        DataError: no words, sentences or tags that do not match in number, or an invalid tag.
    """
    if len(predicted) != len(gold):
        raise DataError(f"{len(predicted):,} tagged sentences but {len(gold):,} gold ones: each needs its own")
    counts = np.zeros((3, len(gold)))
    for index, (predicted_tags, gold_tags) in enumerate(zip(predicted, gold, strict=True)):
        if len(predicted_tags) != len(gold_tags):
            raise DataError(
                f"sentence {index + 1} has {len(predicted_tags)} tags for {len(gold_tags)} words; align them first"
            )
        predicted_spans, gold_spans = set(extract_spans(predicted_tags)), set(extract_spans(gold_tags))
        counts[:, index] = len(predicted_spans & gold_spans), len(predicted_spans), len(gold_spans)
    if not any(gold):
        raise DataError("nothing to score: the sentences have no words")
    num_correct, num_predicted, num_gold = counts
    return {
        "precision": RatioMetric(num_correct, num_predicted),
        "recall": RatioMetric(num_correct, num_gold),
        "f1": RatioMetric(2 * num_correct, num_predicted + num_gold),
    }


def _split_tag(tag: str) -> tuple[str, str]:
    """Split a tag into prefix and entity type: `B-person` into B and person, `O` into O and an empty type. Raise
    `DataError` if it is not an entity tag.
    """
    if tag == "O":
        return "O", ""
    prefix, _, entity_type = tag.partition("-")
    if prefix not in _PREFIXES or (not entity_type and "-" in tag):
        raise DataError(f"{tag!r} is not an entity tag; write O, or B, I, E, L, S or U with a type, as in B-person")
    return prefix, entity_type
