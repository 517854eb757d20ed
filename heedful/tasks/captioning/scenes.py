"""Generated pictures of coloured shapes, with captions and the bounding box of each shape.

Shapes lie in different cells of a 3 x 3 grid. In reading order, a shape is left of the next one in its row, and above
the next one of another row; the second caption says the same from the end. A single shape is described by its cell. So
the captions of a scene are exactly the correct ones. Pictures are drawn with numpy.
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

from heedful.data.pictures import encode_png
from heedful.data.shapes import COLOURS, SHAPES

BoxSides: TypeAlias = tuple[float, float, float, float]
"""Left, top, width and height, in pixels."""

GRID_SIDE: Final = 3
_ROWS: Final = ("top", "middle", "bottom")
_COLUMNS: Final = ("left", "centre", "right")
_HASH_RANGES: Final = {"train": (0, 80), "validation": (80, 90), "test": (90, 100)}
"""First and last percent of the captions in each part, by a hash of the caption."""


@dataclass(frozen=True)
class GridShape:
    """A coloured shape in a cell of the grid; cells are counted row by row."""

    colour: str
    shape: str
    cell: int

    @property
    def name(self) -> str:
        """Colour and shape, as captions name it."""
        return f"{self.colour} {self.shape}"

    @property
    def position_name(self) -> str:
        """Row and column in words, such as "top left"."""
        row, column = divmod(self.cell, GRID_SIDE)
        return f"{_ROWS[row]} {_COLUMNS[column]}"


@dataclass(frozen=True)
class CaptionedScene:
    """A generated picture with its captions and bounding boxes.

    Attributes:
        picture: its pixels.
        captions: all correct captions.
        boxes: the bounding box of each shape, by its name.
    """

    picture: UInt8[np.ndarray, "size size 3"]
    captions: tuple[str, ...]
    boxes: Mapping[str, BoxSides]


def generate_scenes(
    part: str, count: int, *, objects: Sequence[int] = (1, 2), size: int = 48, seed: int = 1
) -> Iterator[CaptionedScene]:
    """Generate scenes of one part of the data; no caption occurs in two parts.

    Args:
        part: train, validation or test.
        count: number of scenes.
        objects: possible numbers of shapes in a scene, drawn with equal probability.
        size: pixels along each side.
        seed: random seed.
    """
    start, stop = _HASH_RANGES[part]
    rng = np.random.default_rng([seed, start, size, *objects])
    while count:
        shapes = _sample_shapes(int(rng.choice(objects)), rng)
        captions = describe_shapes(shapes)
        if start <= int(hashlib.sha256(captions[0].encode()).hexdigest(), 16) % 100 < stop:
            yield _render_scene(shapes, captions, size=size, rng=rng)
            count -= 1


def describe_shapes(shapes: Sequence[GridShape]) -> tuple[str, ...]:
    """Return all correct captions of shapes that are given in the order of their cells."""
    if len(shapes) == 1:
        return (f"a {shapes[0].name} at the {shapes[0].position_name}",)
    forward, backward = f"a {shapes[0].name}", ""
    for shape, next_shape in pairwise(shapes):
        same_row = shape.cell // GRID_SIDE == next_shape.cell // GRID_SIDE
        forward += f" {'left of' if same_row else 'above'} a {next_shape.name}"
        backward = f" {'right of' if same_row else 'below'} a {shape.name}{backward}"
    return forward, f"a {shapes[-1].name}{backward}"


def build_coco_files(scenes: Iterable[CaptionedScene], *, stem: str) -> tuple[dict[str, bytes], str]:
    """Return scenes as PNG files by name, and the COCO JSON with their captions and boxes."""
    files: dict[str, bytes] = {}
    images, annotations = [], []
    names = [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES]
    for number, scene in enumerate(scenes):
        name = f"{stem}{number:05}.png"
        files[name] = encode_png(scene.picture)
        images.append({"id": number, "file_name": name})
        annotations += [{"image_id": number, "caption": caption} for caption in scene.captions]
        annotations += [
            {"image_id": number, "category_id": names.index(key), "bbox": [round(side, 2) for side in box]}
            for key, box in scene.boxes.items()
        ]
    categories = [{"id": number, "name": name} for number, name in enumerate(names)]
    return files, json.dumps({"images": images, "annotations": annotations, "categories": categories})


def _sample_shapes(count: int, rng: np.random.Generator) -> list[GridShape]:
    """Draw shapes with different names in different cells, sorted by cell."""
    kinds = rng.permutation(len(COLOURS) * len(SHAPES))[:count]
    cells = np.sort(rng.permutation(GRID_SIDE**2)[:count])
    colours, shapes = list(COLOURS), list(SHAPES)
    return [
        GridShape(colours[kind % len(colours)], shapes[kind // len(colours)], int(cell))
        for kind, cell in zip(kinds, cells, strict=True)
    ]


def _render_scene(
    shapes: Sequence[GridShape], captions: tuple[str, ...], *, size: int, rng: np.random.Generator
) -> CaptionedScene:
    """Draw shapes on a dark noisy background, each at a random position in its cell."""
    canvas = rng.uniform(0, 60, 3) + rng.normal(0, 6, (size, size, 3))
    y, x = np.mgrid[0:size, 0:size] + 0.5
    cell, boxes = size / GRID_SIDE, {}
    for shape in shapes:
        radius = cell * rng.uniform(0.33, 0.43)
        row, column = divmod(shape.cell, GRID_SIDE)
        shift = rng.uniform(-1, 1, 2) * (0.5 * cell - radius)
        centre_x, centre_y = (column + 0.5) * cell + shift[0], (row + 0.5) * cell + shift[1]
        coverage = np.clip(0.5 - SHAPES[shape.shape](x - centre_x, y - centre_y, radius), 0, 1)
        colour = np.array(COLOURS[shape.colour]) + rng.uniform(-20, 20, 3)
        canvas += coverage[:, :, None] * (colour - canvas)
        inside = np.argwhere(coverage > 0.5)
        (top, left), (bottom, right) = inside.min(0), inside.max(0) + 1
        boxes[shape.name] = (float(left), float(top), float(right - left), float(bottom - top))
    return CaptionedScene(np.clip(canvas, 0, 255).astype(np.uint8), captions, boxes)
