"""Samples of texts that pieces are learned from."""

import tracemalloc
from collections import Counter

import pytest

from heedful.data.learning_sample import LearningSample, SampleSize
from heedful.data.tokenizers import learn_sentencepiece


def draw(count: int, **limits: int) -> list[int]:
    sample = LearningSample(map(str, range(count)), **limits)
    texts = [int(text) for text in sample.release_texts()]
    assert sample.size == SampleSize(len(texts), count)
    return texts


def test_few_texts_are_all_taken_in_order() -> None:
    assert draw(1000, max_texts=1000) == list(range(1000))
    assert draw(0) == []
    texts = ["grün", "\U0001d504", "", " a  "]
    assert list(LearningSample(texts, max_bytes=13).release_texts()) == texts


def test_of_many_texts_a_part_of_limited_size_is_drawn_in_order() -> None:
    drawn = draw(10_000, max_texts=1000)
    assert 700 <= len(drawn) <= 1000
    assert drawn == sorted(set(drawn)) == draw(10_000, max_texts=1000)
    tenths = Counter(number // 1000 for number in drawn)
    assert all(50 < tenths[tenth] < 150 for tenth in range(10)), "drawn from the whole text"


def test_the_size_of_the_texts_is_limited_too() -> None:
    sample = LearningSample(("x" * 100 for _ in range(5000)), max_bytes=20_000)
    texts = list(sample.release_texts())
    assert 14_000 <= sum(map(len, texts)) <= 20_000
    assert list(LearningSample(["x" * 100], max_bytes=9).release_texts()) == ["x" * 100], "one text is always left"


def test_memory_does_not_grow_with_the_texts() -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        LearningSample((f"text {number}" for number in range(count)), max_texts=1000)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(2000)
    assert peak(20_000) < 1.2 * peak(4000)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_knows_what_it_was_learned_from(kind: str) -> None:
    texts = [f"{word} {number}" for number in range(400) for word in ("hund", "katze", "maus")]
    whole = learn_sentencepiece(texts, kind=kind, size=60, lowercase=False)  # type: ignore[arg-type]
    assert whole.learned_from == SampleSize(1200, 1200)
    part = learn_sentencepiece(texts, kind=kind, size=60, lowercase=False, max_sentences=500)  # type: ignore[arg-type]
    assert part.learned_from is not None
    assert 300 <= part.learned_from.drawn <= 500 < part.learned_from.total == 1200
