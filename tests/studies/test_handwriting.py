"""The lines of handwritten digits: they show what their texts say, and the parts share no image."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from pathlib import Path

import handwriting
import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]


def build_marked_images(count: int) -> list[list[np.ndarray]]:
    """Build images of two columns: one has the digit and 1, the other the number of the image, from 50 on."""
    return [
        [np.array([[0, 1 + digit, 0], [0, 50 + number, 50 + number]], np.uint8) for number in range(count)]
        for digit in range(10)
    ]


def read_parts(options: handwriting.Options) -> dict[str, list[tuple[np.ndarray, str]]]:
    """Return the pictures and texts of each part."""
    files = dict(handwriting.build_files(build_marked_images(20), options))
    pictures = {
        name: np.array(Image.open(io.BytesIO(content)))[:, :, 0]
        for name, content in files.items()
        if isinstance(content, bytes)
    }
    tables = {name[:-4]: str(content).splitlines() for name, content in files.items() if name.endswith(".tsv")}
    return {
        part: [(pictures[name], text) for name, text in (row.split("\t") for row in rows)]
        for part, rows in tables.items()
    }


def test_lines_show_their_texts_with_images_of_their_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handwriting, "DISTANCES", (0, 3))  # nothing overlaps, so all can be read
    options = handwriting.Options(Path("x"), length=4, lines=80, seed=3)
    parts = read_parts(options)
    assert {part: len(lines) for part, lines in parts.items()} == {"train": 80, "validation": 4, "test": 8}
    used = {}
    for part, lines in parts.items():
        for picture, text in lines:
            digits = picture[0][picture[0] > 0] - 1
            assert "".join(map(str, digits)) == text
            assert len(text) == 4
        numbers = np.concatenate([picture[1][picture[1] > 0] for picture, _ in lines]) - 50
        used[part] = {*numbers.tolist()}
    assert used["train"] <= {*range(16)}
    assert used["validation"] <= {16, 17}
    assert used["test"] == {18, 19}
    assert len({text for _, text in parts["train"]}) > 70


def test_digits_may_touch_and_the_seed_decides() -> None:
    images = [np.full((4, 6), 9, np.uint8)] * 3
    widths = set()
    for seed in range(40):
        line = handwriting.draw_line(images, handwriting.SeededRandom(seed))
        np.testing.assert_array_equal(line, handwriting.draw_line(images, handwriting.SeededRandom(seed)))
        inked = np.flatnonzero(line[:, :, 0].any(0))
        widths.add(int(inked[-1] - inked[0] + 1))
        assert inked[0] == 6
    assert min(widths) < 18 < max(widths)
    assert min(widths) >= 18 - 4
    assert max(widths) <= 18 + 12


def test_a_folder_of_digits_is_read_or_drawings_are_made(tmp_path: Path) -> None:
    for digit in range(10):
        (tmp_path / f"digit{digit}.u8.gz").write_bytes(gzip.compress(np.full((10, 28, 28), 200, np.uint8).tobytes()))
    for options, height in ((("--digits", str(tmp_path)), 28), ((), 16)):
        words = ("--output", str(tmp_path / str(height)), "--images", "10", "--lines", "20", *options)
        subprocess.run([sys.executable, str(ROOT / "studies/handwriting.py"), *words], check=True, cwd=tmp_path)
        pictures = sorted((tmp_path / str(height)).glob("train/*.png"))
        assert len(pictures) == 20
        assert np.array(Image.open(pictures[0])).shape[0] == height
