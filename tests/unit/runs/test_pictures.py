"""Files for papers and other programs: right numbers, the same bytes each time, whole or not at all."""

from __future__ import annotations

import csv
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from random_records import build_random_record
from view_records import build_view_record

from heedful.errors import MissingExtraError, RecipeError, TrainingError
from heedful.inspection.figures import VIEWS, draw_figure
from heedful.inspection.record import InspectionRecord
from heedful.inspection.record_files import write_figure, write_weights

AWKWARD = ("a,b", 'quote"', "line\nbreak", "", "昭和", "x\0", "'=1+1", "\r")


def record() -> InspectionRecord:
    return build_random_record(2, 3, source=AWKWARD).keep_maps(heads=[0, 2])


def test_svg_is_written_as_it_is(tmp_path: Path) -> None:
    svg = draw_figure(build_random_record())
    write_figure(svg, tmp_path / "deep" / "a.SVG")
    assert (tmp_path / "deep" / "a.SVG").read_text(encoding="utf-8") == svg
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.SVG"]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_becomes_a_page(view: str, tmp_path: Path) -> None:
    pytest.importorskip("typst")
    record = build_view_record(view, ["a", "b", "c", "d"], layers=1, heads=2)
    write_figure(draw_figure(record, view=view), tmp_path / "a.pdf")
    content = (tmp_path / "a.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) == 1
    assert b"/Font" in content, "text stays text"
    assert b"CreationDate" not in content


def test_png_has_the_size_of_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("typst")
    svg = draw_figure(build_random_record())
    width, height = (float(svg.split(f' {name}="')[1].split('"')[0]) for name in ("width", "height"))
    for resolution in (96.0, 192.0):
        write_figure(svg, tmp_path / "a.png", resolution=resolution)
        size = struct.unpack(">II", (tmp_path / "a.png").read_bytes()[16:24])
        np.testing.assert_allclose(size, (width * resolution / 96, height * resolution / 96), atol=2)


@pytest.mark.parametrize("name", ["a.pdf", "a.png", "a.npz", "a.csv"])
def test_the_same_record_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        if name.endswith((".pdf", ".png")):
            pytest.importorskip("typst")
            write_figure(draw_figure(build_random_record(1, 1)), tmp_path / name)
        else:
            write_weights(build_random_record(1, 1), tmp_path / name)
        found.append((tmp_path / name).read_bytes())
    assert found[0] == found[1]


def test_without_typst_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(MissingExtraError, match=r"png needs .*typst.*pip install 'heedful\[figures\]'"):
        write_figure("<svg/>", tmp_path / "a.png")
    write_figure("<svg/>", tmp_path / "a.svg")


def test_unknown_suffixes_are_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"unknown kind of picture '.jpg'; take .svg, .pdf or .png"):
        write_figure("<svg/>", tmp_path / "a.jpg")
    with pytest.raises(RecipeError, match=r"unknown kind of table ''; take .npz or .csv"):
        write_weights(build_random_record(), tmp_path / "numbers")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(TrainingError, match=r"cannot be written"):
        write_figure("<svg/>", tmp_path / "file" / "a.svg")
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(TrainingError, match=r"a.csv: cannot be written"):
        write_weights(build_random_record(), tmp_path / "a.csv")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "a.csv"}


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_an_interrupted_write_leaves_the_old_file(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"a{suffix}"
    write_weights(build_random_record(1, 1), path)
    before = path.read_bytes()

    def interrupted(_handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("heedful.atomic_io.os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_weights(build_random_record(2, 1), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_arrays_are_those_of_the_record(tmp_path: Path) -> None:
    given = record()
    write_weights(given, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as found:
        assert len(found.files) == 4 * len(given.maps) + 3
        for each in given.maps:
            name = f"{each.role}.{each.layer}"
            np.testing.assert_array_equal(found[f"{name}.weights"], each.weights)
            np.testing.assert_array_equal(found[f"{name}.visible"], each.visible)
            assert tuple(found[f"{name}.heads"].tolist()) == each.heads == (0, 2)
            assert found[f"{name}.axes"].tolist() == [each.queries, each.keys]
        assert found["tokens.source"].tolist() == [token.replace("\0", "␀") for token in AWKWARD]


def test_lines_are_the_weights_in_full(tmp_path: Path) -> None:
    given = record()
    write_weights(given, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(each.weights.size for each in given.maps)
    for row in rows:
        each = given.find_map(row["role"], layer=int(row["layer"]))  # type: ignore[arg-type]
        query, key = int(row["query index"]), int(row["key index"])
        assert np.float32(row["weight"]) == each.get_head_weights(int(row["head"]))[query, key]
        assert row["query"] == given.get_axis(each.queries).tokens[query]
        assert row["key"] == given.get_axis(each.keys).tokens[key]
