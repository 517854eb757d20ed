"""What is suspicious of a translation, and what only looks so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.translation.quality_estimation import (
    COPIED_SIGN,
    REPEATS_SIGN,
    UNFINISHED_SIGN,
    hallucination_signs,
    has_repetition,
)


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
