"""A bidirectional LSTM with CTC learns to read lines of digits that are drawn by rules."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import handwriting
import pytest
from digits import CLASSES

import heedful
from heedful.metrics.error_rates import character_error_rate
from heedful.recipes.generation import GreedyConfig
from heedful.tasks.demonstration import write_files
from heedful.tasks.glimpses.demonstration import generate_digits
from heedful.tasks.speech.decoding import BLANK_SYMBOL

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_lines_of_digits_are_read(tmp_path: Path) -> None:
    """Three seeds gave character error rates of 1.3 to 3.0 %. The record says which slot each digit is read in."""
    drawn = list(generate_digits(2000, seed=1))
    images = [[each.pixels[0] for each in drawn if each.label == digit] for digit in range(CLASSES)]
    options = handwriting.Options(tmp_path, length=3, lines=2000)
    write_files(tmp_path, handwriting.build_files(images, options))
    text = (ROOT / "recipes/handwriting.toml").read_text(encoding="utf-8").replace("../data/handwriting/", "")
    (tmp_path / "recipe.toml").write_text(text, encoding="utf-8")
    words = "--model.d_model 48 --model.layers 1 --model.channels 8 --training.epochs 12"
    words += " --training.batch_tokens 1200 --training.schedule.rate 5e-3"
    recipe = heedful.load_recipe(tmp_path / "recipe.toml", (*words.split(), "--output", str(tmp_path / "run")))
    reader = heedful.load(heedful.train(recipe, device="cpu").folder, device="cpu")
    rows = [row.split("\t") for row in (tmp_path / "test.tsv").read_text(encoding="utf-8").splitlines()]
    read = [each.text for each in reader.transcribe([tmp_path / name for name, _ in rows])]
    assert character_error_rate(read, [text for _, text in rows]).value < 5
    (first,) = reader.transcribe(tmp_path / rows[0][0], generation=GreedyConfig())
    record = reader.inspect(tmp_path / rows[0][0])
    best = [name for name, _ in groupby(answer.options[0].name for answer in record.answers)]
    assert "".join(name for name in best if name != BLANK_SYMBOL) == first.text
