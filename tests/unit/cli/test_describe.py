from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heedful

Say = Callable[..., Any]
ROOT = Path(__file__).parents[3]


def test_the_sum_is_that_of_the_model_which_is_trained(say: Say, trained: Path) -> None:
    translator = heedful.load(trained, device="cpu")
    (model,) = translator.models
    said = say("describe", trained.parent / "small.toml", "--tokenizer.size", translator.source.size)
    assert (said.code, said.err) == (0, "")
    count = sum(p.numel() for p in model.parameters())
    assert f"parameters  {count:,} (" in said.out
    rows = [line.split() for line in said.lines[: said.lines.index("")]]
    assert sum(int(row[-1].replace(",", "")) for row in rows if row[-2] != "=") == count
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert {row[0] for row in rows} == names


def test_the_papers_base_model_has_65_million(say: Say) -> None:
    said = say("describe", ROOT / "recipes/transformer-base.toml")
    found = re.search(r"^parameters  .* \((\d+\.\d)M\)$", said.out, re.MULTILINE)
    assert found is not None
    assert 62 < float(found[1]) < 66


def test_longer_sentences_cost_more_but_weigh_the_same(say: Say, small: Path) -> None:
    short, long = (say("describe", small, "--tokenizer.size", 50, "--length", n).out for n in (5, 500))
    flops = [float(re.search(r"([\d.,]+)M to train", out)[1].replace(",", "")) for out in (short, long)]  # type: ignore[index]
    assert flops[0] < flops[1]
    assert re.search(r"^memory .*", short, re.MULTILINE)[0] == re.search(r"^memory .*", long, re.MULTILINE)[0]  # type: ignore[index]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            "",
            "{small}: a vocabulary of all words is as large as the text makes it; say how large with --tokenizer.size",
        ),
        ("--tokenizer.size 50 --length 0", "--length: 0; a sentence has at least 1 token"),
        ("--tokenizer.size 50 --model.heads 3", "command line: model.heads = 3 must divide model.d_model = 16 evenly"),
        ("--tokenizer.size 50 --lenght 3", "heedful describe: --lenght is no option; did you mean --length?"),
    ],
)
def test_wrong_words(say: Say, small: Path, words: str, complaint: str) -> None:
    assert say("describe", small, *words.split()).complaint.startswith(complaint.format(small=small))
