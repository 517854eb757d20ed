"""The alignment picture: well-formed for any tokens, true to the weights, even to the eye, and strict about input."""

from __future__ import annotations

import random
import re
import unicodedata
from xml.etree import ElementTree

import numpy as np
import pytest

from heedful.inspection.heatmap import GLOW, INK, ColourRamp, draw_alignment_svg, draw_alignment_text

SVG = "{http://www.w3.org/2000/svg}"
AWKWARD = [
    "</svg>", "<script>", '"&\'', "&amp;", "\x00\x07\x1b[31m", "\x7f\x85", "", "   ", "昭和五十一年", "e\u0301",
    "\u202eabc", "👩\u200d👧", "\ud800", "\ufffe", "▁Donaudampfschifffahrtsgesellschaftskapitän", "شنبه", "]]>",
    "\u2028", "</s>",
]  # fmt: skip


def attention(rows: int, columns: int) -> np.ndarray:
    scores = np.exp(2 * np.random.randn(rows, columns))
    return scores / scores.sum(1, keepdims=True)


def oklab_lightness(colour: str) -> float:
    """Lightness of #rrggbb: the inverse of what the picture computes (Ottosson 2020)."""
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    cones = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
    cones += [[0.0883024619, 0.2817188376, 0.6299787005]]
    return float(np.cbrt(np.array(cones) @ linear) @ [0.2104542553, 0.7936177850, -0.0040720468])


def cells(svg: str) -> list[tuple[str, float]]:
    """Colour and weight of every cell, in reading order."""
    found = []
    for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect"):
        tip = rect.find(f"{SVG}title")
        if tip is not None and tip.text:
            found.append((rect.attrib["fill"], float(tip.text.rsplit(": ", 1)[1])))
    return found


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 100), (100, 1), (3, 7), (40, 25), (100, 100)])
def test_every_weight_has_its_cell(rows: int, columns: int) -> None:
    weights = attention(rows, columns)
    svg = draw_alignment_svg([f"s{i}" for i in range(columns)], [f"t{i}" for i in range(rows)], weights)
    drawn = cells(svg)
    assert [value for _, value in drawn] == [round(w, 3) for w in weights.flatten().tolist()]
    assert [colour for colour, _ in drawn] == [GLOW.get_colour(w) for w in weights.flatten().tolist()]
    assert len(svg) < 1000 + 8000 + 130 * rows * columns + 300 * (rows + columns)


@pytest.mark.parametrize("ramp", [GLOW, INK])
def test_equal_steps_of_weight_are_equal_steps_of_lightness(ramp: ColourRamp) -> None:
    weights = np.linspace(0, 1, 101)
    seen = np.array([oklab_lightness(ramp.get_colour(w)) for w in weights.tolist()])
    low, high = ramp.lightness
    np.testing.assert_allclose(seen, low + weights * (high - low), atol=0.015)


def test_strong_is_light_by_default_and_dark_in_ink() -> None:
    (weak, _), (strong, _) = cells(draw_alignment_svg(["a", "b"], ["x"], [[0.1, 0.9]]))
    assert oklab_lightness(weak) < oklab_lightness(strong)
    (weak, _), (strong, _) = cells(draw_alignment_svg(["a", "b"], ["x"], [[0.1, 0.9]], ramp=INK))
    assert oklab_lightness(weak) > oklab_lightness(strong)


