"""`heedful align`: word links of given translations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful

Say = Callable[..., Any]
PAIRS = [("1 2", "zwei eins"), ("", "null"), ("3 1 2", "zwei eins drei")]


@pytest.fixture
def texts(here: Path) -> tuple[str, ...]:
    (here / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    return "--data", "pairs.tsv"


def test_links_are_where_attention_is_highest(say: Say, trained: Path, texts: tuple[str, ...]) -> None:
    """Words are pieces here, so each link is the largest weight of its row, one sentence at a time."""
    said = say("align", trained, *texts)
    translator = heedful.load(trained, device="cpu")
    assert len(said.lines) == len(PAIRS)
    for line, (source, target) in zip(said.lines, PAIRS, strict=True):
        words = len(source.split())
        weights = list(translator.align(source, target).weights.values())[-1]
        expected = [f"{np.argmax(weights[t, :words])}-{t}" for t in range(len(target.split()))] if words else []
        assert line.split() == expected


def test_the_error_rate_against_gold(say: Say, trained: Path, texts: tuple[str, ...], here: Path) -> None:
    links = say("align", trained, *texts).out
    (here / "gold").write_text(links)
    said = say("align", trained, *texts, "--gold", "gold", "--output", "links")
    assert (said.code, said.out) == (0, "")
    assert (here / "links").read_text() == links
    assert said.err.splitlines()[-1] == "alignment error rate 0.000 over 3 sentences"


def test_a_pair_that_is_too_long_loses_no_other(say: Say, trained: Path, texts: tuple[str, ...], here: Path) -> None:
    links = say("align", trained, *texts).lines
    first, *others = PAIRS
    pairs = [first, ("1 " * 20, "eins"), *others]
    (here / "long.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (here / "gold").write_text("\n".join([links[0], "7-7", *links[1:]]) + "\n")
    said = say("align", trained, "--data", "long.tsv", "--gold", "gold")
    assert said.code == 2
    assert said.lines == [links[0], "", *links[1:]]
    assert said.err.splitlines() == [
        "heedful: sentence 2: has 20 tokens, this model reads at most 15; split it",
        "alignment error rate 0.000 over 3 sentences",
    ]
    (here / "long.tsv").write_text("1 " * 20 + "\teins\n")
    (here / "gold").write_text("7-7\n")
    alone = say("align", trained, "--data", "long.tsv", "--gold", "gold")
    assert (alone.code, alone.out) == (2, "\n")
    assert "error rate" not in alone.err


def test_mistakes_are_told(say: Say, trained: Path, texts: tuple[str, ...], here: Path) -> None:
    (here / "gold").write_text("0-0\nzero\n\n")
    assert say("align", trained, *texts, "--gold", "gold").complaint.startswith("gold:2: 'zero' is not a link")
    (here / "gold").write_text("0-0\n")
    assert "3 alignments and 1 gold alignments" in say("align", trained, *texts, "--gold", "gold").complaint
    assert "there is no such file" in say("align", trained, *texts, "--gold", "nowhere").complaint
    assert "no text: give --source and --target" in say("align", trained).complaint
    assert say("align", trained, *texts, "--output", "no/such/folder").code == 2
