from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from heedful.data.corpus import Corpus, write_corpus
from heedful.data.documents import DocumentChunk
from heedful.data.random_numbers import SeededRandom
from heedful.data.tokenizers import WordTokenizer
from heedful.errors import DataError
from heedful.tasks.pretraining.data import (
    NextSentencePairing,
    NoPairing,
    PassagePairing,
    PassageSampler,
    SentenceOrderPairing,
    build_sentence_encoding,
    encode_sentences,
)

DOCUMENTS = 300
WORDS = WordTokenizer([f"w{number}" for number in range(DOCUMENTS)], lowercase=False)
PAIRINGS = [NoPairing(), NextSentencePairing(), SentenceOrderPairing()]


def documents(sizes: tuple[int, int] = (2, 15)) -> Iterator[DocumentChunk]:
    """Documents of one word each, so that every id tells where it is from; sentences of one to twelve words."""
    random = np.random.default_rng(3)
    for number in range(DOCUMENTS):
        sentences = [" ".join([f"w{number}"] * random.integers(1, 13)) for _ in range(random.integers(*sizes))]
        yield DocumentChunk("\n".join(sentences), is_last=True)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    made = encode_sentences(documents(), WORDS, str.splitlines)
    return write_corpus(tmp_path / "c", made, encoder=build_sentence_encoding(WORDS))


def passages(
    corpus: Corpus, pairing: PassagePairing, *, max_length: int = 40, short: float = 0.1, seed: int = 1
) -> PassageSampler:
    return PassageSampler(corpus, pairing=pairing, max_length=max_length, short_share=short, seed=seed)


def test_sentences_keep_what_was_written(corpus: Corpus) -> None:
    expected = [WORDS.encode(line) for document in documents() for line in document.text.splitlines()]
    assert [corpus["text"][row].tolist() for row in range(len(corpus))] == expected
    assert int(corpus["begins"].stream.sum()) == DOCUMENTS


def test_long_sentences_come_in_parts_and_parts_of_a_document_stay_together() -> None:
    parts = [
        DocumentChunk("w1 " * 150, is_last=False),
        DocumentChunk("w1", is_last=True),
        DocumentChunk("w2", is_last=True),
    ]
    found = list(encode_sentences(parts, WORDS, str.splitlines))
    assert [len(each.ids) for each in found] == [64, 64, 22, 1, 1]
    assert [each.starts_document for each in found] == [True, False, False, False, True]


@pytest.mark.parametrize("pairing", PAIRINGS, ids=lambda pairing: type(pairing).__name__)
@pytest.mark.parametrize("short", [0.0, 0.5])
def test_passages_fit_and_are_what_they_say(corpus: Corpus, pairing: PassagePairing, short: float) -> None:
    made = passages(corpus, pairing, short=short)
    stream = made.documents.stream
    for epoch in (0, 3):
        numbers, lengths = made.plan(epoch)
        assert len(set(numbers.tolist())) == len(numbers)
        for number, length in zip(numbers.tolist(), lengths.tolist(), strict=True):
            passage = made[number]
            assert passage.num_ids + pairing.num_special_tokens == length <= 40
            assert len(passage.first) > 0
            first = set(stream[passage.first.start : passage.first.stop].tolist())
            assert len(first) == 1, "a part is of one document"
            if passage.second is None:
                assert not pairing.has_pairs
                continue
            second = set(stream[passage.second.start : passage.second.stop].tolist())
            assert len(second) == 1
            if isinstance(pairing, SentenceOrderPairing):
                assert first == second
                assert (passage.first.start < passage.second.start) == passage.follows
            else:
                assert (first == second) == passage.follows
                assert not passage.follows or passage.first.stop <= passage.second.start


@pytest.mark.parametrize("pairing", PAIRINGS, ids=lambda pairing: type(pairing).__name__)
def test_an_epoch_reads_the_whole_text(corpus: Corpus, pairing: PassagePairing) -> None:
    """Sentences are short here beside passages, so hardly anything is cut off."""
    made = passages(corpus, pairing, max_length=120, short=0.0)
    seen = np.zeros(len(made.documents.stream), dtype=int)
    for number in made.plan(2)[0].tolist():
        passage = made[number]
        seen[passage.first.start : passage.first.stop] += 1
        if passage.second is not None and (passage.follows or isinstance(pairing, SentenceOrderPairing)):
            seen[passage.second.start : passage.second.stop] += 1
    assert (seen > 0).mean() > 0.97
    assert (seen > 1).mean() < 0.1


