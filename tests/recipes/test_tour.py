"""The package in docs/extending.md can be installed, and its recipe trains."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/extending.md"
COLOURS, ANIMALS = ("red", "blue", "green"), ("dog", "cat", "bird")


def find_block(text: str, *, beginning: str) -> str:
    """Find the block that begins with this text."""
    blocks = re.findall(r"^```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (found,) = (each for each in blocks if each.startswith(beginning))
    return found


def run_python(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_architecture_is_a_kind_of_model_after_installation(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    page, package, site = PAGE.read_text(encoding="utf-8"), tmp_path / "package", tmp_path / "site"
    package.mkdir()
    (package / "averaging.py").write_text(find_block(page, beginning="# averaging.py"), encoding="utf-8")
    (package / "pyproject.toml").write_text(find_block(page, beginning="[build-system]"), encoding="utf-8")
    pip = ["-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--no-index"]
    command = [sys.executable, *pip, "--no-build-isolation", "--target", str(site), str(package)]
    subprocess.run(command, check=True)

    lines = [f"a\tO\n{word}\t{word[0].upper()}\n\n" for word in (*COLOURS, *ANIMALS) * 10]
    for part in ("train", "validation"):
        (tmp_path / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
    recipe = find_block(page, beginning='task = "tagging"').replace("steps = 60", "steps = 30\ntraining.threads = 1")
    (tmp_path / "tagging.toml").write_text(recipe, encoding="utf-8")
    trained = run_python(site, tmp_path, "-m", "heedful", "train", "tagging.toml", "--device", "cpu")
    assert trained.returncode == 0, trained.stderr
    tagged = run_python(site, tmp_path, "-m", "heedful", "tag", "runs/tagging", "--text", "a dog")
    assert tagged.stdout.split() == ["a", "O", "dog", "D"], tagged.stdout + tagged.stderr

    alone = run_python(tmp_path / "nowhere", tmp_path, "-m", "heedful", "train", "tagging.toml")
    assert alone.returncode == 2
    assert "averaging" in alone.stderr
