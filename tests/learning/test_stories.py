"""What a memory network learns from generated stories, and which facts it attends to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_quick_start_of_stories_answers_and_attends_to_the_right_facts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "heedful", "quickstart", "stories", "--output", str(tmp_path / "q")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    found = re.findall(r"([\d.]+)% right, looked at all facts that answer it +([\d.]+)%", done.stdout)
    assert len(found) == 3
    assert min(float(number) for pair in found for number in pair) >= 90
