from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np
import pytest

from heedful.data.readers import SentencePair
from heedful.metrics.judge import JudgeScores, TranslationJudge
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.translation.evaluation import TranslationEvaluator


@final
class Listener(TranslationJudge):
    """Says how long translations are, and remembers what it was told."""

    name = "listener"
    signature = "kind:listener"

    def __init__(self) -> None:
        self.told: list[tuple[Sequence[str], ...]] = []

    def score_translations(
        self, *, sources: Sequence[str], candidates: Sequence[str], references: Sequence[str]
    ) -> JudgeScores:
        self.told.append((sources, candidates, references))
        return JudgeScores(tuple(float(len(text)) for text in candidates), num_truncated=1)


PAIRS = [SentencePair("A b", "X y", "1"), SentencePair("", "Z", "2"), SentencePair("C", "V", "3")]


def exam(asking: EvaluatorOptions) -> TranslationEvaluator:
    return TranslationEvaluator(PAIRS, text="text", options=asking)


def test_a_judgement_is_the_mean() -> None:
    metric = JudgeScores((1.0, 2.0, 6.0)).metric
    assert metric.value == pytest.approx(3)
    assert metric.compute_scores(np.array([[0.0, 3, 1]])) == pytest.approx([3])


def test_judges_are_told_what_counts_once(tmp_path: Path) -> None:
    judge = Listener()
    asked = exam(EvaluatorOptions(judge=judge))
    (tmp_path / "t").write_text("Xy y\nz\nV w w\n")
    answers = asked.read_answers(tmp_path / "t")
    assert asked.compute_metrics(answers)["judge: listener"].value == pytest.approx(4.5)
    assert judge.told == [(["A b", "C"], ["Xy y", "V w w"], ["X y", "V"])]
    assert asked.list_judge_scores(answers) == [4, None, 5]
    assert list(answers.all_notes.values()) == [1]
    assert replace(answers, judgement=JudgeScores((1.0, 2.0))).all_notes == {}


def test_judges_read_as_other_scores_do(tmp_path: Path) -> None:
    judge = Listener()
    (tmp_path / "t").write_text("Xy y\nz\nV w w\n")
    exam(EvaluatorOptions(judge=judge, lowercase=True)).read_answers(tmp_path / "t")
    assert judge.told == [(["a b", "c"], ["xy y", "v w w"], ["x y", "v"])]


def test_nobody_is_asked_where_there_is_no_judge(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("X\n\nV\n")
    asked = exam(EvaluatorOptions())
    answers = asked.read_answers(tmp_path / "t")
    assert answers.judgement is None
    assert not [name for name in asked.compute_metrics(answers) if "judge" in name]
