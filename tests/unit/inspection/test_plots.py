from __future__ import annotations

import itertools
import math
import random
import re
from xml.etree import ElementTree

import pytest

from heedful.inspection.page import PageTable, render_html_page
from heedful.inspection.plots import LOGARITHMIC, PlotLine, ReferenceLine, draw_line_plot, escape_unprintable

SVG = "{http://www.w3.org/2000/svg}"
NAMES = {"title": "T", "x_name": "x", "y_name": "y"}


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def courses(svg: str) -> list[list[tuple[float, float]]]:
    """The pixels that each line goes through."""
    found = [path.attrib["d"] for path in parsed(svg).iter(f"{SVG}path") if path.get("class") == "course"]
    return [[(float(x), float(y)) for x, y in (place.split() for place in d[1:].split("L"))] for d in found]


def ticks(svg: str, anchor: str, axis: str) -> list[tuple[float, float]]:
    """(pixel, value) of the numbers beside an axis."""
    texts = [text for text in parsed(svg).iter(f"{SVG}text") if text.get("text-anchor") == anchor]
    numbers = [(text.attrib[axis], (text.text or "").replace(",", "")) for text in texts]
    return [(float(at), float(label)) for at, label in numbers if re.fullmatch(r"-?[\d.]+", label)]


def value(pixel: float, marks: list[tuple[float, float]]) -> float:
    """What a pixel stands for, by the numbers of its axis alone."""
    (first, low), (last, high) = marks[0], marks[-1]
    return low + (pixel - first) / (last - first) * (high - low)


def test_a_known_line_ends_where_it_should() -> None:
    ((start, middle, end),) = courses(draw_line_plot([PlotLine("a", ((0, 0), (5, 10), (10, 5)))], **NAMES))
    assert (start, middle, end) == ((0, 320), (310, 0), (620, 160))


@pytest.mark.parametrize("scale", [3e-4, 1.0, 70.0, 1e6])
def test_every_point_can_be_read_off_the_axes(scale: float) -> None:
    dice = random.Random(scale)
    points = tuple((dice.uniform(-1, 1) * scale, dice.uniform(2, 3) * scale) for _ in range(12))
    svg = draw_line_plot([PlotLine("a", points[:7]), PlotLine("b", points[7:])], **NAMES)
    across, up = ticks(svg, "middle", "x"), ticks(svg, "end", "y")
    assert 3 <= len(across) <= 10
    assert 3 <= len(up) <= 10
    first, second = courses(svg)
    for (x, y), (px, py) in zip(points, first + second, strict=True):
        assert (0 <= px <= 620, 0 <= py <= 320) == (True, True)
        # Pixels are written with one decimal, over 620 and 320 of them.
        assert value(px, across) == pytest.approx(x, abs=2e-3 * scale)
        assert value(py, up) == pytest.approx(y, abs=2e-3 * scale)


def test_numbers_beside_an_axis_tell_their_differences() -> None:
    marks = [
        label for _, label in ticks(draw_line_plot([PlotLine("a", ((0, 1.001), (1, 1.0024)))], **NAMES), "end", "y")
    ]
    assert len(set(marks)) == len(marks)
    assert (min(marks) <= 1.001, max(marks) >= 1.0024) == (True, True)


def test_equal_values_and_single_points_have_a_place() -> None:
    svg = draw_line_plot([PlotLine("flat", ((1, 3), (2, 3))), PlotLine("dot", ((2, 3),))], **NAMES)
    ((start, end),) = courses(svg)
    assert start[1] == end[1] == 160
    assert len(list(parsed(svg).iter(f"{SVG}circle"))) == 3
    assert draw_line_plot([PlotLine("zero", ((0, 0),))], **NAMES)


def test_an_axis_reaches_as_far_as_it_is_told() -> None:
    marks = ticks(draw_line_plot([PlotLine("a", ((0, 30), (1, 34)))], y_include=0, **NAMES), "end", "y")
    assert 0 in [label for _, label in marks]


def test_names_along_the_axis_stand_below_their_points() -> None:
    names = [(0, "short"), (1, "long"), (2, "longer")]
    svg = draw_line_plot([PlotLine("a", ((0, 1), (1, 2), (2, 3)))], x_ticks=names, **NAMES)
    labels = {text.text: float(text.attrib["x"]) for text in parsed(svg).iter(f"{SVG}text") if text.get("x")}
    (course,) = courses(svg)
    assert [x for x, _ in course] == pytest.approx([labels[name] for _, name in names], abs=0.1)
    assert "a: longer, 3" in svg


