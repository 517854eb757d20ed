# ruff: noqa: RUF001  # marks that look like others are meant
import random
import unicodedata
from collections.abc import Callable

import pytest

from heedful.data.normalisation import (
    build_normaliser,
    get_word_pattern,
    join_words,
    normalise_nfc,
    require_valid_unicode,
)
from heedful.data.tokenizers import Tokenizer, learn_characters, learn_sentencepiece, learn_words
from heedful.errors import DataError

INVISIBLE = (0xAD, 0x34F, 0x61C, 0x200B, 0x200E, 0x200F, 0x202B, 0x202E, 0x2060, 0x2063, 0x2066, 0x2069, 0x206A, 0xFEFF)


def learned(kind: str) -> Callable[[str], str]:
    """What the ids of a vocabulary say of a text, which was learned from text with and without such characters."""
    texts = ["On February 6, Feb\u00adru\u00adary is \u2066read\u2069 as\u0085it is. "] * 3
    if kind == "bpe":
        tokenizer: Tokenizer = learn_sentencepiece(texts, kind="bpe", size=40, lowercase=False)
    else:
        learn = learn_words if kind == "words" else learn_characters
        tokenizer = learn(texts, size=None, lowercase=False)
    return lambda text: "|".join(map(str, tokenizer.encode(text))) + tokenizer.normalise(text)


LETTERS = [*"abcXYZäÖßéñçøŁžΣдЖ日本語한글①ﬁ½\uff21\uff11 \t\u00a0\u3000\u2028.,;", "e\u0301", "u\u0308", "か\u3099"]


@pytest.mark.parametrize("lowercase", [False, True])
def test_normalising_is_nfkc_with_single_spaces(*, lowercase: bool) -> None:
    rng = random.Random(5)
    normalise = build_normaliser(lowercase=lowercase)
    for _ in range(500):
        text = "".join(rng.choices(LETTERS, k=rng.randrange(30)))
        expected = " ".join(unicodedata.normalize("NFKC", text).split())
        if lowercase:
            expected = expected.lower().replace("\u03c2", "\u03c3")  # one letter in folded Greek
        assert normalise(text) == expected
        assert normalise(expected) == expected


@pytest.mark.parametrize(
    "read", [build_normaliser(lowercase=False), learned("bpe"), learned("words"), learned("characters")]
)
@pytest.mark.parametrize(
    "text",
    [
        *(f"On Feb{chr(code)}ru{chr(code)}ary 6" for code in INVISIBLE),
        *(f"On{chr(code)}February 6" for code in (0x0B, 0x0C, 0x85, 0x2028, 0x2029)),
        "\u2066On February\u2069 6",
    ],
)
def test_what_only_lays_out_a_text_is_not_read(read: Callable[[str], str], text: str) -> None:
    assert read(text) == read("On February 6")


@pytest.mark.parametrize("text", ["\u1780\u200b\u1781", "\u0e01\u200b\u0e02"])
def test_spaces_of_no_width_part_words_of_scripts_that_have_them(text: str) -> None:
    assert build_normaliser(lowercase=False)(text) == f"{text[0]} {text[2]}"


def test_joiners_are_read() -> None:
    text = "\u0915\u094d\u200d\u0937"
    assert build_normaliser(lowercase=False)(text) == text


def test_folding_case_keeps_the_german_sharp_s() -> None:
    assert build_normaliser(lowercase=True)("Weiße STRAßE") == "weiße straße"


@pytest.mark.parametrize("text", ["a\ud800", "\udfffb", "a\ud83d b"])
def test_half_a_surrogate_pair_is_no_text(text: str) -> None:
    with pytest.raises(DataError, match=r"character \d of a text is U\+D[8F]"):
        require_valid_unicode(text)
    assert require_valid_unicode("🙂") == "🙂"


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
    assert get_word_pattern().findall(text) == words


def test_nothing_but_spaces_is_lost_by_cutting() -> None:
    rng = random.Random(6)
    for _ in range(500):
        text = build_normaliser(lowercase=False)(
            "".join(rng.choices([*LETTERS, *"'-\u2019\u0300\u0e31🙂«»"], k=rng.randrange(30)))
        )
        assert "".join(get_word_pattern().findall(text)) == text.replace(" ", "")


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
    assert join_words(get_word_pattern().findall(text)) == text


def test_words_put_together_are_cut_as_before() -> None:
    rng = random.Random(7)
    some = ["a", "don't", "b-c", "3", "4.5", *".,;:!?%)]}»”([{«„¿¡\"“'-/&…"]
    for _ in range(2000):
        words = rng.choices(some, k=rng.randrange(12))
        assert get_word_pattern().findall(join_words(words)) == words


def test_what_is_written_keeps_its_marks() -> None:
    rng = random.Random(6)
    for _ in range(500):
        text = "".join(rng.choices([*LETTERS, "…", "，", "：", "？", "½", "\x07", "\u00ad"], k=rng.randrange(30)))
        plain = unicodedata.normalize("NFC", text.replace("\x07", "").replace("\u00ad", ""))
        assert normalise_nfc(text) == " ".join(plain.split())
        assert normalise_nfc(normalise_nfc(text)) == normalise_nfc(text)
        assert build_normaliser(lowercase=False)(normalise_nfc(text)) == build_normaliser(lowercase=False)(
            text.replace("\u00ad", "")
        )
    assert normalise_nfc("e\u00ad\u0301") == "\u00e9", "what stood between them is gone"


def test_joiners_are_letters_of_what_is_written() -> None:
    persian = "می\u200cخواهم"
    assert normalise_nfc(persian) == persian
    assert normalise_nfc("क\u200dष") == "क\u200dष"
