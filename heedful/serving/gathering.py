"""What requests ask of one model at the same time, answered together.

One thread computes. What is asked waits in its queue: examples that are searched for join a search that runs, at any
step, and leave it when they are done, when their term is over, or when nobody waits for them; all others are answered
in batches of like lengths with those that are asked alike. A search that no other may join (with terms, by groups, by
risk or coverage) is cut into pieces, callers take turns with these, and between two steps of a piece all others get
theirs.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, final

import numpy as np
import torch

from heedful.data.bucketing import plan_by_length
from heedful.generation import Hypothesis
from heedful.generation.running import Left, Running
from heedful.generation.start import Request
from heedful.models.interface import Engine, State
from heedful.runs.device import give_back_pages
from heedful.serving.term import Gone, Term
from heedful.serving.waiting import Companion, Waiting
from heedful.tasks.finding import Finder, width_of
from heedful.values import Tokens

_FEW, _PATIENCE = 1 / 5, 6
"""A share of the sentences under way, and the steps that so few wait for others, since to join costs as much as one."""
_REST, _WORK = 1.0, 30.0
"""Seconds without a question, and with some, after which memory that is free is given back."""
_WIDE: Final = 8
"""Rows of a sentence from which on fewer sentences are searched for at one time."""
_APART: Final = 2
"""Times as many rows as texts that are searched for at one time: the most of a search of its own, so that no step of it
takes long."""


@final
@dataclass(frozen=True, eq=False)
class _Place:
    """An example: the caller that asks, and its number there."""

    waiting: Waiting
    place: int

    @property
    def example(self) -> Any:
        return self.waiting.questions.examples[self.place]

    @property
    def size(self) -> int:
        return self.waiting.questions.sizes[self.place]


@final
class _Caller:
    """What is left to be begun of a caller's questions; `lane` is that which they may join, if there is one."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self.places = deque(_Place(waiting, place) for place in range(len(waiting.questions.examples)))
        self.lane = lane_of(waiting.questions.say)

    @property
    def searches(self) -> bool:
        """Whether it asks for a search, and not for a batch."""
        return isinstance(self.waiting.questions.say, Finder)

    def put_back(self, places: Iterable[_Place]) -> None:
        """Have places be begun by a search of their own, which is what they turned out to need."""
        self.lane = None
        self.places.extendleft(reversed([*places]))


@final
@dataclass
class _Lane:
    """A search that runs, and whose its sentences are, by their tickets."""

    engine: Engine[Any]
    running: Running
    places: dict[int, _Place] = field(default_factory=dict)
    patience: int = 0

    def leave(self, left: Sequence[Left]) -> None:
        """Sentences that have ended."""
        for each in left:
            place = self.places.pop(each.ticket, None)
            if place is None:
                continue
            if each.error is not None:
                place.waiting.failed(each.error)
            else:
                place.waiting.answered(place.place, list(each.hypotheses))

    def tell(self) -> None:
        """Has callers hear what stands there so far."""
        listening = [ticket for ticket, place in self.places.items() if place.waiting.questions.heard is not None]
        for ticket, ids in self.running.newest(listening).items():
            place = self.places[ticket]
            place.waiting.hear(place.place, ids)


