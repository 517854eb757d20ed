from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np
import pytest

from heedful.data.readers import Pair
from heedful.metrics.judge import Judge, Judgement
from heedful.tasks.exam import Asking
from heedful.tasks.translation.exam import TranslationExam


@final
class Listener(Judge):
    """Says how long translations are, and remembers what it was told."""

    name = "listener"
    signature = "kind:listener"

    def __init__(self) -> None:
        self.told: list[tuple[Sequence[str], ...]] = []

    def judge(self, *, sources: Sequence[str], candidates: Sequence[str], references: Sequence[str]) -> Judgement:
        self.told.append((sources, candidates, references))
        return Judgement(tuple(float(len(text)) for text in candidates), cut=1)


PAIRS = [Pair("A b", "X y", "1"), Pair("", "Z", "2"), Pair("C", "V", "3")]


def exam(asking: Asking) -> TranslationExam:
    return TranslationExam(PAIRS, text="text", asking=asking)


def test_a_judgement_is_the_mean() -> None:
    metric = Judgement((1.0, 2.0, 6.0)).metric
    assert metric.value == pytest.approx(3)
    assert metric.scores(np.array([[0.0, 3, 1]])) == pytest.approx([3])


def test_judges_are_told_what_counts_once(tmp_path: Path) -> None:
    judge = Listener()
    asked = exam(Asking(judge=judge))
    (tmp_path / "t").write_text("Xy y\nz\nV w w\n")
    answers = asked.read(tmp_path / "t")
    assert asked.metrics(answers)["judge: listener"].value == pytest.approx(4.5)
    assert judge.told == [(["A b", "C"], ["Xy y", "V w w"], ["X y", "V"])]
    assert asked.judged(answers) == [4, None, 5]
    assert list(answers.told.values()) == [1]
    assert replace(answers, judgement=Judgement((1.0, 2.0))).told == {}


def test_judges_read_as_other_scores_do(tmp_path: Path) -> None:
    judge = Listener()
    (tmp_path / "t").write_text("Xy y\nz\nV w w\n")
    exam(Asking(judge=judge, lowercase=True)).read(tmp_path / "t")
    assert judge.told == [(["a b", "c"], ["xy y", "v w w"], ["x y", "v"])]


def test_nobody_is_asked_where_there_is_no_judge(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("X\n\nV\n")
    asked = exam(Asking())
    answers = asked.read(tmp_path / "t")
    assert answers.judgement is None
    assert not [name for name in asked.metrics(answers) if "judge" in name]
