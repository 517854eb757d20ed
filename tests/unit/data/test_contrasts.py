"""Files of contrasts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from heedful.errors import DataError
from heedful.tasks.translation.accuracy import ContrastiveExample, ContrastiveReader


def test_both_forms(tmp_path: Path) -> None:
    table, lines = tmp_path / "c.tsv", tmp_path / "c.jsonl.gz"
    table.write_text("a dog\tein Hund \teine Hund\tgender\n \ntwo\tzwei\teins\n")
    lines.write_bytes(
        gzip.compress(
            b'{"source": "a dog", "right": "ein Hund", "wrong": ["eine Hund", "einen Hund"], "kind": "gender"}\n'
            b'{"source": "two", "right": "zwei", "wrong": "eins", "more": 1}\n'
        )
    )
    assert list(ContrastiveReader(table)) == [
        ContrastiveExample("a dog", "ein Hund", ("eine Hund",), "gender", f"{table}:1"),
        ContrastiveExample("two", "zwei", ("eins",), "", f"{table}:3"),
    ]
    assert list(ContrastiveReader(lines, ["<2de>"])) == [
        ContrastiveExample("a dog", "ein Hund", ("eine Hund", "einen Hund"), "gender", f"{lines}:1", ("<2de>",)),
        ContrastiveExample("two", "zwei", ("eins",), "", f"{lines}:2", ("<2de>",)),
    ]


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("c.tsv", "a dog\tein Hund", "2 tab-separated columns where 3 are needed"),
        ("c.tsv", "a dog\t\teine", "source, right or wrong is empty; give all three"),
        ("c.tsv", "a dog\tein Hund\tein Hund ", "right and wrong are the same text; they must differ"),
        ("c.jsonl", '{"source": "a", "right": "b"}', "no field 'wrong' (available: 'source', 'right')"),
        ("c.jsonl", '{"source": "a", "right": "b", "wrong": []}', "source, right or wrong is empty"),
        ("c.jsonl", '{"source": "a", "right": "b", "wrong": ["c", ""]}', "source, right or wrong is empty"),
        ("c.jsonl", '{"source": "a", "right": "b", "wrong": ["c", "b"]}', "right and wrong are the same text"),
        ("c.jsonl", '{"source": "a", "right": "b", "wrong": 3}', "field 'wrong' is int where text is needed"),
        ("c.jsonl", '{"source": "a", "right": "b", "wrong": [3]}', "field 'wrong' is list where a list of texts"),
        ("c.jsonl", '{"source": "a", "right": "b", "wrong": "c", "kind": 1}', "field 'kind' is int"),
        ("c.jsonl", "[]", "a JSON list where an object is needed"),
    ],
)
def test_what_is_none(tmp_path: Path, name: str, line: str, message: str) -> None:
    (tmp_path / name).write_text(f"\n{line}\n")
    with pytest.raises(DataError) as found:
        list(ContrastiveReader(tmp_path / name))
    assert str(found.value).startswith(f"{tmp_path / name}:2: {message}")
