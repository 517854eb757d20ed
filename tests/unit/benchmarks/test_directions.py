"""Compare one model for several directions with one model for each, on a text of four words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WORDS = {
    "en": ("one", "two", "three", "four"),
    "de": ("eins", "zwei", "drei", "vier"),
    "fr": ("un", "deux", "trois", "quatre"),
}
RECIPE = """\
[tokenizer]
kind = "words"
[model]
d_model = 32
heads = 2
layers = 1
dropout = 0
[training]
batch_tokens = 300
schedule = { kind = "constant", rate = 5e-3 }
evaluate_every = 50
threads = 1
"""


@pytest.mark.slow
def test_all_directions_are_printed(tmp_path: Path) -> None:
    for language, words in WORDS.items():
        text = "".join(f"{words[n % 4]} {words[n // 4 % 4]} {words[n // 16]} {words[n % 3]}\n" for n in range(64))
        (tmp_path / f"text.{language}").write_text(text, encoding="utf-8")
    (tmp_path / "rest.toml").write_text(RECIPE, encoding="utf-8")
    text = str(tmp_path / "text")
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "benchmarks/directions.py"), "--train", text, "--validation", text),
            *("--test", text, "--pairs", "en-de", "en-fr", "--recipe", str(tmp_path / "rest.toml")),
            *("--folder", str(tmp_path / "runs"), "--steps", "400"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[1:])
    assert list(rows) == ["en-de", "de-en", "en-fr", "fr-en"]
    assert all(float(score) > 60 for row in rows.values() for score in row.split())