def test_spreads_reach_from_low_to_high_beside_their_points() -> None:
    lines = [PlotLine(name, ((0, 5), (1, 5)), ((0, 10), None)) for name in "ab"]
    svg = draw_line_plot(lines, **NAMES)
    bars = re.findall(r'class="spread"[^>]* d="M([-\d.]+) ([\d.]+)V([\d.]+)"', svg)
    assert [(low, high) for _, low, high in bars] == [("320.0", "0.0")] * 2
    dots = [circle.attrib["cx"] for circle in parsed(svg).iter(f"{SVG}circle")]
    assert [x for x, _, _ in bars] == [dots[0], dots[2]]
    assert dots[0] != dots[2]


def test_bands_lie_around_their_lines() -> None:
    svg = draw_line_plot([PlotLine("a", ((0, 5), (5, 6), (10, 4)), band=((0, 8), (4, 10), (2, 5)))], **NAMES)
    (area,) = re.findall(r'class="band"[^>]* d="M([^"]*)Z"', svg)
    corners = [tuple(map(float, place.split())) for place in area.split("L")]
    assert corners == [(0, 320), (310, 192), (620, 256), (620, 160), (310, 0), (0, 64)]
    assert courses(svg) == [[(0, 160), (310, 128), (620, 192)]], "lines with bands are not moved aside"


def test_levels_cross_the_plot_and_stand_last_in_the_legend() -> None:
    svg = draw_line_plot([PlotLine("a", ((0, 5), (1, 6)))], levels=[ReferenceLine("nothing <learned>", 0)], **NAMES)
    levels = [path for path in parsed(svg).iter(f"{SVG}path") if path.get("class") == "level"]
    assert levels[0].attrib["d"] == "M0 320.0H620"
    assert all(path.get("stroke-dasharray") for path in levels)
    texts = [text.text for text in parsed(svg).iter(f"{SVG}text")]
    assert texts[-2:] == ["a", "nothing <learned>"]
    (tip,) = levels[0]
    assert tip.text == "nothing <learned>: 0"


def test_lines_of_one_hue_have_different_dashes_and_all_are_in_the_legend() -> None:
    lines = [PlotLine(f"run {i}", ((0, i), (1, i))) for i in range(20)]
    svg = draw_line_plot([*lines, PlotLine("nothing", ())], **NAMES)
    drawn = list(parsed(svg).iter(f"{SVG}g"))
    looks = {(g.get("class"), g[0].get("stroke-dasharray")) for g in drawn if len(g)}
    assert len(looks) == 20
    texts = [text.text for text in parsed(svg).iter(f"{SVG}text")]
    assert texts[-21:] == [*(f"run {i}" for i in range(20)), "nothing (no points)"]
    height = float(parsed(svg).attrib["height"])
    top = float(parsed(svg).attrib["viewBox"].split()[1])
    assert max(float(text.attrib["y"]) for text in parsed(svg).iter(f"{SVG}text")) < height + top


def test_words_are_escaped_everywhere() -> None:
    odd = "<b>&\"'\x00\ud800\u202e"
    svg = draw_line_plot([PlotLine(odd, ((0, 1),))], title=odd, x_name=odd, y_name=odd, x_ticks=[(0, odd)])
    shown = "<b>&\"'[U+0000][U+D800][U+202E]"
    assert escape_unprintable(odd) == shown
    root = parsed(svg)
    assert root.attrib["aria-label"] == shown
    assert [text.text for text in root.iter(f"{SVG}text")].count(shown) == 5
    assert next(root.iter(f"{SVG}circle"))[0].text == f"{shown}: {shown}, 1"
    svg.encode()


def test_nothing_is_loaded_from_elsewhere() -> None:
    svg = draw_line_plot([PlotLine("a", ((0, 1),))], **NAMES).replace('xmlns="http://www.w3.org/2000/svg"', "")
    page = render_html_page("p", tables=[PageTable("t", ["a"], [["b"]])], pictures=[svg])
    assert not re.search(r"https?:|src=|href=|url\(|@import|<script", page)
    assert page.count("prefers-color-scheme:dark") == 2


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_numbers_that_have_no_place(wrong: float) -> None:
    with pytest.raises(ValueError, match="line 'a': holds a number that is not finite"):
        PlotLine("a", ((0, 1), (1, wrong)))
    with pytest.raises(ValueError, match="not finite"):
        PlotLine("a", ((0, 1),), ((wrong, 2),))
    with pytest.raises(ValueError, match="not finite"):
        PlotLine("a", ((0, 1),), band=((wrong, 2),))
    with pytest.raises(ValueError, match="level 'b'"):
        ReferenceLine("b", wrong)


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="2 spreads for 1 points"):
        PlotLine("a", ((0, 1),), ((0, 1), (0, 1)))
    with pytest.raises(ValueError, match="2 bounds for 1 points"):
        PlotLine("a", ((0, 1),), band=((0, 1), (0, 1)))
    for lines in ([], [PlotLine("a", ())]):
        with pytest.raises(ValueError, match="a plot without a point"):
            draw_line_plot(lines, **NAMES)


