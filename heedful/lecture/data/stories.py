"""Stories with questions: where a thing is, as in deck 1, and which colour an animal has, which follows from
three facts.

The second kind is that of bAbI's basic induction (Weston et al. 2015): Brian is a lion, Julius is a lion, Julius is
white, so Brian is white too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, Final

SAM_STORY: Final = (
    "Sam walks into the kitchen.", "Sam picks up an apple.", "Sam walks into the bedroom.", "Sam drops the apple.",
)  # fmt: skip
SAM_QUESTION: Final = "Where is the apple?"
LION_STORY: Final = ("Brian is a lion.", "Julius is a lion.", "Julius is white.", "Bernhard is green.")
LION_QUESTION: Final = "What color is Brian?"

_PEOPLE: Final = ("Sam", "Jane", "Ada", "Ben")
_ROOMS: Final = ("kitchen", "bedroom", "garden", "hall", "cellar")
_THINGS: Final = ("an apple", "a ball", "a book", "a cup")
_NAMES: Final = ("Brian", "Julius", "Bernhard", "Lily", "Greg")
_SPECIES: Final = ("lion", "swan", "frog", "rhino")
_COLOURS: Final = ("white", "green", "gray", "yellow")
_SIZES: Final = {"test": 300, "validation": 300, "train": 5000}


def _sample_thing_story(dice: Random) -> dict[str, Any]:
    """Sample a story in which people walk, pick up things and drop them, and a question where a thing is. The facts
    that answer it are the last two that matter: who had it last, and where that person was.
    """
    facts: list[str] = []
    rooms: dict[str, tuple[str, int]] = {}
    holders: dict[str, str] = {}
    places: dict[str, tuple[str, list[int]]] = {}

    def walk(person: str) -> None:
        room = dice.choice([room for room in _ROOMS if room != rooms.get(person, ("",))[0]])
        rooms[person] = room, len(facts)
        facts.append(f"{person} walks into the {room}.")
        for thing, holder in holders.items():
            if holder == person:
                places[thing] = room, [places[thing][1][0], rooms[person][1]]

    people = dice.sample(_PEOPLE, dice.randint(1, 3))
    for person in people:
        walk(person)
    for _ in range(dice.randint(2, 7)):
        person = dice.choice(people)
        free = [thing for thing in _THINGS if thing not in holders and thing not in places]
        held = [thing for thing, holder in holders.items() if holder == person]
        move = dice.random()
        if move < 0.45 and free:
            thing = dice.choice(free)
            holders[thing] = person
            places[thing] = rooms[person][0], [len(facts), rooms[person][1]]
            facts.append(f"{person} picks up {thing}.")
        elif move < 0.6 and held:
            thing = dice.choice(held)
            del holders[thing]
            places[thing] = rooms[person][0], [len(facts), rooms[person][1]]
            facts.append(f"{person} drops the {thing.partition(' ')[2]}.")
        else:
            walk(person)
    if not places:
        return _sample_thing_story(dice)
    thing = dice.choice(sorted(places))
    answer, supporting = places[thing]
    question = f"Where is the {thing.partition(' ')[2]}?"
    return {"facts": facts, "question": question, "answer": answer, "supporting": supporting}


def _sample_colour_story(dice: Random) -> dict[str, Any]:
    """Sample a story about animals and their colours. The animal of the question has the colour of another animal of
    its species. Three facts answer it: the two species and the colour of the other animal.
    """
    species = dice.sample(_SPECIES, 2)
    colours = dict(zip(species, dice.sample(_COLOURS, 2), strict=True))
    names = dice.sample(_NAMES, dice.randint(3, 5))
    kinds = {name: dice.choice(species) for name in names}
    asked, other = names[0], names[1]
    kinds[other] = kinds[asked]
    facts = [(f"{name} is a {kinds[name]}.", name, "kind") for name in names]
    facts += [(f"{name} is {colours[kinds[name]]}.", name, "colour") for name in names if name != asked]
    dice.shuffle(facts)
    kept = [fact for fact in facts if fact[1] in (asked, other) or dice.random() < 0.8]
    index = {(name, kind): place for place, (_, name, kind) in enumerate(kept)}
    supporting = [index[asked, "kind"], index[other, "kind"], index[other, "colour"]]
    texts = [text for text, _, _ in kept]
    answer = colours[kinds[asked]]
    return {"facts": texts, "question": f"What color is {asked}?", "answer": answer, "supporting": supporting}


def _iter_files(seed: int, *, sample_story: Callable[[Random], dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the name and content of the files train.jsonl, validation.jsonl and test.jsonl. No story is in two of them,
    and those of the deck are in none.
    """
    dice, seen = Random(seed), {SAM_STORY, LION_STORY}
    for part, size in _SIZES.items():
        lines: list[str] = []
        while len(lines) < size:
            story = sample_story(dice)
            facts = tuple(story["facts"])
            if facts not in seen:
                seen.add(facts)
                lines.append(json.dumps(story) + "\n")
        yield f"{part}.jsonl", "".join(lines)


iter_thing_files = partial(_iter_files, sample_story=_sample_thing_story)
"""Files of stories about things (see `_iter_files`)."""
iter_colour_files = partial(_iter_files, sample_story=_sample_colour_story)
"""Files of stories about animals and their colours (see `_iter_files`)."""
