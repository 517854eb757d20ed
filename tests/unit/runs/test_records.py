"""Records on disk: what is written is read again, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_records import build_answer_record, build_random_record
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from view_records import (
    build_caption_record,
    build_chain_record,
    build_clip_record,
    build_dialogue_record,
    build_glimpse_record,
    build_level_record,
    build_speech_record,
    build_story_record,
)

from heedful.errors import RunError
from heedful.inspection.record import InspectionRecord, MapAxis
from heedful.inspection.record_files import load_record, save_record


def same(one: Any, other: Any) -> None:
    """Equal down to every number, and of the same types."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    elif is_dataclass(one):
        for each in fields(one):
            same(getattr(one, each.name), getattr(other, each.name))
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            same(left, right)
    else:
        assert one == other


@pytest.mark.parametrize("walk", [False, True])
def test_what_is_written_is_read_again(tmp_path: Path, walk: bool) -> None:
    record = build_random_record(walk=walk, written=("</script>", "\u2028", "ß", "</s>"))
    record = replace(record, notes=("two", "sentences"))
    save_record(record, tmp_path / "one.safetensors")
    same(load_record(tmp_path / "one.safetensors"), record)
    assert [each.name for each in tmp_path.iterdir()] == ["one.safetensors"]


def test_answers_are_read_again_and_may_be_missing(tmp_path: Path) -> None:
    record = build_answer_record()
    save_record(record, tmp_path / "one.safetensors")
    same(load_record(tmp_path / "one.safetensors"), record)
    with safe_open(tmp_path / "one.safetensors", framework="numpy") as file:
        content = json.loads(file.metadata()["heedful.record"])
    del content["record"]["answers"]
    save_file(load_file(tmp_path / "one.safetensors"), tmp_path / "old", {"heedful.record": json.dumps(content)})
    same(load_record(tmp_path / "old"), replace(record, answers=()))


def test_axes_are_read_again_and_those_of_old_records_are_text(tmp_path: Path) -> None:
    path, axes = (
        tmp_path / "one.safetensors",
        (MapAxis.from_grid("picture", rows=2, columns=2), MapAxis.from_frames("film", 3)),
    )
    save_record(InspectionRecord("made up", axes, ()), path)
    assert load_record(path).axes == axes
    old = {"format": 1, "record": {"model": "old", "axes": [{"name": "source", "tokens": ["a"]}], "maps": []}}
    save_file({}, path, metadata={"heedful.record": json.dumps(old)})
    assert load_record(path).axes == (MapAxis("source", ("a",)),)


@pytest.mark.parametrize(
    "make",
    [
        build_caption_record,
        build_clip_record,
        build_speech_record,
        build_glimpse_record,
        build_story_record,
        build_chain_record,
        build_dialogue_record,
        build_level_record,
    ],
)
def test_pictures_marks_spans_glimpses_and_edges_are_read_again(
    tmp_path: Path, make: Callable[[], InspectionRecord]
) -> None:
    record = make()
    save_record(record, tmp_path / "one.safetensors")
    same(load_record(tmp_path / "one.safetensors"), record)


def test_records_of_the_first_format_load_without_what_came_later(tmp_path: Path) -> None:
    record = build_story_record()
    save_record(record, tmp_path / "new")
    with safe_open(tmp_path / "new", framework="numpy") as file:
        content = json.loads(file.metadata()["heedful.record"])
    content["format"] = 1
    del content["record"]["glimpses"], content["record"]["levels"]
    for axis in content["record"]["axes"]:
        del axis["pictures"], axis["marked"], axis["spans"]
    for each in content["record"]["maps"]:
        del each["edges"]
    save_file(load_file(tmp_path / "new"), tmp_path / "old", {"heedful.record": json.dumps(content)})
    axes = tuple(replace(axis, marked=()) for axis in record.axes)
    same(load_record(tmp_path / "old"), replace(record, axes=axes))


def test_what_does_not_fit_in_a_file_is_said(tmp_path: Path) -> None:
    axis = {"name": "facts", "tokens": ["a"], "marked": [3]}
    content = {"format": 2, "record": {"model": "m", "axes": [axis], "maps": []}}
    save_file({}, tmp_path / "one", metadata={"heedful.record": json.dumps(content)})
    with pytest.raises(RunError, match="axis facts: place 3 is marked"):
        load_record(tmp_path / "one")


def test_arrays_have_names_that_other_programs_can_read(tmp_path: Path) -> None:
    record = build_random_record(layers=1, roles=("cross",))
    save_record(record, tmp_path / "one.safetensors")
    np.testing.assert_array_equal(load_file(tmp_path / "one.safetensors")["maps.0.weights"], record.maps[0].weights)


def test_files_that_are_no_records(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no tensors", encoding="utf-8")
    save_file({"a": np.zeros(2)}, tmp_path / "tensors")
    for content in (
        {"format": 4, "record": {}},
        {"format": 1, "record": {"maps": [{}]}},
        {"format": 1},
        [],
        {"format": 1, "record": []},
    ):
        save_file({}, tmp_path / f"{len(list(tmp_path.iterdir()))}", metadata={"heedful.record": json.dumps(content)})
    said = {}
    for path in (*sorted(tmp_path.iterdir()), tmp_path / "nothing"):
        with pytest.raises(RunError, match=str(path)) as error:
            load_record(path)
        said[path.name] = str(error.value)
    assert "not a record, or is damaged" in said["text"]
    assert "contains tensors but no record" in said["tensors"]
    assert "has format 4" in said["2"]
    assert all("cannot be read" in said[name] for name in ("3", "4", "5", "nothing"))
