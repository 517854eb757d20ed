"""Sentences in which "it" is an animal that is tired or a street that is wide (deck 2, after Winograd 1972).

Each word is labelled with the word that it stands for: "it" with an animal or a place, all others with themselves. So a
model must find the noun, and it cannot know it by heart, because the pairs of nouns of the test do not occur in the
training text.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Final

ANIMALS: Final = (
    "animal", "dog", "cat", "horse", "lion", "fox", "monkey", "wolf", "cow", "goat", "turtle", "mouse", "hen", "frog",
)  # fmt: skip
PLACES: Final = (
    "street", "road", "river", "forest", "beach", "square", "bridge", "field", "garden", "park", "path", "lake",
)  # fmt: skip
ANIMAL_STATES: Final = ("tired", "hungry", "scared", "sick", "lazy", "nervous", "weak")
PLACE_STATES: Final = ("wide", "busy", "narrow", "long", "dark", "wet", "crowded")
_VERBS: Final = ("cross", "leave", "like", "visit", "find")
_DEGREES: Final = ("too", "very", "so")
_REASONS: Final = ("because", "since", "as")
_LOOKS: Final = ("", "", "old", "big", "small", "brown")
_TIMES: Final = ("", "", "yesterday", "this morning", "on Monday", "last week")
_MANNERS: Final = ("", "", "", "again", "alone")
_NUM_HELD_OUT: Final = 40
_SIZES: Final = {"train": 6000, "validation": 200, "test": 400}


def split_pairs(seed: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Split the pairs of an animal and a place into those of the training text and those that are held out, among which
    are the animal and the street of the deck.
    """
    pairs = list(product(ANIMALS, PLACES))
    own_pair = pairs.pop(0)
    Random(seed).shuffle(pairs)
    held_out = [own_pair, *pairs[: _NUM_HELD_OUT - 1]]
    return pairs[_NUM_HELD_OUT - 1 :], held_out


def iter_coreference_files(seed: int) -> Iterator[tuple[str, str]]:
    """Yield the name and content of the files train.tsv, validation.tsv and test.tsv, with a word and its label on each
    line. The test has the pairs that are held out.
    """
    dice = Random(seed)
    known, held_out = split_pairs(seed)
    for part, size in _SIZES.items():
        sentences = [_sample_sentence(dice, held_out if part == "test" else known) for _ in range(size)]
        yield f"{part}.tsv", "\n".join(sentences)


def build_sentence(animal: str, place: str, state: str) -> str:
    """Return a sentence like that of the deck: "the animal didn't cross the street because it was too tired"."""
    return f"the {animal} didn't cross the {place} because it was too {state}"


def _sample_sentence(dice: Random, pairs: list[tuple[str, str]]) -> str:
    """Sample a sentence about one of the pairs, with a word and its label on each line."""
    animal, place = dice.choice(pairs)
    meant, states = dice.choice(((animal, ANIMAL_STATES), (place, PLACE_STATES)))
    parts = (
        dice.choice(_TIMES), "the", dice.choice(_LOOKS), animal, "didn't", dice.choice(_VERBS), "the",
        dice.choice(_LOOKS), place, dice.choice(_MANNERS), dice.choice(_REASONS), "it was", dice.choice(_DEGREES),
        dice.choice(states),
    )  # fmt: skip
    words = " ".join(parts).split()
    return "".join(f"{word}\t{meant if word == 'it' else word}\n" for word in words)
