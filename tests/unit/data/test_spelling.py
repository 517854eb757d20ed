"""What tokens add to a text, of every kind of vocabulary that is learned here."""

from __future__ import annotations

import random

import pytest

from heedful.data.token_offsets import collect_word_characters, find_term, get_added_texts, is_word_character
from heedful.data.tokenizers import (
    CharacterTokenizer,
    Tokenizer,
    WordTokenizer,
    learn_characters,
    learn_sentencepiece,
    learn_words,
)
from heedful.errors import DataError

TEXTS = ["ein Hund läuft, der Hund bellt.", "eine Hündin (alt) läuft!", "Ein Schäferhund; 3,5 kg und mehr"] * 3
VOCABULARIES = {
    "bpe": learn_sentencepiece(TEXTS, kind="bpe", size=60, lowercase=False),
    "unigram": learn_sentencepiece(TEXTS, kind="unigram", size=45, lowercase=True),
    "characters": learn_characters(TEXTS, size=None, lowercase=False),
    "verbatim": learn_characters(TEXTS, size=None, lowercase=False, verbatim=True),
}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_text_is_made_of_what_its_tokens_add(name: str) -> None:
    tokenizer = VOCABULARIES[name]
    added, chance = get_added_texts(tokenizer), random.Random(1)
    assert len(added) == tokenizer.size
    assert all(added[number] == "" for number in tokenizer.special.skipped_ids)
    real = [number for number in range(tokenizer.size) if added[number]]
    assert len(real) >= tokenizer.size - 4
    for _ in range(200):
        ids = chance.choices(real, k=6)
        assert "".join(added[number] for number in ids).strip() == tokenizer.decode(ids).strip()
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert "".join(added[number] for number in ids).strip() == tokenizer.normalise(text)


def test_words_have_the_space_that_is_put_before_them() -> None:
    words = learn_words(TEXTS, size=None, lowercase=False)
    added = get_added_texts(words)
    assert {added[number] for number in words.encode("ein Hund , (")} == {" ein", " Hund", ",", " ("}


@pytest.mark.parametrize(
    ("term", "text", "found"),
    [
        ("Hund", "Hund, ein Hund und Hunde, Schäferhund und Hund", [0, 10, 42]),
        ("Hund", "ein Hund-Halter sah 3Hund", [4]),
        ("a a", "a a a", [0, 2]),
        ("C++", "C++, C++11 und C++.", [0, 5, 15]),
        ("नमस्", "नमस्ते नमस्", [7]),
        ("猫", "黒猫が猫", [1, 3]),
        ("", "a", []),
    ],
)
def test_terms_are_found_where_they_are_words(term: str, text: str, found: list[int]) -> None:
    assert list(find_term(term, text)) == found


def test_letters_that_make_words() -> None:
    assert collect_word_characters(["a1_ä.", "猫 จ\ufffd-"]) == frozenset("a1_ä\ufffd")
    assert not is_word_character(" ")


@pytest.mark.parametrize(
    "tokenizer", [CharacterTokenizer(".", lowercase=False), WordTokenizer(["."], lowercase=False)], ids=repr
)
def test_a_vocabulary_without_letters_is_told_of(tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match="no piece of this vocabulary is a letter"):
        get_added_texts(tokenizer)
