"""What stands before a sentence in its document: how it is found, and how it becomes ids."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from heedful.data.composed import Turned, matching
from heedful.data.context import (
    SEPARATOR,
    Following,
    InContext,
    asked,
    documents,
    following,
    in_context,
    led,
    own_places,
    readable,
)
from heedful.data.corpus import factored_encoding, pair_encoding
from heedful.data.factors import Case, Given, Reading
from heedful.data.labels import Labels
from heedful.data.links import led_numbers, linked_encoding
from heedful.data.readers import JsonLines, LineAligned, Pair, Reader, TabSeparated
from heedful.data.tokenizers import EOS, Tokenizer, Words, learn_words
from heedful.errors import DataError, RecipeError

TAG = "<2de>"


@pytest.fixture(scope="module")
def words() -> Words:
    return learn_words(["a b c d e f g"], size=None, lowercase=False, tags=(TAG, SEPARATOR))


def pairs(*sources: str, name: str = "") -> list[Pair]:
    """With targets in capitals."""
    return [Pair(source, source.upper(), "", document=name) for source in sources]


def read(found: list[Pair] | Reader[Pair]) -> list[tuple[str, tuple[str, ...]]]:
    return [(pair.source, pair.before) for pair in found]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def after(words: Tokenizer, text: str, lead: Sequence[str], *, longest: int) -> list[int]:
    """The ids of a sentence behind others."""
    reading = Reading(words, {})
    return led(reading, reading.encode(text), lead, longest=longest).ids


def test_a_sentence_follows_those_before_it_up_to_an_empty_line() -> None:
    lines = ["a", "b", "c", " ", "d", "e", "", "", "f"]
    assert list(following(lines, sentences=2)) == [
        "a",
        Following("b", ("a",)),
        Following("c", ("a", "b")),
        " ",
        "d",
        Following("e", ("d",)),
        "",
        "",
        "f",
    ]
    assert list(following(lines, sentences=0)) == lines


def test_pairs_follow_as_lines_do() -> None:
    """By any number of sentences, where documents are told by empty sources alone."""
    dice = random.Random(3)
    for sentences in range(4):
        lines = [dice.choice(["", "", *"abcdefg"]) for _ in range(60)]
        found = list(in_context(pairs(*lines), sentences=sentences))
        assert [asked(pair) for pair in found] == list(following(lines, sentences=sentences))
        assert [(pair.source, pair.target) for pair in found] == [(line, line.upper()) for line in lines]


def test_another_name_is_another_document() -> None:
    found = in_context([*pairs("a", "b", name="one"), *pairs("c", "d", name="two")], sentences=1)
    assert read(list(found)) == [("a", ()), ("b", ("a",)), ("c", ()), ("d", ("c",))]


def test_what_has_no_translation_is_followed_and_what_has_no_source_ends_a_document() -> None:
    text = [Pair("a", "A", ""), Pair("b", "", ""), Pair("c", "C", ""), Pair("", "D", ""), Pair("e", "E", "")]
    assert read(list(in_context(text, sentences=1))) == [("a", ()), ("b", ("a",)), ("c", ("b",)), ("", ()), ("e", ())]


def test_documents_are_numbered() -> None:
    text = [*pairs("", "a", "b", "", "", "c"), *pairs("d", name="x"), *pairs("", "e", name="x")]
    numbers = [number for number, pair in documents(text) if pair.source]
    assert numbers == [0, 0, 1, 2, 3]


def test_what_was_read_with_sentences_is_forgotten() -> None:
    """As where a text is read anew, by a model that reads less."""
    once = list(in_context(pairs("a", "b", "c"), sentences=2))
    assert [pair.before for pair in in_context(once, sentences=1)] == [(), ("a",), ("b",)]
    assert all(not pair.before for pair in in_context(once, sentences=0))


def test_what_is_turned_follows_in_the_other_language(tmp_path: Path) -> None:
    text = TabSeparated(write(tmp_path / "t.tsv", "a\tA\nb\tB\n\nc\tC\n"))
    assert read(InContext(Turned(text), sentences=1)) == [("A", ()), ("B", ("A",)), ("", ()), ("C", ())]
    assert InContext(text, sentences=1).paths == text.paths


def test_a_document_ends_with_its_file(tmp_path: Path) -> None:
    for name, line in (("p-1", "a\nb\n"), ("p-2", "c\nd\n")):
        write(tmp_path / f"{name}.en", line)
        write(tmp_path / f"{name}.de", line.upper())
    several = matching(LineAligned, tmp_path / "p-*.en", tmp_path / "p-*.de")
    assert read(InContext(several, sentences=1)) == [("a", ()), ("b", ("a",)), ("c", ()), ("d", ("c",))]


def test_a_column_or_a_field_names_documents(tmp_path: Path) -> None:
    rows = [("one", "a"), ("one", "b"), ("two", "c")]
    table = write(tmp_path / "t.tsv", "".join(f"{name}\t{text}\t{text.upper()}\n" for name, text in rows))
    lines = "".join(f"{json.dumps({'source': text, 'target': text, 'chapter': name})}\n" for name, text in rows)
    expected = [("a", ()), ("b", ("a",)), ("c", ())]
    columns = TabSeparated(table, source_column=1, target_column=2, document_column=0)
    assert read(InContext(columns, sentences=3)) == expected
    fields = JsonLines(write(tmp_path / "t.jsonl", lines), document_field="chapter")
    assert read(InContext(fields, sentences=3)) == expected


def test_numbers_name_documents_too(tmp_path: Path) -> None:
    lines = "".join(f"{json.dumps({'source': text, 'target': text, 'n': n})}\n" for text, n in (("a", 1), ("b", 2)))
    found = JsonLines(write(tmp_path / "t.jsonl", lines), document_field="n")
    assert [pair.document for pair in found] == ["1", "2"]


def test_parquet_names_documents(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    from heedful.data.parquet import ParquetColumns

    columns = {"source": ["a", "b", "c", "d"], "target": ["A", "B", "C", "D"], "n": [1, 1, 2, None]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    found = ParquetColumns(tmp_path / "t.parquet", document_field="n")
    assert read(InContext(found, sentences=1)) == [("a", ()), ("b", ("a",)), ("c", ()), ("d", ())]
    with pytest.raises(DataError, match=r"t\.parquet: has no column 'm'; there: source, target, n"):
        list(ParquetColumns(tmp_path / "t.parquet", document_field="m"))


def test_a_place_without_a_name_is_told(tmp_path: Path) -> None:
    table = write(tmp_path / "t.tsv", "a\tA\tone\nb\tB\n")
    with pytest.raises(DataError, match=r"t\.tsv:2: 2 tab-separated columns where 3 are needed"):
        list(TabSeparated(table, document_column=2))
    with pytest.raises(RecipeError, match="columns are counted from 0, so -1 is none"):
        TabSeparated(table, document_column=-1)
    line = write(tmp_path / "t.jsonl", '{"source": "a", "target": "A"}\n')
    with pytest.raises(DataError, match=r"t\.jsonl:1: no field 'n'"):
        list(JsonLines(line, document_field="n"))
    odd = write(tmp_path / "odd.jsonl", '{"source": "a", "target": "A", "n": []}\n')
    with pytest.raises(DataError, match=r"odd\.jsonl:1: field 'n' is list"):
        list(JsonLines(odd, document_field="n"))


def test_what_a_sentence_follows_stands_behind_its_tags(words: Words) -> None:
    opened = words.opened([TAG])
    ids = after(opened, "c d", ["a", "b b"], longest=99)
    assert opened.pieces(ids) == [TAG, "a", SEPARATOR, "b", "b", SEPARATOR, "c", "d"]
    assert opened.pieces(ids[at] for at in own_places(opened, ids)) == [TAG, "c", "d"]


def test_what_is_too_much_is_cut_at_its_far_end(words: Words) -> None:
    """And never the sentence itself, which is left alone where it fills all the room."""
    text = "e f g"
    own = words.encode(text)
    whole = after(words, text, ["a b", "c d"], longest=99)
    assert len(whole) == 9
    for longest in range(3, 12):
        found = after(words, text, ["a b", "c d"], longest=longest)
        assert found == whole[max(0, 9 - longest) :]
        assert [found[at] for at in own_places(words, found)] == own
    assert after(words, text, ["a b", "c d"], longest=1) == own


@pytest.mark.parametrize("longest", [99, 4, 3])
def test_factors_stand_beside_the_pieces_that_they_are_of(words: Words, longest: int) -> None:
    """Tags and separators have none, and what is cut takes its own along."""
    reading = Reading(words.opened([TAG]), {"case": Case(), "pos": Given(Labels(["N", "V"]))})
    found = led(reading, reading.encode("c\uffe8V"), ["a\uffe8N b\uffe8V"], longest=longest)
    assert found.factors is not None
    lead = [("a", 1, 1), ("b", 1, 2), (SEPARATOR, 0, 0)][max(0, 5 - longest) :]
    told = zip(words.pieces(found.ids), *found.factors.T.tolist(), strict=True)
    assert list(told) == [(TAG, 0, 0), *lead, ("c", 1, 2)]


def test_pairs_have_factors_of_what_they_follow(words: Words) -> None:
    reading = Reading(words, {"pos": Given(Labels(["N", "V"]))})
    for length in (3, 4, 9):
        encoding = factored_encoding(pair_encoding(words, words, max_length=length), reading, max_length=length)
        source, _, factors = encoding.encode(Pair("c\uffe8V", "e", "", before=("a\uffe8N", "b\uffe8V")))
        assert source is not None
        assert isinstance(factors, np.ndarray)
        assert factors[:, 0].tolist() == [1, 0, 2, 0, 2, 0][-len(source) :]


def test_nothing_leads_where_there_is_nothing(words: Words) -> None:
    assert after(words, "", ["a"], longest=9) == []
    assert after(words, "a", [], longest=9) == words.encode("a")
    assert after(words, "a", [" ", "\u200b"], longest=9) == words.encode("a")
    assert own_places(words, []) == []


def test_a_text_never_has_the_separator(words: Words) -> None:
    assert words.tags[SEPARATOR] not in words.encode(f"a {SEPARATOR} b")
    assert words.decode(after(words, "b", ["a"], longest=9)) == "a b"
    assert words.tags[SEPARATOR] in words.special.unspeakable


def test_pairs_are_encoded_with_what_they_follow(words: Words) -> None:
    """A sentence is left out if it is too long itself, and not for what it follows."""
    encode = pair_encoding(words, words, max_length=5).encode
    source, target = encode(Pair("c d", "e", "", before=("a b", "g")))
    assert words.pieces(source or ()) == [SEPARATOR, "g", SEPARATOR, "c", "d", "</s>"][-5:]
    assert words.pieces(target or ()) == ["e", "</s>"]
    assert encode(Pair("a b c d", "e", "", before=("g",)))[0] == [*words.encode("a b c d"), EOS]
    assert encode(Pair("a b c d e", "e", "", before=("g",)))[0] is None
    assert encode(Pair("", "e", "", before=("g",)))[0] == []


def test_links_are_those_of_the_sentence(words: Words) -> None:
    """Its words are counted from its own beginning, whatever stands before it."""
    opened = words.opened([TAG])
    ids = after(opened, "c d", ["a", "b"], longest=99)
    assert led_numbers(opened, "c d", ids) == [-1, -1, -1, -1, -1, 0, 1]
    encode = linked_encoding(pair_encoding(words, words, max_length=99), words, words).encode
    links = encode(Pair("c d", "e f", "", (TAG,), ((0, 1), (1, 0)), before=("a b",)))[2]
    assert links is not None
    assert [tuple(link) for link in links] == [(4, 1), (5, 0), (6, 2)]


def test_a_sentence_alone_is_a_text() -> None:
    assert readable("a", ()) == "a"
    assert readable("a", ["b"]) == Following("a", ("b",))
