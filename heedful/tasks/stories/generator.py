"""Generated stories: people go to rooms, take things and give them to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Final

PEOPLE: Final = ("Ada", "Ben", "Cleo", "Dan")
ROOMS: Final = ("attic", "cellar", "garden", "hall", "kitchen", "library")
THINGS: Final = ("book", "coin", "key", "lamp")
MOVE_VERBS: Final = ("went to", "walked to", "ran back to")
TAKE_VERBS: Final = ("took", "picked up", "found")
MIN_FACTS, MAX_FACTS = 3, 8
"""Facts of a story, besides those that put everybody somewhere."""


@dataclass(frozen=True)
class GeneratedQuestion:
    """A question about a generated story, with the indices of the facts that answer it, from 0."""

    facts: tuple[str, ...]
    question: str
    answer: str
    supporting: tuple[int, ...]
    task: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


def generate_questions(*, seed: int, size: int) -> Iterator[GeneratedQuestion]:
    """Generate `size` questions, each about a story of its own; no two stories have the same facts.

    A third asks where a person is, and a third who has a thing, which one fact answers; a third asks where a thing is,
    which needs two facts: who has it, and where that person is.
    """
    rng, seen_stories = Random(seed), set[tuple[str, ...]]()
    question_makers: tuple[Callable[[_StoryWorld, Random], GeneratedQuestion | None], ...] = (
        _StoryWorld.ask_person_room,
        _StoryWorld.ask_thing_holder,
        _StoryWorld.ask_thing_room,
    )
    while len(seen_stories) < size:
        world = _StoryWorld.generate(rng)
        facts = tuple(world.facts)
        question = question_makers[len(seen_stories) % len(question_makers)](world, rng)
        if question is not None and facts not in seen_stories:
            seen_stories.add(facts)
            yield question


class _StoryWorld:
    """State of a story: facts, each person's room and each thing's holder, with the index of the fact that says so."""

    def __init__(self) -> None:
        self.facts: list[str] = []
        self.rooms: dict[str, tuple[str, int]] = {}
        self.holders: dict[str, tuple[str, int]] = {}

    @classmethod
    def generate(cls, rng: Random) -> _StoryWorld:
        """Generate a story in which every person is in some room."""
        world = cls()
        for person in rng.sample(PEOPLE, len(PEOPLE)):
            world.move_person(person, rng)
        for _ in range(rng.randint(MIN_FACTS, MAX_FACTS)):
            person, thing = rng.choice(PEOPLE), rng.choice(THINGS)
            if rng.random() < 0.5:
                world.move_person(person, rng)
            elif thing not in world.holders:
                world.add_fact(f"{person} {rng.choice(TAKE_VERBS)} the {thing}.")
                world.holders[thing] = (person, len(world.facts) - 1)
            elif (giver := world.holders[thing][0]) != person:
                world.add_fact(f"{giver} gave the {thing} to {person}.")
                world.holders[thing] = (person, len(world.facts) - 1)
        return world

    def move_person(self, person: str, rng: Random) -> None:
        """Move a person to another room."""
        room = rng.choice([room for room in ROOMS if room != self.rooms.get(person, ("",))[0]])
        self.add_fact(f"{person} {rng.choice(MOVE_VERBS)} the {room}.")
        self.rooms[person] = (room, len(self.facts) - 1)

    def add_fact(self, fact: str) -> None:
        """Append a fact."""
        self.facts.append(fact)

    def ask_person_room(self, rng: Random) -> GeneratedQuestion:
        """Return the question where a random person is."""
        person = rng.choice(PEOPLE)
        room, fact = self.rooms[person]
        return GeneratedQuestion(tuple(self.facts), f"Where is {person}?", room, (fact,), "where is somebody")

    def ask_thing_holder(self, rng: Random) -> GeneratedQuestion | None:
        """Return the question who has a random thing, or None if no person holds one."""
        if not self.holders:
            return None
        thing = rng.choice(sorted(self.holders))
        person, fact = self.holders[thing]
        return GeneratedQuestion(tuple(self.facts), f"Who has the {thing}?", person, (fact,), "who has a thing")

    def ask_thing_room(self, rng: Random) -> GeneratedQuestion | None:
        """Return the question where a random thing is, or None if no person holds one."""
        if not self.holders:
            return None
        thing = rng.choice(sorted(self.holders))
        person, holder_fact = self.holders[thing]
        room, room_fact = self.rooms[person]
        return GeneratedQuestion(
            tuple(self.facts), f"Where is the {thing}?", room, (holder_fact, room_fact), "where is a thing"
        )
