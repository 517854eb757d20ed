"""Minimum Bayes risk on a command line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sacrebleu import sentence_bleu, sentence_chrf

SOURCES = ["1 2 3", "", "7", "2 9 8"]
MEASURES = {"chrf": lambda a, b: sentence_chrf(a, [b]).score, "bleu": lambda a, b: sentence_bleu(a, [b], use_effective_order=True).score}  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("utility", MEASURES)
def test_it_chooses_among_samples(say: Callable[..., Any], trained: Path, utility: str) -> None:
    words = ("translate", trained, "--text", *SOURCES, "--seed", 5, "--format", "jsonl")
    drawn = [json.loads(line) for line in say(*words, "--search", "sampling", "--n-best", 12).lines]
    said = [json.loads(line) for line in say(*words, "--mbr", 12, "--utility", utility, "--n-best", 2).lines]
    for samples, chosen in zip(drawn, said, strict=True):
        texts = [each["text"] for each in samples["candidates"]]
        worth = {one: sum(MEASURES[utility](one, other) for other in texts) / len(texts) for one in texts}
        if samples["source"]:
            best = sorted(worth.values(), reverse=True)[: len(chosen["candidates"])]
            assert [each["score"] for each in chosen["candidates"]] == pytest.approx(best, abs=1e-4)
            assert worth[chosen["translation"]] == pytest.approx(best[0])
        else:
            assert chosen["translation"] == ""
    assert Counter(len(each["candidates"]) for each in said)[2]
    again = [json.loads(line) for line in say(*words, "--mbr", 12, "--utility", utility, "--n-best", 2).lines]
    assert again == said, "the seed decides"


def test_a_beam_may_be_chosen_from(say: Callable[..., Any], trained: Path) -> None:
    said = say("translate", trained, "--text", "1 2 3", "--mbr", 4, "--beam", 6, "--search", "beam")
    beam = say("translate", trained, "--text", "1 2 3", "--n-best", 4, "--beam", 6)
    assert said.lines[0] in [line.split("\t")[1] for line in beam.lines]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--mbr", 0), "--mbr: 0; must be at least 1"),
        (("--mbr", 2, "--n-best", 3), "--n-best: 3 of 2 samples; give at most --mbr"),
        (("--mbr", 2, "--constrain", "drei"), "--mbr: samples cannot be forced to contain terms"),
        (("--mbr", 2, "--search", "greedy"), "--mbr 2: greedy search finds one output; leave out --search greedy"),
    ],
)
def test_mistakes_are_told(say: Callable[..., Any], trained: Path, options: tuple[Any, ...], complaint: str) -> None:
    assert say("translate", trained, "--text", "1", *options).complaint.startswith(complaint)
