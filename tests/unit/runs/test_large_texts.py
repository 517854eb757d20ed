"""What is told of the preparation of large texts, and that it goes on after an interruption."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from heedful.data import corpus as corpus_module
from heedful.data.corpus import Corpus
from heedful.recipes.load import build_recipe
from heedful.recipes.recipe import Recipe
from heedful.runs import prepare
from heedful.runs.prepare import open_corpus, open_or_create_run


def build(folder: Path, *, lines: int, sample: int | None = None) -> Recipe:
    for side, word in (("en", "dog"), ("de", "Hund")):
        (folder / f"text.{side}").write_text("".join(f"{word} {number}\n" for number in range(lines)))
    text = {"source": str(folder / "text.en"), "target": str(folder / "text.de")}
    tokenizer = {"size": 60, **({} if sample is None else {"sample": sample})}
    table = {"task": "translation", "output": str(folder / "run"), "training": {"steps": 1, "threads": 1}}
    table |= {"data": {"train": text, "validation": text}, "tokenizer": tokenizer}
    return build_recipe(table, source="test")


def test_a_sample_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    run = open_or_create_run(build(tmp_path, lines=700, sample=1000), log=said.append)
    (line,) = [line for line in said if "drawn" in line]
    found = re.fullmatch(r"pieces are learned from ([\d,]+) of 1,400 texts, drawn at random \(tokenizer.sample\)", line)
    assert found
    assert 700 <= int(found[1].replace(",", "")) <= 1000
    assert run.tokenizer.size > 10


def test_nothing_is_told_of_a_whole_text(tmp_path: Path) -> None:
    said: list[str] = []
    open_or_create_run(build(tmp_path, lines=500), log=said.append)
    assert not [line for line in said if "drawn" in line]


def test_encoding_tells_its_speed_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "_SECONDS_PER_LINE", 0.0)
    monkeypatch.setattr(corpus_module, "_SECONDS_BETWEEN_SAVES", -1.0)
    run = open_or_create_run(build(tmp_path, lines=200), log=lambda _: None)

    def stop(line: str) -> None:
        if "128 examples" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_corpus(run, "train", log=stop)
    said: list[str] = []
    assert len(open_corpus(run, "train", log=said.append)) == 200
    assert said[0] == "train: 96 examples were encoded before an interruption; going on after them"
    assert re.fullmatch(r"train: 128 examples encoded, [\d,]+ a second", said[1])
    assert re.fullmatch(r"train: 200 examples encoded, [\d,]+ a second", said[-1])
    assert len(open_corpus(run, "train", log=said.append)) == 200
    assert [path.name for path in (tmp_path / "run" / "data").iterdir()] == ["train"]
    Corpus.open(tmp_path / "run" / "data" / "train")
