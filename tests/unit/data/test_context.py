"""What stands before a sentence in its document: how it is found, and how it becomes ids."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from heedful.data.context import (
    CONTEXT_SEPARATOR,
    ContextReader,
    SentenceInContext,
    add_context,
    attach_context,
    enumerate_documents,
    find_sentence_positions,
    get_source_with_context,
    iter_with_context,
    prepend_context,
)
from heedful.data.corpus import build_factored_encoder, build_pair_encoder
from heedful.data.factors import CaseFactor, GivenFactor, SourceEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.readers import (
    ExampleReader,
    JsonlPairReader,
    LineAlignedReader,
    ReversedPairs,
    SentencePair,
    TsvPairReader,
    open_matching_files,
)
from heedful.data.tokenizers import EOS, Tokenizer, WordTokenizer, learn_words
from heedful.data.word_alignments import build_aligned_encoder, map_context_pieces_to_words
from heedful.errors import DataError, RecipeError

TAG = "<2de>"


@pytest.fixture(scope="module")
def words() -> WordTokenizer:
    return learn_words(["a b c d e f g"], size=None, lowercase=False, tags=(TAG, CONTEXT_SEPARATOR))


def pairs(*sources: str, name: str = "") -> list[SentencePair]:
    """With targets in capitals."""
    return [SentencePair(source, source.upper(), "", document=name) for source in sources]


def read(found: list[SentencePair] | ExampleReader[SentencePair]) -> list[tuple[str, tuple[str, ...]]]:
    return [(pair.source, pair.context) for pair in found]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def after(words: Tokenizer, text: str, lead: Sequence[str], *, longest: int) -> list[int]:
    """The ids of a sentence behind others."""
    reading = SourceEncoder(words, {})
    return prepend_context(reading, reading.encode(text), lead, max_pieces=longest).ids


def test_a_sentence_follows_those_before_it_up_to_an_empty_line() -> None:
    lines = ["a", "b", "c", " ", "d", "e", "", "", "f"]
    assert list(iter_with_context(lines, max_sentences=2)) == [
        "a",
        SentenceInContext("b", ("a",)),
        SentenceInContext("c", ("a", "b")),
        " ",
        "d",
        SentenceInContext("e", ("d",)),
        "",
        "",
        "f",
    ]
    assert list(iter_with_context(lines, max_sentences=0)) == lines


def test_pairs_follow_as_lines_do() -> None:
    """By any number of sentences, where documents are told by empty sources alone."""
    dice = random.Random(3)
    for sentences in range(4):
        lines = [dice.choice(["", "", *"abcdefg"]) for _ in range(60)]
        found = list(add_context(pairs(*lines), max_sentences=sentences))
        assert [get_source_with_context(pair) for pair in found] == list(
            iter_with_context(lines, max_sentences=sentences)
        )
        assert [(pair.source, pair.target) for pair in found] == [(line, line.upper()) for line in lines]


def test_another_name_is_another_document() -> None:
    found = add_context([*pairs("a", "b", name="one"), *pairs("c", "d", name="two")], max_sentences=1)
    assert read(list(found)) == [("a", ()), ("b", ("a",)), ("c", ()), ("d", ("c",))]


def test_what_has_no_translation_is_followed_and_what_has_no_source_ends_a_document() -> None:
    text = [
        SentencePair("a", "A", ""),
        SentencePair("b", "", ""),
        SentencePair("c", "C", ""),
        SentencePair("", "D", ""),
        SentencePair("e", "E", ""),
    ]
    assert read(list(add_context(text, max_sentences=1))) == [
        ("a", ()),
        ("b", ("a",)),
        ("c", ("b",)),
        ("", ()),
        ("e", ()),
    ]


def test_documents_are_numbered() -> None:
    text = [*pairs("", "a", "b", "", "", "c"), *pairs("d", name="x"), *pairs("", "e", name="x")]
    numbers = [number for number, pair in enumerate_documents(text) if pair.source]
    assert numbers == [0, 0, 1, 2, 3]


def test_what_was_read_with_sentences_is_forgotten() -> None:
    """As where a text is read anew, by a model that reads less."""
    once = list(add_context(pairs("a", "b", "c"), max_sentences=2))
    assert [pair.context for pair in add_context(once, max_sentences=1)] == [(), ("a",), ("b",)]
    assert all(not pair.context for pair in add_context(once, max_sentences=0))


def test_what_is_turned_follows_in_the_other_language(tmp_path: Path) -> None:
    text = TsvPairReader(write(tmp_path / "t.tsv", "a\tA\nb\tB\n\nc\tC\n"))
    assert read(ContextReader(ReversedPairs(text), max_sentences=1)) == [("A", ()), ("B", ("A",)), ("", ()), ("C", ())]
    assert ContextReader(text, max_sentences=1).paths == text.paths


def test_a_document_ends_with_its_file(tmp_path: Path) -> None:
    for name, line in (("p-1", "a\nb\n"), ("p-2", "c\nd\n")):
        write(tmp_path / f"{name}.en", line)
        write(tmp_path / f"{name}.de", line.upper())
    several = open_matching_files(LineAlignedReader, tmp_path / "p-*.en", tmp_path / "p-*.de")
    assert read(ContextReader(several, max_sentences=1)) == [("a", ()), ("b", ("a",)), ("c", ()), ("d", ("c",))]


def test_a_column_or_a_field_names_documents(tmp_path: Path) -> None:
    rows = [("one", "a"), ("one", "b"), ("two", "c")]
    table = write(tmp_path / "t.tsv", "".join(f"{name}\t{text}\t{text.upper()}\n" for name, text in rows))
    lines = "".join(f"{json.dumps({'source': text, 'target': text, 'chapter': name})}\n" for name, text in rows)
    expected = [("a", ()), ("b", ("a",)), ("c", ())]
    columns = TsvPairReader(table, source_column=1, target_column=2, document_column=0)
    assert read(ContextReader(columns, max_sentences=3)) == expected
    fields = JsonlPairReader(write(tmp_path / "t.jsonl", lines), document_field="chapter")
    assert read(ContextReader(fields, max_sentences=3)) == expected


def test_numbers_name_documents_too(tmp_path: Path) -> None:
    lines = "".join(f"{json.dumps({'source': text, 'target': text, 'n': n})}\n" for text, n in (("a", 1), ("b", 2)))
    found = JsonlPairReader(write(tmp_path / "t.jsonl", lines), document_field="n")
    assert [pair.document for pair in found] == ["1", "2"]


def test_parquet_names_documents(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    from heedful.data.parquet import ParquetPairReader

    columns = {"source": ["a", "b", "c", "d"], "target": ["A", "B", "C", "D"], "n": [1, 1, 2, None]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    found = ParquetPairReader(tmp_path / "t.parquet", document_field="n")
    assert read(ContextReader(found, max_sentences=1)) == [("a", ()), ("b", ("a",)), ("c", ()), ("d", ())]
    with pytest.raises(DataError, match=r"t\.parquet: has no column 'm'; choose one of source, target, n"):
        list(ParquetPairReader(tmp_path / "t.parquet", document_field="m"))


def test_a_place_without_a_name_is_told(tmp_path: Path) -> None:
    table = write(tmp_path / "t.tsv", "a\tA\tone\nb\tB\n")
    with pytest.raises(DataError, match=r"t\.tsv:2: 2 tab-separated columns where 3 are needed"):
        list(TsvPairReader(table, document_column=2))
    with pytest.raises(RecipeError, match="columns are counted from 0, so -1 is not a column"):
        TsvPairReader(table, document_column=-1)
    line = write(tmp_path / "t.jsonl", '{"source": "a", "target": "A"}\n')
    with pytest.raises(DataError, match=r"t\.jsonl:1: no field 'n'"):
        list(JsonlPairReader(line, document_field="n"))
    odd = write(tmp_path / "odd.jsonl", '{"source": "a", "target": "A", "n": []}\n')
    with pytest.raises(DataError, match=r"odd\.jsonl:1: field 'n' is list"):
        list(JsonlPairReader(odd, document_field="n"))


def test_what_a_sentence_follows_stands_behind_its_tags(words: WordTokenizer) -> None:
    opened = words.with_tags([TAG])
    ids = after(opened, "c d", ["a", "b b"], longest=99)
    assert opened.to_pieces(ids) == [TAG, "a", CONTEXT_SEPARATOR, "b", "b", CONTEXT_SEPARATOR, "c", "d"]
    assert opened.to_pieces(ids[at] for at in find_sentence_positions(opened, ids)) == [TAG, "c", "d"]


def test_what_is_too_much_is_cut_at_its_far_end(words: WordTokenizer) -> None:
    """And never the sentence itself, which is left alone where it fills all the room."""
    text = "e f g"
    own = words.encode(text)
    whole = after(words, text, ["a b", "c d"], longest=99)
    assert len(whole) == 9
    for longest in range(3, 12):
        found = after(words, text, ["a b", "c d"], longest=longest)
        assert found == whole[max(0, 9 - longest) :]
        assert [found[at] for at in find_sentence_positions(words, found)] == own
    assert after(words, text, ["a b", "c d"], longest=1) == own


@pytest.mark.parametrize("longest", [99, 4, 3])
def test_factors_stand_beside_the_pieces_that_they_are_of(words: WordTokenizer, longest: int) -> None:
    """Tags and separators have none, and what is cut takes its own along."""
    reading = SourceEncoder(
        words.with_tags([TAG]), {"case": CaseFactor(), "pos": GivenFactor(LabelVocabulary(["N", "V"]))}
    )
    found = prepend_context(reading, reading.encode("c\uffe8V"), ["a\uffe8N b\uffe8V"], max_pieces=longest)
    assert found.factors is not None
    lead = [("a", 1, 1), ("b", 1, 2), (CONTEXT_SEPARATOR, 0, 0)][max(0, 5 - longest) :]
    told = zip(words.to_pieces(found.ids), *found.factors.T.tolist(), strict=True)
    assert list(told) == [(TAG, 0, 0), *lead, ("c", 1, 2)]


def test_pairs_have_factors_of_what_they_follow(words: WordTokenizer) -> None:
    reading = SourceEncoder(words, {"pos": GivenFactor(LabelVocabulary(["N", "V"]))})
    for length in (3, 4, 9):
        encoding = build_factored_encoder(
            build_pair_encoder(words, words, max_length=length), reading, max_length=length
        )
        source, _, factors = encoding.encode(SentencePair("c\uffe8V", "e", "", context=("a\uffe8N", "b\uffe8V")))
        assert source is not None
        assert isinstance(factors, np.ndarray)
        assert factors[:, 0].tolist() == [1, 0, 2, 0, 2, 0][-len(source) :]


def test_nothing_leads_where_there_is_nothing(words: WordTokenizer) -> None:
    assert after(words, "", ["a"], longest=9) == []
    assert after(words, "a", [], longest=9) == words.encode("a")
    assert after(words, "a", [" ", "\u200b"], longest=9) == words.encode("a")
    assert find_sentence_positions(words, []) == []


def test_a_text_never_has_the_separator(words: WordTokenizer) -> None:
    assert words.tag_ids[CONTEXT_SEPARATOR] not in words.encode(f"a {CONTEXT_SEPARATOR} b")
    assert words.decode(after(words, "b", ["a"], longest=9)) == "a b"
    assert words.tag_ids[CONTEXT_SEPARATOR] in words.special.suppressed_ids


def test_pairs_are_encoded_with_what_they_follow(words: WordTokenizer) -> None:
    """A sentence is left out if it is too long itself, and not for what it follows."""
    encode = build_pair_encoder(words, words, max_length=5).encode
    source, target = encode(SentencePair("c d", "e", "", context=("a b", "g")))
    assert words.to_pieces(source or ()) == [CONTEXT_SEPARATOR, "g", CONTEXT_SEPARATOR, "c", "d", "</s>"][-5:]
    assert words.to_pieces(target or ()) == ["e", "</s>"]
    assert encode(SentencePair("a b c d", "e", "", context=("g",)))[0] == [*words.encode("a b c d"), EOS]
    assert encode(SentencePair("a b c d e", "e", "", context=("g",)))[0] is None
    assert encode(SentencePair("", "e", "", context=("g",)))[0] == []


def test_links_are_those_of_the_sentence(words: WordTokenizer) -> None:
    """Its words are counted from its own beginning, whatever stands before it."""
    opened = words.with_tags([TAG])
    ids = after(opened, "c d", ["a", "b"], longest=99)
    assert map_context_pieces_to_words(opened, "c d", ids) == [-1, -1, -1, -1, -1, 0, 1]
    encode = build_aligned_encoder(build_pair_encoder(words, words, max_length=99), words, words).encode
    links = encode(SentencePair("c d", "e f", "", (TAG,), ((0, 1), (1, 0)), context=("a b",)))[2]
    assert links is not None
    assert [tuple(link) for link in links] == [(4, 1), (5, 0), (6, 2)]


def test_a_sentence_alone_is_a_text() -> None:
    assert attach_context("a", ()) == "a"
    assert attach_context("a", ["b"]) == SentenceInContext("a", ("b",))
