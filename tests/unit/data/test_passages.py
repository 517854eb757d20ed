from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from heedful.data.chance import Chance
from heedful.data.corpus import Corpus, write_corpus
from heedful.data.documents import Document
from heedful.data.tokenizers import Words
from heedful.errors import DataError
from heedful.tasks.pretraining.passages import (
    Alone,
    NextSentence,
    Pairing,
    Passages,
    SentenceOrder,
    sentence_encoding,
    sentences_of,
)

DOCUMENTS = 300
WORDS = Words([f"w{number}" for number in range(DOCUMENTS)], lowercase=False)
PAIRINGS = [Alone(), NextSentence(), SentenceOrder()]


def documents(sizes: tuple[int, int] = (2, 15)) -> Iterator[Document]:
    """Documents of one word each, so that every id tells where it is from; sentences of one to twelve words."""
    random = np.random.default_rng(3)
    for number in range(DOCUMENTS):
        sentences = [" ".join([f"w{number}"] * random.integers(1, 13)) for _ in range(random.integers(*sizes))]
        yield Document("\n".join(sentences), ends=True)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    made = sentences_of(documents(), WORDS, str.splitlines)
    return write_corpus(tmp_path / "c", made, encoding=sentence_encoding(WORDS))


def passages(corpus: Corpus, pairing: Pairing, *, max_length: int = 40, short: float = 0.1, seed: int = 1) -> Passages:
    return Passages(corpus, pairing=pairing, max_length=max_length, short=short, seed=seed)


def test_sentences_keep_what_was_written(corpus: Corpus) -> None:
    expected = [WORDS.encode(line) for document in documents() for line in document.text.splitlines()]
    assert [corpus["text"][row].tolist() for row in range(len(corpus))] == expected
    assert int(corpus["begins"].stream.sum()) == DOCUMENTS


def test_long_sentences_come_in_parts_and_parts_of_a_document_stay_together() -> None:
    parts = [Document("w1 " * 150, ends=False), Document("w1", ends=True), Document("w2", ends=True)]
    found = list(sentences_of(parts, WORDS, str.splitlines))
    assert [len(each.ids) for each in found] == [64, 64, 22, 1, 1]
    assert [each.begins for each in found] == [True, False, False, False, True]


@pytest.mark.parametrize("pairing", PAIRINGS, ids=lambda pairing: type(pairing).__name__)
@pytest.mark.parametrize("short", [0.0, 0.5])
def test_passages_fit_and_are_what_they_say(corpus: Corpus, pairing: Pairing, short: float) -> None:
    made = passages(corpus, pairing, short=short)
    stream = made.text.stream
    for epoch in (0, 3):
        numbers, lengths = made.plan(epoch)
        assert len(set(numbers.tolist())) == len(numbers)
        for number, length in zip(numbers.tolist(), lengths.tolist(), strict=True):
            passage = made[number]
            assert passage.ids + pairing.special == length <= 40
            assert len(passage.first) > 0
            first = set(stream[passage.first.start : passage.first.stop].tolist())
            assert len(first) == 1, "a part is of one document"
            if passage.second is None:
                assert not pairing.asks
                continue
            second = set(stream[passage.second.start : passage.second.stop].tolist())
            assert len(second) == 1
            if isinstance(pairing, SentenceOrder):
                assert first == second
                assert (passage.first.start < passage.second.start) == passage.follows
            else:
                assert (first == second) == passage.follows
                assert not passage.follows or passage.first.stop <= passage.second.start


@pytest.mark.parametrize("pairing", PAIRINGS, ids=lambda pairing: type(pairing).__name__)
def test_an_epoch_reads_the_whole_text(corpus: Corpus, pairing: Pairing) -> None:
    """Sentences are short here beside passages, so hardly anything is cut off."""
    made = passages(corpus, pairing, max_length=120, short=0.0)
    seen = np.zeros(len(made.text.stream), dtype=int)
    for number in made.plan(2)[0].tolist():
        passage = made[number]
        seen[passage.first.start : passage.first.stop] += 1
        if passage.second is not None and (passage.follows or isinstance(pairing, SentenceOrder)):
            seen[passage.second.start : passage.second.stop] += 1
    assert (seen > 0).mean() > 0.97
    assert (seen > 1).mean() < 0.1


