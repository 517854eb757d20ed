"""The readers that recipes of parallel text build."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from localisation_documents import SAMPLES

from heedful.recipes.load import build_recipe
from heedful.recipes.parallel_data import FORMATS, infer_text_kind


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


def test_recipes_of_every_format_can_be_pickled() -> None:
    """A format with the keys for translation is a class that no source file holds."""
    text = {"path": "a.po"}
    data = {"train": {"source": "a", "target": "b"}, "validation": text, "rehearse": {**text, "share": 0.2}}
    recipe = build_recipe({"output": "run", "data": data, "training": {"steps": 1}}, source="test")
    assert pickle.loads(pickle.dumps(recipe)) == recipe


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ({"source": "a"}, "lines"),
        ({"target": "a", "path": "a.tmx"}, "lines"),
        ({"path": "a.jsonl"}, "jsonl"),
        ({"path": "A.NDJSON.gz"}, "jsonl"),
        ({"path": "a.txt", "source_field": "en"}, "jsonl"),
        ({"path": "a.parquet", "source_field": "en"}, "parquet"),
        ({"path": "a.parquet"}, "parquet"),
        ({"path": "a.po", "target_language": "de"}, "tmx"),
        ({"path": "a.xml.gz"}, "tmx"),
        ({"path": "a.po"}, "po"),
        ({"path": "a.xliff"}, "xliff"),
        ({"path": "a.po", "source_column": 1}, "tsv"),
        ({"path": "a"}, "tsv"),
        ({}, None),
    ],
)
def test_the_format_follows_from_the_keys_and_the_name(table: dict[str, Any], kind: str | None) -> None:
    assert infer_text_kind(table) == kind


def test_no_two_formats_have_the_same_suffix() -> None:
    suffixes = [suffix for text_format in FORMATS for suffix in text_format.suffixes]
    assert len(suffixes) == len(set(suffixes))
