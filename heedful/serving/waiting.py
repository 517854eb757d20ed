"""What somebody asks of a model and waits for, whoever computes it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, final

from heedful.generation import Hypothesis
from heedful.serving.refusal import Refusal
from heedful.serving.term import Gone, Term
from heedful.tasks.finding import Company, Finder, Questions

_LONGEST_SLEEP: Final = 0.5
"""Seconds after which a thread that waits looks whether its term is over, though nothing was said."""


class Answering(Protocol):
    """Answers what is asked of one model."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be asked."""
        ...

    def company(self, term: Term) -> Company:
        """What a thread asks, which waits until a term is over."""
        ...

    def close(self) -> None:
        """Ends it; what waits fails."""
        ...


@final
class Waiting:
    """One caller's questions, on their way to be answers.

    Args:
        questions: of the caller.
        term: how long it waits.
        ended: told when there is an answer to all, or none will come.
    """

    def __init__(self, questions: Questions[Any, Any], term: Term, *, ended: Callable[[], None] = lambda: None) -> None:
        self.questions = questions
        self.term = term
        self.done = threading.Event()
        self._found: dict[int, Any] = {}
        self._error: BaseException | None = None
        self._ended = [ended]

    @property
    def over(self) -> bool:
        """Whether nothing is to be done for it any more."""
        return self.done.is_set() or self.term.over

    def answers(self) -> list[Any]:
        """When all is done; raises what went wrong."""
        if self._error is not None:
            raise self._error
        return [self._found[place] for place in range(len(self.questions.examples))]

    def answered(self, place: int, answer: Any) -> None:
        """One of the examples is answered."""
        self._found[place] = answer
        if len(self._found) == len(self.questions.examples) and not self.done.is_set():
            self._end()

    def failed(self, error: BaseException) -> None:
        """No answer will come; nothing changes where there is one already."""
        if not self.done.is_set():
            self._error = error
            self._end()

    def when_over(self, tell: Callable[[], None]) -> None:
        """Has somebody told when there is nothing to wait for, or nobody waits; perhaps more than once."""
        self._ended.append(tell)
        self.term.when_left(tell)
        if self.done.is_set():
            tell()

    def end(self) -> None:
        """Its term is over."""
        try:
            self.term.check()
        except (Gone, Refusal) as error:
            self.failed(error)

    def _end(self) -> None:
        self.done.set()
        for tell in [*self._ended]:
            tell()

    def hear(self, place: int, ids: Sequence[int]) -> None:
        """More of a text."""
        if self.questions.heard is not None:
            try:
                self.questions.heard(place, ids)
            except Exception as error:  # whoever listens may break, and others go on
                self.failed(error)


@final
class Companion:
    """What one thread asks of a model.

    Args:
        submit: has questions answered.
        term: how long the thread waits.
    """

    def __init__(self, submit: Callable[[Waiting], None], term: Term) -> None:
        self._submit = submit
        self._term = term

    def answers(self, questions: Questions[Any, Any]) -> list[Any]:
        """To the examples, in their order.

        Raises:
            Refusal: the term ended.
            Gone: whoever asked has left.
        """
        if not questions.examples:
            return []
        waiting = Waiting(questions, self._term)
        self._submit(waiting)
        while not waiting.done.wait(_LONGEST_SLEEP):
            self._term.check()
        return waiting.answers()

    def grown(self, finder: Finder[Any], example: Any) -> Iterator[Sequence[int] | Hypothesis]:
        """See `heedful.tasks.finding.grown`."""
        said: queue.SimpleQueue[Sequence[int] | None] = queue.SimpleQueue()
        questions = Questions[Any, Any]([example], finder, [1], 1, 1, lambda _, ids: said.put(list(ids)))
        waiting = Waiting(questions, self._term, ended=lambda: said.put(None))
        self._submit(waiting)
        try:
            while True:
                try:
                    ids = said.get(timeout=_LONGEST_SLEEP)
                except queue.Empty:
                    self._term.check()
                    continue
                if ids is None:
                    break
                yield ids
        finally:
            waiting.failed(Gone())  # whoever closes the stream waits no longer; nothing, where all has come
        yield waiting.answers()[0][0]
