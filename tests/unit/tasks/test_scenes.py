"""Generated scenes: what is said is so, boxes lie around what they name, and no caption is in two parts."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from heedful.data.pictures import read_picture
from heedful.tasks.captioning.data import CocoCaptions
from heedful.tasks.captioning.scenes import (
    COLOURS,
    SHAPES,
    CaptionedScene,
    GridShape,
    build_coco_files,
    describe_shapes,
    generate_scenes,
)

SIZE = 48


@pytest.fixture(scope="module")
def some() -> list[CaptionedScene]:
    return list(generate_scenes("train", 60, objects=(1, 2, 3, 4), size=SIZE, seed=3))


def centre(scene: CaptionedScene, name: str) -> tuple[int, int]:
    """Row and column of its cell."""
    left, top, width, height = scene.boxes[name]
    return int((top + height / 2) // (SIZE / 3)), int((left + width / 2) // (SIZE / 3))


def test_captions_say_what_boxes_show(some: list[CaptionedScene]) -> None:
    for scene in some:
        for caption in scene.captions:
            found = re.split(r" (left of|right of|above|below) ", caption.partition(" at the ")[0])
            names, words = [each.removeprefix("a ") for each in found[::2]], found[1::2]
            assert set(names) == set(scene.boxes)
            for (one, other), word in zip(pairwise(names), words, strict=True):
                here, there = centre(scene, one), centre(scene, other)
                right = {
                    "left of": here[0] == there[0] and here[1] < there[1],
                    "right of": here[0] == there[0] and here[1] > there[1],
                    "above": here[0] < there[0],
                    "below": here[0] > there[0],
                }
                assert right[word], caption
        assert len(scene.captions) == (1 if len(scene.boxes) == 1 else 2)


def test_boxes_lie_around_the_colour_that_they_name(some: list[CaptionedScene]) -> None:
    for scene in some:
        bright = scene.picture.max(2) > 160  # less than half of a white pixel is no part of a shape
        inside = np.zeros_like(bright)
        for name, box in scene.boxes.items():
            left, top, width, height = map(int, box)
            inside[top : top + height, left : left + width] = True
            crop = scene.picture[top : top + height, left : left + width].reshape(-1, 3)
            strong = crop[crop.max(1) > 120].mean(0)
            nearest = min(COLOURS, key=lambda colour: float(np.abs(strong - COLOURS[colour]).sum()))
            assert nearest == name.split()[0]
            assert min(width, height) >= SIZE / 6, "a region of 6 x 6 has its middle in the box"
        assert not (bright & ~inside).any()


def test_no_caption_is_in_two_parts() -> None:
    found = {
        part: {
            caption
            for scene in generate_scenes(part, 150, objects=(1, 2, 3), size=12, seed=seed)
            for caption in scene.captions
        }
        for part, seed in (("train", 1), ("validation", 2), ("test", 3))
    }
    assert not found["train"] & found["validation"]
    assert not found["train"] & found["test"]
    assert not found["validation"] & found["test"]


def test_a_seed_gives_the_same_scenes_and_another_one_others() -> None:
    def first(seed: int) -> CaptionedScene:
        return next(iter(generate_scenes("train", 1, seed=seed)))

    assert np.array_equal(first(1).picture, first(1).picture)
    assert first(1).captions == first(1).captions
    assert not np.array_equal(first(1).picture, first(2).picture)


def test_what_is_said() -> None:
    things = [GridShape("red", "circle", 0), GridShape("blue", "cross", 2), GridShape("white", "square", 3)]
    assert describe_shapes(things) == (
        "a red circle left of a blue cross above a white square",
        "a white square below a blue cross right of a red circle",
    )
    assert describe_shapes(things[:1]) == ("a red circle at the top left",)


def test_all_shapes_and_colours_are_drawn() -> None:
    names = {name for scene in generate_scenes("train", 100, objects=(4,), size=24) for name in scene.boxes}
    assert names == {f"{colour} {shape}" for colour in COLOURS for shape in SHAPES}


def test_files_are_read_as_they_were_drawn(some: list[CaptionedScene], tmp_path: Path) -> None:
    files, table = build_coco_files(some, stem="s")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "captions.json").write_text(table)
    found = list(CocoCaptions(tmp_path / "captions.json"))
    assert len(found) == len(some)
    for read, scene in zip(found, some, strict=True):
        assert np.array_equal(read_picture(read.file), scene.picture)
        assert read.captions == scene.captions
        assert {(box.name, box.left, box.top, box.width, box.height) for box in read.marks} == {
            (name, *box) for name, box in scene.boxes.items()
        }
