"""Tagged sentences as they are read and encoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heedful.data.corpus import write_corpus
from heedful.data.labels import LabelVocabulary
from heedful.data.tagged import ConlluReader, TaggedColumnsReader, TaggedSentence
from heedful.data.tokenizers import UNK, CharacterTokenizer
from heedful.errors import DataError, RunError
from heedful.metrics.spans import extract_spans
from heedful.tasks.tagging.data import (
    build_tagging_encoding,
    collate_tagged,
    encode_words,
    get_placeholder_tag,
    list_tags_with_placeholders,
)

LETTERS = CharacterTokenizer("abcdefgh", lowercase=False)
CONLLU = """\
# sent_id = 1
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tV\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tP\t_\t1\tobj\t_\t_
2.1\tnada\t_\t_\t_\t_\t_\t_\t_\t_

# sent_id = 2
1\tsí\tsí\tINTJ\tI\t_\t0\troot\t_\t_
"""


def sentences(*tagged: str) -> list[TaggedSentence]:
    found = []
    for number, line in enumerate(tagged, 1):
        words, tags = zip(*(word.split("/") for word in line.split()), strict=True)
        found.append(TaggedSentence(words, tags, (f"x:{number}",) * len(words)))
    return found


def test_columns_are_split_at_tabs_or_spaces(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("The\tO\nNew York\tB-loc\n\n\n\nA O\nb B-loc\n")
    assert [(s.words, s.tags) for s in TaggedColumnsReader(path)] == [
        (("The", "New York"), ("O", "B-loc")),
        (("A", "b"), ("O", "B-loc")),
    ]
    assert [s.words for s in TaggedColumnsReader(path, word_column=1, tag_column=0)] == [("O", "B-loc"), ("O", "B-loc")]
    assert list(TaggedColumnsReader(path))[1].locations == (f"{path}:6", f"{path}:7")


def test_conllu_leaves_ranges_and_empty_nodes_out(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU)
    assert [(s.words, s.tags) for s in ConlluReader(path)] == [
        (("vamos", "nos"), ("VERB", "PRON")),
        (("sí",), ("INTJ",)),
    ]
    assert [s.tags for s in ConlluReader(path, tag="deprel")] == [("root", "obj"), ("root",)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tO\nb\n", "a:2: 1 column where 2 are needed"),
        ("a\t \n", "a:1: an empty word or tag"),
        ("a\tO\n\x00\tO\n", "a:2: a NUL"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        list(TaggedColumnsReader(path))


def test_words_that_are_no_conllu_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("The\tDET\n")
    with pytest.raises(DataError, match=r"a:1: a word's number is missing"):
        list(ConlluReader(path))


def test_a_tag_stands_at_the_first_token_of_its_word(tmp_path: Path) -> None:
    text = sentences("abc/X d/Y ef/X", "hh/Y", "zz/X a/Y")
    tags = LabelVocabulary.learn(tag for sentence in text for tag in sentence.tags)
    corpus = write_corpus(tmp_path / "c", text, encoder=build_tagging_encoding(LETTERS, tags, max_length=9))
    batch = collate_tagged(corpus, np.array([0, 1, 2]))
    x, y = tags.get_id("X"), tags.get_id("Y")
    assert batch.tags.tolist() == [[x, -1, -1, y, x, -1], [y, *[-1] * 5], [x, -1, y, *[-1] * 3]]
    assert batch.tokens.positions[1].tolist() == [0, 1, *[-1] * 4]
    assert encode_words(LETTERS, ("\u200b", "a")) == ([UNK, *LETTERS.encode("a")], [0, 1])


def test_unknown_tags_and_long_sentences(tmp_path: Path) -> None:
    tags = LabelVocabulary(["X"])
    encoding = build_tagging_encoding(LETTERS, tags, max_length=3)
    report = write_corpus(tmp_path / "c", sentences("abcd/X", "abc/X"), encoder=encoding).report
    assert (report.kept, report.too_long) == (1, 1)
    corpus = write_corpus(tmp_path / "c", sentences("a/Z b/X", "c/I-new"), encoder=encoding)
    names = [[list_tags_with_placeholders(tags)[tag] for tag in row if tag >= 0]
             for row in collate_tagged(corpus, np.array([0, 1])).tags.tolist()]  # fmt: skip
    assert names == [[get_placeholder_tag("Z"), "X"], [get_placeholder_tag("I-new")]]
    assert extract_spans([*names[1], *names[1]])[0][:2] == (0, 2), "still parts of an entity"


def test_labels_are_saved_and_checked(tmp_path: Path) -> None:
    labels = LabelVocabulary.learn(["b", "a", "c", "a", "ü", "b", "a"])
    assert labels.names == ("a", "b", "c", "ü")
    assert (labels.get_id("c"), labels.get_id("z"), labels.size) == (2, None, 4)
    path = tmp_path / "labels"
    labels.save(path)
    assert LabelVocabulary.load(path).names == labels.names
    with pytest.raises(DataError, match="there are no labels"):
        LabelVocabulary.learn([])
    for content in ("", "[]", '{"format": 1}', '{"format": 1, "labels": [1]}', '{"format": 2, "labels": []}'):
        path.write_text(content)
        with pytest.raises(RunError, match=r"labels|label format 2"):
            LabelVocabulary.load(path)
    with pytest.raises(RunError, match="cannot be read"):
        LabelVocabulary.load(tmp_path / "gone")
