"""How scattered attention is, and what is suspicious of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from heedful.tasks.target import Candidate
from heedful.tasks.translation.confidence import Confidence
from heedful.tasks.translation.detachment import scatter
from heedful.tasks.translation.signs import SCATTERED, UNSURE
from heedful.tasks.translation.translations import Translation, joined

FOUND = Candidate("ein Hund", (5, 6), ("ein", "Hund"), -3.0, -0.5, finished=True)
SURE = Confidence(weights="x", points=((0.0, 0.5),))


def test_from_one_token_to_all_of_them() -> None:
    assert scatter(np.eye(3)) == 0
    assert scatter(np.full((2, 5), 0.2)) == pytest.approx(1)
    halves = np.array([[0.5, 0.5, 0, 0], [1, 0, 0, 0]])
    assert scatter(halves) == pytest.approx(math.log(2) / math.log(4) / 2)
    assert scatter(3 * halves) == pytest.approx(scatter(halves)), "rows are shares"
    assert scatter(halves[:, ::-1]) == pytest.approx(scatter(halves))
    assert scatter(np.array([[0.0, 0.0]])) == scatter(np.array([[1.0]])) == 0
    assert scatter(np.full((1, 3), 1 / 3, dtype=np.float16)) == pytest.approx(1)


def test_longhand() -> None:
    rng = np.random.default_rng(1)
    weights = rng.dirichlet([0.5] * 6, size=4)
    entropies = [-sum(p * math.log(p) for p in row if p) for row in weights.tolist()]
    assert scatter(weights) == pytest.approx(sum(entropies) / 4 / math.log(6))


def test_a_calibrated_model_doubts_what_is_rare() -> None:
    even, sharp = np.full((3, 4), 0.25), np.eye(3, 4)
    assert SURE.doubts(FOUND, even) == (), "of earlier calibrations nothing is known"
    both = SURE.model_copy(update={"least": -0.9, "widest": 0.8})
    assert both.doubts(FOUND, even) == (UNSURE, SCATTERED), "-3 nats over two tokens and the end are -1"
    assert both.doubts(FOUND, sharp) == both.doubts(FOUND, None) == (UNSURE,)
    assert both.doubts(replace(FOUND, log_probability=-2.7), even) == (SCATTERED,), "as sure as the least is not less"
    assert SURE.model_copy(update={"widest": 1.0}).doubts(FOUND, even) == ()


def test_parts_of_a_sentence_are_doubted_together() -> None:
    part = Translation("a dog", ("a", "dog"), (FOUND,))
    whole = joined("a dog a dog", [replace(part, doubts=(UNSURE,)), replace(part, doubts=(SCATTERED, UNSURE))])
    assert whole.signs == (UNSURE, SCATTERED)
    assert whole.notes[-2:] == (UNSURE, SCATTERED)
    assert replace(part, doubts=(UNSURE,), source_tokens=()).signs == ()
