"""Labelled texts as they are read."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from heedful.data.labelled import (
    ChoicesJsonl,
    LabelledCsv,
    LabelledExample,
    LabelledJsonl,
    LabelledReader,
    LabelledTsv,
    MultipleChoiceExample,
)
from heedful.errors import DataError, RecipeError

NAMES = {"0": "negative", "1": "positive"}


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_tsv_by_name_without_quoting(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", '\ufeffid\tlabel\ttext\n7\t1\t" quoted, not closed\r\n8\t0\tfine\n\n')
    reader = LabelledTsv(path, texts=("text",), label="label", names=NAMES)
    for _ in range(2):
        assert list(reader) == [
            LabelledExample(('" quoted, not closed',), "positive", f"{path}:2"),
            LabelledExample(("fine",), "negative", f"{path}:3"),
        ]
    assert [item.label for item in LabelledTsv(path, texts=("text",), label=None)] == [None, None]


def test_tsv_by_number_has_no_header_unless_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "b\ta\t2.5\nd\tc\t-1\n")
    first, second = LabelledTsv(path, texts=(1, 0), label=2, number=True)
    assert (first.texts, first.label, second.label) == (("a", "b"), 2.5, -1.0)
    assert len(list(LabelledTsv(path, texts=(0,), label=1, header=True))) == 1


def test_csv_as_the_standard_library_writes_it(tmp_path: Path) -> None:
    rows = [["text", "more", "label"]]
    for _ in range(100):
        rows.append(["".join(random.choices('ab",\n\t é', k=random.randrange(12))) + "." for _ in range(2)] + ["x"])
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(text.getvalue().encode())
    found = list(LabelledCsv(path, texts=("text", "more"), label="label"))
    # A line ends with one line feed wherever it stands.
    assert [item.texts for item in found] == [(a, b) for a, b, _ in rows[1:]]
    lines = [2]
    for a, b, _ in rows[1:-1]:
        lines.append(lines[-1] + 1 + a.count("\n") + b.count("\n"))
    assert [item.location for item in found] == [f"{path}:{line}" for line in lines]


def test_jsonl_labels_of_any_kind(tmp_path: Path) -> None:
    values: list[Any] = ["yes", 3, True, 0.5, None]
    lines = [json.dumps({"s": "text", "label": value}) for value in values]
    path = written(tmp_path / "a.jsonl", "\n".join([*lines, "", '{"s": "no label"}']))
    found = list(LabelledJsonl(path, texts=("s",), label="label"))
    assert [item.label for item in found] == ["yes", "3", "true", "0.5", None, None]
    assert found[-1].location == f"{path}:7"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text\tlabel\nx\t2\n", r"a\.tsv:2: the label '2' is not one of '0', '1'; correct the line"),
        ("text\tlabel\nx\t\n", r"a\.tsv:2: an empty label"),
        ("text\tlabel\nx\t0\ny\n", r"a\.tsv:3: 1 column where 2 are needed"),
        ("words\tlabel\n", r"a\.tsv:1: no column 'text' \(available: 'words', 'label'\); choose other columns$"),
        ("Text\tlabel\n", r"a\.tsv:1: no column 'text' \(available: 'Text', 'label'\); did you mean 'Text'\?$"),
        (
            "a good film\tyes\n",
            r"no column 'text' \(available: 'a good film', 'yes'\); choose other columns, or if the file has no "
            r'header, set header = false and count columns from 0, as in text = "0", label = "1"$',
        ),
        ("", r"no column 'text' \(available: none\)"),
    ],
)
def test_broken_tables(tmp_path: Path, content: str, message: str) -> None:
    path = written(tmp_path / "a.tsv", content)
    with pytest.raises(DataError, match=message):
        list(LabelledTsv(path, texts=("text",), label="label", names=NAMES))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('text,label\n"open,0\n', r"a\.csv:2: not valid CSV"),
        ('text,label\nfine,0\n"a" b,1\n', r"a\.csv:3: not valid CSV"),
        ("text,label\nx,nan\n", r"a\.csv:2: the label 'nan' is not a number"),
        ("text,label\nx,ten\n", r"the label 'ten' is not a number"),
    ],
)
def test_broken_csv(tmp_path: Path, content: str, message: str) -> None:
    path = written(tmp_path / "a.csv", content)
    with pytest.raises(DataError, match=message):
        list(LabelledCsv(path, texts=("text",), label="label", number=True))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"label": 1}', "no field 's'"),
        ('{"s": 3, "label": 1}', "field 's' is int where text is needed"),
        ('{"s": "x", "label": [1]}', "field 'label' is list where a text, a number or a truth value is needed"),
        ("[1]", "a JSON list where an object is needed"),
    ],
)
def test_broken_jsonl(tmp_path: Path, line: str, message: str) -> None:
    path = written(tmp_path / "a.jsonl", line)
    with pytest.raises(DataError, match=rf"a\.jsonl:1: {message}"):
        list(LabelledJsonl(path, texts=("s",), label="label"))


@pytest.mark.parametrize("kind", [LabelledTsv, LabelledCsv, LabelledJsonl])
def test_what_is_wrong_before_anything_is_read(tmp_path: Path, kind: type[LabelledReader]) -> None:
    with pytest.raises(DataError, match="no such file"):
        kind(tmp_path / "none", texts=("s",), label=None)
    path = written(tmp_path / "a", "s\n")
    with pytest.raises(RecipeError, match="no text column is named"):
        kind(path, texts=(), label=None)
    with pytest.raises(RecipeError, match="so -1 is not a column"):
        kind(path, texts=(0,), label=-1)


def test_a_name_needs_a_header(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot be named"):
        LabelledTsv(written(tmp_path / "a", "s\n"), texts=("s",), label=None, header=False)


def test_candidates_and_the_number_of_the_right_one(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    lines = [
        {"q": "Why?", "options": ["a", "b", "c"], "answer": 2},
        {"q": "", "options": ["a", "b"], "answer": None},
        {"q": "x", "options": ["a", "a"]},
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = list(ChoicesJsonl(path, text="q", candidates="options", label="answer"))
    assert found[0] == MultipleChoiceExample(
        (("Why?", "a"), ("Why?", "b"), ("Why?", "c")), ("a", "b", "c"), (2,), ("c",), f"{path}:1"
    )
    assert [(each.candidates[0], each.correct_indices, each.gold_answers) for each in found[1:]] == [
        (("a",), None, ()),
        (("x", "a"), None, ()),
    ]
    (alone,) = list(ChoicesJsonl(path, candidates="options", label="answer"))[:1]
    assert alone.candidates == (("a",), ("b",), ("c",))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"q": "x", "options": ["a"], "answer": 0}, "1: 1 candidates, but at least two are needed"),
        ({"q": "x", "options": ["a", "b"], "answer": 2}, "1: candidate 2 is marked as right, but candidates are"),
        ({"q": "x", "options": ["a", "b"], "answer": -1}, "1: candidate -1 is marked as right"),
        ({"q": "x", "options": ["a", "b"], "answer": "b"}, "field 'answer' is str where a whole number is needed"),
        ({"q": "x", "options": ["a", 3], "answer": 0}, "field 'options' is list where a list of texts is needed"),
        ({"q": "x", "answer": 0}, "no field 'options'"),
        ({"options": ["a", "b"], "answer": 0}, "no field 'q'"),
    ],
)
def test_broken_candidates(tmp_path: Path, line: dict[str, object], message: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps(line), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        list(ChoicesJsonl(path, text="q", candidates="options", label="answer"))
