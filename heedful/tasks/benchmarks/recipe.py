"""Recipe config of benchmark splits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from heedful.compression import strip_compression_suffix
from heedful.errors import RecipeError
from heedful.recipes.config import Config, InputPath
from heedful.recipes.text import NonEmptyName

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader
    from heedful.tasks.benchmarks.definitions import BenchmarkDefinition, Example


class BenchmarkConfig(Config):
    """A split of a benchmark task, from the files as they are published (`heedful describe --tasks`)."""

    kind: Literal["benchmark"] = "benchmark"
    benchmark: NonEmptyName
    """name of the task, such as sst-2 or superglue/copa"""
    folder: InputPath
    """the folder with its files, or the folder of the whole benchmark"""
    split: Literal["train", "dev", "test"]
    """which part; test often has no labels"""

    def get_definition(self, *heads: str) -> BenchmarkDefinition:
        """Return the definition of the task; raise `RecipeError` if its head (`BenchmarkDefinition.head`) is not one of
        `heads`.
        """
        from heedful.tasks.benchmarks.table import find_definition

        definition = find_definition(self.benchmark)
        if definition.head not in heads:
            task = "spans" if definition.head == "spans" else "classification"
            raise RecipeError(f'benchmark = "{self.benchmark}": is for recipes with task = "{task}"')
        return definition

    def reader(self, *heads: str) -> ExampleReader[Example]:
        """Open a reader of the split's examples; raise `RecipeError` if the head of the task is not one of `heads`."""
        return self.get_definition(*heads).open_split(self.folder, self.split)


def guess_file_kind(table: Mapping[str, Any], *, csv: str, other: str) -> str:
    """Return the kind of a recipe table that names data: "benchmark" if it has a benchmark or folder, else by the
    extension of its path "jsonl", `csv` for CSV files, or `other`.
    """
    if "benchmark" in table or "folder" in table:
        return "benchmark"
    name = strip_compression_suffix(str(table.get("path", "")))
    if name.endswith((".jsonl", ".ndjson")):
        return "jsonl"
    return csv if name.endswith(".csv") else other
