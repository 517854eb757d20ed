"""What the tables of older runs mean by the keys that they lack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from heedful.recipes.load import completed, missing, taken_up
from heedful.recipes.section import Section, default_kind


class Old(Section):
    kind: Literal["old"] = "old"
    size: int = 1


class New(Section):
    kind: Literal["new"] = "new"
    size: int = 1
    shape: str = "round"

    @classmethod
    def formerly(cls, table: Mapping[str, Any], /) -> Mapping[str, Any]:
        return {"shape": "square" if table["size"] > 1 else "flat"}


Part = Annotated[Old | New, Field(discriminator="kind"), default_kind("new")]


class Whole(Section):
    name: str = "whole"
    part: Part = New()
    parts: dict[str, Part] = Field(default_factory=dict)
    wide: bool = False

    @classmethod
    def formerly(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        return {"wide": True}


STORED = {
    "name": "x",
    "part": {"kind": "new", "size": 2},
    "parts": {"a": {"kind": "old", "size": 2}, "b": {"kind": "new", "size": 1}},
}


def test_an_older_table_is_completed_at_every_depth() -> None:
    found = completed(STORED, Whole)
    assert found == {
        "name": "x",
        "part": {"kind": "new", "size": 2, "shape": "square"},
        "parts": {"a": {"kind": "old", "size": 2}, "b": {"kind": "new", "size": 1, "shape": "flat"}},
        "wide": True,
    }
    assert "shape" not in STORED["part"], "what was given is left alone"
    assert completed(found, Whole) == found


def test_a_table_of_today_lacks_nothing() -> None:
    assert list(missing(Whole(parts={"a": New(size=3)}).model_dump(), Whole)) == []


def test_what_nobody_sets_stays_as_the_run_began() -> None:
    recipe = Whole.model_validate({"part": {"shape": "oval"}, "parts": {"a": {}, "b": {"kind": "new"}, "c": {}}})
    taken = taken_up(recipe, STORED)
    assert taken is not None
    found = Whole.model_validate(taken).model_dump()
    assert found["part"] == {"kind": "new", "size": 1, "shape": "oval"}, "this was given"
    assert found["parts"]["b"]["shape"] == "flat"
    assert found["parts"]["a"]["shape"] == found["parts"]["c"]["shape"] == "round", "the run has none of these"
    assert found["wide"] is True


def test_nothing_is_taken_up_where_nothing_is_open() -> None:
    assert taken_up(Whole(), Whole().model_dump()) is None
    assert taken_up(Whole(part=Old(), wide=False), {"part": STORED["part"]}) is None


def test_a_run_of_which_nothing_was_trained_means_what_it_would_mean_today() -> None:
    assert taken_up(Whole(), STORED) is not None
    assert taken_up(Whole(), STORED, begun=False) is None
