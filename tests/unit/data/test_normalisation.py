# ruff: noqa: RUF001  # marks that look like others are meant
import random
import unicodedata

import pytest

from heedful.data.normalisation import composed, normaliser, spaced, valid, word_pattern
from heedful.errors import DataError

LETTERS = [*"abcXYZäÖßéñçøŁžΣдЖ日本語한글①ﬁ½\uff21\uff11 \t\u00a0\u3000\u2028.,;", "e\u0301", "u\u0308", "か\u3099"]


@pytest.mark.parametrize("lowercase", [False, True])
def test_normalising_is_nfkc_with_single_spaces(*, lowercase: bool) -> None:
    rng = random.Random(5)
    normalise = normaliser(lowercase=lowercase)
    for _ in range(500):
        text = "".join(rng.choices(LETTERS, k=rng.randrange(30)))
        expected = " ".join(unicodedata.normalize("NFKC", text).split())
        if lowercase:
            expected = expected.lower().replace("\u03c2", "\u03c3")  # one letter in folded Greek
        assert normalise(text) == expected
        assert normalise(expected) == expected


def test_folding_case_keeps_the_german_sharp_s() -> None:
    assert normaliser(lowercase=True)("Weiße STRAßE") == "weiße straße"


@pytest.mark.parametrize("text", ["a\ud800", "\udfffb", "a\ud83d b"])
def test_half_a_surrogate_pair_is_no_text(text: str) -> None:
    with pytest.raises(DataError, match=r"character \d of a text is U\+D[8F]"):
        valid(text)
    assert valid("🙂") == "🙂"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop-go!", ["Don't", "stop-go", "!"]),
        ("l\u2019été 'so'", ["l\u2019été", "'", "so", "'"]),
        ("3,141.59 1,a 5.", ["3,141.59", "1", ",", "a", "5", "."]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("ภาษาไทย a_b", ["ภาษาไทย", "a_b"]),
        ("a--b (x) e.g.", ["a", "-", "-", "b", "(", "x", ")", "e", ".", "g", "."]),
        ("<unk> 🙂🙂", ["<", "unk", ">", "🙂", "🙂"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert word_pattern().findall(text) == words


def test_nothing_but_spaces_is_lost_by_cutting() -> None:
    rng = random.Random(6)
    for _ in range(500):
        text = normaliser(lowercase=False)(
            "".join(rng.choices([*LETTERS, *"'-\u2019\u0300\u0e31🙂«»"], k=rng.randrange(30)))
        )
        assert "".join(word_pattern().findall(text)) == text.replace(" ", "")


@pytest.mark.parametrize(
    "text",
    [
        "Hello, world! (Really?) It's 50% off.",
        'She said "no" and "yes, maybe".',
        "Er sagte „nein“; dann «ja».",
        "An “apt” word: ¿qué? ¡sí!",
        "[a] {b} c...",
    ],
)
def test_common_punctuation_finds_its_place_again(text: str) -> None:
    assert spaced(word_pattern().findall(text)) == text


def test_words_put_together_are_cut_as_before() -> None:
    rng = random.Random(7)
    some = ["a", "don't", "b-c", "3", "4.5", *".,;:!?%)]}»”([{«„¿¡\"“'-/&…"]
    for _ in range(2000):
        words = rng.choices(some, k=rng.randrange(12))
        assert word_pattern().findall(spaced(words)) == words


def test_what_is_written_keeps_its_marks() -> None:
    rng = random.Random(6)
    for _ in range(500):
        text = "".join(rng.choices([*LETTERS, "…", "，", "：", "？", "½", "\x07", "\u00ad"], k=rng.randrange(30)))
        plain = unicodedata.normalize("NFC", text.replace("\x07", "").replace("\u00ad", ""))
        assert composed(text) == " ".join(plain.split())
        assert composed(composed(text)) == composed(text)
        assert normaliser(lowercase=False)(composed(text)) == normaliser(lowercase=False)(text.replace("\u00ad", ""))
    assert composed("e\u00ad\u0301") == "\u00e9", "what stood between them is gone"


def test_joiners_are_letters_of_what_is_written() -> None:
    persian = "می\u200cخواهم"
    assert composed(persian) == persian
    assert composed("क\u200dष") == "क\u200dष"
