"""English sentences and their French translations. No file contains the sentences of the decks.

In French an adjective follows its noun, and agrees with it; several adjectives follow in the opposite order. So
"European Economic Area" is read from its end when "zone économique européenne" is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

VISIT: Final = ("Jane visits Africa in September", "Jane visite l'Afrique en septembre")
"""The sentence of decks 2 and 3."""
AREA: Final = (
    "the agreement on the European Economic Area was signed in August 1992",
    "l'accord sur la zone économique européenne a été signé en août 1992",
)
"""The sentence of deck 2."""

PEOPLE: Final = ("Jane", "Marie", "Paul", "Sam", "Brian", "Julius", "Anna", "Peter")
VERBS: Final = {
    "visits": "visite",
    "leaves": "quitte",
    "likes": "aime",
    "studies": "étudie",
    "describes": "décrit",
    "avoids": "évite",
}
PLACES: Final = {
    "Africa": "l'Afrique",
    "Europe": "l'Europe",
    "Asia": "l'Asie",
    "Canada": "le Canada",
    "Japan": "le Japon",
    "Brazil": "le Brésil",
    "France": "la France",
    "China": "la Chine",
    "Italy": "l'Italie",
    "Morocco": "le Maroc",
}
MONTHS: Final = {
    "January": "janvier",
    "March": "mars",
    "April": "avril",
    "May": "mai",
    "June": "juin",
    "August": "août",
    "September": "septembre",
    "October": "octobre",
}
_YEARS: Final = tuple(map(str, range(1986, 1998)))
_CONJUNCTIONS: Final = {"and": "et", "but": "mais", "while": "tandis que"}


@dataclass(frozen=True)
class _Noun:
    """A noun in both languages; `definite` is the French one with its article."""

    english: str
    definite: str
    is_feminine: bool


_PAPERS: Final = (
    _Noun("agreement", "l'accord", is_feminine=False),
    _Noun("treaty", "le traité", is_feminine=False),
    _Noun("report", "le rapport", is_feminine=False),
    _Noun("law", "la loi", is_feminine=True),
    _Noun("decision", "la décision", is_feminine=True),
    _Noun("declaration", "la déclaration", is_feminine=True),
)
_THINGS: Final = (
    _Noun("Area", "la zone", is_feminine=True),
    _Noun("Community", "la communauté", is_feminine=True),
    _Noun("Bank", "la banque", is_feminine=True),
    _Noun("Union", "l'union", is_feminine=True),
    _Noun("Market", "le marché", is_feminine=False),
    _Noun("Council", "le conseil", is_feminine=False),
    _Noun("Fund", "le fonds", is_feminine=False),
    _Noun("Programme", "le programme", is_feminine=False),
)
_ORIGINS: Final = {
    "European": ("européen", "européenne"),
    "African": ("africain", "africaine"),
    "American": ("américain", "américaine"),
    "Canadian": ("canadien", "canadienne"),
    "Asian": ("asiatique", "asiatique"),
    "International": ("international", "internationale"),
}
_FIELDS: Final = {
    "Economic": ("économique", "économique"),
    "Political": ("politique", "politique"),
    "Cultural": ("culturel", "culturelle"),
    "Social": ("social", "sociale"),
    "Financial": ("financier", "financière"),
    "Technical": ("technique", "technique"),
}
_PARTICIPLES: Final = {
    "signed": ("signé", "signée"),
    "written": ("écrit", "écrite"),
    "rejected": ("rejeté", "rejetée"),
    "published": ("publié", "publiée"),
}
_MAX_CLAUSES: Final = 5
_SIZES: Final = {"test": 600, "validation": 300, "train": 9000}


def iter_parallel_files(seed: int) -> Iterator[tuple[str, str]]:
    """Yield the name and content of the files train.tsv, validation.tsv and test.tsv: English, tab, French. Sources
    have one to five clauses, up to some sixty words. No source of the test or validation file is in the training file.
    No file contains the sentences of the decks, not even as clauses.
    """
    dice, seen = Random(seed), {VISIT[0], AREA[0]}
    for part, size in _SIZES.items():
        lines: list[str] = []
        while len(lines) < size:
            english, french, clauses = _sample_sentence(dice)
            if english in seen or not seen.isdisjoint(clauses & {VISIT[0], AREA[0]}):
                continue
            seen.add(english)
            lines.append(f"{english}\t{french}\n")
        yield f"{part}.tsv", "".join(lines)


def _sample_sentence(dice: Random) -> tuple[str, str, set[str]]:
    """Sample a sentence; return its English and French text and its English clauses."""
    count = dice.randint(1, _MAX_CLAUSES)
    english, french, clauses = "", "", set()
    for index in range(count):
        clause = dice.choice((_sample_visit, sample_paper, _sample_statement))(dice)
        clauses.add(clause[0])
        if index:
            joint = dice.choice(list(_CONJUNCTIONS))
            english, french = f"{english} {joint} {clause[0]}", f"{french} {_CONJUNCTIONS[joint]} {clause[1]}"
        else:
            english, french = clause
    return english, french, clauses


def _sample_visit(dice: Random) -> tuple[str, str]:
    """Sample a clause such as "Jane visits Africa in September"."""
    person, verb, place, month = (dice.choice(list(words)) for words in (PEOPLE, VERBS, PLACES, MONTHS))
    return f"{person} {verb} {place} in {month}", f"{person} {VERBS[verb]} {PLACES[place]} en {MONTHS[month]}"


def sample_paper(dice: Random) -> tuple[str, str]:
    """Sample a clause such as "the agreement on the European Economic Area was signed in August 1992"."""
    paper, deed = dice.choice(_PAPERS), dice.choice(list(_PARTICIPLES))
    month, year = dice.choice(list(MONTHS)), dice.choice(_YEARS)
    english, french = _sample_thing(dice)
    return (
        f"the {paper.english} on the {english} was {deed} in {month} {year}",
        f"{paper.definite} sur {french} a été {_PARTICIPLES[deed][paper.is_feminine]} en {MONTHS[month]} {year}",
    )


def _sample_statement(dice: Random) -> tuple[str, str]:
    """Sample a clause such as "Paul likes the Cultural Union"."""
    person, verb = dice.choice(PEOPLE), dice.choice(list(VERBS))
    english, french = _sample_thing(dice)
    return f"{person} {verb} the {english}", f"{person} {VERBS[verb]} {french}"


def _sample_thing(dice: Random) -> tuple[str, str]:
    """Sample a noun with one adjective or two, such as "European Economic Area", and its French with the article."""
    thing, origin, field = dice.choice(_THINGS), dice.choice(list(_ORIGINS)), dice.choice(list(_FIELDS))
    gender = int(thing.is_feminine)
    match dice.randrange(3):
        case 0:
            return f"{origin} {thing.english}", f"{thing.definite} {_ORIGINS[origin][gender]}"
        case 1:
            return f"{field} {thing.english}", f"{thing.definite} {_FIELDS[field][gender]}"
        case _:
            french = f"{thing.definite} {_FIELDS[field][gender]} {_ORIGINS[origin][gender]}"
            return f"{origin} {field} {thing.english}", french
