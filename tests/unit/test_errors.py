"""Messages of errors stay readable, whatever a file holds."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from heedful.data.questions import SquadReader
from heedful.errors import DataError, HeedfulError


def test_long_messages_keep_their_place_and_remedy() -> None:
    error = DataError(f"file.txt:3: {'x' * 100_000}; delete the line")
    assert len(str(error)) < 10_000
    assert str(error).startswith("file.txt:3: xxx")
    assert str(error).endswith("xxx; delete the line")
    assert " ... " in str(error)


def test_other_messages_are_unchanged() -> None:
    assert str(HeedfulError("a" * 8_000)) == "a" * 8_000
    assert str(HeedfulError()) == ""
    assert pickle.loads(pickle.dumps(DataError("a.txt: missing"))).args == ("a.txt: missing",)


def test_names_in_a_file_may_be_long(tmp_path: Path) -> None:
    path = tmp_path / "squad.json"
    question = {"id": "1", "question" * 10_000: "who", "answers": []}
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "a", "qas": [question]}]}]}))
    with pytest.raises(DataError, match=r"squad\.json .* no field 'question'") as caught:
        list(SquadReader(path))
    assert len(str(caught.value)) < 10_000
    assert str(caught.value).endswith("correct the line or choose other fields")
