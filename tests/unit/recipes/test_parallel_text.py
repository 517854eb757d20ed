"""The readers that recipes of parallel text build."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from documents import SAMPLES

from heedful.recipes.load import build_recipe


@pytest.mark.parametrize(
    ("table", "pair"),
    [
        ({"source": "a.en", "target": "a.de"}, ("a dog", "ein Hund")),
        ({"path": "a.tsv", "source_column": 2, "target_column": 0}, ("a dog", "ein Hund")),
        ({"path": "a.jsonl", "source_field": "en", "target_field": "de"}, ("a dog", "ein Hund")),
        ({"path": "a.tmx", "source_language": "en", "target_language": "de"}, ("A big cat", "Eine Katze")),
        ({"path": "a.po"}, ("Save %d", "Sichern %d")),
        ({"path": "a.xlf"}, ("yes", "ja")),
    ],
)
def test_every_form_of_parallel_text_reads_sources_before_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: dict[str, Any], pair: tuple[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in SAMPLES.items():
        Path(name).write_text(text, encoding="utf-8")
    Path("a.en").write_text("a dog\n")
    Path("a.de").write_text("ein Hund\n")
    Path("a.tsv").write_text("ein Hund\t1\ta dog\n")
    Path("a.jsonl").write_text(json.dumps({"de": "ein Hund", "en": "a dog"}) + "\n")
    content = {"output": "run", "data": {"train": table, "validation": table}, "training": {"steps": 1}}
    recipe: Any = build_recipe(content, source="test")
    first = next(iter(recipe.data.reader("train")))
    assert (first.source, first.target) == pair
