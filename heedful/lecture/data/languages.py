"""Two languages that are learned one after the other: English into French, then English into German, as letters.

The German sentences avoid letters that French does not have, so the second language needs no new vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from heedful.lecture.data.parallel import MONTHS, PLACES, VERBS

_PEOPLE: Final = ("Jane", "Paul", "Sam", "Anna")
_ENGLISH_PLACES: Final = ("Africa", "Asia", "China", "Japan", "Brazil", "Italy")
_GERMAN_PLACES: Final = ("Afrika", "Asien", "China", "Japan", "Brasilien", "Italien")
_ENGLISH_VERBS: Final = ("visits", "likes", "studies", "describes", "avoids")
_GERMAN_VERBS: Final = ("besucht", "mag", "studiert", "beschreibt", "meidet")
_ENGLISH_MONTHS: Final = ("January", "April", "May", "June", "August", "September", "October")
_GERMAN_MONTHS: Final = ("Januar", "April", "Mai", "Juni", "August", "September", "Oktober")
_SIZES: Final = {"test": 200, "validation": 100, "train": 400}
_REHEARSAL_STEP: Final = 8
"""Every sentence of this number of French training sentences is rehearsed: the first, the ninth and so on."""


def iter_language_files(seed: int) -> Iterator[tuple[str, str]]:
    """Yield the name and content of the files of both languages, such as french-train.tsv: the first letter of the
    language and English, a tab, and the translation. german-rehearsed-train.tsv also has some French sentences.
    """
    dice = Random(seed)
    facts = [
        (person, verb, place, month)
        for person in _PEOPLE
        for verb in range(len(_ENGLISH_VERBS))
        for place in range(len(_ENGLISH_PLACES))
        for month in range(len(_ENGLISH_MONTHS))
    ]
    dice.shuffle(facts)
    start, french_train = 0, list[str]()
    for part, size in _SIZES.items():
        chosen, start = facts[start : start + size], start + size
        french, german = [_build_french(*fact) for fact in chosen], [_build_german(*fact) for fact in chosen]
        if part == "train":
            french_train = french
            mixed = [*german, *french_train[::_REHEARSAL_STEP]]
            dice.shuffle(mixed)
            yield "german-rehearsed-train.tsv", "".join(mixed)
        yield f"french-{part}.tsv", "".join(french)
        yield f"german-{part}.tsv", "".join(german)


def _build_english(person: str, verb: int, place: int, month: int) -> str:
    """Return the English sentence of a fact."""
    return f"{person} {_ENGLISH_VERBS[verb]} {_ENGLISH_PLACES[place]} in {_ENGLISH_MONTHS[month]}"


def _build_french(person: str, verb: int, place: int, month: int) -> str:
    """Return a line with the English and the French sentence of a fact."""
    words = (VERBS[_ENGLISH_VERBS[verb]], PLACES[_ENGLISH_PLACES[place]], MONTHS[_ENGLISH_MONTHS[month]])
    return f"f {_build_english(person, verb, place, month)}\t{person} {words[0]} {words[1]} en {words[2]}\n"


def _build_german(person: str, verb: int, place: int, month: int) -> str:
    """Return a line with the English and the German sentence of a fact."""
    words = (_GERMAN_VERBS[verb], _GERMAN_PLACES[place], _GERMAN_MONTHS[month])
    return f"g {_build_english(person, verb, place, month)}\t{person} {words[0]} {words[1]} im {words[2]}\n"
