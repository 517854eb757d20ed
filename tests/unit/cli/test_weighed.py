"""Groups of beams, coverage and minimum Bayes risk, as recipes and command lines say them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.cli.options import SearchOptions
from heedful.errors import RecipeError
from heedful.generation.search import BeamSearch, DiverseBeamSearch, compute_coverage
from heedful.metrics.weighted_sacrebleu import ChrFUtility
from heedful.recipes.generation import BeamConfig
from heedful.tasks.inspection_records import set_beam_width
from heedful.tasks.predictor import InspectRequest
from heedful.tasks.search_factory import build_search
from heedful.tasks.translation.translator import Translator

Say = Callable[..., Any]
SOURCES = ["1 2 3", "", "7", "4 4 4 4", "2 9 8 1", "5 6"]


def candidates(said: Any) -> list[list[dict[str, Any]]]:
    return [json.loads(line)["candidates"] for line in said.lines]


def load(trained: Path) -> Translator:
    translator = heedful.load(trained, device="cpu")
    assert isinstance(translator, Translator)
    return translator


def alike(lists: list[list[dict[str, Any]]]) -> float:
    """How like the texts of a list are to each other, in percent of chrF."""
    tables = [ChrFUtility()([each["text"] for each in own]) for own in lists if len(own) > 1]
    return sum((table.sum() - table.trace()) / (table.size - len(table)) for table in tables) / len(tables)


def test_lists_of_groups_differ_more(say: Say, trained: Path) -> None:
    words = ("translate", trained, "--text", *SOURCES, "--format", "jsonl", "--beam", 6, "--n-best", 6)
    plain = candidates(say(*words))
    little = candidates(say(*words, "--groups", 6, "--diversity", 0.2))
    much = candidates(say(*words, "--groups", 6, "--diversity", 3))
    assert candidates(say(*words, "--groups", 1)) == plain
    assert alike(plain) > alike(much) and alike(little) > alike(much)
    for own in much:
        scores = [each["score"] for each in own if each["finished"]]
        assert scores == sorted(scores, reverse=True)
        assert len({each["text"] for each in own}) == len(own)


def test_groups_grow_with_what_is_wanted(trained: Path) -> None:
    target = load(trained).target
    search = build_search(BeamConfig(width=4, groups=2, diversity=0.7), target, n_best=5)
    assert isinstance(search, DiverseBeamSearch) and (search.width, search.groups, search.diversity) == (6, 2, 0.7)
    usual = build_search(BeamConfig(width=4, groups=4), target)
    assert isinstance(usual, DiverseBeamSearch) and usual.diversity == 0.5
    assert isinstance(build_search(BeamConfig(width=4), target), BeamSearch)


def test_coverage_ranks_what_the_beam_found(say: Say, trained: Path) -> None:
    translator = load(trained)
    words = ("translate", trained, "--text", *SOURCES, "--format", "jsonl", "--beam", 5)
    mine = candidates(say(*words, "--n-best", 5, "--coverage", 3))
    search = build_search(SearchOptions(beam=5).apply_to(translator.generation), translator.target, n_best=5)
    for own, found in zip(mine, translator.translate(SOURCES, search=search), strict=True):
        scores = {
            (each.text, each.finished): each.score
            + 3 * compute_coverage(torch.from_numpy(list(translator.align(found.source, each).weights.values())[-1]))
            for each in found.candidates
            if found.source
        }
        assert {(each["text"], each["finished"]): each["score"] for each in own if found.source} == pytest.approx(
            scores, abs=1e-4
        )
        ranks = [(each["finished"], each["score"]) for each in own]
        assert ranks == sorted(ranks, reverse=True)
    plain = candidates(say(*words, "--n-best", 5))
    assert [own[0]["text"] for own in mine] != [own[0]["text"] for own in plain]
    best = [json.loads(line) for line in say(*words, "--coverage", 3).lines]
    assert [record["translation"] for record in best] == [own[0]["text"] for own in mine]
    assert {len(record["candidates"]) for record in best} == {1}, "no more than was asked"


def test_a_look_at_a_sentence_knows_coverage(trained: Path) -> None:
    translator = load(trained)
    search = build_search(SearchOptions(beam=5, coverage=3).apply_to(translator.generation), translator.target)
    record = translator.inspect("2 9 8 1", search=search)
    assert record.said == translator.translate(["2 9 8 1"], search=search)[0].text


@pytest.mark.parametrize(
    "config",
    [
        BeamConfig(width=6, groups=3, diversity=1),
        BeamConfig(width=5, coverage=3),
        BeamConfig(width=5, risk="chrf"),
        BeamConfig(width=6, groups=2, risk="bleu", candidates=4),
    ],
    ids=["groups", "coverage", "risk", "risk of groups"],
)
def test_a_look_draws_the_beams(trained: Path, config: BeamConfig) -> None:
    translator = load(trained)
    search = build_search(config.model_copy(update={"max_extra": 10}), translator.target)
    record = translator.inspect("2 9 8 1", search=search)
    assert record.said == translator.translate(["2 9 8 1"], search=search)[0].text
    best = [branch for branch in record.tree if branch.best]
    assert [branch.token for branch in best[1:]] == [step.token for step in record.written]
    assert sum(branch.parent == 0 for branch in record.tree) == 2 * config.width, "all that the root was tried with"
    translator.search = search
    wide = translator.inspect_request(InspectRequest("2 9 8 1", beam=12))
    assert sum(branch.parent == 0 for branch in wide.tree) > 2 * config.width
    assert wide.said == translator.translate(["2 9 8 1"], search=set_beam_width(search, 12))[0].text


def test_a_recipe_may_ask_for_the_least_risk(say: Say, trained: Path, small: Path) -> None:
    """And then every command does, as with options, unless another search is asked for."""
    drawn = {"kind": "sampling", "temperature": 0.7, "risk": "bleu", "candidates": 9, "max_extra": 10}
    small.write_text(
        re.sub(r"\[generation\].*", "", small.read_text(), flags=re.DOTALL)
        + f"[generation]\n{''.join(f'{key} = {json.dumps(value)}' + chr(10) for key, value in drawn.items())}"
    )
    assert say("train", small).code == 0
    run = small.parent / "run"
    texts = ("--text", *SOURCES, "--seed", 4, "--format", "jsonl")
    mine = say("translate", run, *texts).lines
    options = ("--temperature", 0.7, "--mbr", 9, "--utility", "bleu", "--max-extra", 10)
    assert mine == say("translate", trained, *texts, *options).lines
    plain = say("translate", run, *texts, "--search", "sampling", "--n-best", 3)
    assert {len(own) for own in candidates(plain)} >= {1, 3}
    beam = ("--beam", 2, "--max-extra", 10)
    assert say("translate", run, *texts, *beam).lines == say("translate", trained, *texts, *beam).lines
    translations = small.parent / "said"
    assert say("evaluate", run, "--output", translations).code == 0
    source = small.parent / "validation.en"
    assert translations.read_text() == say("translate", run, "--input", source).out
    refused = say("translate", run, "--text", "1", "--constrain", "drei")
    assert refused.complaint.startswith("--constrain: terms need a beam, but this run's search is sampling")


def test_risk_of_a_beam_is_among_what_it_holds(trained: Path) -> None:
    translator = load(trained)
    for config in (BeamConfig(width=5, risk="chrf"), BeamConfig(width=6, groups=3, risk="chrf", candidates=4)):
        plain = config.model_copy(update={"risk": None, "candidates": None})
        size = config.candidates or config.width
        beam = translator.translate(SOURCES, search=build_search(plain, translator.target, n_best=size))
        found = translator.translate(SOURCES, search=build_search(config, translator.target, n_best=2))
        for own, others in zip(found, beam, strict=True):
            texts = [each.text for each in others.candidates]
            shares = np.exp([each.log_probability for each in others.candidates])
            worth = sorted(ChrFUtility()(texts) @ (shares / shares.sum()), reverse=True)
            if own.source:
                assert [each.score for each in own.candidates] == pytest.approx(worth[:2])
                assert worth[:2] != pytest.approx(sorted(ChrFUtility()(texts).mean(1), reverse=True)[:2]), "not alike"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--groups", 0), "--groups: 0 must be at least 1"),
        (("--groups", 3, "--beam", 4), "--groups: 3 cannot share a beam of 4 evenly; give a width that it divides"),
        (("--diversity", 0.5), "--diversity: 0.5 is between groups, and there is one; give 2 groups or more"),
        (("--diversity", -1, "--groups", 2), "--diversity: -1.0 must be at least 0"),
        (("--coverage", -1), "--coverage: -1.0 must be at least 0"),
        (("--coverage", 1, "--search", "greedy"), "--coverage: does not fit --search greedy (is not an option of it)"),
        (("--groups", 2, "--search", "sampling"), "--groups: does not fit --search sampling"),
        (("--groups", 2, "--constrain", "drei"), "terms that must be written: groups of beams that avoid each other"),
    ],
    ids=str,
)
def test_mistakes_are_told(say: Say, trained: Path, options: tuple[Any, ...], complaint: str) -> None:
    assert say("translate", trained, "--text", "1", *options).complaint.startswith(complaint)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--generation.candidates", 4), "command line: generation.candidates = 4 is for generation.risk"),
        (("--generation.groups", 3), "command line: generation.groups = 3 cannot share a beam of 2 evenly"),
        (("--generation.risk", "ter"), 'command line: generation.risk = "ter" must be one of "chrf", "bleu"'),
        (
            ("--generation.risk", "chrf", "--generation.coverage", 0.2),
            "command line: generation.coverage = 0.2 and risk both rank what was found; leave one of them out",
        ),
    ],
    ids=str,
)
def test_recipes_that_make_no_sense_are_told_of(
    say: Say, small: Path, options: tuple[Any, ...], complaint: str
) -> None:
    assert say("train", small, *options).complaint.startswith(complaint)


def test_models_without_attention_cover_nothing(small: Path) -> None:
    from heedful import load_recipe, train

    table = '[model]\nkind = "recurrent"\nd_model = 8\nreading = { kind = "context" }\n\n[training]'
    small.write_text(re.sub(r"\[model\].*\[training\]", table, small.read_text(), flags=re.DOTALL))
    run = train(load_recipe(small, ["--training.steps", "1"]))
    translator = heedful.load(run.folder, device="cpu")
    search = build_search(BeamConfig(coverage=0.2), translator.target)
    with pytest.raises(RecipeError, match="this model has no attention to its source"):
        translator.translate(["1 2"], search=search)
