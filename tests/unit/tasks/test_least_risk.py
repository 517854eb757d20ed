"""Minimum Bayes risk, against the sum in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sacrebleu import sentence_chrf

from heedful.metrics.utility import ChrF
from heedful.tasks.target import Candidate
from heedful.tasks.translation.least_risk import least_risk
from heedful.tasks.translation.translations import Translation, joined

TEXTS = ["ein Hund", "ein Hund", "ein Hund bellt", "eine Katze", "ein Hund bellte", "das ist ganz anders"]


def translation(texts: list[str], source: str = "a dog") -> Translation:
    return Translation(
        source, (), tuple(Candidate(text, (n,), (), -float(n), -float(n), True) for n, text in enumerate(texts))
    )


def test_the_candidate_that_is_most_like_all_samples_is_first() -> None:
    found = least_risk(translation(TEXTS), utility=ChrF(), keep=3)
    risks = {one: sum(sentence_chrf(one, [other]).score for other in TEXTS) / len(TEXTS) for one in TEXTS}
    wanted = sorted(risks, key=risks.__getitem__, reverse=True)[:3]
    assert [each.text for each in found.candidates] == wanted
    assert [each.score for each in found.candidates] == pytest.approx([risks[text] for text in wanted])
    assert {each.ids for each in found.candidates if each.text == "ein Hund"} <= {(0,)}, (
        "the most probable of equal ones"
    )


def test_how_often_a_sample_comes_counts() -> None:
    one, other = "ein Hund", "die Katzen dort"
    assert least_risk(translation([one, other, other]), utility=ChrF()).text == other
    assert least_risk(translation([one, one, other]), utility=ChrF()).text == one


def test_sentences_in_parts_are_chosen_part_by_part() -> None:
    parts = [translation(["x", "ein Hund", "ein Hund"], "a dog"), translation(["bellt", "bellt", "y"], "barks")]
    found = least_risk(joined("a dog barks", parts), utility=ChrF())
    assert (found.text, len(found.parts), len(found.candidates)) == ("ein Hund bellt", 2, 1)


def test_what_was_suspicious_of_another_candidate_is_forgotten() -> None:
    assert least_risk(replace(translation(TEXTS), doubts=("odd",)), utility=ChrF()).doubts == ()


def test_nothing_stays_nothing() -> None:
    assert least_risk(translation([""]), utility=ChrF()).text == ""
