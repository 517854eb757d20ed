"""What comes with the package is there after an installation too, where no checkout lies beside it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful import bundled

Say = Callable[..., Any]
ROOT = Path(__file__).parents[3]


def test_every_recipe_and_study_is_listed_with_what_it_is_about(say: Say) -> None:
    recipes, studies = say("recipes"), say("study")
    assert (recipes.code, studies.code) == (0, 0)
    there = [path.relative_to(ROOT / "recipes").with_suffix("").as_posix() for path in ROOT.glob("recipes/**/*.toml")]
    assert [line.split(maxsplit=1)[0] for line in recipes.lines] == sorted(there)
    assert [line.split(maxsplit=1)[0] for line in studies.lines] == sorted(
        path.stem
        for path in ROOT.glob("studies/*.py")
        if path.stem not in ("digits", "headlines", "spelling", "table_one")
    )
    for line in recipes.lines + studies.lines:
        about = line.split(maxsplit=1)[1]
        assert about[0].isupper(), line
        assert '"""' not in about, line


def test_a_copy_is_the_recipe_and_is_never_written_over_anything(say: Say, here: Path) -> None:
    said = say("recipes", "road/luong")
    assert said.lines[0] == "written: recipes/road/luong.toml"
    assert Path("recipes/road/luong.toml").read_bytes() == (ROOT / "recipes/road/luong.toml").read_bytes()
    Path("mine.toml").write_text("mine")
    for words in (("road/luong",), ("recipes/road/luong.toml",), ("sst-2", "-o", "mine.toml")):
        assert say("recipes", *words).complaint.endswith("already exists; choose another place with --output")
    assert Path("mine.toml").read_text() == "mine"
    assert say("recipes", "sst-2", "-o", "other.toml").code == 0
    assert Path("other.toml").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("recipes", "sst2"), "'sst2' is not a recipe; did you mean sst-2?"),
        (("study", "gradientlag"), "'gradientlag' is not a study; did you mean gradient_lag?"),
        (("study", "digits"), "'digits' is not a study; choose one of attention_as_convolution, beyond_translation, "),
    ],
)
def test_a_name_that_is_none(say: Say, words: tuple[str, ...], told: str) -> None:
    assert say(*words).complaint.startswith(told)


def test_a_study_gets_its_options_and_tells_what_it_misses(say: Say, here: Path) -> None:
    before = list(sys.argv), list(sys.path)
    complaint = say("study", "normalisation", "--digits", "nowhere", "--output", "found").complaint
    assert complaint.startswith("nowhere/digit0.u8.gz: cannot be read")
    assert (sys.argv, sys.path) == before


def test_what_is_installed_has_them(tmp_path: Path) -> None:
    """The wheel, unpacked where no recipes lie beside it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "place"
    zipfile.ZipFile(wheel).extractall(place)
    ask = "from heedful import bundled; print(bundled.__file__, *bundled.list_recipes(), *bundled.list_studies())"
    told = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(place)!r}); {ask}"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    ).stdout.split()  # fmt: skip
    assert told == [str(place / "heedful/bundled.py"), *bundled.list_recipes(), *bundled.list_studies()]
