"""Recipes for somebody's files: what is proposed for them, and what is checked before it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from heedful.data.forms.form import Form, Found
from heedful.data.forms.glance import Glance, glance
from heedful.data.forms.labelled import LabelledColumns
from heedful.errors import DataError
from heedful.recipes.draft import Draft, checked
from heedful.recipes.proposals import proposals

ROWS = "".join(f"this is text {number}\t{('good', 'bad')[number % 2]}\n" for number in range(60))


@dataclass(frozen=True)
class Sure(Form):
    """What another form finds, as sure as it is said to be."""

    form: Form
    certainty: float

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        for found in self.form.find(files, columns):
            yield replace(found, certainty=self.certainty)


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
    forms = {task: [Sure(LabelledColumns(), sure) for sure in found[::order]] for task, found in ordered.items()}
    monkeypatch.setattr("heedful.recipes.proposals.tasks", lambda: ordered)
    monkeypatch.setattr("heedful.recipes.proposals.forms_of", forms.__getitem__)

    def found(task: str | None = None) -> list[tuple[str, float]]:
        return [(each.task, each.found.certainty) for each in proposals([glance(table)], task=task)]

    assert found() == [("classification", 0.9), ("matching", 0.6)]
    assert found("tagging") == [("tagging", 0.2)], "the only one that is asked for"


def draft(table: Path, *, command: str = "heedful new") -> Draft:
    part = {"path": table.name, "text": "0", "label": "1", "header": False}
    data = {"train": part, "validation": {**part, "path": "b.tsv"}}
    return Draft(command, "classification", ["two columns"], data, {}, None, 1.5, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["heedful new a.tsv", "heedful new 'a\ntask = 5'", "a\r\x85\x00b \u2028 c"])
def test_what_is_told_in_comments_stays_there(table: Path, command: str) -> None:
    (table.parent / "b.tsv").write_text(ROWS)
    recipe = checked(draft(table, command=command).text(), table.parent)
    assert (recipe.task, recipe.training.minutes) == ("classification", 1.5)
    assert not list(table.parent.glob(".new*"))


@pytest.mark.parametrize("content", ["no label\n", None])
def test_data_of_every_part_is_read_before_a_recipe_is_written(table: Path, content: str | None) -> None:
    if content is not None:
        (table.parent / "b.tsv").write_text(f"{ROWS}{content}")
    with pytest.raises(DataError, match=r"b\.tsv"):
        checked(draft(table).text(), table.parent)
