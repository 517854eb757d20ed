"""Made-up stories: people who go to rooms, take things and give them to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Final

PEOPLE: Final = ("Ada", "Ben", "Cleo", "Dan")
ROOMS: Final = ("attic", "cellar", "garden", "hall", "kitchen", "library")
THINGS: Final = ("book", "coin", "key", "lamp")
GOES: Final = ("went to", "walked to", "ran back to")
TAKES: Final = ("took", "picked up", "found")
SHORTEST, LONGEST = 3, 8
"""Facts of a story, besides those that put everybody somewhere."""


@dataclass(frozen=True)
class Made:
    """A question about a made-up story, with the numbers of the facts that answer it, from 0."""

    facts: tuple[str, ...]
    question: str
    answer: str
    supporting: tuple[int, ...]
    task: str

    def record(self) -> dict[str, Any]:
        """As a line of JSON has it."""
        return asdict(self)


def stories(*, seed: int, size: int) -> Iterator[Made]:
    """Questions, `size` of them, each about a story of its own: no two stories have the same facts.

    A third asks where somebody is and a third who has a thing, which one fact answers; a third asks where a thing is,
    which takes two: who has it, and where that one is.
    """
    random, seen = Random(seed), set[tuple[str, ...]]()
    asking: tuple[Callable[[_World, Random], Made | None], ...] = (_World.person, _World.holder, _World.thing)
    while len(seen) < size:
        world = _World.told(random)
        facts = tuple(world.facts)
        made = asking[len(seen) % len(asking)](world, random)
        if made is not None and facts not in seen:
            seen.add(facts)
            yield made


class _World:
    """What is told, and the number of the fact that says where each is, and who has what."""

    def __init__(self) -> None:
        self.facts: list[str] = []
        self.rooms: dict[str, tuple[str, int]] = {}
        self.holders: dict[str, tuple[str, int]] = {}

    @classmethod
    def told(cls, random: Random) -> _World:
        """A story in which everybody is somewhere."""
        world = cls()
        for person in random.sample(PEOPLE, len(PEOPLE)):
            world.go(person, random)
        for _ in range(random.randint(SHORTEST, LONGEST)):
            person, thing = random.choice(PEOPLE), random.choice(THINGS)
            if random.random() < 0.5:
                world.go(person, random)
            elif thing not in world.holders:
                world.tell(f"{person} {random.choice(TAKES)} the {thing}.")
                world.holders[thing] = (person, len(world.facts) - 1)
            elif (giver := world.holders[thing][0]) != person:
                world.tell(f"{giver} gave the {thing} to {person}.")
                world.holders[thing] = (person, len(world.facts) - 1)
        return world

    def go(self, person: str, random: Random) -> None:
        """Somebody goes to another room."""
        room = random.choice([room for room in ROOMS if room != self.rooms.get(person, ("",))[0]])
        self.tell(f"{person} {random.choice(GOES)} the {room}.")
        self.rooms[person] = (room, len(self.facts) - 1)

    def tell(self, fact: str) -> None:
        """One more."""
        self.facts.append(fact)

    def person(self, random: Random) -> Made:
        """Where somebody is."""
        person = random.choice(PEOPLE)
        room, fact = self.rooms[person]
        return Made(tuple(self.facts), f"Where is {person}?", room, (fact,), "where is somebody")

    def holder(self, random: Random) -> Made | None:
        """Who has a thing, if anybody has one."""
        if not self.holders:
            return None
        thing = random.choice(sorted(self.holders))
        person, fact = self.holders[thing]
        return Made(tuple(self.facts), f"Who has the {thing}?", person, (fact,), "who has a thing")

    def thing(self, random: Random) -> Made | None:
        """Where a thing is, if anybody has one."""
        if not self.holders:
            return None
        thing = random.choice(sorted(self.holders))
        person, held = self.holders[thing]
        room, gone = self.rooms[person]
        return Made(tuple(self.facts), f"Where is the {thing}?", room, (held, gone), "where is a thing")
