"""A help desk: customers whose problem is known, the expert who solves it, and dialogues of both by seed.

A problem is a service that fails in some way on some system. What helps is put together of all three, so whoever
learned the parts can help with a problem that nobody had before. Whether he did can be checked.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Final, final

CUSTOMER: Final = "user"
EXPERT: Final = "system"
LONGEST: Final = 12
"""Turns after which a customer gives up."""

Said = list[tuple[str, str]]
"""Speakers and texts."""

_PLACES: Final = {
    "Windows": "the control panel",
    "macOS": "the system settings",
    "Ubuntu": "the settings centre",
    "Android": "the quick menu",
    "ChromeOS": "the status tray",
}
_PAGES: Final = {
    "VPN": "the page of tunnels",
    "printer": "the page of devices",
    "mail": "the page of accounts",
    "calendar": "the page of sharing",
    "wireless network": "the page of networks",
    "headset": "the page of sounds",
}
_ACTIONS: Final = {
    "slow": "start the service again",
    "locked": "delete the password that is kept there",
    "missing": "let it look for new ones",
    "broken": "go back to the version before the last",
    "silent": "turn its messages on",
}
_COMPLAINTS: Final[Mapping[str, Sequence[str]]] = {
    "slow": ("it takes minutes to react", "it is terribly slow", "everything takes for ever"),
    "locked": ("it wants my password again and again", "it does not take my password", "it says my login is wrong"),
    "missing": ("it is not in the list any more", "I cannot find it", "it has vanished"),
    "broken": ("it crashes since the update", "it stopped after the update", "the new version does not start"),
    "silent": ("it tells me nothing any more", "I get no messages from it", "it never says when it is done"),
}
_OPENINGS: Final = ("Hello, I need help with my {}.", "Hi, there is a problem with the {}.", "My {} does not work.")
_ON: Final = ("I use {}.", "This is on {}.", "My computer has {}.")
_SYSTEMS: Final = ("{}.", "It is {}.", "I have {} here.")
_WHICH: Final = ("Which system do you use?", "Which system does your computer have?")
_WHAT: Final = ("What exactly happens?", "What happens when you try?")
_YES: Final = ("Yes, that helped. Thank you.", "Great, it works again.", "Perfect, thanks a lot.")
_NO: Final = ("No, it is still the same.", "I tried that, it did not help.", "That changes nothing.")
_THANKS: Final = ("All right, thank you.", "Thanks, I will wait for it.")
_BYE: Final = "You are welcome. Goodbye."


@final
@dataclass(frozen=True)
class Problem:
    """What fails, how, and on which system."""

    service: str
    failure: str
    system: str

    @property
    def advice(self) -> str:
        """What helps, mostly."""
        return f"In {_PLACES[self.system]} open {_PAGES[self.service]} and {_ACTIONS[self.failure]}."

    @property
    def ticket(self) -> str:
        """What is done where that did not help."""
        return f"Then I open a ticket: {self.service} on {self.system}, {self.failure}."


PROBLEMS: Final = tuple(Problem(*each) for each in product(_PAGES, _ACTIONS, _PLACES))


class Desk(ABC):
    """Whoever answers customers.

    Abstract: an expert knows the problem, a model only what was said.
    """

    @abstractmethod
    def reply(self, dialogues: Sequence[Said]) -> Sequence[str]:
        """The next turn of each dialogue, whose last turn is a customer's."""


