# ruff: noqa: RUF001  (wide letters look alike)
"""Tokens found again in the text that they were made of."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable

import pytest
from external_data import find_external_data

from heedful.data.token_offsets import compute_offsets
from heedful.data.tokenizers import Tokenizer, learn_characters, learn_sentencepiece, learn_words
from heedful.errors import DataError

Learn = Callable[[list[str], bool], Tokenizer]
LEARNERS: dict[str, Learn] = {
    "bpe": lambda texts, low: learn_sentencepiece(
        texts, kind="bpe", size=1200, lowercase=low, character_coverage=0.999
    ),
    "unigram": lambda texts, low: learn_sentencepiece(
        texts, kind="unigram", size=700, lowercase=low, character_coverage=0.99
    ),
    "characters": lambda texts, low: learn_characters(texts, size=40, lowercase=low),
    "verbatim": lambda texts, low: learn_characters(texts, size=40, lowercase=low, verbatim=True),
    "words": lambda texts, low: learn_words(texts, size=300, lowercase=low),
}
LANGUAGES = ("en", "de", "fr", "ja", "wikipedia")


def read(language: str) -> list[str]:
    path = {
        "en": "multi30k/val.en.gz",
        "de": "multi30k/val.de.gz",
        "fr": "multi30k/test_2016_flickr.fr.gz",
        "ja": "enja/dev.ja.gz",
        "wikipedia": "xquad/xquad.en.json.gz",
    }[language]
    with gzip.open(find_external_data(path), "rt", encoding="utf-8") as file:
        if language == "wikipedia":
            return [p["context"] for article in json.load(file)["data"] for p in article["paragraphs"]][:60]
        lines = [line.rstrip("\n") for line in file][:400]
    return ["".join(line.split()) for line in lines] if language == "ja" else lines


def check(tokenizer: Tokenizer, text: str) -> None:
    """Each part of the text, read alone, is what its token stands for."""
    found = compute_offsets(tokenizer, text)
    surfaces = tokenizer.get_surfaces(text)
    assert len(found) == len(surfaces) == len(tokenizer.encode(text))
    place = 0
    for (start, stop), surface in zip(found, surfaces, strict=True):
        assert place <= start <= stop <= len(text)
        assert tokenizer.normalise(text[start:stop]).replace(" ", "") == surface.replace(" ", "")
        place = stop
    covered = "".join(text[start:stop] for start, stop in found)
    assert "".join(covered.split()) == "".join(text.split())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", LEARNERS)
def test_real_text_of_several_languages(kind: str, language: str) -> None:
    texts = read(language)
    low = language in ("de", "fr")
    tokenizer = LEARNERS[kind](texts, low)
    for text in random.sample(texts, 40):
        if not any(letter in text for letter in "…½"):  # which a piece may hold one part of
            check(tokenizer, text)


HARD = [
    "ｶﾞｷﾞ ﾊﾟｰﾃｨ",  # half-width letters whose marks are letters too
    "".join(map(chr, (0x1112, 0x1161, 0x11AB, 0x1100, 0x1173, 0x11AF))),  # Hangul syllables in parts
    "e\u0301te\u0301  ﬁn ＡＢＣ\u200b x\u00a0y",
    "İstanbul ẞ ß ΟΔΟΣ ΣΟΦΟΣ",
    "हिन्दी में ไทยภาษา",
    "👩\u200d👩\u200d👧 ok 🇩🇪",
    "a\tb\n\nc\u0007 d",
    " \u2028 ",
    "",
]


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("kind", ["bpe", "characters", "verbatim", "words"])
def test_what_normalising_changes_most(kind: str, low: bool) -> None:
    teaching = ["".join(map(chr, range(97, 140))), "b " * 300, " ".join(map(str, range(300)))]
    if kind == "bpe":
        tokenizer: Tokenizer = learn_sentencepiece(["abc def " * 20, "xyz"], kind="bpe", size=25, lowercase=low)
    else:
        tokenizer = LEARNERS[kind](teaching, low)
    for text in HARD:
        found = compute_offsets(tokenizer, text)
        assert len(found) == len(tokenizer.encode(text))
        covered = set().union(*(range(start, stop) for start, stop in found))
        # Whatever is read belongs to a token.
        for place, letter in enumerate(text):
            if letter.isalpha() or letter.isdigit():
                assert place in covered


def test_a_character_that_is_cut_belongs_to_both_pieces() -> None:
    tokenizer = learn_words(["1 2 x"], size=None, lowercase=False)
    # NFKC makes three characters of it, which are words of their own.
    assert tokenizer.get_surfaces("x ½ y") == ["x", "1", "⁄", "2", "y"]
    assert compute_offsets(tokenizer, "x ½ y") == [(0, 1), (2, 3), (2, 3), (2, 3), (4, 5)]


class Foreign:
    """A tokenizer whose pieces are always the same."""

    def __init__(self, pieces: list[str]) -> None:
        self._pieces = pieces

    def get_surfaces(self, text: str) -> list[str]:
        return self._pieces

    def normalise(self, text: str) -> str:
        return text.strip()


def test_pieces_that_are_not_in_the_text() -> None:
    with pytest.raises(DataError, match=r"character 4 of a text \(its end\)"):
        compute_offsets(Foreign(["a", "b", "more"]), "a b")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"character 3 of a text \('b'\)"):
        compute_offsets(Foreign(["a", "c"]), "a b")  # type: ignore[arg-type]
