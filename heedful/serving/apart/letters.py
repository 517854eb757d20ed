"""What processes say to each other: one that is asked over HTTP, and those that compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final


@final
@dataclass(frozen=True)
class Ask:
    """Questions are to be answered.

    Attributes:
        number: under which they are known from now on.
        model: that is asked.
        say: what answers, as `Parts` writes it, so that what was sent before need not be read again.
        examples: that are to be answered, likewise.
        sizes: see `Questions`, as are the next two.
        tokens: that are read at one time.
        rows: that are read at one time.
        heard: whether somebody listens to how texts grow.
        seconds: that whoever asks waits.
        at: when that ends, by the clock that all processes of a machine share.
    """

    number: int
    model: str
    say: bytes
    examples: bytes
    sizes: Sequence[int]
    tokens: int
    rows: int
    heard: bool
    seconds: float
    at: float


@final
@dataclass(frozen=True)
class Leave:
    """Nobody waits for the answer with this number any more."""

    number: int


@final
@dataclass(frozen=True)
class End:
    """Nothing will be asked any more."""


@final
@dataclass(frozen=True)
class Ready:
    """The models are there, and warm."""


@final
@dataclass(frozen=True)
class Broken:
    """There will be no models."""

    error: Exception


@final
@dataclass(frozen=True)
class Answered:
    """The answers to all examples, in their order, as `Parts` writes them."""

    number: int
    answers: bytes


@final
@dataclass(frozen=True)
class Failed:
    """There will be no answer."""

    number: int
    error: BaseException


@final
@dataclass(frozen=True)
class Heard:
    """More of the text of an example."""

    number: int
    place: int
    ids: Sequence[int]


@final
@dataclass(frozen=True)
class Worked:
    """What was done since this was told last: texts at each step of each model, and tokens that it has written."""

    steps: Sequence[tuple[str, int]]
    tokens: Sequence[tuple[str, int]]


Asked: TypeAlias = Ask | Leave | End
"""Of a process that computes."""
Told: TypeAlias = Ready | Broken | Answered | Failed | Heard | Worked
"""By one."""
