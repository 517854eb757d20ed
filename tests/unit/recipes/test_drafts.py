"""Recipes for somebody's files: what is proposed for them, and what is checked before it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from heedful.data.detect.format import DataFormat, DetectedDataset
from heedful.data.detect.registry import sniff_file
from heedful.data.detect.sniff import FileSniff
from heedful.data.labelled import LabelledTableFormat
from heedful.errors import DataError
from heedful.recipes.recipe_writer import RecipeDraft, check_recipe, propose_datasets

ROWS = "".join(f"this is text {number}\t{('good', 'bad')[number % 2]}\n" for number in range(60))


@dataclass(frozen=True)
class Sure(DataFormat):
    """What another form finds, as sure as it is said to be."""

    form: DataFormat
    certainty: float

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        for found in self.form.detect(files, columns):
            yield replace(found, confidence=self.certainty)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "a.tsv"
    path.write_text(ROWS)
    return path


@pytest.mark.parametrize("order", [1, -1])
def test_of_each_task_the_surest_is_proposed_and_what_is_improbable_is_not_told(
    table: Path, monkeypatch: pytest.MonkeyPatch, order: int
) -> None:
    """In whichever order forms and tasks are asked."""
    known = {"classification": (0.5, 0.9, 0.1), "matching": (0.4, 0.6), "tagging": (0.2, 0.05)}
    ordered = dict(list(known.items())[::order])
    forms = {task: [Sure(LabelledTableFormat(), sure) for sure in found[::order]] for task, found in ordered.items()}
    monkeypatch.setattr("heedful.recipes.recipe_writer.list_tasks", lambda: ordered)
    monkeypatch.setattr("heedful.recipes.recipe_writer.get_forms", forms.__getitem__)

    def found(task: str | None = None) -> list[tuple[str, float]]:
        return [(each.task, each.dataset.confidence) for each in propose_datasets([sniff_file(table)], task=task)]

    assert found() == [("classification", 0.9), ("matching", 0.6)]
    assert found("tagging") == [("tagging", 0.2)], "the only one that is asked for"


def draft(table: Path, *, command: str = "heedful new") -> RecipeDraft:
    part = {"path": table.name, "text": "0", "label": "1", "header": False}
    data = {"train": part, "validation": {**part, "path": "b.tsv"}}
    return RecipeDraft(command, "classification", ["two columns"], data, {}, None, 1.5, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["heedful new a.tsv", "heedful new 'a\ntask = 5'", "a\r\x85\x00b \u2028 c"])
def test_what_is_told_in_comments_stays_there(table: Path, command: str) -> None:
    (table.parent / "b.tsv").write_text(ROWS)
    recipe = check_recipe(draft(table, command=command).to_toml(), table.parent)
    assert (recipe.task, recipe.training.minutes) == ("classification", 1.5)
    assert not list(table.parent.glob(".new*"))


@pytest.mark.parametrize("content", ["no label\n", None])
def test_data_of_every_part_is_read_before_a_recipe_is_written(table: Path, content: str | None) -> None:
    if content is not None:
        (table.parent / "b.tsv").write_text(f"{ROWS}{content}")
    with pytest.raises(DataError, match=r"b\.tsv"):
        check_recipe(draft(table).to_toml(), table.parent)
