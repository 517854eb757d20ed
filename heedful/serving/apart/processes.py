"""The processes that compute, as whoever has begun them asks them."""

from __future__ import annotations

import multiprocessing
import queue
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, Final, final

import torch
from torch import nn

from heedful.engines.arrange import engine_in
from heedful.errors import RunError
from heedful.serving.apart.computing import SIGNALS, compute
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
from heedful.serving.house import House
from heedful.serving.logs import tell_event
from heedful.serving.meters import Meters
from heedful.serving.opening import furnish
from heedful.serving.refusal import closed
from heedful.serving.settings import Settings
from heedful.serving.term import Term
from heedful.serving.waiting import Companion, Waiting

_SHORTEST, _LONGEST = 0.5, 60.0
"""Seconds until a process that has ended is begun again, which double as long as none has answered."""
_PARTING: Final = 2.0
"""Seconds that a process has to end by itself before it is killed."""


def furnish_apart(house: House, say: Callable[[str], None], number: int) -> None:
    """`furnish`, where so many processes compute; what is loaded here says what is asked and how, and is looked at.

    Raises:
        RecipeError: something cannot be computed where it is to be.
        RunError: a folder is missing or damaged, or a process ended.
    """
    processes = Processes(number, meters=house.meters)
    try:
        furnish(house, say, processes.of)
        processes.begin(house)
    except BaseException:
        processes.close()
        raise


class Ended(Exception):  # noqa: N818 - named by what happened
    """A process ended while it computed an answer."""


