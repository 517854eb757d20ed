"""Parts of benchmark tasks, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from heedful.errors import RecipeError
from heedful.recipes.section import InputPath, Section
from heedful.recipes.text import Name

if TYPE_CHECKING:
    from heedful.data.readers import Reader
    from heedful.tasks.benchmarks.definitions import Definition, Example


class BenchmarkConfig(Section):
    """A split of a benchmark task, from the files as they are published (`heedful describe --tasks`)."""

    kind: Literal["benchmark"] = "benchmark"
    benchmark: Name
    """name of the task, such as sst-2 or superglue/copa"""
    folder: InputPath
    """the folder with its files, or that of the whole benchmark"""
    split: Literal["train", "dev", "test"]
    """which part; test often has no labels"""

    def definition(self, *heads: str) -> Definition:
        """What is known of the task, if it asks for one of these."""
        from heedful.tasks.benchmarks.table import find

        found = find(self.benchmark)
        if found.head not in heads:
            task = "spans" if found.head == "spans" else "classification"
            raise RecipeError(f'benchmark = "{self.benchmark}": is for recipes with task = "{task}"')
        return found

    def reader(self, *heads: str) -> Reader[Example]:
        """The examples of the split."""
        return self.definition(*heads).reader(self.folder, self.split)


def kind_of_file(table: Mapping[str, Any], *, csv: str, other: str) -> str:
    """A benchmark where one is named, else what the file's name says: lines of JSON, a CSV file, or something else."""
    if "benchmark" in table or "folder" in table:
        return "benchmark"
    name = str(table.get("path", "")).removesuffix(".gz")
    if name.endswith((".jsonl", ".ndjson")):
        return "jsonl"
    return csv if name.endswith(".csv") else other
