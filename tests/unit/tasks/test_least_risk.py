"""Minimum Bayes risk, against the sum in words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from sacrebleu import sentence_chrf

from heedful.metrics.utility import ChrF
from heedful.tasks.least_risk import by_risk
from heedful.tasks.target import Candidate
from heedful.tasks.translation.least_risk import least_risk
from heedful.tasks.translation.translations import Translation, joined

TEXTS = ["ein Hund", "ein Hund", "ein Hund bellt", "eine Katze", "ein Hund bellte", "das ist ganz anders"]


def translation(texts: list[str], source: str = "a dog") -> Translation:
    return Translation(
        source, (), tuple(Candidate(text, (n,), (), -float(n), -float(n) / 99, True) for n, text in enumerate(texts))
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


def test_what_a_beam_found_counts_by_its_probability() -> None:
    """Kumar and Byrne 2004: the sum of p(reference) times utility, p made to sum to 1; written out here."""
    texts, scores = ["ein Hund bellt", "ein Hund", "ein Hund", "eine Katze"], [-800.2, -800.9, -802.0, -801.0]
    chances = [math.exp(score - scores[0]) / sum(math.exp(each - scores[0]) for each in scores) for score in scores]
    wanted = {
        one: sum(chance * sentence_chrf(one, [other]).score for chance, other in zip(chances, texts, strict=True))
        for one in texts
    }
    found = by_risk(texts, ChrF(), log_probabilities=scores)
    assert [texts[place] for place, _ in found] == sorted(wanted, key=wanted.__getitem__, reverse=True)
    assert [value for _, value in found] == pytest.approx(sorted(wanted.values(), reverse=True))
    assert {place for place, _ in found} == {0, 1, 3}, "the first of equal ones"


def test_one_that_is_far_more_probable_than_all_others_is_the_answer() -> None:
    texts = ["das ist ganz anders", "ein Hund", "ein Hund bellt", "ein Hund bellte"]
    assert texts[by_risk(texts, ChrF(), log_probabilities=[-1.0, -9.0, -9.1, -9.2])[0][0]] == texts[0]
    assert texts[by_risk(texts, ChrF(), log_probabilities=[-1.0, -1.0, -1.0, -1.0])[0][0]] != texts[0]
    found = translation(texts)  # whose log-probabilities are 0, -1, -2, -3, and whose scores hardly differ
    assert least_risk(found, utility=ChrF()).text != texts[0]
    assert least_risk(found, utility=ChrF(), weighed=True).text == texts[0]
    parts = joined("a dog a dog", [found, found])
    assert least_risk(parts, utility=ChrF(), weighed=True).text == f"{texts[0]} {texts[0]}"


def test_sentences_in_parts_are_chosen_part_by_part() -> None:
    parts = [translation(["x", "ein Hund", "ein Hund"], "a dog"), translation(["bellt", "bellt", "y"], "barks")]
    found = least_risk(joined("a dog barks", parts), utility=ChrF())
    assert (found.text, len(found.parts), len(found.candidates)) == ("ein Hund bellt", 2, 1)


def test_what_was_suspicious_of_another_candidate_is_forgotten() -> None:
    assert least_risk(replace(translation(TEXTS), doubts=("odd",)), utility=ChrF()).doubts == ()


def test_nothing_stays_nothing() -> None:
    assert least_risk(translation([""]), utility=ChrF()).text == ""