@dataclass
class Customer:
    """Somebody with a problem, who says what he is asked for, and then whether the advice was right.

    Attributes:
        problem: his.
        dice: of his words, and of what he tells at once.
        stubborn: whether the right advice does not help him, so that he needs a ticket.
        helped: whether he got all that he needed.
    """

    problem: Problem
    dice: random.Random
    stubborn: bool
    helped: bool = False
    advised: bool = False

    def opening(self) -> str:
        """What he says first: the service, and perhaps more."""
        said = [self._one(_OPENINGS).format(self.problem.service)]
        if self.dice.random() < 0.4:
            said.append(self._complaint())
        if self.dice.random() < 0.4:
            said.append(self._one(_ON).format(self.problem.system))
        return " ".join(said)

    def answer(self, reply: str) -> str | None:
        """What he says to a reply; None where he goes, helped or not."""
        if reply == self.problem.ticket:
            self.helped = self.advised and self.stubborn
            return self._one(_THANKS) if self.helped else None
        if reply == self.problem.advice:
            self.advised, self.helped = True, not self.stubborn
            return self._one(_NO if self.stubborn else _YES)
        if reply in _WHAT:
            return self._complaint()
        if reply in _WHICH:
            return self._one(_SYSTEMS).format(self.problem.system)
        return None

    def _complaint(self) -> str:
        text = self._one(_COMPLAINTS[self.problem.failure])
        return f"{text[0].upper()}{text[1:]}."

    def _one(self, texts: Sequence[str]) -> str:
        return texts[self.dice.randrange(len(texts))]


@final
@dataclass(frozen=True)
class Expert(Desk):
    """Asks one customer for what he did not say, advises, and opens a ticket where that did not help."""

    customer: Customer

    def reply(self, dialogues: Sequence[Said]) -> list[str]:
        """What an expert says to him."""
        return list(map(self._to, dialogues))

    def _to(self, said: Said) -> str:
        problem, dice = self.customer.problem, self.customer.dice
        told = " ".join(text for _, text in said).lower()
        if self.customer.helped:
            return _BYE
        if self.customer.advised:
            return problem.ticket
        if not any(complaint.lower() in told for complaint in _COMPLAINTS[problem.failure]):
            return dice.choice(_WHAT)
        return problem.advice if problem.system.lower() in told else dice.choice(_WHICH)


def converse(customers: Sequence[Customer], desk: Desk) -> list[Said]:
    """Dialogues of all customers with one desk, until they go."""
    dialogues: list[Said] = [[(CUSTOMER, customer.opening())] for customer in customers]
    waiting = list(range(len(customers)))
    while waiting:
        replies = desk.reply([dialogues[number] for number in waiting])
        going = []
        for number, reply in zip(waiting, replies, strict=True):
            said = dialogues[number]
            said.append((EXPERT, reply))
            answer = None if len(said) >= LONGEST or reply == _BYE else customers[number].answer(reply)
            if answer is not None:
                said.append((CUSTOMER, answer))
                going.append(number)
        waiting = going
    return dialogues


@final
@dataclass(frozen=True)
class HelpDesk:
    """Problems in three parts that share none, and dialogues about them.

    Attributes:
        seed: of everything.
        size: dialogues to learn from.
    """

    seed: int
    size: int

    kept: ClassVar[Mapping[str, int]] = {"validation": 15, "test": 30}
    """Problems that nobody learns from."""

    def problems(self, part: str) -> list[Problem]:
        """Of one part; each service, failure and system occurs in those that are learned from."""
        mixed = list(PROBLEMS)
        random.Random(self.seed).shuffle(mixed)
        validation, test = (self.kept[name] for name in ("validation", "test"))
        first, last = {"validation": (0, validation), "test": (validation, validation + test)}.get(
            part, (validation + test, len(mixed))
        )
        return mixed[first:last]

    def customers(self, part: str, count: int) -> list[Customer]:
        """So many customers with the problems of a part, each problem as often as any other; some are stubborn."""
        dice, problems = random.Random(f"{self.seed} {part}"), self.problems(part)
        return [
            Customer(problems[number % len(problems)], random.Random(dice.random()), dice.random() < 0.3)
            for number in range(count)
        ]

    def dialogues(self, part: str) -> Iterator[Said]:
        """Those of an expert with customers."""
        customers = self.customers(part, self.size if part == "train" else 4 * self.kept[part])
        for customer in customers:
            yield from converse([customer], Expert(customer))
