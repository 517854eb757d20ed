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


def test_mistakes_are_told(say: Say, trained: Path, texts: tuple[str, ...], here: Path) -> None:
    (here / "gold").write_text("0-0\nzero\n\n")
    assert say("align", trained, *texts, "--gold", "gold").complaint.startswith("gold:2: 'zero' is no link")
    (here / "gold").write_text("0-0\n")
    assert "3 alignments and 1 gold alignments" in say("align", trained, *texts, "--gold", "gold").complaint
    assert "there is no such file" in say("align", trained, *texts, "--gold", "nowhere").complaint
    assert "text: give --source and --target" in say("align", trained).complaint
    assert say("align", trained, *texts, "--output", "no/such/folder").code == 2