def test_a_table_as_text_and_as_a_part_of_a_page() -> None:
    table = PageTable("title & co", ["run", "n"], [["a", "1"], ["longer <i>", "1,000"]], ["a note\x1b[1m"])
    assert table.format_text() == (
        "title & co\nrun             n\na               1\nlonger <i>  1,000\na note[U+001B][1m\n"
    )
    page = render_html_page("p & q", tables=[table], pictures=[draw_line_plot([PlotLine("a", ((0, 1),))], **NAMES)])
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    assert [cell.text for cell in root.iter("td")] == ["a", "1", "longer <i>", "1,000"]
    assert [cell.text for cell in root.iter("th")] == ["run", "n"]
    assert next(root.iter("h1")).text == "p & q"
    assert next(root.iter("p")).text == "a note[U+001B][1m"
    assert len(list(root.iter(f"{SVG}svg"))) == 1


SUPERSCRIPT = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def powers(svg: str, anchor: str, axis: str) -> list[tuple[float, float]]:
    """(pixel, value) of the numbers beside a logarithmic axis, read as a person reads them."""
    found = []
    for text in parsed(svg).iter(f"{SVG}text"):
        label = (text.text or "").replace(",", "")
        if text.get("text-anchor") == anchor and (label[0].isdigit()):
            factor, raised, power = re.fullmatch(r"(\d[\d.]*?)?·?(?:(10)([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?", label).groups()
            exponent = int(power.translate(SUPERSCRIPT)) if raised else 0
            found.append((float(text.attrib[axis]), float(factor or 1) * 10.0**exponent))
    return found


@pytest.mark.parametrize("decades", [0.2, 1, 2.9, 5, 9, 23])
@pytest.mark.parametrize("lowest", [3.7e-9, 0.02, 128, 4e7])
def test_every_point_can_be_read_off_logarithmic_axes(decades: float, lowest: float) -> None:
    dice = random.Random(f"{decades} {lowest}")
    draws = [(10 ** dice.uniform(0, decades), lowest * 10 ** dice.uniform(0, decades)) for _ in range(9)]
    points = ((1, lowest), *draws, (10**decades, lowest * 10**decades))
    svg = draw_line_plot([PlotLine("a", points)], x_scale=LOGARITHMIC, y_scale=LOGARITHMIC, **NAMES)
    across, up = powers(svg, "middle", "x"), powers(svg, "end", "y")
    for marks, length in ((across, 620), (up, 320)):
        assert 2 <= len(marks) <= 13
        assert {round(math.log10(each) % 1, 3) for _, each in marks} <= {0, 0.301, 0.699}, "1, 2, 5 times powers of ten"
        assert {marks[0][0], marks[-1][0]} == {0, length}
        assert sorted(each for _, each in marks) == [each for _, each in marks]
    (course,) = courses(svg)
    for (x, y), (px, py) in zip(points, course, strict=True):
        for here, pixel, marks in ((x, px, across), (y, py, up)):
            read = value(pixel, [(at, math.log10(each)) for at, each in marks])
            assert read == pytest.approx(math.log10(here), abs=1e-3 * (decades + 1))


def test_a_power_law_is_straight_on_logarithmic_axes() -> None:
    points = tuple((2**n, 3.0 * 4**n) for n in range(7, 13))
    names = [(2**n, str(2**n)) for n in range(7, 13)]
    for ticks in (None, names):
        svg = draw_line_plot([PlotLine("n²", points)], x_ticks=ticks, x_scale=LOGARITHMIC, y_scale=LOGARITHMIC, **NAMES)
        (course,) = courses(svg)
        steps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(course)]
        assert all(step == pytest.approx(steps[0], abs=0.21) for step in steps), "pixels have one decimal"
    shown = [text.text for text in parsed(svg).iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    assert shown[:-1] == [name for _, name in names]


@pytest.mark.parametrize("wrong", [0, -1.5])
def test_what_has_no_logarithm(wrong: float) -> None:
    lines = [PlotLine("a", ((1, 1), (2, 2)))]
    with pytest.raises(ValueError, match=f"{wrong} cannot be drawn on a logarithmic axis"):
        draw_line_plot([*lines, PlotLine("b", ((wrong, 1),))], x_scale=LOGARITHMIC, **NAMES)
    with pytest.raises(ValueError, match="take a linear one"):
        draw_line_plot([PlotLine("b", ((1, 2),), ((wrong, 3),))], y_scale=LOGARITHMIC, **NAMES)
    with pytest.raises(ValueError, match="logarithmic"):
        draw_line_plot(lines, y_include=wrong, y_scale=LOGARITHMIC, **NAMES)
    assert draw_line_plot([*lines, PlotLine("b", ((wrong, 1),))], y_scale=LOGARITHMIC, **NAMES)
