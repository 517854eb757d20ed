"""Generated pictures of coloured shapes, with captions that say what is where, and the box of each shape.

Shapes lie in different cells of a grid of 3 x 3. In the order in which one reads, a shape is left of the next one in
its row, and above the next one of another row; the second caption says the same from the end. A single shape is said to
be at its place. So each scene has captions that are right, and all others are wrong. Numpy draws.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from jaxtyping import UInt8

from heedful.data.pictures import png
from heedful.data.shapes import COLOURS, SHAPES

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, width and height, in pixels."""

CELLS: Final = 3
_ROWS: Final = ("top", "middle", "bottom")
_COLUMNS: Final = ("left", "centre", "right")
_SHARES: Final = {"train": (0, 80), "validation": (80, 90), "test": (90, 100)}
"""Of a hundred captions, by a hash of theirs."""


@dataclass(frozen=True)
class Thing:
    """A shape in a cell of the grid, counted row by row."""

    colour: str
    shape: str
    cell: int

    @property
    def name(self) -> str:
        """As captions call it."""
        return f"{self.colour} {self.shape}"

    @property
    def place(self) -> str:
        """Where it lies, in words."""
        row, column = divmod(self.cell, CELLS)
        return f"{_ROWS[row]} {_COLUMNS[column]}"


@dataclass(frozen=True)
class Scene:
    """A picture, what is said of it, and where what is named lies.

    Attributes:
        picture: its pixels.
        captions: all that are right.
        boxes: of each shape, by its name.
    """

    picture: UInt8[np.ndarray, "size size 3"]
    captions: tuple[str, ...]
    boxes: Mapping[str, Box]


def scenes(part: str, count: int, *, objects: Sequence[int] = (1, 2), size: int = 48, seed: int = 1) -> Iterator[Scene]:
    """Scenes of a part of the data, which has no caption in common with the other parts.

    Args:
        part: train, validation or test.
        count: how many.
        objects: numbers of shapes that a scene may have, each as often as the others.
        size: pixels along each side.
        seed: of all chance.
    """
    first, behind = _SHARES[part]
    dice = np.random.default_rng([seed, first, size, *objects])
    while count:
        things = _things(int(dice.choice(objects)), dice)
        captions = told(things)
        if first <= int(hashlib.sha256(captions[0].encode()).hexdigest(), 16) % 100 < behind:
            yield _scene(things, captions, size=size, dice=dice)
            count -= 1


def told(things: Sequence[Thing]) -> tuple[str, ...]:
    """All that may be said of things in the order of their cells."""
    if len(things) == 1:
        return (f"a {things[0].name} at the {things[0].place}",)
    there, back = f"a {things[0].name}", ""
    for one, next_ in pairwise(things):
        same = one.cell // CELLS == next_.cell // CELLS
        there += f" {'left of' if same else 'above'} a {next_.name}"
        back = f" {'right of' if same else 'below'} a {one.name}{back}"
    return there, f"a {things[-1].name}{back}"


def coco(found: Iterable[Scene], *, stem: str) -> tuple[dict[str, bytes], str]:
    """Files of scenes: each picture as PNG by its name, and captions and boxes together as COCO has them."""
    files: dict[str, bytes] = {}
    images, annotations = [], []
    names = [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES]
    for number, scene in enumerate(found):
        name = f"{stem}{number:05}.png"
        files[name] = png(scene.picture)
        images.append({"id": number, "file_name": name})
        annotations += [{"image_id": number, "caption": caption} for caption in scene.captions]
        annotations += [
            {"image_id": number, "category_id": names.index(key), "bbox": [round(side, 2) for side in box]}
            for key, box in scene.boxes.items()
        ]
    categories = [{"id": number, "name": name} for number, name in enumerate(names)]
    return files, json.dumps({"images": images, "annotations": annotations, "categories": categories})


def _things(count: int, dice: np.random.Generator) -> list[Thing]:
    """Of different names, in the order of their cells."""
    kinds = dice.permutation(len(COLOURS) * len(SHAPES))[:count]
    cells = np.sort(dice.permutation(CELLS**2)[:count])
    colours, shapes = list(COLOURS), list(SHAPES)
    return [
        Thing(colours[kind % len(colours)], shapes[kind // len(colours)], int(cell))
        for kind, cell in zip(kinds, cells, strict=True)
    ]


def _scene(things: Sequence[Thing], captions: tuple[str, ...], *, size: int, dice: np.random.Generator) -> Scene:
    """Draws them on a dark ground with noise, each somewhere in its cell."""
    ground = dice.uniform(0, 60, 3) + dice.normal(0, 6, (size, size, 3))
    y, x = np.mgrid[0:size, 0:size] + 0.5
    cell, boxes = size / CELLS, {}
    for thing in things:
        r = cell * dice.uniform(0.33, 0.43)
        row, column = divmod(thing.cell, CELLS)
        shift = dice.uniform(-1, 1, 2) * (0.5 * cell - r)
        centre_x, centre_y = (column + 0.5) * cell + shift[0], (row + 0.5) * cell + shift[1]
        cover = np.clip(0.5 - SHAPES[thing.shape](x - centre_x, y - centre_y, r), 0, 1)
        colour = np.array(COLOURS[thing.colour]) + dice.uniform(-20, 20, 3)
        ground += cover[:, :, None] * (colour - ground)
        inside = np.argwhere(cover > 0.5)
        (top, left), (bottom, right) = inside.min(0), inside.max(0) + 1
        boxes[thing.name] = (float(left), float(top), float(right - left), float(bottom - top))
    return Scene(np.clip(ground, 0, 255).astype(np.uint8), captions, boxes)
