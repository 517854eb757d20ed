"""Generated clips of shapes that move one after the other, with captions and the frames of each event.

Two different shapes have one event each: the shape appears, does one thing, and disappears. The lengths of the events,
the pauses around them, and each shape's place, size and rotation are random; so a single frame tells neither what is
done nor what comes first. Frames are drawn with numpy.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import UInt8

from heedful.data.shapes import COLOURS, SHAPES, PixelGrid

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
_HASH_RANGES: Final = {"train": (0, 80), "validation": (80, 90), "test": (90, 100)}
"""First and last percent of the captions in each part, by a hash of the caption."""
_EVENT_LENGTHS: Final = (5, 7)
"""Frames of an event."""


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
    start, stop = _HASH_RANGES[part]
    rng = np.random.default_rng([seed, start, size])
    while count:
        actions = _sample_actions(rng)
        length = int(rng.integers(FRAME_LIMITS[0], FRAME_LIMITS[1] + 1))
        clip = GeneratedClip(_make_background(length, size, rng), _schedule_actions(actions, length, rng))
        if start <= int(hashlib.sha256(clip.caption.encode()).hexdigest(), 16) % 100 < stop:
            for action in clip.actions:
                _draw_action(clip.frames[action.start : action.stop], action, rng)
            yield clip
            count -= 1


def build_clip_files(clips: Iterable[GeneratedClip], *, stem: str) -> dict[str, bytes]:
    """Return clips as files by name, and `STEM.jsonl` with their captions and events."""
    contents, lines = dict[str, bytes](), list[str]()
    for number, clip in enumerate(clips):
        name = f"{stem}/{number:05}.npz"
        contents[name] = clip.npz_bytes
        events = [{"phrase": action.phrase, "start": action.start, "stop": action.stop} for action in clip.actions]
        lines.append(json.dumps({"clip": name, "captions": [clip.caption], "events": events}) + "\n")
    return {**contents, f"{stem}.jsonl": "".join(lines).encode()}


def _sample_actions(rng: np.random.Generator) -> list[tuple[str, str, str]]:
    """Draw two different coloured shapes and their actions; a circle does not spin."""
    shapes = list(_SHAPES)
    kinds = rng.permutation(len(COLOURS) * len(shapes))[:2]
    pairs = [(list(COLOURS)[kind // len(shapes)], shapes[kind % len(shapes)]) for kind in kinds]
    return [(*pair, str(rng.choice(ACTIONS if pair[1] in _ROTATABLE_SHAPES else ACTIONS[:-1]))) for pair in pairs]


def _schedule_actions(
    actions: list[tuple[str, str, str]], length: int, rng: np.random.Generator
) -> tuple[ShapeAction, ...]:
    """Assign random event lengths and start frames; the remaining time is split at random around the events."""
    lengths = rng.integers(_EVENT_LENGTHS[0], _EVENT_LENGTHS[1] + 1, len(actions))
    gaps = np.diff(np.sort(rng.integers(0, length - lengths.sum() + 1, len(actions))), prepend=0)
    starts = np.cumsum(gaps) + np.cumsum(lengths) - lengths
    return tuple(
        ShapeAction(*action, int(start), int(start + duration))
        for action, start, duration in zip(actions, starts, lengths, strict=True)
    )


def _make_background(length: int, size: int, rng: np.random.Generator) -> UInt8[np.ndarray, "T size size 3"]:
    """Return frames with the same dark noise."""
    background = rng.uniform(0, 60, 3) + rng.normal(0, 6, (size, size, 3))
    return np.repeat(np.clip(background, 0, 255).astype(np.uint8)[None], length, axis=0)


def _draw_action(frames: UInt8[np.ndarray, "T size size 3"], action: ShapeAction, rng: np.random.Generator) -> None:
    """Draw a shape into the frames of its event; it stays inside, and what does not change is random."""
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
