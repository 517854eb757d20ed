"""What the tables of older runs mean by the keys that they lack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from heedful.recipes.config import Config, add_default_kind
from heedful.recipes.load import fill_missing_keys, iter_missing_keys, merge_stored_settings


class Old(Config):
    kind: Literal["old"] = "old"
    size: int = 1


class New(Config):
    kind: Literal["new"] = "new"
    size: int = 1
    shape: str = "round"

    @classmethod
    def migrate(cls, table: Mapping[str, Any], /) -> Mapping[str, Any]:
        return {"shape": "square" if table["size"] > 1 else "flat"}


Part = Annotated[Old | New, Field(discriminator="kind"), add_default_kind("new")]


class Whole(Config):
    name: str = "whole"
    part: Part = New()
    parts: dict[str, Part] = Field(default_factory=dict)
    wide: bool = False

    @classmethod
    def migrate(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        return {"wide": True}


STORED = {
    "name": "x",
    "part": {"kind": "new", "size": 2},
    "parts": {"a": {"kind": "old", "size": 2}, "b": {"kind": "new", "size": 1}},
}


def test_an_older_table_is_completed_at_every_depth() -> None:
    found = fill_missing_keys(STORED, Whole)
    assert found == {
        "name": "x",
        "part": {"kind": "new", "size": 2, "shape": "square"},
        "parts": {"a": {"kind": "old", "size": 2}, "b": {"kind": "new", "size": 1, "shape": "flat"}},
        "wide": True,
    }
    assert "shape" not in STORED["part"], "what was given is left alone"
    assert fill_missing_keys(found, Whole) == found


def test_a_table_of_today_lacks_nothing() -> None:
    assert list(iter_missing_keys(Whole(parts={"a": New(size=3)}).model_dump(), Whole)) == []


def test_what_nobody_sets_stays_as_the_run_began() -> None:
    recipe = Whole.model_validate({"part": {"shape": "oval"}, "parts": {"a": {}, "b": {"kind": "new"}, "c": {}}})
    taken = merge_stored_settings(recipe, STORED)
    assert taken is not None
    found = Whole.model_validate(taken).model_dump()
    assert found["part"] == {"kind": "new", "size": 1, "shape": "oval"}, "this was given"
    assert found["parts"]["b"]["shape"] == "flat"
    assert found["parts"]["a"]["shape"] == found["parts"]["c"]["shape"] == "round", "the run has none of these"
    assert found["wide"] is True


def test_nothing_is_taken_up_where_nothing_is_open() -> None:
    assert merge_stored_settings(Whole(), Whole().model_dump()) is None
    assert merge_stored_settings(Whole(part=Old(), wide=False), {"part": STORED["part"]}) is None


def test_a_run_of_which_nothing_was_trained_means_what_it_would_mean_today() -> None:
    assert merge_stored_settings(Whole(), STORED) is not None
    assert merge_stored_settings(Whole(), STORED, has_checkpoint=False) is None
