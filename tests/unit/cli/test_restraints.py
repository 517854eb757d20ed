"""What translations may not hold and how long they must be, as a command line says it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.recipes.generation import BeamConfig, GreedyConfig, SamplingConfig
from heedful.tasks.search_factory import build_length_limits, build_search
from heedful.tasks.translation.translator import Translator

Say = Callable[..., Any]
SOURCES = ["1 2 3", "", "7", "4 4 4 4 4 4 4", "2 9 8", "1 2 2 3", "5"]
SEARCHES = (("--search", "greedy"), ("--beam", "4"), ("--search", "sampling", "--temperature", "1.5"))


@pytest.mark.parametrize("search", SEARCHES, ids=" ".join)
def test_forbidden_words_are_in_no_text(say: Say, trained: Path, tmp_path: Path, search: tuple[str, ...]) -> None:
    words = ("translate", trained, "--text", *SOURCES, *search)
    free = say(*words, "--max-extra", 3).lines
    one, *others = sorted({word for line in free for word in line.split() if word.isalpha()})
    assert others, "a model that says one word alone would prove little"
    listed = tmp_path / "forbidden.txt"
    listed.write_text("\n".join(["", f" {others[0]} ", "nowhere"]))
    said = say(*words, "--max-extra", 3, "--forbid", f"{one[:2]}*", "--forbid-file", listed)
    assert said.code == 0
    forbidden = re.compile(rf"\b({one[:2]}\w*|{others[0]})\b", re.IGNORECASE)
    assert forbidden.search("\n".join(free)) and not forbidden.search("\n".join(said.lines))
    for before, after in zip(free, said.lines, strict=True):
        if not forbidden.search(before) and "greedy" in search:
            assert after == before, "nothing was in the way"


def test_no_word_twice(say: Say, trained: Path) -> None:
    for search in SEARCHES:
        said = say("translate", trained, "--text", *SOURCES, *search, "--no-repeat-ngram", 1, "--format", "jsonl")
        records = [json.loads(line) for line in said.lines]
        for candidate in (each for record in records for each in record["candidates"]):
            assert len(set(candidate["tokens"])) == len(candidate["tokens"])
    free = say("translate", trained, "--text", *SOURCES, "--min-length", 8).lines
    assert any(len(set(line.split())) < len(line.split()) for line in free)


@pytest.mark.parametrize(
    ("options", "least"),
    [(("--min-length", 9), lambda _: 9), (("--min-ratio", 2), lambda n: 2 * n), (("--min-length", 500), lambda _: 9)],
)
def test_translations_have_their_least_length(say: Say, trained: Path, options: tuple[Any, ...], least: Any) -> None:
    translator = heedful.load(trained, device="cpu")
    said = say("translate", trained, "--text", *SOURCES, *options, "--max-ratio", 3, "--format", "jsonl")
    for record in map(json.loads, said.lines):
        tokens = len(translator.source.encode(record["source"])) + 1
        if tokens > 1:
            assert len(record["candidates"][0]["tokens"]) >= least(tokens)


def test_searches_in_python_are_the_commands(say: Say, trained: Path) -> None:
    translator = heedful.load(trained, device="cpu")
    assert isinstance(translator, Translator)
    for config, words in (
        (GreedyConfig(forbid=("zwei",), min_ratio=1.5), ("--search", "greedy")),
        (BeamConfig(width=3, forbid=("zwei",), min_ratio=1.5), ("--beam", 3)),
        (SamplingConfig(forbid=("zwei",), min_ratio=1.5), ("--search", "sampling")),
    ):
        search, length = build_search(config, translator.target), build_length_limits(config)
        found = [each.text for each in translator.translate(SOURCES, search=search, length=length)]
        backwards = translator.translate(SOURCES[::-1], search=search, length=length, batch_tokens=1)[::-1]
        if words[1] != "sampling":
            assert [each.text for each in backwards] == found, "neighbours do not matter"
        said = say("translate", trained, "--text", *SOURCES, *words, "--forbid", "zwei", "--min-ratio", 1.5)
        assert said.lines == found


def test_what_is_shared_stays_where_the_kind_changes() -> None:
    from heedful.cli.options import SearchOptions

    recipe = BeamConfig(width=7, forbid=("a",), min_length=3, no_repeat_ngram=4, repetition_penalty=1.5)
    greedy = SearchOptions(search="greedy").apply_to(recipe)
    assert greedy == GreedyConfig(forbid=("a",), min_length=3, no_repeat_ngram=4, repetition_penalty=1.5)
    assert SearchOptions(forbid=("b",)).apply_to(recipe) == recipe.model_copy(update={"forbid": ("b",)})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--no-repeat-ngram", 0), "--no-repeat-ngram: 0 must be at least 1"),
        (("--repetition-penalty", 0), "--repetition-penalty: 0.0 must be above 0"),
        (("--min-ratio", -1), "--min-ratio: -1.0 must be at least 0"),
        (("--min-length", -1), "--min-length: -1 must be at least 0"),
        (("--forbid", ""), "--forbid: "),
        (("--forbid", " "), "forbid: ' ' has no letters for this model; leave it out"),
        (("--forbid-file", "missing.txt"), "missing.txt: "),
    ],
    ids=str,
)
def test_mistakes_are_told(say: Say, trained: Path, options: tuple[Any, ...], complaint: str) -> None:
    assert say("translate", trained, "--text", "1", *options).complaint.startswith(complaint)
