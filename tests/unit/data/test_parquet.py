"""Pairs in columns of Parquet."""

from __future__ import annotations

import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from heedful.__main__ import main
from heedful.cli.options import ParallelTextOptions
from heedful.data import parquet as reading
from heedful.data.detect.registry import sniff_file
from heedful.data.parquet import ParquetPairReader
from heedful.errors import DataError, HeedfulError, MissingExtraError, RecipeError
from heedful.recipes.load import build_recipe, load_recipe
from heedful.recipes.recipe_writer import propose_datasets


def put(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    parquet.write_table(pyarrow.table(columns), path, **options)
    return path


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary("int32", "string")])
def test_rows_are_pairs_whatever_the_groups(
    tmp_path: Path, rows: int, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = pyarrow.array(["a", None, " ", "d\xe9\tx\ny", "e"]).cast(kind)
    path = put(tmp_path / "a.parquet", {"n": [1, 2, 3, 4, 5], "de": ["1", "2", "3", None, "5"], "en": texts},
               row_group_size=rows)  # fmt: skip
    monkeypatch.setattr(reading, "_BATCH_ROWS", 2)
    reader = ParquetPairReader(path, source_field="en", target_field="de")
    for _ in range(2):
        assert [pair[:3] for pair in reader] == [
            ("a", "1", f"{path}:1"),
            ("", "2", f"{path}:2"),
            ("", "3", f"{path}:3"),
            ("d\xe9\tx\ny", "", f"{path}:4"),
            ("e", "5", f"{path}:5"),
        ]


def test_a_file_is_never_held_as_a_whole(tmp_path: Path) -> None:
    texts = [f"{number} {'x' * 400}" for number in range(40_000)]
    path = put(tmp_path / "a.parquet", {"source": texts, "target": texts}, row_group_size=1000)
    del texts
    arrow_before = pyarrow.total_allocated_bytes()
    tracemalloc.start()
    arrow_most = 0
    for _ in ParquetPairReader(path):
        arrow_most = max(arrow_most, pyarrow.total_allocated_bytes() - arrow_before)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 12e6
    assert arrow_most < 16e6, "the file is of 32 MB"


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    good = put(tmp_path / "a.parquet", {"source": ["a"], "target": [1]})
    with pytest.raises(DataError, match=r"a\.parquet: column 'target' holds int64, but text is needed"):
        list(ParquetPairReader(good))
    with pytest.raises(DataError, match="no column 'en'; choose one of source, target"):
        list(ParquetPairReader(good, source_field="en"))
    text = put(tmp_path / "c.parquet", {"source": ["a" * 90], "target": ["b" * 90]}).read_bytes()
    bad = tmp_path / "b.parquet"
    for data in (b"", b"hello", b"PAR1" + b"x" * 50 + b"PAR1", text[:-20], text[20:]):
        bad.write_bytes(data)
        with pytest.raises(DataError, match=r"b\.parquet: is not a Parquet file, or is damaged"):
            list(ParquetPairReader(bad))
    with pytest.raises(DataError, match="no such file"):
        ParquetPairReader(tmp_path / "none.parquet")


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.parquet", {"source": ["a"], "target": ["b"]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"heedful\[parquet\]"):
        ParquetPairReader(path)


def test_a_recipe_reads_it(tmp_path: Path) -> None:
    path = put(tmp_path / "a.parquet", {"en": ["a"], "de": ["b"]})
    text = {"path": str(path), "source_field": "en", "target_field": "de"}
    for train in (text, {**text, "kind": "parquet"}):
        recipe = build_recipe(
            {
                "output": str(tmp_path / "run"),
                "data": {"train": train, "validation": text},
                "training": {"steps": 1},
            },
            source="here",
        )
        assert recipe.data.train.kind == "parquet"
        assert [pair[:2] for pair in recipe.data.reader("train")] == [("a", "b")]
    with pytest.raises(RecipeError, match="must be another column than source_field"):
        build_recipe({"data": {"train": {**text, "target_field": "en"}, "validation": text}}, source="here")
    with pytest.raises(RecipeError, match="source_field"):
        build_recipe({"data": {"train": {"path": str(path)}, "validation": text}}, source="here")


def test_commands_that_read_pairs_read_it(tmp_path: Path) -> None:
    path = put(tmp_path / "a.parquet", {"source": ["a"], "target": ["b"]})
    assert [pair[:2] for pair in ParallelTextOptions(data=path).build_reader()] == [("a", "b")]


ENGLISH = [f"the black dog number {number} sleeps in the house" for number in range(120)]
GERMAN = [f"der schwarze Hund Nummer {number} schl\xe4ft in dem Haus" for number in range(120)]


def found(path: Path, *columns: str) -> Any:
    return propose_datasets([sniff_file(path)], task="translation", columns=columns)[0].dataset


def test_two_columns_of_text_are_parallel_text(tmp_path: Path) -> None:
    path = put(tmp_path / "a.parquet", {"id": list(range(120)), "one": ENGLISH, "two": GERMAN})
    corpus = found(path)
    assert corpus.learning_description == "column one becomes two (English (en) to German (de))"
    assert corpus.to_recipe_table(["a.parquet"]) == {"path": "a.parquet", "source_field": "one", "target_field": "two"}
    examples = list(corpus.read_examples("train"))
    assert [example.texts for example in examples] == list(zip(ENGLISH, GERMAN, strict=True))
    assert examples[7].raw == {"one": ENGLISH[7], "two": GERMAN[7]}
    assert corpus.format_location("train", examples[7]) == f"{path}:8"
    assert found(path, "two", "one").columns == ("two", "one")


def test_which_of_many_columns(tmp_path: Path) -> None:
    path = put(tmp_path / "a.parquet", {"en": ENGLISH, "de": GERMAN, "note": ["x"] * 120})
    with pytest.raises(HeedfulError, match="its columns of text: en, de, note; name the source"):
        found(path)
    assert found(path, "en", "de").columns == ("en", "de")
    with pytest.raises(RecipeError, match="has no column of text 'fr'; choose one of en, de, note"):
        found(path, "en", "fr")


def test_commands_that_look_at_files_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(Path("a.parquet"), {"en": [*ENGLISH, None], "de": [*GERMAN, "leer"]})
    assert main(["filter", "a.parquet", "-o", "clean"]) == 0
    kept = [json.loads(line) for line in Path("clean/train.jsonl").read_text(encoding="utf-8").splitlines()]
    assert kept == [{"en": one, "de": two} for one, two in zip(ENGLISH, GERMAN, strict=True)]
    assert main(["split", "a.parquet", "-o", "parts", "--validation", "10", "--test", "10"]) == 0
    assert len(Path("parts/validation.jsonl").read_text(encoding="utf-8").splitlines()) == 10
    assert main(["new", "a.parquet", "-o", "made/recipe.toml"]) == 0
    recipe = load_recipe(Path("made/recipe.toml"))
    assert recipe.data.train.source_field == "en"
    assert len(list(recipe.data.reader("train"))) > 50