def test_half_of_the_pairs_follow_and_others_come_from_everywhere(tmp_path: Path) -> None:
    made = sentences_of(documents((60, 240)), WORDS, str.splitlines)
    text = write_corpus(tmp_path / "c", made, encoding=sentence_encoding(WORDS))
    for pairing in (NextSentence(), SentenceOrder()):
        pairs = passages(text, pairing, max_length=32)
        found = [pairs[number] for number in pairs.plan(1)[0].tolist()]
        assert len(found) > 8000
        assert np.mean([each.follows for each in found]) == pytest.approx(0.5, abs=0.015)  # 2.7 standard deviations
        if isinstance(pairing, NextSentence):
            seconds = [each.second for each in found if not each.follows]
            others = Counter(int(pairs.text.stream[second.start]) for second in seconds if second is not None)
            assert len(others) == DOCUMENTS
            assert max(others.values()) < 3 * sum(others.values()) / DOCUMENTS


def test_a_passage_depends_on_seed_and_number_alone(corpus: Corpus) -> None:
    one, same, other = (passages(corpus, NextSentence(), seed=seed) for seed in (1, 1, 2))
    numbers = one.plan(1)[0]
    assert np.array_equal(numbers, same.plan(1)[0])
    assert not np.array_equal(numbers, other.plan(1)[0])
    assert not np.array_equal(numbers, one.plan(2)[0] - len(one.text))
    forward = [one[number] for number in numbers.tolist()]
    assert forward == [same[number] for number in numbers.tolist()[::-1]][::-1]


def test_short_passages_are_the_share_asked_for(corpus: Corpus) -> None:
    long, short = (passages(corpus, Alone(), max_length=20, short=share).plan(0)[1].mean() for share in (0.0, 1.0))
    assert short < 0.8 * long


def test_one_document_has_no_other(tmp_path: Path) -> None:
    made = sentences_of([Document("w1\nw2\nw3", ends=True)], WORDS, str.splitlines)
    text = write_corpus(tmp_path / "c", made, encoding=sentence_encoding(WORDS))
    with pytest.raises(DataError, match="the text is one document"):
        passages(text, NextSentence())
    numbers, _ = passages(text, Alone()).plan(0)
    assert len(numbers) == 1


def test_documents_of_one_sentence_begin_no_pair(tmp_path: Path) -> None:
    texts = [Document("w1 w1", ends=True), Document("w2 w2\nw2", ends=True), Document("w3", ends=True)]
    text = write_corpus(tmp_path / "c", sentences_of(texts, WORDS, str.splitlines), encoding=sentence_encoding(WORDS))
    for epoch in range(5):
        made = passages(text, NextSentence())
        for number in made.plan(epoch)[0].tolist():
            assert set(made.text.stream[list(made[number].first)].tolist()) == {WORDS.encode("w2")[0]}


def test_chance_is_even_and_decided_by_its_numbers() -> None:
    drawn = Chance(1, 2).uniform(100_000)
    assert 0 <= drawn.min() < drawn.max() < 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.005)
    assert np.array_equal(drawn, Chance(1, 2).uniform(100_000))
    assert not np.array_equal(drawn[:10], Chance(2, 1).uniform(10))
    counts = Counter(Chance(7, number).below(6) for number in range(6000))
    assert set(counts) == set(range(6))
    assert min(counts.values()) > 850


def test_chance_gives_few_and_many_numbers_alike() -> None:
    one, other = Chance(3, 1), Chance(3, 1)
    many = one.uniform(100)
    assert many.tolist() == [other.number() for _ in range(100)]
    assert one.number() == other.number()
    assert np.abs(np.corrcoef(Chance(1).uniform(50_000), Chance(2).uniform(50_000))[0, 1]) < 0.02


def test_documents_of_one_sentence_are_no_text_for_pairs(tmp_path: Path) -> None:
    texts = [Document("w1 w1", ends=True), Document("w2", ends=True)]
    made = sentences_of(texts, WORDS, str.splitlines)
    text = write_corpus(tmp_path / "c", made, encoding=sentence_encoding(WORDS))
    for pairing in (NextSentence(), SentenceOrder()):
        with pytest.raises(DataError, match="no document has two sentences"):
            passages(text, pairing)
    assert len(passages(text, Alone()).plan(0)[0]) == 2
