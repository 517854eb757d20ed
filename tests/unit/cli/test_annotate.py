"""`heedful annotate`, and `heedful translate --annotate`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from heedful import Translator, load_recipe, train
from heedful.data.context import get_text

Say = Callable[..., Any]
PAIRS = [("a cat", "eine Katze"), ("the dog", "den Wolf"), ("a\\b cats", "Katzen"), ("", "nichts"), ("Cat!", "Katzen!")]


@pytest.fixture
def text(here: Path) -> Path:
    (here / "p.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    (here / "terms.tsv").write_text("cat\tKatze\ta note\ndog\tHund\n")
    return here


def test_pairs_with_terms_are_annotated_and_all_are_written(say: Say, text: Path) -> None:
    said = say("annotate", "p.tsv", "--glossary", "terms.tsv", "-o", "a.tsv", "--share", "1")
    assert said.out == "written: a.tsv, 5 pairs; 2 have terms, and 2 were annotated\n"
    expected = ["a ⟦ cat ⟶ Katze ⟧", *(source for source, _ in PAIRS[1:-1]), "⟦ Cat ⟶ Katze ⟧ !"]
    written = [line.split("\t") for line in (text / "a.tsv").read_text().splitlines()]
    assert written == [[source, target] for source, (_, target) in zip(expected, PAIRS, strict=True)]
    say("annotate", "p.tsv", "--glossary", "terms.tsv", "-o", "r.tsv", "--share", "1", "--way", "replace")
    assert (text / "r.tsv").read_text().startswith("a ⟦ Katze ⟧\teine Katze\n")
    for side, name in enumerate(("p.en", "p.de")):
        (text / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    say("annotate", "p.en", "p.de", "--glossary", "terms.tsv", "-o", "two.tsv", "--share", "1")
    assert (text / "two.tsv").read_text() == (text / "a.tsv").read_text()


def test_a_share_is_drawn_by_the_seed(say: Say, text: Path) -> None:
    (text / "many.tsv").write_text("a cat\tdie Katze\na bird\tein Vogel\n" * 400)

    def drawn(*words: str) -> list[int]:
        said = say("annotate", "many.tsv", "--glossary", "terms.tsv", "-o", "m.tsv", "--overwrite", *words)
        lines = (text / "m.tsv").read_text().splitlines()
        found = [number for number, line in enumerate(lines) if "⟦" in line]
        assert said.out.endswith(f"800 pairs; 400 have terms, and {len(found)} were annotated\n")
        assert all(number % 2 == 0 for number in found)
        return found

    usual, more = drawn("--share", "0.2"), drawn("--share", "0.6")
    assert 55 <= len(usual) <= 105
    assert set(usual) < set(more), "a larger share has a smaller one in it"
    assert drawn("--share", "0.2") == usual != drawn("--share", "0.2", "--seed", "2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--share 0", "--share: 0; must be above 0, and at most 1"),
        ("--share 1.5", "--share: 1.5; must be above 0, and at most 1"),
        ("--share nan", "--share: nan; must be above 0, and at most 1"),
        ("--seed -1", "--seed: -1; must be at least 0"),
        ("--output p.tsv", "--output: p.tsv is read as well; choose another file"),
        ("--output terms.tsv --overwrite", "--output: terms.tsv is read as well; choose another file"),
        ("--output old.tsv", "old.tsv: already exists; choose another --output, or add --overwrite"),
        ("--glossary none.tsv", "none.tsv: there is no such file"),
        ("--glossary bad.tsv", "bad.tsv:2: no tab; write source term, tab, target term"),
        ("--glossary terms.tsv --output no/such/a.tsv", "no/such/a.tsv: cannot be written"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_written(say: Say, text: Path, words: str, message: str) -> None:
    (text / "old.tsv").write_text("old\n")
    (text / "bad.tsv").write_text("cat\tKatze\ndog\n")
    given = words.split()
    defaults = [word for pair in (("--glossary", "terms.tsv"), ("--output", "a.tsv")) if pair[0] not in given
                for word in pair]  # fmt: skip
    assert message in say("annotate", "p.tsv", *given, *defaults).complaint
    assert not (text / "a.tsv").exists()
    assert (text / "old.tsv").read_text() == "old\n"


def test_text_that_cannot_be_read_leaves_no_half_file(say: Say, text: Path) -> None:
    (text / "p.tsv").write_text("a cat\teine Katze\nno tab\n")
    said = say("annotate", "p.tsv", "--glossary", "terms.tsv", "-o", "a.tsv")
    assert "p.tsv:2: 1 tab-separated column" in said.complaint
    (text / "p.tsv").write_text("")
    said = say("annotate", "p.tsv", "--glossary", "terms.tsv", "-o", "a.tsv")
    assert said.complaint == "p.tsv: contains no pair; check the file"
    said = say("annotate", "p.tsv", "p.tsv", "p.tsv", "--glossary", "terms.tsv", "-o", "a.tsv")
    assert "give at most two files" in said.complaint
    assert not list(text.glob("*a.tsv*"))


@pytest.fixture(scope="module")
def taught(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose vocabulary knows the marks."""
    folder, old = tmp_path_factory.mktemp("taught"), trained.parent
    for name in ("train", "validation"):
        for side in ("en", "de"):
            (folder / f"{name}.{side}").write_text((old / f"{name}.{side}").read_text())
    with (folder / "train.en").open("a") as source, (folder / "train.de").open("a") as target:
        source.write("⟦ 1 ⟶ eins ⟧ 2\n" * 20)
        target.write("zwei eins\n" * 20)
    (folder / "small.toml").write_text((old / "small.toml").read_text().replace(str(old), str(folder)))
    return train(load_recipe(folder / "small.toml"), device="cpu").folder


