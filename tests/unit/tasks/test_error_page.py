"""Which translations are shown on a page, and what is said of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import sacrebleu

from heedful.data.readers import SentencePair
from heedful.data.similar_pairs import find_similar_pairs
from heedful.inspection.page import PageTable
from heedful.tasks.evaluation import DEFAULT_OPTIONS
from heedful.tasks.translation.error_page import ErrorCases, _mark_differences, build_error_page, list_shown_cases
from heedful.tasks.translation.evaluation import TranslationEvaluator, TranslationOutputs, TranslationStats
from heedful.tasks.translation.quality_estimation import REPEATS_SIGN, UNFINISHED_SIGN
from heedful.tasks.translation.translations import TokenAlignment

PAIRS = [
    SentencePair("a white dog", "ein weißer Hund", "t:1"),
    SentencePair("two cats", "zwei Katzen", "t:2"),
    SentencePair("the duck & the zebra", "die Ente und das <Zebra>", "t:3"),
    SentencePair("green grass", "grünes Gras", "t:4"),
]
TEXTS = ("ein weißer Hund", "zwei", "die Ente und die Ente und die Ente und die Ente und die", "Gras, das grün ist")
SCORES = PageTable("", ["metric", "value"], [["BLEU", "1"]])


def cases(texts: tuple[str, ...] = TEXTS, seen: tuple[TranslationStats, ...] = (), **asking: Any) -> ErrorCases:
    exam = TranslationEvaluator(PAIRS, text="t", options=replace(DEFAULT_OPTIONS, **asking))
    return ErrorCases(exam, TranslationOutputs(texts, stats=seen))


def numbers(found: ErrorCases) -> dict[str, list[int]]:
    return {name: [each.number for each in own] for name, own in found.selected_cases.items()}


def seen(certainty: float, expected: float | None = None, signs: tuple[str, ...] = ()) -> TranslationStats:
    return TranslationStats(certainty, expected, signs)


def parsed(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))


def test_scores_are_chrf_of_sentences() -> None:
    metric = sacrebleu.metrics.CHRF()
    expected = [metric.sentence_score(text, [pair.target]).score for text, pair in zip(TEXTS, PAIRS, strict=True)]
    assert cases().scores == pytest.approx(expected)
    upper = ("", "ZWEI KATZEN", "", "")
    assert cases(upper, lowercase=True).scores == pytest.approx([0, 100, 0, 0])
    assert cases(upper).scores[1] < 10


def test_files_have_everything_but_what_a_model_thinks() -> None:
    found = cases()
    worst = [each.score for each in found.selected_cases["worst"]]
    assert numbers(found).keys() == {"worst", "too short", "too long", "with signs"}
    assert all(one <= other for one, other in pairwise(worst))
    assert sorted(numbers(found)["worst"]) == [2, 3, 4], "what is right is not among the worst"
    assert (numbers(found)["too short"], numbers(found)["too long"]) == ([2], [3, 4])
    assert numbers(found)["with signs"] == [3]
    assert found.selected_cases["with signs"][0].warning_signs == (REPEATS_SIGN,)
    assert sorted(each.number for each in list_shown_cases(found)) == [2, 3, 4]


def test_what_a_model_is_surer_of_than_it_should_be() -> None:
    ranked = cases(seen=(seen(-3.0), seen(-0.1), seen(-1.0), seen(-2.0)))
    assert not ranked.is_calibrated
    surprise = ranked.surprise
    assert surprise is not None
    assert surprise == pytest.approx(_shares(ranked.scores) - np.array([0.125, 0.875, 0.625, 0.375]))
    assert numbers(ranked)["worse than sure"][0] == 2
    assert numbers(ranked)["better than sure"][0] == 1
    known = cases(seen=(seen(-3.0, 0.2), seen(-0.1, 0.95), seen(-1.0, 0.5), seen(-2.0, 0.1)))
    assert known.is_calibrated
    assert known.surprise == pytest.approx(known.scores / 100 - np.array([0.2, 0.95, 0.5, 0.1]))
    signed = cases(
        seen=(seen(0), seen(0), seen(0, None, (UNFINISHED_SIGN,)), seen(0, None, (REPEATS_SIGN, UNFINISHED_SIGN)))
    )
    assert numbers(signed)["with signs"] == [4, 3]
    assert "worse than sure" in numbers(signed), "equal certainty tells nothing, and chrF differs"


def _shares(values: np.ndarray) -> np.ndarray:
    return (values.argsort().argsort() + 0.5) / len(values)


def test_only_some_are_shown_of_many() -> None:
    pairs = [SentencePair(f"dog {n}", f"Hund {n} und Hund", f"t:{n}") for n in range(1, 101)]
    exam = TranslationEvaluator(pairs, text="t")
    found = ErrorCases(exam, TranslationOutputs(tuple(f"Katze {n}" for n in range(1, 101))))
    assert {name: len(own) for name, own in found.selected_cases.items()} == {"worst": 20, "too short": 10}


def test_the_page_tells_all_of_it_and_escapes_it() -> None:
    aligned = TokenAlignment(("two", "</s>"), ("zwei", "</s>"), {"a": np.eye(2) * 1.0000001})
    found = cases(
        seen=(seen(0, 1), TranslationStats(-0.25, 0.9, (), (aligned,)), seen(-1, 0.5, (REPEATS_SIGN,)), seen(-1, 0.5))
    )
    text = [SentencePair("the duck and the duck", "die <Ente>", "train:7")]
    training = find_similar_pairs([each.pair.source for each in list_shown_cases(found)], lambda: text)
    page = build_error_page(found, title="a & b", scores=SCORES, training=training, notes=["a note"])
    root = parsed(page)
    whole = "\n".join("".join(each.itertext()) for each in root.iter("article"))
    assert "expected 90.0 · -0.25 nats a token" in whole
    assert "words: 4 in the source, 5 in the reference, 13 in the translation" in whole
    assert "die <Ente>" in whole
    assert "train:7, likeness" in whole
    assert "words that are not in the training text: zebra" in whole
    assert "rare in the training text: the (2), duck (2)" in whole
    assert "The training text has no word of it." in whole
    sections = list(root.iter("section"))
    assert [len(list(each.iter("article"))) for each in sections] == [len(own) for own in found.selected_cases.values()]
    labels = ["".join(each.itertext()) for each in root.iter("label")]
    assert labels == [f"{name} ({len(own)})" for name, own in found.selected_cases.items()]
    assert len([each for each in root.iter("input") if each.get("checked")]) == 1
    assert "script" not in {each.tag for each in root.iter()}
    duck = next(e for e in root.iter("article") if "Sentence 3" in "".join(e.itertext()))
    marks = [("".join(each.itertext()), each.get("class")) for each in duck.iter("mark")]
    assert ("duck", "strange") in marks
    assert ("das <Zebra>", "lacks") in marks
    assert [each.text for each in duck.iter("b")] == ["the", "duck", "the", "duck"]
    cat = next(each for each in root.iter("article") if "Sentence 2" in "".join(each.itertext()))
    assert len(list(cat.iter("details"))) == 1
    assert not list(duck.iter("details"))


def test_a_page_without_a_model_or_a_mistake() -> None:
    page = build_error_page(cases(), title="t", scores=SCORES, notes=["nothing is known"])
    assert "nothing is known" in page
    assert "Similar training text" not in page
    assert "nats" not in page
    right = cases(tuple(pair.target for pair in PAIRS))
    assert "Every translation is its reference." in build_error_page(right, title="t", scores=SCORES)


@pytest.mark.parametrize(
    ("reference", "text", "lowercase", "lacks", "odd"),
    [
        ("ein Hund", "ein Hund", False, [], []),
        ("ein Hund", "Ein Hund", False, ["ein"], ["Ein"]),
        ("ein Hund", "Ein Hund", True, [], []),
        ("ein großer Hund läuft.", "ein Hund rennt!", False, ["großer", "läuft."], ["rennt!"]),
        ("a b c d", "d a b c", False, ["d"], ["d"]),
        ("ein  Hund", "", False, ["ein  Hund"], []),
        ("a <b", "a &", False, ["<b"], ["&"]),
    ],
)
def test_words_that_differ(reference: str, text: str, lowercase: bool, lacks: list[str], odd: list[str]) -> None:
    sides = [
        ElementTree.fromstring(f"<p>{side}</p>") for side in _mark_differences(reference, text, lowercase=lowercase)
    ]
    assert [[mark.text for mark in side.iter("mark")] for side in sides] == [lacks, odd]
    assert ["".join(side.itertext()) for side in sides] == [reference, text or "∅"]


def test_a_run_makes_one(trained: Path) -> None:
    from heedful.metrics.metric import BootstrapOptions
    from heedful.runs.evaluate import build_run_evaluator, compute_answers, describe_system
    from heedful.runs.load import open_run
    from heedful.tasks.translation.report import TranslationReport

    run = open_run(trained)
    exam = build_run_evaluator(trained, run.recipe, replace(DEFAULT_OPTIONS, paged=True))
    answers = compute_answers(run, exam, device="cpu")
    assert len(answers.stats) == exam.size
    for text, each in zip(exam.inputs, answers.stats, strict=True):
        (alignment,) = each.alignments
        assert alignment.source_tokens == (*text.split(), "</s>")
        assert next(iter(alignment.weights.values())).shape[1] == len(text.split()) + 1
    report = TranslationReport(exam, describe_system(run), answers, BootstrapOptions(5, 1))
    page = report.to_html()
    parsed(page)
    assert "train.en:" in page
    assert page == report.to_html()
