"""Minimum Bayes risk, against the sum in words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from sacrebleu import sentence_chrf

from heedful.metrics.utility import ChrFUtility
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.minimum_bayes_risk import rank_by_expected_utility
from heedful.tasks.translation.translations import Translation, join_translations, select_minimum_risk

TEXTS = ["ein Hund", "ein Hund", "ein Hund bellt", "eine Katze", "ein Hund bellte", "das ist ganz anders"]


def translation(texts: list[str], source: str = "a dog") -> Translation:
    return Translation(
        source,
        (),
        tuple(TextCandidate(text, (n,), (), -float(n), -float(n) / 99, True) for n, text in enumerate(texts)),
    )


def test_the_candidate_that_is_most_like_all_samples_is_first() -> None:
    found = select_minimum_risk(translation(TEXTS), utility=ChrFUtility(), keep=3)
    risks = {one: sum(sentence_chrf(one, [other]).score for other in TEXTS) / len(TEXTS) for one in TEXTS}
    wanted = sorted(risks, key=risks.__getitem__, reverse=True)[:3]
    assert [each.text for each in found.candidates] == wanted
    assert [each.score for each in found.candidates] == pytest.approx([risks[text] for text in wanted])
    assert {each.ids for each in found.candidates if each.text == "ein Hund"} <= {(0,)}, (
        "the most probable of equal ones"
    )


def test_how_often_a_sample_comes_counts() -> None:
    one, other = "ein Hund", "die Katzen dort"
    assert select_minimum_risk(translation([one, other, other]), utility=ChrFUtility()).text == other
    assert select_minimum_risk(translation([one, one, other]), utility=ChrFUtility()).text == one


def test_what_a_beam_found_counts_by_its_probability() -> None:
    """Kumar and Byrne 2004: the sum of p(reference) times utility, p made to sum to 1; written out here."""
    texts, scores = ["ein Hund bellt", "ein Hund", "ein Hund", "eine Katze"], [-800.2, -800.9, -802.0, -801.0]
    chances = [math.exp(score - scores[0]) / sum(math.exp(each - scores[0]) for each in scores) for score in scores]
    wanted = {
        one: sum(chance * sentence_chrf(one, [other]).score for chance, other in zip(chances, texts, strict=True))
        for one in texts
    }
    found = rank_by_expected_utility(texts, ChrFUtility(), log_probabilities=scores)
    assert [texts[place] for place, _ in found] == sorted(wanted, key=wanted.__getitem__, reverse=True)
    assert [value for _, value in found] == pytest.approx(sorted(wanted.values(), reverse=True))
    assert {place for place, _ in found} == {0, 1, 3}, "the first of equal ones"


def test_one_that_is_far_more_probable_than_all_others_is_the_answer() -> None:
    texts = ["das ist ganz anders", "ein Hund", "ein Hund bellt", "ein Hund bellte"]
    assert (
        texts[rank_by_expected_utility(texts, ChrFUtility(), log_probabilities=[-1.0, -9.0, -9.1, -9.2])[0][0]]
        == texts[0]
    )
    assert (
        texts[rank_by_expected_utility(texts, ChrFUtility(), log_probabilities=[-1.0, -1.0, -1.0, -1.0])[0][0]]
        != texts[0]
    )
    found = translation(texts)  # whose log-probabilities are 0, -1, -2, -3, and whose scores hardly differ
    assert select_minimum_risk(found, utility=ChrFUtility()).text != texts[0]
    assert select_minimum_risk(found, utility=ChrFUtility(), weighted=True).text == texts[0]
    parts = join_translations("a dog a dog", [found, found])
    assert select_minimum_risk(parts, utility=ChrFUtility(), weighted=True).text == f"{texts[0]} {texts[0]}"


def test_sentences_in_parts_are_chosen_part_by_part() -> None:
    parts = [translation(["x", "ein Hund", "ein Hund"], "a dog"), translation(["bellt", "bellt", "y"], "barks")]
    found = select_minimum_risk(join_translations("a dog barks", parts), utility=ChrFUtility())
    assert (found.text, len(found.parts), len(found.candidates)) == ("ein Hund bellt", 2, 1)


def test_what_was_suspicious_of_another_candidate_is_forgotten() -> None:
    assert select_minimum_risk(replace(translation(TEXTS), doubts=("odd",)), utility=ChrFUtility()).doubts == ()


def test_nothing_stays_nothing() -> None:
    assert select_minimum_risk(translation([""]), utility=ChrFUtility()).text == ""
