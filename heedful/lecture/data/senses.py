"""A small corpus in which a bank is the side of a river or a place for money, and firms and films are praised or
criticised.

Each document stays with its subject, so that a sentence tells whether another one may follow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

RIVER, MONEY = "river", "money"
RIVER_SENTENCE: Final = "I arrived at the bank after crossing the river"
"""The sentence of deck 1."""
MONEY_SENTENCE: Final = "I arrived at the bank after crossing the street"
"""The same sentence about the other bank."""
MASKED_SENTENCE: Final = "Amazon [MASK] amazing"
"""The sentence of deck 2."""

_WHO: Final = ("I", "we", "they", "Jane", "Sam", "Brian", "Julius")
_SLOTS: Final[dict[str, Sequence[str]]] = {
    "who": _WHO,
    "water": ("river", "stream", "water", "lake"),
    "craft": ("boat", "canoe", "raft"),
    "walk": ("walked", "arrived", "rested", "waited", "sat"),
    "nature": ("muddy", "green", "steep", "wet", "flat"),
    "animal": ("heron", "beaver", "frog", "duck"),
    "town": ("street", "square", "road", "market"),
    "paper": ("cheque", "loan", "account", "deposit"),
    "deal": ("opened", "closed", "signed", "paid"),
    "clerk": ("clerk", "manager", "cashier", "director"),
    "trade": ("closed", "open", "busy", "rich", "safe"),
    "firm": ("Amazon", "Google", "Siemens", "Toyota", "Nokia"),
    "film": ("film", "book", "song", "play", "story"),
    "good": ("amazing", "great", "wonderful", "excellent", "brilliant"),
    "bad": ("terrible", "boring", "awful", "poor", "weak"),
    "time": ("today", "yesterday", "again", "in May", "at noon"),
}
_SENTENCES: Final[dict[str, Sequence[str]]] = {
    RIVER: (
        "{who} {walk} at the bank after crossing the {water}",
        "{who} {walk} on the bank of the {water} {time}",
        "the bank of the {water} was {nature}",
        "a {animal} {walk} on the {nature} bank",
        "the {craft} lay at the bank near the {water}",
        "{who} pulled the {craft} out of the {water} to the bank",
        "the {water} was deep and the bank was {nature}",
    ),
    MONEY: (
        "{who} {walk} at the bank after crossing the {town}",
        "{who} {deal} the {paper} at the bank {time}",
        "the bank in the {town} was {trade}",
        "the {clerk} of the bank {deal} the {paper}",
        "the bank was {trade} and the {clerk} was busy",
        "{who} asked the bank for a {paper} {time}",
        "the {paper} lay at the bank near the {town}",
    ),
    "good": (
        "{firm} is {good}",
        "the {film} is {good}",
        "{who} liked the {film} {time}",
        "the {film} was {good} and the end was {good}",
        "{who} said that {firm} is {good}",
    ),
    "bad": (
        "{firm} is {bad}",
        "the {film} is {bad}",
        "{who} left the {film} {time}",
        "the {film} was {bad} and the end was {bad}",
        "{who} said that {firm} is {bad}",
    ),
}
_DOCUMENT_LENGTH: Final = (4, 8)
_SIZES: Final = {"validation": 120, "train": 1500}


def iter_sense_files(seed: int) -> Iterator[tuple[str, str]]:
    """Yield the name and content of the files train.txt and validation.txt: documents of some sentences about one
    subject, with empty lines between them.
    """
    dice = Random(seed)
    for part, size in _SIZES.items():
        yield f"{part}.txt", "\n".join(_sample_document(dice) for _ in range(size))


def iter_review_files(seed: int, *, size: int) -> Iterator[tuple[str, str]]:
    """Yield the name and content of the files train.tsv, validation.tsv and test.tsv: a class, good or bad, a tab, and
    a sentence, below the names of the columns; `size` is the number of sentences for training.
    """
    dice, seen = Random(seed), set[str]()
    for part, count in {"test": 200, "validation": 100, "train": size}.items():
        lines = ["label\ttext\n"]
        while len(lines) <= count:
            label = dice.choice(("good", "bad"))
            sentence = sample_sentence(label, dice)
            if sentence not in seen:
                seen.add(sentence)
                lines.append(f"{label}\t{sentence}\n")
        yield f"{part}.tsv", "".join(lines)


def sample_sentence(subject: str, dice: Random) -> str:
    """Sample a sentence about a subject: river, money, good or bad."""
    template = dice.choice(_SENTENCES[subject])
    while "{" in template:
        start, end = template.index("{"), template.index("}")
        template = template[:start] + dice.choice(_SLOTS[template[start + 1 : end]]) + template[end + 1 :]
    return template


def _sample_document(dice: Random) -> str:
    """Sample a document of one subject, a sentence on each line."""
    subject = dice.choice(list(_SENTENCES))
    return "".join(f"{sample_sentence(subject, dice)}.\n" for _ in range(dice.randint(*_DOCUMENT_LENGTH)))
