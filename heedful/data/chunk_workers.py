"""Work on a stream of examples in chunks, by several processes, with the results in the order of the stream.

Small streams stay in this process, since processes take time to start. Processes are forked, so that they share what
the function needs, such as a vocabulary or the model of language identification, without loading it again. Where the
system cannot fork safely, this process does all the work.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from threading import Thread
from typing import Any, Final, Generic, TypeVar, final

from heedful.errors import RunError

Example = TypeVar("Example")
Result = TypeVar("Result")

CAN_FORK: Final = sys.platform == "linux"
"""Whether the system can fork a process that has used other libraries; macOS cannot, and Windows has no fork."""
_CHUNK_EXAMPLES: Final = 2048
_CHUNK_CHARACTERS: Final = 2**20
_CHUNKS_ALONE: Final = 10
"""Number of chunks that this process works on before it starts others, so that small texts do not wait for them."""
_SECONDS_BETWEEN_CHECKS: Final = 0.2


@final
@dataclass(frozen=True)
class ChunkWorkers(Generic[Example, Result]):
    """A function on chunks of examples, and the processes that compute it.

    Attributes:
        function: computes the result of a chunk; it may depend on the chunk alone, since each process has its own copy.
        processes: largest number of processes.
        count_characters: returns the size of an example; chunks are limited by it.
        chunks_alone: number of chunks at the start that this process works on itself.
        chunk_examples: largest number of examples of a chunk.
    """

    function: Callable[[Sequence[Any]], Result]
    processes: int = 1
    count_characters: Callable[[Example], int] = lambda _: 0
    chunks_alone: int = _CHUNKS_ALONE
    chunk_examples: int = _CHUNK_EXAMPLES

    def map(
        self, examples: Iterable[Example], *, select: Callable[[Example], Any] = lambda example: example
    ) -> Iterator[tuple[Sequence[Example], Result]]:
        """Yield each chunk of the examples with its result, in order.

        An error of the function or of the examples is raised after the results of everything before it.

        Args:
            examples: the examples, read once.
            select: returns the part of an example that the function needs.

        Raises:
            RunError: a process was killed.
        """
        chunks = self._split(examples)
        for chunk in islice(chunks, self.chunks_alone if self.processes > 1 and CAN_FORK else None):
            yield chunk, self.function(list(map(select, chunk)))
        first = next(chunks, None)
        if first is None:
            return
        with ExitStack() as stack:
            executor = ProcessPoolExecutor(
                self.processes,
                mp_context=get_context("fork"),
                initializer=_prepare_process,
                initargs=(self.function, os.getpid()),
            )
            stack.callback(executor.shutdown, cancel_futures=True)
            pending: deque[tuple[Sequence[Example], Future[Result]]] = deque()
            pending.append((first, _submit(executor, list(map(select, first)))))
            error: Exception | None = None
            while pending:
                while error is None and len(pending) <= 2 * self.processes:
                    try:
                        chunk_or_none = next(chunks, None)
                    except Exception as reading_error:
                        error = reading_error
                        break
                    if chunk_or_none is None:
                        break
                    pending.append((chunk_or_none, _submit(executor, list(map(select, chunk_or_none)))))
                chunk, future = pending.popleft()
                try:
                    result = future.result()
                except BrokenProcessPool:
                    raise RunError(
                        "a process that prepares the text was killed; if memory ran out, use fewer processes"
                    ) from None
                yield chunk, result
            if error is not None:
                raise error

    def _split(self, examples: Iterable[Example]) -> Iterator[Sequence[Example]]:
        """Yield chunks of limited size; what was read before an error is yielded before it is raised."""
        chunk: list[Example] = []
        num_characters = 0
        iterator = iter(examples)
        while True:
            try:
                example = next(iterator)
            except StopIteration:
                break
            except Exception:
                if chunk:
                    yield chunk
                raise
            chunk.append(example)
            num_characters += self.count_characters(example)
            if len(chunk) == self.chunk_examples or num_characters >= _CHUNK_CHARACTERS:
                yield chunk
                chunk, num_characters = [], 0
        if chunk:
            yield chunk


_functions_of_process: Final[list[Callable[[Sequence[Any]], Any]]] = []
"""The function that this process computes, alone, if it was forked for that."""


def _prepare_process(function: Callable[[Sequence[Any]], Any], parent: int) -> None:
    """Prepare a forked process: store its function, ignore SIGINT, let SIGTERM end it, and end it when its parent has
    ended.
    """
    _functions_of_process[:] = [function]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=_end_with_parent, args=(parent,), daemon=True).start()


def _end_with_parent(parent: int) -> None:
    """End this process when its parent does not exist any more, as after a kill."""
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_CHECKS)
    os._exit(1)


def _submit(executor: ProcessPoolExecutor, chunk: Sequence[Any]) -> Future[Any]:
    """Give a chunk to the processes, which are started with the first one."""
    with warnings.catch_warnings():
        # Python 3.12 warns of every fork beside threads; these processes use nothing that heedful's threads may lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        return executor.submit(_compute, chunk)


def _compute(chunk: Sequence[Any]) -> Any:
    """Compute the function of this process."""
    (function,) = _functions_of_process
    return function(chunk)
