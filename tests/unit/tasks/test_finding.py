"""What faces ask of searches, as data: what is asked alike is equal, so that it may stand together."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.generation import Hypothesis
from heedful.generation.search import Beam, Greedy
from heedful.tasks import finding
from heedful.tasks.finding import Finder, Questions, grown, in_company
from heedful.tasks.searches import build_search


class Listening:
    """Company that answers what is asked by itself, and keeps it."""

    def __init__(self) -> None:
        self.asked: list[Questions[Any, Any]] = []

    def answers(self, questions: Questions[Any, Any]) -> list[Any]:
        self.asked.append(questions)
        return list(questions.say(list(questions.examples)))

    def grown(self, finder: Finder[Any], example: Any) -> Iterator[Any]:
        raise NotImplementedError


@pytest.fixture
def translator(trained: Path, unchecked: None) -> heedful.Translator:
    return heedful.load(trained, kind=heedful.Translator, device="cpu")


def asked(translator: heedful.Translator, **given: Any) -> Finder[Any]:
    company = Listening()
    with in_company(company):
        translator.translate(["1 2"], **given)
    say = company.asked[0].say
    assert isinstance(say, Finder)
    return say


def test_translators_of_two_languages_ask_alike(translator: heedful.Translator) -> None:
    """`towards` gives copies whose sources have other tags; what is found for them is found in one way."""
    other = copy(translator)
    assert asked(translator) == asked(other)
    assert hash(asked(translator)) == hash(asked(other))


def test_what_is_asked_otherwise_is_not_equal(translator: heedful.Translator) -> None:
    greedy = Greedy(translator.target.special.eos)
    assert asked(translator) != asked(translator, search=greedy)
    again = build_search(translator.generation, translator.target)
    assert asked(translator) == asked(translator, search=again), "a search is what it says"


def test_a_thread_without_company_answers_itself(translator: heedful.Translator) -> None:
    company = Listening()
    with in_company(company):
        together = translator.translate(["1 2", "3"])
    assert finding.company() is None
    alone = translator.translate(["1 2", "3"])
    assert [each.text for each in together] == [each.text for each in alone]
    assert len(company.asked) == 1


def test_a_text_is_heard_as_it_grows(translator: heedful.Translator) -> None:
    heard: list[tuple[int, str]] = []
    found = translator.translate(["1 2 3", "4"], heard=lambda place, text: heard.append((place, text.text)))
    assert [each.text for each in found] == [each.text for each in translator.translate(["1 2 3", "4"])]
    assert {place for place, _ in heard} == {0, 1}


def test_a_beam_grows_and_tells_what_was_found(translator: heedful.Translator) -> None:
    beam = Beam(translator.target.special.eos, 3, translator.search.length_penalty)
    finder = asked(translator, search=beam)
    company = Listening()
    with in_company(company):
        (expected,) = translator.translate(["1 2 3 4"], search=beam)
    *texts, last = grown(finder, company.asked[0].examples[0])
    assert isinstance(last, Hypothesis)
    assert last.ids == expected.candidates[0].ids
    assert all(not isinstance(text, Hypothesis) for text in texts)
    assert [len(text) for text in texts] == sorted(len(text) for text in texts)
