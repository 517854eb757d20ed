"""What a language model expected at each place of a document, and writing that is told to end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from untrained_runs import create_language_model_run

import heedful
from heedful.generation import MultinomialSampler, SuppressTokens
from heedful.generation.search import SamplingSearch
from heedful.tasks.language import token_predictions as reading
from heedful.tasks.language.predictor import TextGenerator

TEXTS = ["the cat sat on a mat", "a dog sat there"]
LONG = "the dog sat on the cat there"


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """The laws of decoders check what is called here."""


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> TextGenerator:
    """With a context of 16 tokens, fewer than the longest document here has."""
    torch.manual_seed(1)
    return heedful.load(
        create_language_model_run(tmp_path_factory.mktemp("writes"), TEXTS), kind=TextGenerator, device="cpu"
    )


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> TextGenerator:
    """Whose positions have no end, and matter."""
    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("endless")
    found = heedful.load(
        create_language_model_run(folder, TEXTS, positions={"kind": "rotary"}), kind=TextGenerator, device="cpu"
    )
    return TextGenerator(found.model, tokenizer=found.tokenizer, search=found.search, limit=found.limit)


def test_places_add_up_to_what_a_text_costs(writer: TextGenerator, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, LONG, "a"]
    documents = [writer.tokenizer.encode(text) for text in texts]
    whole = writer.predict_tokens(documents, top_k=3)
    assert writer.max_context == 16 < len(documents[2])
    for places, surprise in zip(whole, writer.surprise(texts), strict=True):
        each = [place.log_probability for place in places]
        assert each == pytest.approx(surprise.token_log_probabilities, abs=1e-4)
    monkeypatch.setattr(reading, "_MAX_STEP_TOKENS", 5)
    for places, again in zip(whole, writer.predict_tokens(documents, top_k=3), strict=True):
        assert [place.top_tokens[0][0] for place in places] == [place.top_tokens[0][0] for place in again]
        assert [place.log_probability for place in places] == pytest.approx(
            [place.log_probability for place in again], abs=1e-4
        )


def test_the_likeliest_are_those_that_a_model_would_rather_write(writer: TextGenerator) -> None:
    ids = writer.tokenizer.encode(LONG)
    (places,) = writer.predict_tokens([ids], top_k=writer.tokenizer.size)
    for number, place in zip(ids, places, strict=True):
        named = dict(place.top_tokens)
        assert len(named) == writer.tokenizer.size
        assert named[number] == place.log_probability
        assert sum(2.718281828459045**value for value in named.values()) == pytest.approx(1, abs=1e-5)
        assert sorted(named.values(), reverse=True) == list(named.values())
    assert [place.top_tokens for place in writer.predict_tokens([ids], top_k=0)[0]] == [()] * len(ids)


@pytest.mark.parametrize("name", ["writer", "endless"])
def test_a_document_may_be_read_as_it_comes(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer: TextGenerator = request.getfixturevalue(name)
    ids = writer.tokenizer.encode(LONG)
    (whole,) = writer.predict_tokens([ids], top_k=2)
    for at_once in (1024, 3):
        monkeypatch.setattr(reading, "_MAX_STEP_TOKENS", at_once)
        comes = writer.build_incremental_predictor(top_k=2)
        parts = [
            *comes.predict_next(ids[:7]),
            *comes.predict_next([]),
            *comes.predict_next(ids[7:8]),
            *comes.predict_next(ids[8:]),
        ]
        assert [place.log_probability for place in parts] == pytest.approx(
            [place.log_probability for place in whole], abs=1e-4
        )
        assert [[number for number, _ in place.top_tokens] for place in parts] == [
            [number for number, _ in place.top_tokens] for place in whole
        ]


def after(count: int) -> Callable[[], bool]:
    """True when it was asked so many times."""
    asked = iter([False] * count)
    return lambda: next(asked, True)


def test_writing_ends_when_it_is_told_to(writer: TextGenerator) -> None:
    eos = writer.tokenizer.special.eos
    drawn = SamplingSearch(eos, MultinomialSampler(1.0, (SuppressTokens((0, 1, 3, eos)),), seed=5))
    ((whole,),) = writer.write(["the "], search=drawn, limit=12)
    ((cut,),) = writer.write(["the "], search=drawn, limit=12, until=after(4))
    assert len(whole.ids) == 12
    assert 0 < len(cut.ids) < 12
    assert cut.ids == whole.ids[: len(cut.ids)]
    growing = writer.stream("the ", search=drawn, limit=12, until=after(4))
    text = "".join(growing)
    assert whole.text.startswith(text)
    assert 0 < len(growing.ids) < 12


def test_a_stream_has_the_chance_of_its_number(writer: TextGenerator) -> None:
    drawn = SamplingSearch(writer.tokenizer.special.eos, MultinomialSampler(1.0, (SuppressTokens((0, 1, 3)),), seed=5))
    found = [each.text for (each,) in writer.write(["the "] * 3, search=drawn, limit=12, first=7)]
    assert len(set(found)) > 1
    for number, text in enumerate(found, 7):
        assert "".join(writer.stream("the ", search=drawn, limit=12, number=number)) == text


def test_a_continuation_tells_its_ids_and_what_each_cost(writer: TextGenerator) -> None:
    drawn = SamplingSearch(writer.tokenizer.special.eos, MultinomialSampler(1.0, (SuppressTokens((0, 1, 3)),), seed=5))
    ((found,),) = writer.write(["the "], search=drawn, limit=12)
    assert tuple(writer.tokenizer.to_pieces(found.ids)) == found.tokens
    assert sum(found.token_log_probabilities) == pytest.approx(found.log_probability)
    prompt = writer.tokenizer.encode("the ")
    places = writer.predict_tokens([[*prompt, *found.ids]], top_k=0)[0][len(prompt) :]
    assert [place.log_probability for place in places] == pytest.approx(
        found.token_log_probabilities[: len(found.ids)], abs=1e-4
    )
