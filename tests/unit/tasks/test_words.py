"""From attention over pieces to links between words."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.data.tokenizers import CharacterTokenizer, Tokenizer, WordTokenizer, learn_sentencepiece
from heedful.data.word_alignments import map_pieces_to_words
from heedful.tasks.translation.translations import format_pharaoh, link_words

TEXTS = ["ein kleiner Hund läuft", "zwei kleine Hunde laufen", "der Hund, der läuft"] * 20


@pytest.fixture(params=["bpe", "characters", "words"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param == "bpe":
        return learn_sentencepiece(TEXTS, kind="bpe", size=45, lowercase=False)
    if request.param == "words":
        return WordTokenizer(
            sorted({word for text in TEXTS for word in text.replace(",", " ,").split()}), lowercase=False
        )
    return CharacterTokenizer(sorted(set("".join(TEXTS))), lowercase=False)


def test_pieces_know_their_words(tokenizer: Tokenizer) -> None:
    """Pieces of one number, put together, are that word; words stand between white space, as it is written."""
    text = " der kleine\u00a0 Hund , der läuft"
    ids = tokenizer.encode(text)
    numbers = map_pieces_to_words(tokenizer, text)
    assert [number for number in numbers if number >= 0] == sorted(number for number in numbers if number >= 0)
    for number, word in enumerate(text.split()):
        mine = [piece for piece, at in zip(ids, numbers, strict=True) if at == number]
        assert tokenizer.decode(mine).replace(" ", "") == word
    for piece, number in zip(ids, numbers, strict=True):
        assert (number < 0) == (not tokenizer.decode([piece]).strip()), "spaces are no part of words"
    assert map_pieces_to_words(tokenizer, "") == []


def test_spaces_and_words_without_pieces_are_linked_with_nothing() -> None:
    weights = np.array([[0.1, 0.7, 0.2, 0.0], [0.2, 0.6, 0.2, 0.0], [0.3, 0.2, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]])
    assert link_words(weights, source_words=[0, -1, 2], target_words=[1, -1, 3]) == ((2, 1), (2, 3))


def test_links_equal_counting_by_hand() -> None:
    dice = np.random.default_rng(1)
    for _ in range(20):
        source_words, target_words = (sorted(dice.integers(0, 4, size).tolist()) for size in (6, 5))
        source_words, target_words = (
            [sorted(set(words)).index(word) for word in words] for words in (source_words, target_words)
        )
        weights = dice.random((6, 7))
        weights[:, 6] = 9.0  # the end of the source draws all eyes, but is no word
        links = link_words(weights, source_words=source_words, target_words=target_words)
        assert [target for _, target in links] == sorted(set(target_words))
        for source, target in links:
            sums = [
                sum(
                    weights[t, s]
                    for t in range(5)
                    for s in range(6)
                    if (target_words[t], source_words[s]) == (target, word)
                )
                for word in range(max(source_words) + 1)
            ]
            assert source == int(np.argmax(sums))


def test_nothing_is_linked_to_nothing() -> None:
    assert link_words(np.ones((1, 4)), source_words=[0, 1, 2], target_words=[]) == ()
    assert link_words(np.ones((2, 4)), source_words=[-1, -1, -1], target_words=[0]) == ()
    assert link_words(np.ones((3, 1)), source_words=[], target_words=[0, 1]) == ()
    assert format_pharaoh([]) == ""
    assert format_pharaoh([(2, 0), (0, 1)]) == "2-0 0-1"
