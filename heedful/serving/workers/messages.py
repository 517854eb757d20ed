"""What processes say to each other: one that is asked over HTTP, and those that compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final


@final
@dataclass(frozen=True)
class RunJobMessage:
    """Questions are to be answered.

    Attributes:
        request_number: under which they are known from now on.
        model: that is asked.
        answer_batch: what answers, as `SharedObjects` writes it, so that what was sent before need not be read again.
        examples: that are to be answered, likewise.
        sizes: see `Questions`, as are the next two.
        batch_tokens: that are read at one time.
        max_rows: that are read at one time.
        with_partials: whether somebody listens to how texts grow.
        seconds: that whoever asks waits.
        expires_at: when that ends, by the clock that all processes of a machine share.
    """

    request_number: int
    model: str
    answer_batch: bytes
    examples: bytes
    sizes: Sequence[int]
    batch_tokens: int
    max_rows: int
    with_partials: bool
    seconds: float
    expires_at: float


@final
@dataclass(frozen=True)
class CancelMessage:
    """Nobody waits for the answer with this number any more."""

    request_number: int


@final
@dataclass(frozen=True)
class ShutdownMessage:
    """Nothing will be asked any more."""


@final
@dataclass(frozen=True)
class ReadyMessage:
    """The models are there, and warm."""


@final
@dataclass(frozen=True)
class LoadErrorMessage:
    """There will be no models."""

    error: Exception


@final
@dataclass(frozen=True)
class AnswersMessage:
    """The answers to all examples, in their order, as `SharedObjects` writes them."""

    request_number: int
    answers: bytes


@final
@dataclass(frozen=True)
class ErrorMessage:
    """There will be no answer."""

    request_number: int
    error: BaseException


@final
@dataclass(frozen=True)
class PartialMessage:
    """More of the text of an example."""

    request_number: int
    index: int
    ids: Sequence[int]


@final
@dataclass(frozen=True)
class CountsMessage:
    """What was done since this was told last: texts at each step of each model, and tokens that it has written."""

    batches: Sequence[tuple[str, int]]
    token_counts: Sequence[tuple[str, int]]


ParentMessage: TypeAlias = RunJobMessage | CancelMessage | ShutdownMessage
"""Of a process that computes."""
WorkerMessage: TypeAlias = (
    ReadyMessage | LoadErrorMessage | AnswersMessage | ErrorMessage | PartialMessage | CountsMessage
)
"""By one."""
