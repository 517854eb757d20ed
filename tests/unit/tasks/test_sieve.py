"""Pairs are judged in order, by rules and then by models, and a page says so."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import torch

import heedful
from heedful.data.chunk_workers import ChunkWorkers
from heedful.data.detect.checks import EmptyTextCheck
from heedful.data.detect.pair_checks import CopyCheck, LengthRatioCheck, RepeatedPairCheck
from heedful.tasks.translation import corpus_filter
from heedful.tasks.translation.corpus_filter import (
    KEPT_NUMBER,
    FilterResult,
    ScoreThreshold,
    build_filter_page,
    dual_agreement,
    filter_pairs,
)

PAIRS = [("a", "b"), ("", "b"), ("one two", "one two"), ("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"), ("", "")]


def pairs() -> Iterator[tuple[str, str]]:
    return iter(PAIRS)


def by_letter(asked: Sequence[tuple[str, str]]) -> list[float | None]:
    """What a model might say: nothing of g."""
    return [{"a": 0.9, "c": 0.2, "e": 0.5}.get(source) for source, _ in asked]


def names(verdicts: FilterResult) -> list[str]:
    return ["" if number == KEPT_NUMBER else verdicts.reasons[number].name for number in verdicts.reason_numbers]


def test_the_first_rule_that_turns_a_pair_away_is_its_reason() -> None:
    found = filter_pairs(pairs, [EmptyTextCheck(), CopyCheck(), RepeatedPairCheck()])
    assert names(found) == ["", "empty", "copied", "repeated", "", "", "", "empty"]
    assert (found.num_kept, found.rejection_counts) == (4, [2, 1, 1])
    assert found.plot_scores() is None


@pytest.mark.parametrize("processes", [1, 2])
def test_the_reasons_do_not_depend_on_the_number_of_processes(monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    monkeypatch.setattr(corpus_filter, "ChunkWorkers", partial(ChunkWorkers, chunks_alone=1, chunk_examples=3))
    many = [(f"{source} {n % 7}", target) if n % 5 else (source, target) for n in range(20) for source, target in PAIRS]
    rules = [EmptyTextCheck(), LengthRatioCheck(), RepeatedPairCheck(), CopyCheck()]
    steps: list[int] = []
    found = filter_pairs(lambda: iter(many), rules, processes=processes, on_progress=lambda done, _: steps.append(done))
    seen: set[tuple[str, str]] = set()
    for (source, target), name in zip(many, names(found), strict=True):
        if not (source.strip() and target.strip()):
            assert name == "empty"
        elif (source, target) in seen:
            assert name == "repeated"
        else:
            assert name == ("copied" if source == target else "")
            seen.add((source, target))
    assert steps == [*range(3, 160, 3), 160]


@pytest.mark.parametrize(
    ("bar", "low", "reached"),
    [
        (ScoreThreshold(share=1.0), [], 0.2),
        (ScoreThreshold(share=0.5), ["c"], 0.5),
        (ScoreThreshold(share=0.34), ["c"], 0.5),
        (ScoreThreshold(share=0.3), ["c", "e"], 0.9),
        (ScoreThreshold(min_score=0.5), ["c"], 0.5),
        (ScoreThreshold(min_score=0.51), ["c", "e"], 0.51),
        (ScoreThreshold(share=0.3, min_score=0.1), ["c", "e"], 0.9),
    ],
)
def test_scores_decide_about_what_has_passed_the_rules(bar: ScoreThreshold, low: Sequence[str], reached: float) -> None:
    asked: list[tuple[str, str]] = []
    found = filter_pairs(
        pairs,
        [EmptyTextCheck(), CopyCheck(), RepeatedPairCheck()],
        score=lambda part: asked.extend(part) or by_letter(part),
        threshold=bar,
    )
    assert asked == [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")]
    told = ["", "empty", "copied", "repeated", "", "", "unread", "empty"]
    for letter in low:
        told[[source for source, _ in PAIRS].index(letter)] = "score"
    assert names(found) == told
    assert found.threshold == pytest.approx(reached, abs=1e-6)  # which is kept in single precision
    assert [math.isnan(score) for score in found.scores] == [False, True, True, True, False, False, True, True]


def test_many_pairs_are_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_filter, "ChunkWorkers", partial(ChunkWorkers, chunk_examples=3))
    told: list[tuple[int, int]] = []
    parts: list[int] = []

    def score(part: Sequence[tuple[str, str]]) -> list[float | None]:
        parts.append(len(part))
        return by_letter(part)

    found = filter_pairs(
        pairs,
        [EmptyTextCheck()],
        score=score,
        threshold=ScoreThreshold(share=1.0),
        on_progress=lambda *done: told.append(done),
    )
    assert (parts, told) == ([2, 3, 1], [(3, 8), (6, 8), (8, 8)])
    assert names(found) == ["", "empty", "unread", "", "", "", "unread", "empty"]


def test_the_page_shows_every_reason_and_is_well_formed() -> None:
    found = filter_pairs(
        pairs,
        [EmptyTextCheck(), RepeatedPairCheck()],
        score=by_letter,
        threshold=ScoreThreshold(min_score=0.4),
    )
    html = build_filter_page(found, [(f"<f>:{n}", pair) for n, pair in enumerate(PAIRS)], title="What <is> kept")
    ET.fromstring(html.removeprefix("<!DOCTYPE html>"))
    for words in (
        "kept (2)",
        "empty: with an empty side (2)",
        "score: on which the two models agree less (1)",
        "0.900",
    ):
        assert words in html
    assert re.search(r"<svg", html)
    assert "&lt;f&gt;:4" in html


def test_examples_are_spread_over_the_corpus() -> None:
    many = [(f"{number}", "x") for number in range(1000)]
    found = filter_pairs(lambda: iter(many), [])
    html = build_filter_page(found, [(f"f:{n}", pair) for n, pair in enumerate(many)], title="t")
    shown = [int(place) for place in re.findall(r"f:(\d+)<", html)]
    assert len(shown) == 12
    assert shown[0] == 0
    assert all(70 < after - before < 100 for before, after in pairwise(shown))


def test_agreement_is_dual_conditional_cross_entropy(trained: Path) -> None:
    """Written out from log-probabilities; a model that judges both ways may find the sides differently likely."""
    model = heedful.load(trained, kind=heedful.Translator, device="cpu")
    asked = [("1 2", "eins zwei"), ("3", "drei"), ("7", "null null null"), ("1 " * 100, "eins")]
    found = dual_agreement(model, model, asked)
    assert found[3] is None
    for (source, target), value in zip(asked[:3], found, strict=False):
        there, back = model.score([(source, target)])[0], model.score([(target, source)])[0]
        first = -sum(there.token_log_probabilities) / len(there.token_log_probabilities)
        second = -sum(back.token_log_probabilities) / len(back.token_log_probabilities)
        expected = torch.tensor(-abs(first - second) - (first + second) / 2).exp().item()
        assert value == pytest.approx(expected, rel=1e-4)
    assert dual_agreement(model, model, []) == []
