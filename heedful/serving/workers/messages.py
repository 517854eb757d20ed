"""Messages between the parent, which serves HTTP, and its worker processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final


@final
@dataclass(frozen=True)
class RunJobMessage:
    """To a worker: run a batch job.

    Attributes:
        request_number: by which later messages refer to the request.
        model: key of the model.
        answer_batch: pickled function that answers a batch, as `SharedObjects` writes it; equal bytes are
            unpickled once.
        examples: pickled examples to answer.
        sizes: see `BatchJob`, as are the next two.
        batch_tokens: most token ids of a batch, with padding.
        max_rows: most examples of a batch.
        with_partials: whether to send partial outputs of growing texts.
        seconds: that the request was granted.
        expires_at: end of that time, on the monotonic clock that all processes of a machine share.
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
    """To a worker: the client of this request has disconnected."""

    request_number: int


@final
@dataclass(frozen=True)
class ShutdownMessage:
    """To a worker: no more requests will come, so the process may end."""


@final
@dataclass(frozen=True)
class ReadyMessage:
    """From a worker: its models are loaded and warm."""


@final
@dataclass(frozen=True)
class LoadErrorMessage:
    """From a worker: its models could not be loaded."""

    error: Exception


@final
@dataclass(frozen=True)
class AnswersMessage:
    """From a worker: the pickled answers to all examples of a request, in order."""

    request_number: int
    answers: bytes


@final
@dataclass(frozen=True)
class ErrorMessage:
    """From a worker: a request failed with this error."""

    request_number: int
    error: BaseException


@final
@dataclass(frozen=True)
class PartialMessage:
    """From a worker: the token ids that an example has so far."""

    request_number: int
    index: int
    ids: Sequence[int]


@final
@dataclass(frozen=True)
class CountsMessage:
    """From a worker: work since the last such message, as (model, texts) of each step and (model, number of tokens)."""

    batches: Sequence[tuple[str, int]]
    token_counts: Sequence[tuple[str, int]]


ParentMessage: TypeAlias = RunJobMessage | CancelMessage | ShutdownMessage
"""Message to a worker."""
WorkerMessage: TypeAlias = (
    ReadyMessage | LoadErrorMessage | AnswersMessage | ErrorMessage | PartialMessage | CountsMessage
)
"""Message from a worker."""