def test_sentences_are_annotated_instead_of_constrained(say: Say, taught: Path, here: Path) -> None:
    (here / "terms.tsv").write_text("2\tzwei\n")
    plain = ("translate", taught, "--format", "jsonl")
    said = say(*plain, "--text", "1 2 3", "--glossary", "terms.tsv", "--annotate", "append")
    record = json.loads(said.out)
    assert record["source"] == "1 ⟦ 2 ⟶ zwei ⟧ 3"
    assert "constraints" not in record
    assert record == json.loads(say(*plain, "--text", "1 ⟦ 2 ⟶ zwei ⟧ 3").out)
    held = json.loads(
        say(*plain, "--text", "1 2 3", "--glossary", "terms.tsv", "--annotate", "replace", "--constrain", "null").out
    )
    assert (held["source"], held["constraints"]) == ("1 ⟦ zwei ⟧ 3", ["null"])
    drawn = say(*plain, "--text", "1 2", "--glossary", "terms.tsv", "--annotate", "append", "--mbr", "2")
    assert drawn.code == 0, "nothing is forced, so samples will do"


def test_terms_stay_whole_in_sentences_that_are_read_in_parts(say: Say, taught: Path, here: Path) -> None:
    (here / "terms.tsv").write_text("2 3\tzwei, eins. Drei\n7\tsieben\n")
    long = " ".join(["1 2 3 4 5 6 7 8 9"] * 5)
    for way, term in (("append", "⟦ 2 3 ⟶ zwei, eins. Drei ⟧"), ("replace", "⟦ zwei, eins. Drei ⟧")):
        said = say(
            "translate", taught, "--format", "jsonl", "--text", long, "--glossary", "terms.tsv", "--annotate", way
        )
        record = json.loads(said.out)
        own = [part["source"] for part in record["parts"]]
        assert len(own) > 3 and " ".join(own) == record["source"]
        assert [part.count("⟦") for part in own] == [part.count("⟧") for part in own]
        assert sum(part.count(term) for part in own) == 5


def test_protected_lines_are_annotated_once_as_files_are(
    say: Say, taught: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is protected is the line itself; terms stand in what the model reads, and in nothing that is written."""
    (here / "terms.tsv").write_text("plus\tzwei 7\n2\tzwei\n")
    lines = ["1 2 3", "plus %s 2", "1 plus {name} . Plus 2"]
    options = ("--glossary", "terms.tsv", "--annotate", "append")
    read: list[str] = []
    translate = Translator.translate

    def listening(self: Translator, sentences: Sequence[Any], **how: Any) -> Any:
        read.extend(map(get_text, sentences))
        return translate(self, sentences, **how)

    monkeypatch.setattr(Translator, "translate", listening)
    said = say("translate", taught, *options, "--protect", "--format", "jsonl", "--text", *lines)
    records = [json.loads(line) for line in said.lines]
    assert [record["source"] for record in records] == lines
    assert records[0]["translation"] == "1 2 3", "numbers alone, which nobody translates"
    assert not any(mark in record["translation"] for record in records for mark in "⟦⟶⟧")
    own, _ = list(read), read.clear()
    (here / "app.po").write_text("".join(f'msgid "{line}"\nmsgstr ""\n\n' for line in lines))
    assert say("translate", taught, *options, "app.po", "-o", "filled.po").code == 0
    assert own == read
    assert any(text.startswith("⟦ plus ⟶ zwei 7 ⟧") for text in own)


def test_protected_lines_hold_terms_as_files_do(say: Say, taught: Path, here: Path) -> None:
    (here / "terms.tsv").write_text("plus\tneun\n")
    said = say("translate", taught, "--glossary", "terms.tsv", "--protect", "--text", "plus %s", "--max-extra", 20)
    assert "neun" in said.out


def test_what_annotation_needs_is_told(say: Say, trained: Path, here: Path) -> None:
    (here / "terms.tsv").write_text("2\tzwei\n")
    said = say("translate", trained, "--text", "1 2", "--annotate", "append")
    assert said.complaint == "--annotate append: needs terms; give their file with --glossary"
    said = say("translate", trained, "--text", "1 2", "--annotate", "append", "--glossary", "terms.tsv")
    assert said.complaint.startswith("'⟦' is not a piece of the source vocabulary, so the model was not trained on")
