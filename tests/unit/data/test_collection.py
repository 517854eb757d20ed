"""Passages and questions about them, from files of every form."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from heedful import DataError, RecipeError
from heedful.retrieval.passages import (
    JudgedQuestion,
    PassageColumns,
    PassageLines,
    PassageObjects,
    SearchPassage,
    SquadPassages,
    is_json_file,
    read_judged_questions,
)

SQUAD = {
    "data": [
        {
            "title": "Two_cats",
            "paragraphs": [
                {
                    "context": "A cat sat.",
                    "qas": [
                        {"id": "1", "question": "Who sat?", "answers": []},
                        {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                },
                {"context": "It slept.", "qas": [{"id": "3", "question": "What then?", "answers": []}]},
            ],
        },
        {"paragraphs": [{"context": "A dog.", "qas": []}]},
    ]
}


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n\n  \n two \u2028 more\n")
    assert [passage for _, passage in PassageLines(path)] == [
        SearchPassage("1", "one"),
        SearchPassage("4", " two \u2028 more"),
    ]
    assert [place for place, _ in PassageLines(path)] == [f"{path}:1", f"{path}:4"]


def test_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"x1\tTitle\tsome text\n\nx2\t\tmore\n"))
    assert [passage for _, passage in PassageColumns(path, text_column=2, title_column=1, id_column=0)] == [
        SearchPassage("x1", "some text", "Title"),
        SearchPassage("x2", "more"),
    ]
    assert [passage.id for _, passage in PassageColumns(path, text_column=2)] == ["1", "3"]
    with pytest.raises(DataError, match=r"a\.tsv\.gz:1: 3 tab-separated columns where 4 are needed"):
        list(PassageColumns(path, text_column=3))
    with pytest.raises(RecipeError, match="counted from 0"):
        PassageColumns(path, text_column=0, id_column=-1)


def test_objects(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "title": "T", "id": 7}\n\n{"text": "b"}\n{"body": "c", "id": "x"}\n')
    passages = (passage for _, passage in PassageObjects(path))
    assert [next(passages), next(passages)] == [SearchPassage("7", "a", "T"), SearchPassage("3", "b")]
    with pytest.raises(DataError, match=r"a\.jsonl:4: no field 'text'"):
        next(passages)
    path.write_text('{"body": "c", "name": "x"}\n')
    assert [each for _, each in PassageObjects(path, text_field="body", id_field="name")] == [SearchPassage("x", "c")]


def test_squad_gives_contexts_and_questions_under_the_same_names(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(SQUAD))
    assert [passage for _, passage in SquadPassages(path)] == [
        SearchPassage("1.1", "A cat sat.", "Two cats"),
        SearchPassage("1.2", "It slept.", "Two cats"),
        SearchPassage("2.1", "A dog."),
    ]
    found = list(read_judged_questions(path))
    assert [(each.question, each.passages, each.texts) for each in found] == [
        ("Who sat?", ("1.1",), ("A cat sat.",)),
        ("What then?", ("1.2",), ("It slept.",)),
    ]


def test_a_title_is_searched_with_its_text() -> None:
    assert SearchPassage("1", "text", "title").full_text == "title\ntext"
    assert SearchPassage("1", "text").full_text == "text"


def test_judged_lines(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "q", "passages": ["a", 2, "a"]}\n\n{"question": "r", "passages": []}\n')
    found = read_judged_questions(path)
    assert next(found) == JudgedQuestion("q", ("a", "2"), (), f"{path}:1")
    with pytest.raises(DataError, match=r"q\.jsonl:3: field 'passages' must be a list"):
        next(found)
    with pytest.raises(DataError, match="no such file"):
        read_judged_questions(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("name", "whole"), [("a.json", True), ("a.JSON.gz", True), ("a.jsonl", False), ("a.gz", False)]
)
def test_the_name_says_what_is_one_object(name: str, whole: bool) -> None:
    assert is_json_file(Path(name)) is whole