def test_any_token_gives_well_formed_xml_that_shows_something() -> None:
    tokens = AWKWARD + ["".join(chr(random.randrange(0x110000)) for _ in range(5)) for _ in range(60)]
    svg = draw_alignment_svg(tokens, AWKWARD, attention(len(AWKWARD), len(tokens)), title="<b> & \x00 \u202e")
    root = ElementTree.fromstring(svg.encode("utf-8"))
    texts = [text for node in root.iter() if node.tag in (f"{SVG}text", f"{SVG}title") for text in [node.text]]
    assert all(text and text.strip() for text in texts)
    for text in texts:
        hidden = [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Cn") and c not in "\u200c\u200d"]
        assert not hidden
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= {
        "svg",
        "g",
        "rect",
        "circle",
        "text",
        "title",
        "style",
    }


def test_labels_are_the_tokens_in_order_and_long_ones_are_cut() -> None:
    source, target = ["ein", "Wort", "x" * 60], ["a", "昭" * 40]
    svg = draw_alignment_svg(source, target, attention(2, 3))
    labels = [node.text for node in ElementTree.fromstring(svg).iter(f"{SVG}text") if "class" not in node.attrib]
    assert labels == ["ein", "Wort", "x" * 23 + "…", "a", "昭" * 11 + "…"]
    assert "x" * 60 in svg, "the tooltip has the whole token"


def test_everything_lies_inside_the_picture() -> None:
    """Labels are measured by a rule of thumb of 0.5 em per narrow letter and 1 em per wide one."""
    source, target = ["a", "Hottentotten", "昭和五十一年"], ["Überraschungsmoment", "."]
    root = ElementTree.fromstring(draw_alignment_svg(source, target, attention(2, 3), title="A long title " * 6))
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    font = float(root.attrib["font-size"])
    for node in root.iter(f"{SVG}text"):
        size = float(node.attrib.get("font-size", font))
        length = size * sum(1.0 if unicodedata.east_asian_width(c) == "W" else 0.5 for c in node.text or "")
        if "transform" in node.attrib:
            x, y, angle = map(float, re.findall(r"-?\d+\.?\d*", node.attrib["transform"]))
            ends = x + length * np.cos(np.radians(angle)), y + length * np.sin(np.radians(angle))
        else:
            x, y = float(node.attrib["x"]), float(node.attrib["y"])
            share = {"end": -1, "middle": 0.5}.get(node.attrib.get("text-anchor", ""), 1)
            ends = x + share * length, y
        for px, py in ((x, y), ends):
            assert left <= px <= left + width
            assert top + 5 <= py <= top + height


def dots(svg: str) -> int:
    return sum(1 for _ in ElementTree.fromstring(svg).iter(f"{SVG}circle"))


def test_the_largest_of_each_row_has_a_dot() -> None:
    weights = [[0.1, 0.7, 0.2], [0.5, 0.0, 0.5], [0.2, 0.2, 0.2]]
    svg = draw_alignment_svg(list("abc"), list("xyz"), weights)
    rows = list(ElementTree.fromstring(svg).iter(f"{SVG}g"))
    marked = [[round(float(c.attrib["cx"]) / 34 - 0.5) for c in row.iter(f"{SVG}circle")] for row in rows]
    assert marked == [[1], [0, 2], []]
    assert dots(draw_alignment_svg(["a"], ["x"], [[1.0]])) == 1


def test_the_file_needs_nothing_else_and_follows_dark_mode() -> None:
    svg = draw_alignment_svg(["a"], ["b"], [[0.5]], title="T")
    assert re.findall(r"https?://[^\"' ]+", svg) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in svg
    assert " id=" not in svg, "two pictures in one page must not share names"
    assert "prefers-color-scheme:dark" in svg
    assert 'role="img" aria-label="T"' in svg
    assert draw_alignment_svg(["a"], ["b"], [[0.5]], title="T") == svg


def test_text_shades_the_cells_and_names_the_strongest() -> None:
    text = draw_alignment_text(["the", "cat"], ["die", "Katze"], [[1.0, 0.0], [0.3, 0.7]])
    assert text.splitlines() == [
        "       t c",
        "       h a",
        "       e t",
        "  die │██  │ the 1.00",
        "Katze │░░▓▓│ cat 0.70",
    ]


def test_text_lines_up_for_any_token() -> None:
    text = draw_alignment_text(AWKWARD, AWKWARD, np.eye(len(AWKWARD)))
    rows = [line for line in text.splitlines() if "│" in line]
    starts = set()
    for row in rows:
        before, shades, _ = row.split("│")
        assert len(shades) == 2 * len(AWKWARD)
        zero = [c for c in before if unicodedata.category(c) in ("Mn", "Me", "Cf")]
        wide = [c for c in before if unicodedata.east_asian_width(c) in "WF"]
        starts.add(len(before) - len(zero) + len(wide))
    assert len(rows) == len(AWKWARD)
    assert len(starts) == 1
    assert not [c for c in text if unicodedata.category(c) in ("Cc", "Cs") and c != "\n"]


@pytest.mark.parametrize("draw", [draw_alignment_svg, draw_alignment_text])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros((3, 2)), r"shape \(3, 2\): they must be \(2, 3\)"),
        (np.zeros(6), r"shape \(6,\)"),
        (np.zeros((1, 2, 3)), r"shape \(1, 2, 3\)"),
        ([[0.1, 0.2, 0.3], [0.1]], r"unequal length: they must be \(2, 3\)"),
        ([[0.0, 0.0, 0.0], [0.0, 0.0, 1.5]], r"weight 1.5 at row 1, column 2 of \(2, 3\)"),
        ([[0.0, -0.1, 0.0], [0.0, 0.0, 1.0]], "weight -0.1 at row 0, column 1"),
        ([[0.0, float("nan"), 0.0], [0.0, 0.0, 1.0]], "weight nan at row 0, column 1"),
        ([[0.0, 0.0, 0.0], [float("inf"), 0.0, 1.0]], "weight inf at row 1, column 0"),
    ],
)
def test_weights_that_are_none_are_refused(draw: type, weights: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(["a", "b", "c"], ["x", "y"], weights)


@pytest.mark.parametrize("draw", [draw_alignment_svg, draw_alignment_text])
def test_no_tokens_are_refused(draw: type) -> None:
    with pytest.raises(ValueError, match="0 source and 1 target tokens"):
        draw([], ["x"], np.zeros((1, 0)))
    with pytest.raises(ValueError, match="1 source and 0 target tokens"):
        draw(["x"], [], np.zeros((0, 1)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_arrays_of_any_number_type(dtype: type) -> None:
    assert [value for _, value in cells(draw_alignment_svg(["a", "b"], ["x", "y"], np.eye(2, dtype=dtype)))] == [
        1,
        0,
        0,
        1,
    ]
