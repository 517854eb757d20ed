"""`--terms` and `--contrasts` of `heedful evaluate` and `heedful compare`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heedful

Say = Callable[..., Any]
QUICK = ("--samples", "20")
ROWS = [("a dog 7", "ein Hund 7", "ein Hund"), ("two dogs", "zwei Hunde", "zwei Hund"), ("a cat 12", "12", "21 Katze")]


@pytest.fixture
def text(here: Path) -> Path:
    """Sources, references and translations, a glossary."""
    for name, side in (("s", 0), ("r", 1), ("t", 2)):
        (here / name).write_text("".join(f"{row[side]}\n" for row in ROWS))
    (here / "g.tsv").write_text("dog\tHund\ndogs\tHunde\tplural\ncat\tKatze\n")
    return here


def told(said: Any) -> dict[str, Any]:
    assert said.code == 0, said.err
    found = json.loads(said.out).get("accuracy", [])
    return {each["name"]: (each["right"], each["of"], each["references"]) for each in found}


def test_terms_and_numbers_of_a_file(say: Say, text: Path) -> None:
    words = ("evaluate", "t", "--source", "s", "--target", "r", *QUICK, "--terms", "g.tsv")
    assert told(say(*words, "--format", "json")) == {
        "terms": (2, 3, pytest.approx(200 / 3)),
        "terms, other endings too": (3, 3, pytest.approx(200 / 3)),
        "numbers": (0, 2, 100),
    }
    lines = [line.split() for line in say(*words).lines]
    assert ["accuracy", "percent", "95", "%", "interval", "right", "of", "references"] in lines
    assert next(line for line in lines if line[:2] == ["terms", "66.67"])[-3:] == ["2", "3", "66.67"]
    against = say(*words, "--against", "r")
    (line,) = [line for line in against.lines if line.startswith("  numbers ")]
    assert "0.00 and 100.00: difference +100.00" in line


def test_nothing_is_told_where_there_is_nothing(say: Say, here: Path) -> None:
    (here / "s").write_text("a dog\n")
    said = say("evaluate", "s", "--source", "s", "--target", "s", *QUICK)
    assert "accuracy" not in said.out
    assert told(say("evaluate", "s", "--source", "s", "--target", "s", *QUICK, "--format", "json")) == {}


def test_contrasts_are_those_of_score(say: Say, trained: Path, here: Path) -> None:
    sources = (trained.parent / "validation.en").read_text().splitlines()[:6]
    targets = (trained.parent / "validation.de").read_text().splitlines()[:6]
    rows = [
        {"source": source, "right": target, "wrong": [targets[n - 1], targets[n - 2]], "kind": "ab"[n % 2]}
        for n, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]
    rows.append({"source": "1 " * 60, "right": "eins", "wrong": "zwei", "kind": "a"})
    (here / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    translator = heedful.load(trained, device="cpu")
    right = []
    for row in rows[:-1]:
        scores = translator.score([(row["source"], target) for target in (row["right"], *row["wrong"])])
        right.append(scores[0].log_probability > max(each.log_probability for each in scores[1:]))
    expected = {
        "contrasts": (sum(right), 6, None),
        "contrasts: a": (sum(right[::2]), 3, None),
        "contrasts: b": (sum(right[1::2]), 3, None),
    }
    words = ("evaluate", trained, *QUICK, "--contrasts", "c.jsonl")
    found = told(say(*words, "--format", "json"))
    assert {name: each for name, each in found.items() if "contrasts" in name} == expected
    assert "contrasts that are longer than the model reads: 1" in say(*words).lines


def test_runs_side_by_side(say: Say, trained: Path, second: Path, here: Path) -> None:
    source, target = ((trained.parent / f"validation.{side}").read_text().split()[0] for side in ("en", "de"))
    (here / "g.tsv").write_text(f"{source}\t{target}\n")
    (here / "c.tsv").write_text(f"{source}\t{target}\t{target} {target}\n")
    words = ("--terms", "g.tsv", "--contrasts", "c.tsv", *QUICK)
    said = say("compare", trained, second, *words, "--json", "all.json", "--page", "page.html")
    assert said.code == 0, said.err
    lines = said.out.split("Accuracy, in percent\n")[1].splitlines()
    assert lines[0].split()[:2] == ["run", "terms"]
    assert lines[0].endswith("contrasts")
    assert [line.split("  ")[0] for line in lines[1:4]] == [str(trained), str(second), "the references"]
    assert lines[3].endswith("-"), "references are not asked for contrasts"
    runs = json.loads((here / "all.json").read_text())["runs"]
    for folder, each in zip((trained, second), runs, strict=True):
        alone = json.loads(say("evaluate", folder, *words, "--format", "json").out)
        assert each["accuracy"] == alone["accuracy"]
    assert "terms" in {test["name"] for test in runs[1]["against_first"]}
    assert "Accuracy, in percent" in (here / "page.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--terms none.tsv", "none.tsv: "),
        ("--terms r", "r:1: no tab; write source term, tab, target term"),
        ("--terms strange.tsv", "strange.tsv: none of its source terms occurs in s and r; check both files"),
        ("--terms empty", "empty: none of its source terms occurs in s and r; check both files"),
        ("--contrasts g.tsv", "--contrasts: t is a file and gives no probabilities; give a run, or leave it out"),
    ],
)
def test_what_does_not_fit(say: Say, text: Path, words: str, message: str) -> None:
    (text / "strange.tsv").write_text("zebra\tZebra\n")
    (text / "empty").write_text("")
    said = say("evaluate", "t", "--source", "s", "--target", "r", *words.split())
    assert said.code == 2
    assert said.err.startswith(f"heedful: {message}")


def test_what_does_not_fit_a_run(say: Say, trained: Path, text: Path) -> None:
    (text / "empty").write_text("\n")
    assert say("evaluate", trained, "--contrasts", "empty").complaint == (
        "empty: has no contrasts; write source, right and wrong, with tabs between them"
    )
    assert say("evaluate", trained, "--contrasts", "g.tsv").complaint.startswith("g.tsv:1: 2 tab-separated columns")
    assert say("compare", trained, "--terms", "none.tsv").complaint.startswith("none.tsv: ")
    (text / "c.tsv").write_text("1\teins\tzwei\n")
    assert "<nobody>" in say("evaluate", trained, "--contrasts", "c.tsv", "--tags", "<nobody>").complaint
