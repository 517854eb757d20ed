"""What faces ask of searches, as data: what is asked alike is equal, so that it may stand together."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.generation import Hypothesis
from heedful.generation.search import BeamSearch, GreedySearch
from heedful.tasks import batch_executor
from heedful.tasks.batch_executor import BatchJob, SearchCall, stream_one, use_executor
from heedful.tasks.search_factory import build_search


class Listening:
    """Company that answers what is asked by itself, and keeps it."""

    def __init__(self) -> None:
        self.asked: list[BatchJob[Any, Any]] = []

    def run_job(self, job: BatchJob[Any, Any]) -> list[Any]:
        self.asked.append(job)
        return list(job.answer_batch(list(job.examples)))

    def stream_example(self, search_call: SearchCall[Any], example: Any) -> Iterator[Any]:
        raise NotImplementedError


@pytest.fixture
def translator(trained: Path, unchecked: None) -> heedful.Translator:
    return heedful.load(trained, kind=heedful.Translator, device="cpu")


def asked(translator: heedful.Translator, **given: Any) -> SearchCall[Any]:
    company = Listening()
    with use_executor(company):
        translator.translate(["1 2"], **given)
    say = company.asked[0].answer_batch
    assert isinstance(say, SearchCall)
    return say


def test_translators_of_two_languages_ask_alike(translator: heedful.Translator) -> None:
    """`towards` gives copies whose sources have other tags; what is found for them is found in one way."""
    other = copy(translator)
    assert asked(translator) == asked(other)
    assert hash(asked(translator)) == hash(asked(other))


def test_what_is_asked_otherwise_is_not_equal(translator: heedful.Translator) -> None:
    greedy = GreedySearch(translator.target.special.eos)
    assert asked(translator) != asked(translator, search=greedy)
    again = build_search(translator.generation, translator.target)
    assert asked(translator) == asked(translator, search=again), "a search is what it says"


def test_a_thread_without_company_answers_itself(translator: heedful.Translator) -> None:
    company = Listening()
    with use_executor(company):
        together = translator.translate(["1 2", "3"])
    assert batch_executor.current_executor() is None
    alone = translator.translate(["1 2", "3"])
    assert [each.text for each in together] == [each.text for each in alone]
    assert len(company.asked) == 1


def test_a_text_is_heard_as_it_grows(translator: heedful.Translator) -> None:
    heard: list[tuple[int, str]] = []
    found = translator.translate(["1 2 3", "4"], heard=lambda place, text: heard.append((place, text.text)))
    assert [each.text for each in found] == [each.text for each in translator.translate(["1 2 3", "4"])]
    assert {place for place, _ in heard} == {0, 1}


def test_a_beam_grows_and_tells_what_was_found(translator: heedful.Translator) -> None:
    beam = BeamSearch(translator.target.special.eos, 3, translator.search.length_penalty)
    finder = asked(translator, search=beam)
    company = Listening()
    with use_executor(company):
        (expected,) = translator.translate(["1 2 3 4"], search=beam)
    *texts, last = stream_one(finder, company.asked[0].examples[0])
    assert isinstance(last, Hypothesis)
    assert last.ids == expected.candidates[0].ids
    assert all(not isinstance(text, Hypothesis) for text in texts)
    assert [len(text) for text in texts] == sorted(len(text) for text in texts)
