"""Passages of a few facts: English questions whose answers are spans, and French sentences that find the passage with
the same fact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from heedful.lecture.data.parallel import MONTHS, PEOPLE, PLACES, VERBS, sample_paper

_SPAN_FACTS: Final = 3
"""Facts of a passage that a question is asked about."""
_SEARCH_FACTS: Final = 4
"""Facts of a passage that is searched."""
_SIZES: Final = {"test": 300, "validation": 200, "train": 5000}
INDEX_FILE: Final = "passages.tsv"
"""File of the passages that are searched: number and text."""
QUESTION_FILE: Final = "questions.jsonl"
"""File of French sentences with the numbers of the passages that contain the same fact."""


@dataclass(frozen=True)
class Fact:
    """A fact in English, its French translation, and a question whose answer is a part of it.

    Attributes:
        english: the sentence, without a full stop.
        french: its translation.
        question: an English question.
        answer: the part of the English sentence that answers it.
    """

    english: str
    french: str
    question: str
    answer: str


def sample_fact(dice: Random) -> Fact:
    """Sample a fact about a journey or about a paper."""
    if dice.random() < 0.5:
        person, verb, place, month = (dice.choice(list(words)) for words in (PEOPLE, VERBS, PLACES, MONTHS))
        english = f"{person} {verb} {place} in {month}"
        french = f"{person} {VERBS[verb]} {PLACES[place]} en {MONTHS[month]}"
        return Fact(english, french, f"who {verb} {place} in {month} ?", person)
    english, french = sample_paper(dice)
    paper, _, date = english.partition(" in ")
    subject, _, deed = paper.partition(" was ")
    if dice.random() < 0.5:
        return Fact(english, french, f"when was {subject} {deed} ?", date)
    return Fact(english, french, f"what was {deed} in {date} ?", subject)


def _sample_facts(dice: Random, count: int) -> list[Fact]:
    """Sample `count` facts whose questions have one answer: no two have the same question."""
    facts: dict[str, Fact] = {}
    while len(facts) < count:
        fact = sample_fact(dice)
        facts.setdefault(fact.question, fact)
    return list(facts.values())


def join_facts(facts: list[Fact]) -> str:
    """Return the passage of some facts."""
    return " ".join(f"{fact.english} ." for fact in facts)


def iter_span_files(seed: int) -> Iterator[tuple[str, str]]:
    """Yield the name and content of the files train.json, validation.json and test.json, in the format of SQuAD."""
    dice = Random(seed)
    for part, size in _SIZES.items():
        drawn = (_sample_facts(dice, _SPAN_FACTS) for _ in range(size))
        paragraphs = [_build_paragraph(facts, dice, f"{part}{number}") for number, facts in enumerate(drawn)]
        yield f"{part}.json", json.dumps({"version": "1.1", "data": [{"title": part, "paragraphs": paragraphs}]})


def _build_paragraph(facts: list[Fact], dice: Random, name: str) -> dict[str, Any]:
    """Build a paragraph of SQuAD with one question."""
    fact, passage = dice.choice(facts), join_facts(facts)
    start = passage.index(fact.english) + fact.english.index(fact.answer)
    answers = [{"text": fact.answer, "answer_start": start}]
    return {"context": passage, "qas": [{"id": name, "question": fact.question, "answers": answers}]}


def iter_search_files(seed: int) -> Iterator[tuple[str, str]]:
    """Yield the name and content of the files train.tsv, validation.tsv and test.tsv: a French fact, a tab, and the
    English passage that contains it; and of the passages of the test with their queries, for `heedful index`.
    """
    dice = Random(seed)
    for part, size in _SIZES.items():
        drawn = [_sample_facts(dice, _SEARCH_FACTS) for _ in range(size)]
        queries = [dice.choice(facts).french for facts in drawn]
        passages = [join_facts(facts) for facts in drawn]
        pairs = zip(queries, passages, strict=True)
        yield f"{part}.tsv", "".join(f"{query}\t{passage}\n" for query, passage in pairs)
        if part == "test":
            yield INDEX_FILE, "".join(f"{number}\t{passage}\n" for number, passage in enumerate(passages))
            judged = ({"question": text, "passages": [str(number)]} for number, text in enumerate(queries))
            yield QUESTION_FILE, "".join(json.dumps(each) + "\n" for each in judged)