@final
class Processes:
    """All of them; each has all models, and is asked by as many at one time as the others.

    One that ends is begun anew: what it was asked fails, and what is asked meanwhile goes to others, if there are any.

    Args:
        number: how many there are.
        meters: told what they do.
    """

    def __init__(self, number: int, *, meters: Meters) -> None:
        self.closing = threading.Event()
        self.meters = meters
        self.parts = Parts({})
        self._members = [Member(self, each) for each in range(1, number + 1)]
        self._numbers = count()
        self._leaving: queue.SimpleQueue[tuple[Member, int] | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        threading.Thread(target=self._leave, name="heedful parting", daemon=True).start()

    def begin(self, house: House) -> None:
        """Waits until all have loaded what is in a house.

        Args:
            house: which has it, and was not asked yet.

        Raises:
            RecipeError: something cannot be computed where it is to be.
            RunError: a folder is missing or damaged, or a process ended.
        """
        self.parts, settings = parts_of(house), settings_of_each(house, len(self._members))
        for member in self._members:
            member.begin(settings)
        for member in self._members:
            member.require_begun()

    @property
    def is_ready(self) -> bool:
        """Whether one can be asked."""
        return any(member.is_ready for member in self._members)

    def of(self, model: str) -> Apart:
        """What answers for one model."""
        return Apart(self, model)

    def ask(self, model: str, waiting: Waiting) -> None:
        """Has questions answered by the process that has least to do."""
        ready = [member for member in self._members if member.is_ready]
        if not ready:
            waiting.failed(closed("loading"))
            return
        member, number = min(ready, key=lambda each: each.load), next(self._numbers)
        member.ask(number, model, waiting)
        waiting.when_over(partial(self._leaving.put, (member, number)))

    def close(self) -> None:
        """Ends them."""
        with self._closing:
            if not self.closing.is_set():
                self.closing.set()
                self._leaving.put(None)
                for member in self._members:
                    threading.Thread(target=member.tell_end, name="heedful end", daemon=True).start()
                until = time.monotonic() + _PARTING
                for member in self._members:
                    member.close(until)

    def _leave(self) -> None:
        """Says who waits no longer: in a thread of its own, since it is noticed where nothing may be waited for."""
        while (leaving := self._leaving.get()) is not None:
            member, number = leaving
            member.leave(number)


@final
class Apart:
    """One model, which processes ask.

    Args:
        processes: that have it.
        model: its name there.
    """

    def __init__(self, processes: Processes, model: str) -> None:
        self._processes = processes
        self._model = model

    def company(self, term: Term) -> Companion:
        """What a thread asks, which waits until a term is over."""
        return Companion(partial(self._processes.ask, self._model), term)

    @property
    def is_ready(self) -> bool:
        """Whether there is a process that can be asked."""
        return self._processes.is_ready

    def close(self) -> None:
        """Ends the processes, and with that what other models are asked."""
        self._processes.close()


@final
class Member:
    """One of the processes; a thread listens to it, and begins it anew when it has ended.

    Args:
        processes: all of them.
        number: from 1.

    Attributes:
        is_ready: it may be asked.
        load: examples that it is to answer.
    """

    def __init__(self, processes: Processes, number: int) -> None:
        self.is_ready = False
        self.load = 0
        self._processes = processes
        self._number = number
        self._asked: dict[int, Waiting] = {}
        self._guarding, self._writing = threading.Lock(), threading.Lock()
        self._settings: Settings | None = None
        self._pipe: Connection | None = None
        self._process: Any = None
        self._how = ""
        self._begun = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._live, name=f"heedful process {number}", daemon=True)

    def begin(self, settings: Settings) -> None:
        """Begins, with these settings; `require_begun` waits for it."""
        self._settings = settings
        self._thread.start()

    def require_begun(self) -> None:
        """Raises why it has not, when that is known."""
        self._begun.wait()
        if self._error is not None:
            raise self._error

    def ask(self, number: int, model: str, waiting: Waiting) -> None:
        """Has questions answered, which have this number."""
        questions, term, parts = waiting.questions, waiting.term, self._processes.parts
        say, examples = parts.dumps(questions.say), parts.dumps(questions.examples)
        heard = questions.heard is not None
        how = (questions.sizes, questions.tokens, questions.rows, heard, term.seconds, term.at)
        with self._guarding:
            self._asked[number] = waiting
            self.load += len(questions.examples)
        if not self._say(Ask(number, model, say, examples, *how)):
            self._lose(number)

    def leave(self, number: int) -> None:
        """Whoever asked this has left; nothing where it is answered."""
        with self._guarding:
            known = number in self._asked
        if known:
            self._say(Leave(number))

    def tell_end(self) -> None:
        """Ask it to end; this may take forever where the process is stopped and its pipe is full."""
        if self._process is not None:
            self._say(End())

    def close(self, until: float) -> None:
        """Wait until it has ended, and kill it where it has not by then; a process that is stopped ends so too."""
        if self._process is not None:
            self._process.join(max(0.0, until - time.monotonic()))
            self._process.kill()
            self._process.join(_PARTING)

    def _say(self, letter: Asked) -> bool:
        """Whether it could be said."""
        content = self._processes.parts.dumps(letter)
        with self._writing:
            try:
                assert self._pipe is not None, "a process that is ready has one"
                self._pipe.send_bytes(content)
            except OSError:
                return False
        return True

    def _live(self) -> None:
        _block_signals()
        seconds = _SHORTEST
        while not self._processes.closing.is_set():
            answered = self._once()
            if self._error is not None or self._processes.closing.is_set():
                return
            seconds = _SHORTEST if answered else min(2 * seconds, _LONGEST)
            tell_event(f"process {self._number}: ended ({self._how}); it begins again in {seconds:g} seconds")
            self._processes.closing.wait(seconds)

    def _once(self) -> bool:
        """From the beginning of a process to its end; whether it has answered anything."""
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        process = context.Process(target=compute, args=(other, self._settings), daemon=True)
        answered = False
        try:
            process.start()
            self._process = process
            other.close()
            while True:
                for letter in self._processes.parts.loads(self._pipe.recv_bytes()):
                    self._hear(letter)
                    answered |= isinstance(letter, Answered)
        except (EOFError, OSError) as error:
            self.is_ready = False
            self._how = _end_of(process) or f"it could not begin: {error}"
        if not self._begun.is_set():
            self._error = self._error or RunError(f"process {self._number}: ended while it loaded models ({self._how})")
            self._begun.set()
        with self._guarding:
            lost = [*self._asked]
        for number in lost:
            self._lose(number)
        return answered

    def _hear(self, letter: Told) -> None:
        match letter:
            case Ready():
                self.is_ready = True
                self._begun.set()
            case Broken(error=error):
                self._error = None if self._begun.is_set() else error
            case Worked():
                self._count(letter)
            case Heard(number=number, place=place, ids=ids):
                with self._guarding:
                    listening = self._asked.get(number)
                if listening is not None:
                    listening.hear(place, ids)
            case Answered(number=number, answers=answers):
                if (waiting := self._forget(number)) is not None:
                    self._answer(waiting, answers)
            case Failed(number=number, error=error):
                if (waiting := self._forget(number)) is not None:
                    waiting.failed(error)

    def _answer(self, waiting: Waiting, content: bytes) -> None:
        try:
            answers = self._processes.parts.loads(content)
        except Exception as error:  # whoever asked is told, and others go on
            waiting.failed(error)
            return
        for place, answer in enumerate(answers):
            waiting.answered(place, answer)

    def _forget(self, number: int) -> Waiting | None:
        """Whoever asked this, which it will not be asked any more."""
        with self._guarding:
            waiting = self._asked.pop(number, None)
            if waiting is not None:
                self.load -= len(waiting.questions.examples)
        return waiting

    def _lose(self, number: int) -> None:
        if (waiting := self._forget(number)) is not None:
            waiting.failed(Ended(f"process {self._number} ended while it computed this ({self._how})"))

    def _count(self, worked: Worked) -> None:
        for model, rows in worked.steps:
            self._processes.meters.batch(model, rows)
        for model, tokens in worked.tokens:
            self._processes.meters.tokens(model, tokens)


def settings_of_each(house: House, number: int) -> Settings:
    """With which each of so many processes loads what is in a house: `auto` is not to take another engine there."""
    settings = house.settings
    models = {
        name: each.model_copy(update={"engine": engine_in(_modules(house, name))})
        for name, each in settings.models.items()
    }
    threads = settings.threads or max(1, (torch.get_num_threads() - 1) // number)  # HTTP has a core of its own
    return settings.model_copy(update={"models": models, "threads": threads})


def _modules(house: House, name: str) -> list[nn.Module]:
    """Of a model, or of all tasks of one that has several."""
    faces = {own: model.face for own, model in house.models.items() if own == name or own.startswith(f"{name}/")}
    return [part for part in Parts(faces).every() if isinstance(part, nn.Module)]


def _end_of(process: Any) -> str:
    """In which way a process has ended, that says nothing any more; nothing of one that never began."""
    if process.pid is None:
        return ""
    process.join(_PARTING)
    code = process.exitcode
    if code is None:
        return "it says nothing any more"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _block_signals() -> None:
    """What this thread begins inherits that, so that signals do not end it before it can ignore them."""
    if hasattr(signal, "pthread_sigmask"):
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # which would unblock them again when it begins
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
