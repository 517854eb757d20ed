"""`heedful quickstart stories`: train a memory network to answer where people and things are.

In the generated stories people go to rooms, take things and give them to each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from heedful.errors import RecipeError
from heedful.tasks.demonstration import Demonstration, format_correction, print_now, write_viewer

if TYPE_CHECKING:
    from heedful.tasks.stories.predictor import StoryPredictor

PEOPLE: Final = ("Ada", "Ben", "Cleo", "Dan")
ROOMS: Final = ("attic", "cellar", "garden", "hall", "kitchen", "library")
THINGS: Final = ("book", "coin", "key", "lamp")
MOVE_VERBS: Final = ("went to", "walked to", "ran back to")
TAKE_VERBS: Final = ("took", "picked up", "found")
MIN_FACTS, MAX_FACTS = 3, 8
"""Facts of a story, besides those that put everybody somewhere."""
_RECIPE = """\
# Written by: heedful quickstart stories. Go on with it: heedful train {recipe} --training.steps {more}

task = "stories"
seed = {seed}
output = {run}

[data]
train = {{ path = "train.jsonl" }}
validation = {{ path = "validation.jsonl" }}
test = {{ path = "test.jsonl" }}
memory = 20

[model]
d_model = 32
hops = 2

[training]
steps = {steps}
schedule = {{ kind = "cosine", rate = 5e-3, warmup = 0 }}
optimizer = {{ beta2 = 0.999, epsilon = 1e-8 }}
clip = 1.0
linear_start = 5
noise = 0.1
precision = "fp32"
evaluate_every = 1000
"""
_HELD_OUT: Final = 500


@final
@dataclass(frozen=True, kw_only=True)
class StoriesDemonstration(Demonstration):
    """Train a memory network on generated stories, and show which facts it attends to.

    Nothing is downloaded: in the stories people go to rooms, take things and give them to each other.
    """

    recipe_template: ClassVar = _RECIPE

    output: Path = Path("runs/quickstart-stories")
    """folder for the stories, the recipe and the run"""
    steps: int = 5000
    """number of updates; about a minute on one core"""
    size: int = 6000
    """number of training questions"""

    @cached_property
    def parts(self) -> dict[str, list[GeneratedQuestion]]:
        """Generated questions of each part of the data; no two have the same story."""
        if self.size < 1 or self.steps < 1:
            raise RecipeError(f"--size {self.size} --steps {self.steps}: both must be at least 1")
        generated = list(generate_questions(seed=self.seed, size=self.size + 2 * _HELD_OUT))
        return {
            "test": generated[:_HELD_OUT],
            "validation": generated[_HELD_OUT : 2 * _HELD_OUT],
            "train": generated[2 * _HELD_OUT :],
        }

    def iter_files(self) -> Iterator[tuple[str, str | bytes]]:
        """Yield the name and content of each file: the questions of each part as JSON lines, and one story as text."""
        for name, part in self.parts.items():
            yield f"{name}.jsonl", "".join(f"{json.dumps(generated.to_json())}\n" for generated in part)
        story = _select_two_fact_questions(self.parts["test"])[0]
        yield "story.txt", "".join(f"{fact}\n" for fact in story.facts)

    def recipe_fields(self) -> Mapping[str, object]:
        """Return the number of steps to go on with, to fill into the recipe."""
        return {"more": 2 * self.steps}

    def print_data(self) -> None:
        """Print a story and its question."""
        example = self.parts["train"][0]
        print_now(f"{len(self.parts['train']):,} questions such as")
        print_now("".join(f"  {fact}\n" for fact in example.facts) + f"  {example.question} {example.answer}\n")

    def show_results(self, predictor: StoryPredictor, run_folder: Path) -> None:
        """Print the predictor's scores and some of its answers with the attended facts, and write a page of one story
        beside the run folder.
        """
        test = self.parts["test"]
        answers = predictor.answer([(generated.facts, generated.question) for generated in test])
        print_now(f"\n{len(test)} questions about stories that were never in the training text:")
        for task in dict.fromkeys(generated.task for generated in test):
            of_task = [pair for pair in zip(test, answers, strict=True) if pair[0].task == task]
            accuracy = fmean(generated.answer == prediction.answer for generated, prediction in of_task)
            facts = fmean(set(generated.supporting) <= set(prediction.looked) for generated, prediction in of_task)
            print_now(f"  {task:<18} {accuracy:6.1%} right, looked at all facts that answer it {facts:6.1%}")
        for generated in _select_two_fact_questions(test)[:2]:
            prediction = predictor.ask(generated.facts, generated.question)
            print_now()
            for number, fact in enumerate(generated.facts, 1):
                print_now(f"  {number:2} {fact}")
            looked = ", then ".join(str(index + 1) for index in prediction.looked)
            print_now(
                f"  {generated.question} {prediction.answer} ({prediction.probability:.2f}); looked at "
                f"{looked}{format_correction(prediction.answer, generated.answer)}"
            )
        shown, page = _select_two_fact_questions(test)[0], run_folder.parent / "looked.html"
        write_viewer(predictor.inspect(shown.facts, shown.question, supporting=shown.supporting), page)
        print_now()
        ask = ("ask", run_folder, run_folder.parent / "story.txt", shown.question)
        self.print_next_steps("what it looked at", page, ask, ("evaluate", run_folder))
        print_now("  heedful recipes    has those of bAbI's twenty tasks")


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
        """Generate a random story, in which people move between rooms, take things and give them to others."""
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
        room = rng.choice([room for room in ROOMS if room != self.rooms.get(person, ("",))[0]])
        self.add_fact(f"{person} {rng.choice(MOVE_VERBS)} the {room}.")
        self.rooms[person] = (room, len(self.facts) - 1)

    def add_fact(self, fact: str) -> None:
        self.facts.append(fact)

    def ask_person_room(self, rng: Random) -> GeneratedQuestion:
        """Ask where a random person is, and return the question."""
        person = rng.choice(PEOPLE)
        room, fact = self.rooms[person]
        return GeneratedQuestion(tuple(self.facts), f"Where is {person}?", room, (fact,), "where is somebody")

    def ask_thing_holder(self, rng: Random) -> GeneratedQuestion | None:
        """Ask who has a random thing, and return the question; None if nobody has a thing."""
        if not self.holders:
            return None
        thing = rng.choice(sorted(self.holders))
        person, fact = self.holders[thing]
        return GeneratedQuestion(tuple(self.facts), f"Who has the {thing}?", person, (fact,), "who has a thing")

    def ask_thing_room(self, rng: Random) -> GeneratedQuestion | None:
        """Ask where a random thing is, which two facts answer, and return the question; None if nobody has a thing."""
        if not self.holders:
            return None
        thing = rng.choice(sorted(self.holders))
        person, holder_fact = self.holders[thing]
        room, room_fact = self.rooms[person]
        return GeneratedQuestion(
            tuple(self.facts), f"Where is the {thing}?", room, (holder_fact, room_fact), "where is a thing"
        )


def _select_two_fact_questions(questions: Sequence[GeneratedQuestion]) -> list[GeneratedQuestion]:
    return [generated for generated in questions if len(generated.supporting) > 1]
