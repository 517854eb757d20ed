"""Generated pictures and clips of coloured shapes with captions, and what their words name: boxes or frames.

In a picture shapes lie in different cells of a 3 x 3 grid. In reading order, a shape is left of the next one in its
row, and above the next one of another row; the second caption says the same from the end. A single shape is described
by its cell. So the captions of a scene are exactly the correct ones.

In a clip two different shapes have one event each: the shape appears, does one thing, and disappears. The lengths of
the events, the pauses around them, and each shape's place, size and rotation are random; so a single frame tells
neither what is done nor what comes first.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from jaxtyping import Float, UInt8

from heedful.data.pictures import COLOURS, SHAPES, PixelGrid, encode_png

BoxSides: TypeAlias = tuple[float, float, float, float]
"""Left, top, width and height, in pixels."""

GRID_SIDE: Final = 3
_ROWS: Final = ("top", "middle", "bottom")
_COLUMNS: Final = ("left", "centre", "right")
_HASH_RANGES: Final = {"train": (0, 80), "validation": (80, 90), "test": (90, 100)}
"""First and last percent of the captions in each part, by a hash of the caption."""
FRAME_LIMITS: Final = (16, 20)
"""Frames of the shortest and of the longest clip."""
FRAME_SIZE: Final = 32
_SHAPES: Final[Mapping[str, Callable[[PixelGrid, PixelGrid, float], PixelGrid]]] = {
    "bar": lambda x, y, r: np.maximum(abs(x) - r, abs(y) - 0.3 * r),
    **{name: SHAPES[name] for name in ("circle", "triangle", "cross")},
}
"""These shapes differ in many pixels however they are turned, unlike squares and circles."""
_ROTATABLE_SHAPES: Final = ("bar", "triangle", "cross")
"""Shapes that look different when they are turned, so that spinning is visible."""
_DIRECTIONS: Final[Mapping[str, tuple[int, int]]] = {
    "moves left": (-1, 0),
    "moves right": (1, 0),
    "moves up": (0, -1),
    "moves down": (0, 1),
}
_GROWTH: Final[Mapping[str, float]] = {"grows": 1.0, "shrinks": -1.0}
_SPIN: Final = "spins"
ACTIONS: Final = (*_DIRECTIONS, *_GROWTH, _SPIN)
_EVENT_LENGTHS: Final = (5, 7)
"""Frames of an event."""


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
    rng = np.random.default_rng([seed, _HASH_RANGES[part][0], size, *objects])
    while count:
        shapes = _sample_shapes(int(rng.choice(objects)), rng)
        captions = describe_shapes(shapes)
        if _is_in_part(captions[0], part):
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
    """Return scenes as PNG files by name, which begins with `stem`, and the COCO JSON with their captions and boxes."""
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
    """Draw `count` shapes with different names in different cells, sorted by cell."""
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
    """Draw shapes on a dark noisy background of `size` times `size` pixels, each at a random position in its cell, and
    return the picture with the given captions and the boxes.
    """
    canvas = _make_background(size, rng)
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


@dataclass(frozen=True)
class ShapeAction:
    """What a shape does, and in which frames.

    Attributes:
        colour: of the shape.
        shape: name of the shape.
        action: what it does.
        start: first frame, from 0.
        stop: the frame after the last one.
    """

    colour: str
    shape: str
    action: str
    start: int
    stop: int

    @property
    def phrase(self) -> str:
        """Colour, shape and action, as captions name them."""
        return f"a {self.colour} {self.shape} {self.action}"


@dataclass(frozen=True)
class GeneratedClip:
    """A generated clip and its events.

    Attributes:
        frames: its pixels.
        actions: one after the other.
    """

    frames: UInt8[np.ndarray, "T size size 3"]
    actions: tuple[ShapeAction, ...]

    @property
    def caption(self) -> str:
        """The only correct caption."""
        return " then ".join(deed.phrase for deed in self.actions)

    @property
    def npz_bytes(self) -> bytes:
        """The frames as the content of an .npz file."""
        file = io.BytesIO()
        np.savez_compressed(file, frames=self.frames)
        return file.getvalue()


def generate_clips(part: str, count: int, *, size: int = FRAME_SIZE, seed: int = 1) -> Iterator[GeneratedClip]:
    """Generate clips of one part of the data; no caption occurs in two parts.

    Args:
        part: train, validation or test.
        count: number of clips.
        size: pixels along each side.
        seed: random seed.
    """
    rng = np.random.default_rng([seed, _HASH_RANGES[part][0], size])
    while count:
        actions = _sample_actions(rng)
        length = int(rng.integers(FRAME_LIMITS[0], FRAME_LIMITS[1] + 1))
        background = np.clip(_make_background(size, rng), 0, 255).astype(np.uint8)
        frames = np.repeat(background[None], length, axis=0)
        clip = GeneratedClip(frames, _schedule_actions(actions, length, rng))
        if _is_in_part(clip.caption, part):
            for action in clip.actions:
                _draw_action(clip.frames[action.start : action.stop], action, rng)
            yield clip
            count -= 1


def build_clip_files(clips: Iterable[GeneratedClip], *, stem: str) -> dict[str, bytes]:
    """Return the contents of files by name: the clips in the folder `stem`, and `STEM.jsonl` with their captions and
    events.
    """
    contents, lines = dict[str, bytes](), list[str]()
    for number, clip in enumerate(clips):
        name = f"{stem}/{number:05}.npz"
        contents[name] = clip.npz_bytes
        events = [{"phrase": action.phrase, "start": action.start, "stop": action.stop} for action in clip.actions]
        lines.append(json.dumps({"clip": name, "captions": [clip.caption], "events": events}) + "\n")
    return {**contents, f"{stem}.jsonl": "".join(lines).encode()}


def _sample_actions(rng: np.random.Generator) -> list[tuple[str, str, str]]:
    """Draw two different coloured shapes and their actions, as tuples of colour, shape and action; a circle does not
    spin.
    """
    shapes = list(_SHAPES)
    kinds = rng.permutation(len(COLOURS) * len(shapes))[:2]
    pairs = [(list(COLOURS)[kind // len(shapes)], shapes[kind % len(shapes)]) for kind in kinds]
    return [(*pair, str(rng.choice(ACTIONS if pair[1] in _ROTATABLE_SHAPES else ACTIONS[:-1]))) for pair in pairs]


def _schedule_actions(
    actions: list[tuple[str, str, str]], length: int, rng: np.random.Generator
) -> tuple[ShapeAction, ...]:
    """Assign random lengths and start frames to the actions of a clip of `length` frames; the remaining time is split
    at random around them.
    """
    lengths = rng.integers(_EVENT_LENGTHS[0], _EVENT_LENGTHS[1] + 1, len(actions))
    gaps = np.diff(np.sort(rng.integers(0, length - lengths.sum() + 1, len(actions))), prepend=0)
    starts = np.cumsum(gaps) + np.cumsum(lengths) - lengths
    return tuple(
        ShapeAction(*action, int(start), int(start + duration))
        for action, start, duration in zip(actions, starts, lengths, strict=True)
    )


def _draw_action(frames: UInt8[np.ndarray, "T size size 3"], action: ShapeAction, rng: np.random.Generator) -> None:
    """Draw a moving shape into the frames of its event, in place. It stays inside the frames; colour, path and size
    vary at random.
    """
    count, size = len(frames), frames.shape[1]
    y, x = np.mgrid[0:size, 0:size] + 0.5
    time = np.linspace(-0.5, 0.5, count)
    radius = size * (0.24 + 0.14 * _GROWTH.get(action.action, 0.0) * time + rng.uniform(-0.02, 0.02))
    across, down = _DIRECTIONS.get(action.action, (0, 0))
    distance = size * rng.uniform(0.3, 0.38)
    margin = size / 2 - radius.max() - abs(np.array([across, down])) * distance / 2
    centre = size / 2 + rng.uniform(-1, 1, 2) * margin
    angles = rng.uniform(0, 2 * np.pi) + time * (rng.choice([-1, 1]) * 2.4 if action.action == _SPIN else 0.0)
    colour = np.array(COLOURS[action.colour]) + rng.uniform(-20, 20, 3)
    for frame, t, r, angle in zip(frames, time, radius, np.broadcast_to(angles, count), strict=True):
        x_offset, y_offset = x - centre[0] - across * distance * t, y - centre[1] - down * distance * t
        cosine, sine = np.cos(angle), np.sin(angle)
        edge = _SHAPES[action.shape](cosine * x_offset + sine * y_offset, cosine * y_offset - sine * x_offset, float(r))
        coverage = np.clip(0.5 - edge, 0, 1)[:, :, None]
        frame[:] = np.clip(frame + coverage * (colour - frame), 0, 255).astype(np.uint8)


def _is_in_part(caption: str, part: str) -> bool:
    start, stop = _HASH_RANGES[part]
    return start <= int(hashlib.sha256(caption.encode()).hexdigest(), 16) % 100 < stop


def _make_background(size: int, rng: np.random.Generator) -> Float[np.ndarray, "size size 3"]:
    return np.asarray(rng.uniform(0, 60, 3) + rng.normal(0, 6, (size, size, 3)))
