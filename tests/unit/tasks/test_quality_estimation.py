"""What is suspicious of a translation, and what only looks so; how scattered attention is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.translation.quality_estimation import (
    COPIED_SIGN,
    REPEATS_SIGN,
    SCATTERED_SIGN,
    UNFINISHED_SIGN,
    UNSURE_SIGN,
    ConfidenceCurve,
    attention_entropy,
    hallucination_signs,
    has_repetition,
)
from heedful.tasks.translation.translations import Translation, join_translations


def candidate(text: str) -> TextCandidate:
    return TextCandidate(text, (5, 6), ("a", "b"), -1.0, -0.5, finished=True)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a dog runs", "ein Hund läuft und ein Hund läuft und ein Hund läuft und ein Hund läuft"),
        ("a dog", "ein Hund Hund Hund Hund"),
        ("a dog", "ein HundHundHundHund"),
        ("a dog is here", "犬がいる犬がいる犬がいる犬がいる"),
        ("very nice", "sehr, sehr, sehr, sehr schön"),
        ("one of the men and one of the men", "einer der Männer und " * 4),
    ],
)
def test_what_goes_round_in_circles(source: str, text: str) -> None:
    assert has_repetition(source, text)
    assert hallucination_signs(source, candidate(text)) == (REPEATS_SIGN,)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a dog", "ein Hund"),
        ("", ""),
        ("1 000 000 000 000 000", "1.000.000.000.000.000"),
        ("chapter ........ 7", "Kapitel ................ 7"),
        ("ha ha ha ha", "ha ha ha ha"),
        ("aaaah!", "aaaaah!"),
        ("the man and the man and the man and the man", "der Mann und der Mann und der Mann und der Mann"),
        ("no no no", "nein nein nein"),
        ("one of the men and one of the women", "einer der Männer und eine der Frauen"),
        ("he reads and she writes", "彼は読んでいます、彼女は書いています、それはいいです"),
    ],
)
def test_what_does_not(source: str, text: str) -> None:
    assert not has_repetition(source, text)
    assert hallucination_signs(source, candidate(text)) == ()


def test_copies_and_what_was_cut_short() -> None:
    assert hallucination_signs("a dog is here too", candidate("A dog is  here too")) == (COPIED_SIGN,)
    assert hallucination_signs("LibreOffice Writer", candidate("LibreOffice Writer")) == (), "names stay what they are"
    assert hallucination_signs("a dog", replace(candidate("ein"), finished=False)) == (UNFINISHED_SIGN,)


FOUND = TextCandidate("ein Hund", (5, 6), ("ein", "Hund"), -3.0, -0.5, finished=True)
SURE = ConfidenceCurve(weights="x", points=((0.0, 0.5),))


def test_from_one_token_to_all_of_them() -> None:
    assert attention_entropy(np.eye(3)) == 0
    assert attention_entropy(np.full((2, 5), 0.2)) == pytest.approx(1)
    halves = np.array([[0.5, 0.5, 0, 0], [1, 0, 0, 0]])
    assert attention_entropy(halves) == pytest.approx(math.log(2) / math.log(4) / 2)
    assert attention_entropy(3 * halves) == pytest.approx(attention_entropy(halves)), "rows are shares"
    assert attention_entropy(halves[:, ::-1]) == pytest.approx(attention_entropy(halves))
    assert attention_entropy(np.array([[0.0, 0.0]])) == attention_entropy(np.array([[1.0]])) == 0
    assert attention_entropy(np.full((1, 3), 1 / 3, dtype=np.float16)) == pytest.approx(1)


def test_longhand() -> None:
    rng = np.random.default_rng(1)
    weights = rng.dirichlet([0.5] * 6, size=4)
    entropies = [-sum(p * math.log(p) for p in row if p) for row in weights.tolist()]
    assert attention_entropy(weights) == pytest.approx(sum(entropies) / 4 / math.log(6))


def test_a_calibrated_model_doubts_what_is_rare() -> None:
    even, sharp = np.full((3, 4), 0.25), np.eye(3, 4)
    assert SURE.find_doubts(FOUND, even) == (), "of earlier calibrations nothing is known"
    both = SURE.model_copy(update={"least": -0.9, "widest": 0.8})
    assert both.find_doubts(FOUND, even) == (UNSURE_SIGN, SCATTERED_SIGN), "-3 nats over two tokens and the end are -1"
    assert both.find_doubts(FOUND, sharp) == both.find_doubts(FOUND, None) == (UNSURE_SIGN,)
    assert both.find_doubts(replace(FOUND, log_probability=-2.7), even) == (SCATTERED_SIGN,), (
        "as sure as the least is not less"
    )
    assert SURE.model_copy(update={"widest": 1.0}).find_doubts(FOUND, even) == ()


def test_parts_of_a_sentence_are_doubted_together() -> None:
    part = Translation("a dog", ("a", "dog"), (FOUND,))
    whole = join_translations(
        "a dog a dog", [replace(part, doubts=(UNSURE_SIGN,)), replace(part, doubts=(SCATTERED_SIGN, UNSURE_SIGN))]
    )
    assert whole.warning_signs == (UNSURE_SIGN, SCATTERED_SIGN)
    assert whole.notes[-2:] == (UNSURE_SIGN, SCATTERED_SIGN)
    assert replace(part, doubts=(UNSURE_SIGN,), source_tokens=()).warning_signs == ()
