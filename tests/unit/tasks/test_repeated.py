"""Of every task whose examples are texts, those that are learned from and measured on are found."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from heedful.data.corpus import write_corpus
from heedful.recipes.load import load_recipe
from heedful.runs.load import open_run, resume_run_recipe

GOLDEN = Path(__file__).parents[2] / "golden"
TEXTS = (
    "translation-transformer",
    "conversation-transformer",
    "conversation-decoder-only",
    "language-transformer",
    "tagging-transformer",
    "classification",
    "classification-choice",
    "classification-numbers",
    "spans",
    "stories",
    "matching",
)


@pytest.mark.parametrize("name", TEXTS)
def test_the_same_text_is_found_and_another_is_not(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / name
    shutil.copytree(GOLDEN / name, folder, ignore=shutil.ignore_patterns("checkpoints", "*.safetensors"))
    monkeypatch.chdir(folder)
    recipe = resume_run_recipe(folder / "run", load_recipe(folder / "recipe.toml"))
    run = open_run(folder / "run", recipe)
    encoding = run.task.build_encoding(run)
    assert encoding.identity_key is not None
    examples = list(run.task.prepare_examples(run, run.read_examples("train")))
    keys = {repr(encoding.identity_key(each)) for each in examples}
    places = [each for each in keys if str(folder) in each or "train." in each]
    assert not places, "where an example stands does not tell it from others"
    half = len(examples) // 2
    first, second = (
        write_corpus(tmp_path / part, chosen, encoder=encoding)
        for part, chosen in (("all", examples), ("some", examples[half:]))
    )
    assert second.count_shared_examples(first) == len(second) > 0
    assert first.count_shared_examples(second) >= len(second)
    plain = write_corpus(tmp_path / "plain", examples, encoder=replace(encoding, identity_key=None))
    assert second.count_shared_examples(plain) == 0
    assert "digests" not in json.loads((plain.folder / "corpus.json").read_text())