@final
class Gathering:
    """Answers what several threads ask of one model.

    Args:
        rows: texts that are searched for at one time, at most.
        worked: told of each step or batch how many texts it had.
        wrote: told how many tokens the best texts have that searches have found.
    """

    def __init__(
        self,
        *,
        rows: int,
        worked: Callable[[int], None] = lambda _: None,
        wrote: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._rows = rows
        self.worked = worked
        self.wrote = wrote
        self._coming: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._callers: deque[_Caller] = deque()
        self._lanes: dict[tuple[int, int], _Lane] = {}
        self._searching: Sequence[_Place] = ()
        self._closing = False
        self._tidied = self._worked = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="heedful model", daemon=True)
        self._thread.start()

    @property
    def is_ready(self) -> bool:
        """It always can be asked."""
        return True

    def company(self, term: Term) -> Companion:
        """What a thread asks, which waits until a term is over."""
        return Companion(self.submit, term)

    def submit(self, waiting: Waiting) -> None:
        """Has questions answered."""
        self._coming.put(waiting)

    def close(self) -> None:
        """Ends the thread; what waits fails."""
        self._coming.put(None)
        self._thread.join(timeout=10)

    def _work(self) -> None:
        with torch.inference_mode():
            while self._taken():
                try:
                    self._forget()
                    self._admit()
                    self._step()
                    self._batch()
                    self._tidy(_WORK)
                except Exception as error:  # whoever waits is told, and the next are answered
                    self._fail(error, (*self._searching,))

    def _tidy(self, seconds: float) -> None:
        """Gives back memory that is free, where that was not done for so long."""
        now = time.monotonic()
        if now - self._tidied >= seconds:
            give_back_pages()
            self._tidied = now

    def _fail(self, error: BaseException, more: Sequence[_Place] = ()) -> None:
        """Tell whoever waits, but for the search of its own that is under way, unless its places are given."""
        for waiting in [*self._others(), *(place.waiting for place in more)]:
            waiting.failed(error)
        self._callers.clear()
        self._lanes.clear()

    def _taken(self) -> bool:
        """Takes in what has come, waiting for it where there is nothing to do; False when all is to end."""
        if self._closing:
            return False
        idle = not self._callers and not self._lanes and not self._searching
        while idle or not self._coming.empty():
            try:
                waiting = self._coming.get(timeout=_REST if idle and self._tidied < self._worked else None)
            except queue.Empty:
                self._tidy(0.0)
                continue
            self._worked = time.monotonic()
            if waiting is None:
                self._closing = True
                self._fail(Gone(), self._searching)
                return False
            idle = False
            self._callers.append(_Caller(waiting))
        return True

    def _all(self) -> Iterator[Waiting]:
        yield from self._others()
        yield from (place.waiting for place in self._searching)

    def _others(self) -> Iterator[Waiting]:
        yield from (caller.waiting for caller in self._callers)
        yield from (place.waiting for lane in self._lanes.values() for place in lane.places.values())

    def _forget(self) -> None:
        """Whoever waits no longer frees its places."""
        over = {waiting for waiting in self._all() if waiting.over}
        for waiting in over:
            waiting.end()
        self._callers = deque(caller for caller in self._callers if caller.places and caller.waiting not in over)
        for lane in self._lanes.values() if over else ():
            gone = [ticket for ticket, place in lane.places.items() if place.waiting in over]
            for ticket in gone:
                del lane.places[ticket]
            lane.running.drop(gone)
        self._lanes = {key: lane for key, lane in self._lanes.items() if lane.places}

    def _admit(self) -> None:
        """Lets examples join the searches that run, one of each caller in turn, while there is room."""
        free: dict[tuple[int, int], int] = {}
        groups: dict[Finder[Any], list[_Place]] = {}
        growing = deque(caller for caller in self._callers if caller.lane is not None)
        while growing:
            caller = growing.popleft()
            finder, lane = caller.waiting.questions.say, caller.lane
            assert isinstance(finder, Finder) and lane is not None
            if lane not in free:
                free[lane] = self._room(lane)
            if not free[lane]:
                continue
            free[lane] -= 1
            groups.setdefault(finder, []).append(caller.places.popleft())
            if caller.places:
                growing.append(caller)
        for finder, places in groups.items():
            for part in _planned(places):
                _apart(part, partial(self._begin, finder))

    def _room(self, key: tuple[int, int]) -> int:
        """Sentences that may join a search now; wide beams are fewer, and few wait a step for others to come along."""
        most = max(1, min(self._rows, _WIDE * self._rows // key[1]))
        if (lane := self._lanes.get(key)) is None:
            return most
        coming = sum(len(caller.places) for caller in self._callers if caller.lane == key)
        room = most - len(lane.places)
        lane.patience -= 1
        if lane.patience > 0 and min(coming, room) < _FEW * len(lane.places):
            return 0
        lane.patience = _PATIENCE
        return room

    def _begin(self, finder: Finder[Any], places: Sequence[_Place]) -> None:
        """Has examples join a search; callers whose examples need one of their own are answered by `_batch`."""
        search = finder.growable
        assert search is not None
        state, request = finder.begun([place.example for place in places])
        if request.terms is not None:
            held = [place for place, terms in zip(places, request.terms.rows, strict=True) if terms]
            bound = dict.fromkeys(place.waiting for place in held)
            for caller in self._callers_of(bound):
                caller.put_back(place for place in places if place.waiting is caller.waiting)
            if free := [place for place in places if place.waiting not in bound]:
                self._begin(finder, free)
            return
        key = lane_of(finder)
        assert key is not None
        if key not in self._lanes:
            self._lanes[key] = _Lane(finder.engine, Running(finder.engine.step, width=key[1]))
        lane = self._lanes[key]
        tickets, left = lane.running.admit(state, request, search)
        lane.places.update(zip(tickets, places, strict=True))
        self._count([each.hypotheses for each in left])
        lane.leave(left)
        lane.tell()

    def _step(self) -> None:
        """One token of every sentence of every search that runs."""
        for key, lane in [*self._lanes.items()]:
            self.worked(len(lane.places))
            try:
                left = lane.running.advance()
                self._count([each.hypotheses for each in left])
                lane.leave(left)
            except Exception as error:  # a state that broke is nobody's any more
                for place in lane.places.values():
                    place.waiting.failed(error)
                del self._lanes[key]
                continue
            lane.tell()

    def _callers_of(self, waiting: Iterable[Waiting]) -> list[_Caller]:
        """Those of questions, which come back where all of their examples had begun."""
        known = {caller.waiting: caller for caller in self._callers}
        for each in waiting:
            if each not in known:
                known[each] = _Caller(each)
                known[each].places.clear()
                self._callers.append(known[each])
        return [known[each] for each in waiting]

    def _batch(self, *, between_steps: bool = False) -> None:
        """One batch of like lengths of a caller, with all that is asked alike; callers take turns.

        Args:
            between_steps: of a search of its own, which no other one interrupts.
        """
        waiting = (caller for caller in self._callers if caller.lane is None and caller.places)
        first = next((caller for caller in waiting if not (between_steps and caller.searches)), None)
        if first is None:
            return
        self._callers.remove(first)
        self._callers.append(first)
        say = first.waiting.questions.say
        alike = [caller for caller in self._callers if caller.lane is None and caller.waiting.questions.say == say]
        places = [*first.places, *(place for caller in alike if caller is not first for place in caller.places)]
        batch = next(part for part in _planned(places) if first.places[0] in part)
        if isinstance(say, Finder):
            most = max(1, _APART * self._rows // say.search.rows)
            batch = sorted(batch, key=lambda place: place.waiting is not first.waiting)[:most]
        taken = set(map(id, batch))
        for caller in alike:
            caller.places = deque(place for place in caller.places if id(place) not in taken)
        self.worked(len(batch))
        _apart(batch, partial(self._say, say))

    def _say(self, say: Any, places: Sequence[_Place]) -> None:
        examples = [place.example for place in places]
        if not isinstance(say, Finder):
            _answer(places, list(say(examples)))
            return
        self._searching = places
        try:
            answers = self._searched(say, *say.begun(examples), places)
        finally:
            self._searching = ()
        self._count(answers)
        _answer(places, answers)

    def _searched(
        self, finder: Finder[Any], state: State, request: Request, places: Sequence[_Place]
    ) -> Sequence[Sequence[Hypothesis]]:
        """By a search of their own, which ends when nobody waits for it."""

        def step(tokens: Tokens, state: State) -> tuple[Any, State]:
            self._let_others()
            return finder.engine.step(tokens, state)

        request = replace(request, until=lambda: all(place.waiting.over for place in places))
        return finder.search.answer(step, state, request).hypotheses

    def _let_others(self) -> None:
        """A step of every search that others joined, and a batch, while a search of its own is under way."""
        try:
            if self._taken():
                self._forget()
                self._admit()
                self._step()
                self._batch(between_steps=True)
        except Exception as error:  # whoever waits is told, and the search that is under way goes on
            self._fail(error)

    def _count(self, found: Iterable[Sequence[Hypothesis]]) -> None:
        self.wrote(sum(len(hypotheses[0].ids) for hypotheses in found if hypotheses))


def lane_of(say: Any) -> tuple[int, int] | None:
    """Which search that runs examples may join: that of their engine with as many rows; None where there is none."""
    search = say.growable if isinstance(say, Finder) else None
    return None if search is None else (id(say.engine), width_of(search))


def _planned(places: Sequence[_Place]) -> list[list[_Place]]:
    """Batches of like lengths, by the bounds of the first caller."""
    questions = places[0].waiting.questions
    lengths = np.array([place.size for place in places], dtype=np.int64)
    plan = plan_by_length(lengths, tokens=questions.tokens, rows=questions.rows)
    return [[places[at] for at in batch.tolist()] for batch in plan]


def _apart(places: Sequence[_Place], answer: Callable[[Sequence[_Place]], None]) -> None:
    """Answers examples together; where that fails, each caller's by themselves, so that one's fault is its own."""
    try:
        answer(places)
        return
    except Exception as error:
        callers = {id(place.waiting): place.waiting for place in places}
        if len(callers) == 1:
            places[0].waiting.failed(error)
            return
    for caller in callers.values():
        own = [place for place in places if place.waiting is caller]
        try:
            answer(own)
        except Exception as error:  # whatever it is, this caller is told, and others go on
            caller.failed(error)


def _answer(places: Sequence[_Place], answers: Sequence[Any]) -> None:
    for place, answer in zip(places, answers, strict=True):
        place.waiting.answered(place.place, answer)
