"""A process that computes: it loads models as the one that has begun it does, and answers what that one asks."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from multiprocessing.connection import Connection
from typing import Any, Final, NoReturn, final

from heedful.errors import HeedfulError
from heedful.serving.apart.letters import (
    Answered,
    Ask,
    Asked,
    Broken,
    End,
    Failed,
    Heard,
    Leave,
    Ready,
    Told,
    Worked,
)
from heedful.serving.apart.parts import Parts, parts_of
from heedful.serving.gathering import Gathering
from heedful.serving.house import House
from heedful.serving.opening import furnish
from heedful.serving.settings import Settings
from heedful.serving.term import Gone, Term
from heedful.serving.waiting import Waiting
from heedful.serving.warming import warm
from heedful.tasks.finding import Questions

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""That are for whoever has begun a process, though a terminal or systemd sends them to all."""
_PR_SET_PDEATHSIG: Final = 1
"""See prctl(2)."""
_SAYS: Final = 256
"""Ways to answer that are kept, the last ones that were asked for."""
_OBJECTS: Final = 50_000
"""As every command has it (`heedful.__main__`)."""


def compute(pipe: Connection, settings: Settings) -> NoReturn:
    """Answers until nobody is at the other end of the pipe.

    `SIGNALS` are ignored: the end of whoever has begun this process is the end of it.
    """
    _end_with_parent()
    for each in SIGNALS:  # where they could not be blocked
        signal.signal(each, signal.SIG_IGN)
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    house = House(settings, {}, {})
    try:
        furnish(house, _silent)
        parts = parts_of(house)
        warm(house, _silent)
    except HeedfulError as error:
        pipe.send_bytes(Parts({}).dumps([Broken(error)]))
        os._exit(0)
    gc.freeze()
    table = Table(pipe, house, parts)
    table.tell(Ready())
    try:
        while table.take(pipe.recv_bytes()):
            pass
    except (EOFError, OSError):  # whoever asked is gone
        pass
    os._exit(0)


def _end_with_parent() -> None:
    """Have the system kill this process when the one that has begun it ends, even where it is stopped then.

    A process that runs notices the end of its pipe; one that is stopped (SIGSTOP) would stay for ever. Linux alone can
    do this.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@final
class Table:
    """Where questions lie while they are answered.

    Args:
        pipe: from which they come, and into which answers go.
        house: whose models are asked.
        parts: of these.
    """

    def __init__(self, pipe: Connection, house: House, parts: Parts) -> None:
        self._pipe = pipe
        self._parts = parts
        self._says: Callable[[bytes], Any] = lru_cache(_SAYS)(parts.loads)
        self._terms: dict[int, Term] = {}
        self._writing = threading.Lock()
        self._steps: deque[tuple[str, int]] = deque()
        self._tokens: deque[tuple[str, int]] = deque()
        self._gatherings: dict[str, Gathering] = {}
        for name, model in house.all.items():
            assert isinstance(model.answering, Gathering), "models are asked here"
            self._gatherings[name] = model.answering
            model.answering.worked = partial(self._worked, name)
            model.answering.wrote = partial(self._wrote, name)

    def tell(self, letter: Told) -> None:
        """Says something, and what was done until now."""
        with self._writing:
            steps, tokens = _taken(self._steps), _taken(self._tokens)
            told = [Worked(steps, tokens), letter] if steps or tokens else [letter]
            with suppress(OSError):  # where nobody is there, this process ends
                self._pipe.send_bytes(self._parts.dumps(told))

    def take(self, content: bytes) -> bool:
        """Something was said; whether more will be."""
        letter: Asked = self._parts.loads(content)
        match letter:
            case Ask():
                self._ask(letter)
            case Leave(number=number):
                if (term := self._terms.get(number)) is not None:
                    term.leave()
            case End():
                return False
        return True

    def _ask(self, ask: Ask) -> None:
        term, number = Term(ask.seconds, ask.at), ask.number
        try:
            say, examples = self._says(ask.say), self._parts.loads(ask.examples)
        except Exception as error:  # whoever asked is told, and others go on
            self._fail(number, error)
            return

        def heard(place: int, ids: Any) -> None:
            self.tell(Heard(number, place, list(ids)))

        def ended() -> None:
            self._terms.pop(number, None)
            self._answer(number, waiting)

        questions = Questions[Any, Any](examples, say, ask.sizes, ask.tokens, ask.rows, heard if ask.heard else None)
        waiting = Waiting(questions, term, ended=ended)
        self._terms[number] = term
        self._gatherings[ask.model].submit(waiting)

    def _answer(self, number: int, waiting: Waiting) -> None:
        try:
            answers = self._parts.dumps(waiting.answers())
        except Exception as error:  # of the model, or an answer that cannot be sent
            self._fail(number, error)
        else:
            self.tell(Answered(number, answers))

    def _fail(self, number: int, error: Exception) -> None:
        """Says what went wrong, and where, if that is no decision."""
        told: Exception = error
        try:
            self._parts.loads(self._parts.dumps(error))
        except Exception:  # those of some libraries cannot be sent
            told = RuntimeError(f"{type(error).__name__}: {error}")
        if not isinstance(error, HeedfulError | Gone):
            told.add_note("".join(traceback.format_exception(error)))
        self.tell(Failed(number, told))

    def _worked(self, model: str, rows: int) -> None:
        self._steps.append((model, rows))

    def _wrote(self, model: str, tokens: int) -> None:
        if tokens:
            self._tokens.append((model, tokens))


def _taken(counts: deque[tuple[str, int]]) -> list[tuple[str, int]]:
    """All that are there; others may come meanwhile."""
    return [counts.popleft() for _ in range(len(counts))]


def _silent(_: str) -> None:
    """Whoever has begun this process says the same."""
