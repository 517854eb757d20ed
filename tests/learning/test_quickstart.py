"""The quick start works: in about two minutes it trains a model that translates."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("babel")
pytest.importorskip("num2words")


@pytest.mark.slow
def test_quickstart_translates_new_sentences(tmp_path: Path) -> None:
    """It runs as a separate process; the time is not measured, because machines differ."""
    command = [sys.executable, "-m", "heedful", "quickstart", "--output", str(tmp_path / "quickstart")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    found = re.search(r"exact match (\d+\.\d) %   BLEU (\d+\.\d)", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) >= 95
    assert float(found[2]) >= 95
    assert (tmp_path / "quickstart-en-de/alignment.svg").stat().st_size > 1000


@pytest.mark.slow
def test_a_question_finds_the_answer_in_another_language(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "heedful", "quickstart", "matching", "--output", str(tmp_path / "found")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    found = re.search(r"the right one: (\d+\.\d) %", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) >= 95
    assert "<table>" in (tmp_path / "found-de-en/found.html").read_text(encoding="utf-8")
