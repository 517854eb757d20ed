"""How good answers to questions about a text are, as SQuAD measures them.

An answer is compared after `normalised`. Where a question has several gold answers the best comparison counts. No
answer is the empty text: it agrees with itself and with nothing else. Values are fractions between 0 and 1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from heedful.errors import DataError
from heedful.metrics.metric import Metric, Ratio, mean

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Threshold:
    """Where saying nothing pays best: below `threshold` an answer is given; `score` is the mean that this reaches."""

    threshold: float
    score: float


def normalised(answer: str) -> str:
    """Lower case, without ASCII punctuation and the articles a, an and the, one space between words.

    The steps and their order are those of SQuAD's evaluation scripts (Rajpurkar et al. 2016).
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """1 where the answer is one of the gold answers, else 0; no gold answers means that there is no answer."""
    return float(max(normalised(answer) == gold for gold in _golds(golds)))


def token_f1(answer: str, golds: Sequence[str]) -> float:
    """F1 between the words of the answer and those of the gold answer that it is nearest to."""
    words = normalised(answer).split()
    return max(_overlap(words, gold.split()) for gold in _golds(golds))


def answer_metrics(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, Metric]:
    """`exact_match` and `answer_f1`, the means over all questions.

    Where some questions have an answer and others have none (SQuAD 2.0) also `answerable_f1`, the mean of the former,
    and `unanswerable`, the share of the latter to which none was given.

    Args:
        answers: one for each question; the empty text says that there is none.
        golds: the gold answers of each question; none where the text does not answer it.

    Raises:
        DataError: no questions, or not as many answers.
    """
    _check(answers, golds)
    pairs = list(zip(answers, golds, strict=True))
    exact, overlap = (np.array([score(a, g) for a, g in pairs]) for score in (exact_match, token_f1))
    there = np.array([float(any(_golds(g))) for g in golds])
    metrics: dict[str, Metric] = {"exact_match": mean(exact), "answer_f1": mean(overlap)}
    if 0 < there.sum() < len(there):
        metrics |= {
            "answerable_f1": Ratio(overlap * there, there),
            "unanswerable": Ratio(exact * (1 - there), 1 - there),
        }
    return metrics


def best_threshold(
    answers: Sequence[str],
    golds: Sequence[Sequence[str]],
    *,
    silence: Sequence[float],
    metric: Callable[[str, Sequence[str]], float] = token_f1,
) -> Threshold:
    """The threshold on the score of having no answer that is best for these questions (SQuAD 2.0's `best_f1_thresh`).

    Args:
        answers: the best answer to each question, given whether or not there should be one.
        golds: the gold answers of each; none where the text does not answer it.
        silence: how much speaks for no answer to each; higher is more.
        metric: `token_f1` or `exact_match`.

    Returns:
        A threshold; questions with `silence` at or above it should go unanswered.

    Raises:
        DataError: no questions, or not as many answers or scores.
    """
    _check(answers, golds)
    _check(silence, golds)
    quiet = sum(not any(_golds(gold)) for gold in golds)
    # From answering nothing on, each question that is answered gains its score or loses what silence would have got.
    order = sorted(range(len(silence)), key=lambda i: silence[i])
    gains = [metric(answers[i], golds[i]) - (not any(_golds(golds[i]))) for i in order]
    best, threshold = float(quiet), silence[order[0]]
    for place, total in enumerate(accumulate(gains, initial=float(quiet))):
        after = silence[order[place]] if place < len(order) else float("inf")
        # Questions with equal scores are answered together or not at all.
        cut_here = place == len(order) or place == 0 or after > silence[order[place - 1]]
        if cut_here and total > best:
            best, threshold = total, after
    return Threshold(threshold, best / len(golds))


def _golds(golds: Sequence[str]) -> list[str]:
    """Normalised; what is nothing but articles and punctuation is no answer."""
    if isinstance(golds, str):
        raise DataError("gold answers must be a list of texts, not one text: put it into a list")
    return [gold for gold in map(normalised, golds) if gold] or [""]


def _overlap(words: Sequence[str], gold: Sequence[str]) -> float:
    if not words or not gold:
        return float(not words and not gold)
    common = sum((Counter(words) & Counter(gold)).values())
    return 2 * common / (len(words) + len(gold))


def _check(answers: Sequence[object], golds: Sequence[object]) -> None:
    if len(answers) != len(golds):
        raise DataError(f"{len(answers):,} answers or scores but {len(golds):,} questions: each needs its own")
    if not golds:
        raise DataError("no questions to score: answers and gold answers are empty")
