"""Training by links of words, and what is asked of the attention that learned them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful

Say = Callable[..., Any]
HEAD = ("--data.train.alignments", "train.align", "--training.guided.head", "1", "--training.guided.weight", "0.5")


@pytest.fixture
def linked(small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small recipe, and the links of its training text."""
    monkeypatch.chdir(small.parent)
    counts = (len(line.split()) for line in (small.parent / "train.en").read_text().splitlines())
    lines = (" ".join(f"{n - 1 - t}-{t}" for t in range(n)) if number % 9 else "" for number, n in enumerate(counts))
    (small.parent / "train.align").write_text("".join(f"{line}\n" for line in lines))
    return small


def test_the_guided_head_says_which_words_belong_together(say: Say, linked: Path) -> None:
    said = say("train", linked, *HEAD)
    assert said.code == 0, said
    assert f"{len(Path('train.de').read_text().split()) + 120:,} tokens" in said.err, "those that are written"
    model = heedful.load(linked.parent / "run", device="cpu")
    source, target = "1 2 3 4", "vier drei zwei eins"
    alignment = model.align(source, target)
    (mean,) = alignment.weights.values()
    assert alignment.guided is not None
    assert not np.allclose(alignment.guided, mean), "it is a head, not the mean"
    np.testing.assert_allclose(alignment.guided.sum(1), 1, rtol=1e-5)
    Path("p.tsv").write_text(f"{source}\t{target}\n")
    best = alignment.guided[:4, :4].argmax(1)
    assert say("align", "run", "--data", "p.tsv").lines == [" ".join(f"{s}-{t}" for t, s in enumerate(best))]
    told = say("translate", "run", "--text", source, "--format", "jsonl", "--align")
    record = json.loads(told.out)
    again = model.align(source, model.translate([source])[0].candidates[0])
    np.testing.assert_allclose(record["alignment"]["weights"], again.guided, atol=1e-4)


def test_what_a_run_aligned_teaches_the_next(say: Say, linked: Path, trained: Path) -> None:
    assert say("align", trained, "--source", "train.en", "--target", "train.de", "--output", "train.align").code == 0
    assert say("train", linked, *HEAD, "--training.steps", "2").code == 0


def test_a_run_that_moves_with_its_text_goes_on(say: Say, linked: Path) -> None:
    assert say("train", linked, *HEAD, "--training.steps", "4").code == 0
    Path("moved.align").write_bytes(Path("train.align").read_bytes())
    Path("train.align").unlink()
    words = ["moved.align" if word == "train.align" else word for word in HEAD]
    assert say("train", linked, *words, "--training.steps", "5").code == 0
    Path("moved.align").write_text("\n" * 120)
    said = say("train", linked, *words, "--training.steps", "6")
    assert said.code == 2
    assert "data.train.alignments" in said.err, said.err


@pytest.mark.parametrize(
    ("line", "words", "message"),
    [
        ("0-x", (), "train.align:1: '0-x' is not a link; write source-target, as in 0-0, both counted from 0"),
        ("99-0", (), "train.align:1: link 99-0 has no source word: "),
        ("\n", (), "120 pairs, but train.align has 121 lines"),
        (
            "0-0",
            ("--training.guided.layer", "1"),
            "training.guided.layer = 1: this model attends to the source in 1 layer,",
        ),
        ("0-0", ("--data.train.alignments", "none.align"), "none.align: there is no such file"),
    ],
)
def test_what_does_not_fit_is_told(say: Say, linked: Path, line: str, words: tuple[str, ...], message: str) -> None:
    _, *rest = Path("train.align").read_text().splitlines()
    Path("train.align").write_text("\n".join([line.strip(), *rest, *([""] if line == "\n" else []), ""]))
    head = HEAD[2:] if HEAD[0] in words else HEAD  # an option is given once
    complaint = say("train", linked, *head, *words)
    assert complaint.code == 2
    assert "Traceback" not in complaint.err
    assert message in complaint.err.replace(f"{linked.parent}/", "")