def test_half_of_the_pairs_follow_and_others_come_from_everywhere(tmp_path: Path) -> None:
    made = encode_sentences(documents((60, 240)), WORDS, str.splitlines)
    text = write_corpus(tmp_path / "c", made, encoder=build_sentence_encoding(WORDS))
    for pairing in (NextSentencePairing(), SentenceOrderPairing()):
        pairs = passages(text, pairing, max_length=32)
        found = [pairs[number] for number in pairs.plan(1)[0].tolist()]
        assert len(found) > 8000
        assert np.mean([each.follows for each in found]) == pytest.approx(0.5, abs=0.015)  # 2.7 standard deviations
        if isinstance(pairing, NextSentencePairing):
            seconds = [each.second for each in found if not each.follows]
            others = Counter(int(pairs.documents.stream[second.start]) for second in seconds if second is not None)
            assert len(others) == DOCUMENTS
            assert max(others.values()) < 3 * sum(others.values()) / DOCUMENTS


def test_a_passage_depends_on_seed_and_number_alone(corpus: Corpus) -> None:
    one, same, other = (passages(corpus, NextSentencePairing(), seed=seed) for seed in (1, 1, 2))
    numbers = one.plan(1)[0]
    assert np.array_equal(numbers, same.plan(1)[0])
    assert not np.array_equal(numbers, other.plan(1)[0])
    assert not np.array_equal(numbers, one.plan(2)[0] - len(one.documents))
    forward = [one[number] for number in numbers.tolist()]
    assert forward == [same[number] for number in numbers.tolist()[::-1]][::-1]


def test_short_passages_are_the_share_asked_for(corpus: Corpus) -> None:
    long, short = (passages(corpus, NoPairing(), max_length=20, short=share).plan(0)[1].mean() for share in (0.0, 1.0))
    assert short < 0.8 * long


def test_one_document_has_no_other(tmp_path: Path) -> None:
    made = encode_sentences([DocumentChunk("w1\nw2\nw3", is_last=True)], WORDS, str.splitlines)
    text = write_corpus(tmp_path / "c", made, encoder=build_sentence_encoding(WORDS))
    with pytest.raises(DataError, match="the text is one document"):
        passages(text, NextSentencePairing())
    numbers, _ = passages(text, NoPairing()).plan(0)
    assert len(numbers) == 1


def test_documents_of_one_sentence_begin_no_pair(tmp_path: Path) -> None:
    texts = [
        DocumentChunk("w1 w1", is_last=True),
        DocumentChunk("w2 w2\nw2", is_last=True),
        DocumentChunk("w3", is_last=True),
    ]
    text = write_corpus(
        tmp_path / "c", encode_sentences(texts, WORDS, str.splitlines), encoder=build_sentence_encoding(WORDS)
    )
    for epoch in range(5):
        made = passages(text, NextSentencePairing())
        for number in made.plan(epoch)[0].tolist():
            assert set(made.documents.stream[list(made[number].first)].tolist()) == {WORDS.encode("w2")[0]}


def test_chance_is_even_and_decided_by_its_numbers() -> None:
    drawn = SeededRandom(1, 2).uniform(100_000)
    assert 0 <= drawn.min() < drawn.max() < 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.005)
    assert np.array_equal(drawn, SeededRandom(1, 2).uniform(100_000))
    assert not np.array_equal(drawn[:10], SeededRandom(2, 1).uniform(10))
    counts = Counter(SeededRandom(7, number).next_int(6) for number in range(6000))
    assert set(counts) == set(range(6))
    assert min(counts.values()) > 850


def test_chance_gives_few_and_many_numbers_alike() -> None:
    one, other = SeededRandom(3, 1), SeededRandom(3, 1)
    many = one.uniform(100)
    assert many.tolist() == [other.next_float() for _ in range(100)]
    assert one.next_float() == other.next_float()
    assert np.abs(np.corrcoef(SeededRandom(1).uniform(50_000), SeededRandom(2).uniform(50_000))[0, 1]) < 0.02


def test_documents_of_one_sentence_are_no_text_for_pairs(tmp_path: Path) -> None:
    texts = [DocumentChunk("w1 w1", is_last=True), DocumentChunk("w2", is_last=True)]
    made = encode_sentences(texts, WORDS, str.splitlines)
    text = write_corpus(tmp_path / "c", made, encoder=build_sentence_encoding(WORDS))
    for pairing in (NextSentencePairing(), SentenceOrderPairing()):
        with pytest.raises(DataError, match="no document has two sentences"):
            passages(text, pairing)
    assert len(passages(text, NoPairing()).plan(0)[0]) == 2
