"""Generated clips of shapes that move, one behind the other, with captions and the frames of each event.

Two different shapes have an event each: one is there, does one thing, and is gone. How long either takes and how much
time is before, between and behind them is drawn, and so is where a shape is, how large and how it is turned; so one
frame alone tells neither what is done nor what comes first. Numpy draws.
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

from heedful.data.shapes import COLOURS, SHAPES, Plane

FRAMES: Final = (16, 20)
"""Frames of the shortest and of the longest clip."""
SIZE: Final = 32
_SHAPES: Final[Mapping[str, Callable[[Plane, Plane, float], Plane]]] = {
    "bar": lambda x, y, r: np.maximum(abs(x) - r, abs(y) - 0.3 * r),
    **{name: SHAPES[name] for name in ("circle", "triangle", "cross")},
}
"""Few pixels tell them apart however they are turned, which cannot be said of squares and circles."""
_TURNED: Final = ("bar", "triangle", "cross")
"""Shapes that look otherwise when they are turned, so that one sees them spin."""
_DIRECTIONS: Final[Mapping[str, tuple[int, int]]] = {
    "moves left": (-1, 0),
    "moves right": (1, 0),
    "moves up": (0, -1),
    "moves down": (0, 1),
}
_GROWTH: Final[Mapping[str, float]] = {"grows": 1.0, "shrinks": -1.0}
_SPIN: Final = "spins"
DEEDS: Final = (*_DIRECTIONS, *_GROWTH, _SPIN)
_SHARES: Final = {"train": (0, 80), "validation": (80, 90), "test": (90, 100)}
"""Of a hundred captions, by a hash of theirs."""
_LONG: Final = (5, 7)
"""Frames of an event."""


@dataclass(frozen=True)
class Deed:
    """What a shape does, and in which frames.

    Attributes:
        colour: of the shape.
        shape: which.
        done: what it does.
        start: the first frame, from 0.
        stop: behind the last one.
    """

    colour: str
    shape: str
    done: str
    start: int
    stop: int

    @property
    def phrase(self) -> str:
        """As captions say it."""
        return f"a {self.colour} {self.shape} {self.done}"


@dataclass(frozen=True)
class Moving:
    """A clip, and what happens in it.

    Attributes:
        frames: its pixels.
        deeds: one behind the other.
    """

    frames: UInt8[np.ndarray, "T size size 3"]
    deeds: tuple[Deed, ...]

    @property
    def caption(self) -> str:
        """The only one that is right."""
        return " then ".join(deed.phrase for deed in self.deeds)

    @property
    def npz(self) -> bytes:
        """The frames as a file."""
        file = io.BytesIO()
        np.savez_compressed(file, frames=self.frames)
        return file.getvalue()


def moving(part: str, count: int, *, size: int = SIZE, seed: int = 1) -> Iterator[Moving]:
    """Clips of a part of the data, which has no caption in common with the other parts.

    Args:
        part: train, validation or test.
        count: how many.
        size: pixels along each side.
        seed: of all chance.
    """
    first, behind = _SHARES[part]
    dice = np.random.default_rng([seed, first, size])
    while count:
        deeds = _deeds(dice)
        length = int(dice.integers(FRAMES[0], FRAMES[1] + 1))
        clip = Moving(_ground(length, size, dice), _timed(deeds, length, dice))
        if first <= int(hashlib.sha256(clip.caption.encode()).hexdigest(), 16) % 100 < behind:
            for deed in clip.deeds:
                _draw(clip.frames[deed.start : deed.stop], deed, dice)
            yield clip
            count -= 1


def files(found: Iterable[Moving], *, stem: str) -> dict[str, bytes]:
    """Clips as files by their names, and `STEM.jsonl`, which says of each what is seen and when."""
    made, lines = dict[str, bytes](), list[str]()
    for number, clip in enumerate(found):
        name = f"{stem}/{number:05}.npz"
        made[name] = clip.npz
        events = [{"phrase": deed.phrase, "start": deed.start, "stop": deed.stop} for deed in clip.deeds]
        lines.append(json.dumps({"clip": name, "captions": [clip.caption], "events": events}) + "\n")
    return {**made, f"{stem}.jsonl": "".join(lines).encode()}


def _deeds(dice: np.random.Generator) -> list[tuple[str, str, str]]:
    """Colours, shapes and what they do; a circle does not spin."""
    shapes = list(_SHAPES)
    kinds = dice.permutation(len(COLOURS) * len(shapes))[:2]
    pairs = [(list(COLOURS)[kind // len(shapes)], shapes[kind % len(shapes)]) for kind in kinds]
    return [(*pair, str(dice.choice(DEEDS if pair[1] in _TURNED else DEEDS[:-1]))) for pair in pairs]


def _timed(deeds: list[tuple[str, str, str]], length: int, dice: np.random.Generator) -> tuple[Deed, ...]:
    """When they happen: what time is left is cut anywhere into what is before, between and behind them."""
    lengths = dice.integers(_LONG[0], _LONG[1] + 1, len(deeds))
    gaps = np.diff(np.sort(dice.integers(0, length - lengths.sum() + 1, len(deeds))), prepend=0)
    starts = np.cumsum(gaps) + np.cumsum(lengths) - lengths
    return tuple(
        Deed(*deed, int(start), int(start + long)) for deed, start, long in zip(deeds, starts, lengths, strict=True)
    )


def _ground(length: int, size: int, dice: np.random.Generator) -> UInt8[np.ndarray, "T size size 3"]:
    """The same dark noise in all frames."""
    ground = dice.uniform(0, 60, 3) + dice.normal(0, 6, (size, size, 3))
    return np.repeat(np.clip(ground, 0, 255).astype(np.uint8)[None], length, axis=0)


def _draw(frames: UInt8[np.ndarray, "T size size 3"], deed: Deed, dice: np.random.Generator) -> None:
    """Puts a shape into the frames of its event; it stays inside, and what does not change lies anywhere."""
    count, size = len(frames), frames.shape[1]
    y, x = np.mgrid[0:size, 0:size] + 0.5
    time = np.linspace(-0.5, 0.5, count)
    radius = size * (0.24 + 0.14 * _GROWTH.get(deed.done, 0.0) * time + dice.uniform(-0.02, 0.02))
    across, down = _DIRECTIONS.get(deed.done, (0, 0))
    way = size * dice.uniform(0.3, 0.38)
    room = size / 2 - radius.max() - abs(np.array([across, down])) * way / 2
    centre = size / 2 + dice.uniform(-1, 1, 2) * room
    turned = dice.uniform(0, 2 * np.pi) + time * (dice.choice([-1, 1]) * 2.4 if deed.done == _SPIN else 0.0)
    colour = np.array(COLOURS[deed.colour]) + dice.uniform(-20, 20, 3)
    for frame, t, r, angle in zip(frames, time, radius, np.broadcast_to(turned, count), strict=True):
        left, up = x - centre[0] - across * way * t, y - centre[1] - down * way * t
        cosine, sine = np.cos(angle), np.sin(angle)
        edge = _SHAPES[deed.shape](cosine * left + sine * up, cosine * up - sine * left, float(r))
        cover = np.clip(0.5 - edge, 0, 1)[:, :, None]
        frame[:] = np.clip(frame + cover * (colour - frame), 0, 255).astype(np.uint8)
