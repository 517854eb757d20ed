"""Figures of pictures, clips, glimpses, stories and dialogues are true to the numbers of their records."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from xml.etree import ElementTree

import numpy as np
import pytest
from random_records import build_random_record
from rich.console import Console
from view_records import (
    build_caption_record,
    build_chain_record,
    build_clip_record,
    build_cross_map,
    build_dialogue_record,
    build_glimpse_record,
    build_level_record,
    build_speech_record,
    build_story_record,
)

from heedful.errors import DataError
from heedful.inspection.figures import draw_figure
from heedful.inspection.figures.pictures import (
    SMOOTHING_WIDTH,
    build_gaussian_kernel,
    build_overlap_kernel,
    overlay_weights,
)
from heedful.inspection.figures.sheet import MapSelection
from heedful.inspection.figures.stories import find_hops, find_likeliest_chains, name_steps, sum_over_spans
from heedful.inspection.heatmap import GLOW, INK, map_colours
from heedful.inspection.record import InspectionRecord, MapAxis
from heedful.inspection.terminal import render_terminal
from heedful.inspection.web import build_payload

SVG = "{http://www.w3.org/2000/svg}"


def nodes(svg: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg.encode("utf-8")).iter(SVG + tag))


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in nodes(svg, "text")]


def test_each_place_takes_from_cells_by_a_gaussian_of_their_distance() -> None:
    found = build_gaussian_kernel(9, 4)
    for place in range(9):
        here = (place + 0.5) / 9 * 4
        shares = [math.exp(-((here - (cell + 0.5)) ** 2) / (2 * SMOOTHING_WIDTH**2)) for cell in range(4)]
        np.testing.assert_allclose(found[place], np.array(shares) / sum(shares), rtol=1e-12)


@pytest.mark.parametrize(("places", "cells"), [(6, 3), (3, 6), (5, 3), (1, 4), (4, 1), (7, 7)])
def test_each_place_takes_from_cells_what_lies_in_them(places: int, cells: int) -> None:
    found = build_overlap_kernel(places, cells)
    fine = np.zeros((places, cells))
    for tick in range(places * cells):  # each tick lies in one place and in one cell
        fine[tick // cells, tick // places] += 1 / cells
    np.testing.assert_allclose(found, fine, atol=1e-12)


def test_raw_regions_have_the_colours_of_their_weights() -> None:
    cells = np.random.default_rng(1).dirichlet(np.ones(6))
    axis = MapAxis.from_grid("picture", rows=2, columns=3)
    found = overlay_weights(axis, cells, side=30.0, selection=MapSelection(smooth=False))
    assert found.shape == (20, 30, 3)
    expected = map_colours((cells / cells.max()).reshape(2, 3), GLOW)
    np.testing.assert_array_equal(found, expected.repeat(10, 0).repeat(10, 1))


def test_over_a_picture_weights_are_mixed_and_the_picture_keeps_its_place() -> None:
    picture = np.zeros((1, 4, 4, 3), np.uint8)
    picture[0, :2, 2:] = 200  # the upper right region
    axis = MapAxis.from_grid("picture", rows=2, columns=2, pictures=picture)
    found = overlay_weights(axis, np.array([1.0, 0, 0, 0]), side=8.0, selection=MapSelection(smooth=False)).astype(
        float
    )
    strong, weak = (map_colours(np.array([[share]]), GLOW)[0, 0].astype(float) for share in (1, 0))
    np.testing.assert_allclose(found[1, 1], 0.55 * strong, atol=0.51)
    np.testing.assert_allclose(found[1, 6], 0.55 * weak + 0.45 * 200, atol=0.51)
    np.testing.assert_allclose(found[6, 1], 0.55 * weak, atol=0.51)


def test_written_words_have_their_probabilities() -> None:
    record = build_caption_record()
    assert name_steps(record, record.maps[0]) == ["A(1.00)", "red(0.87)", "ball(0.64)", "</s>(0.40)"]
    assert name_steps(build_story_record(), build_story_record().maps[0]) == ["Where is the milk?"]
    svg = draw_figure(record, view="regions")
    assert [text for text in texts(svg) if "(" in text] == name_steps(record, record.maps[0])
    assert len(nodes(svg, "image")) == 4
    assert "cross layer 0, mean of 2 heads" in texts(svg)
    assert "cross layer 0, head 1" in texts(draw_figure(record, view="regions", head=1))


def test_a_map_is_chosen_by_role_and_layer_among_those_that_fit() -> None:
    record = build_caption_record()
    other = build_cross_map(record.maps[0].weights[:, :, :4], keys="read", layer=1)
    both = replace(record, maps=(*record.maps, replace(other, role="decoder")))
    assert draw_figure(both, view="regions") == draw_figure(record, view="regions")
    with pytest.raises(DataError, match="no attention to a picture in this record; layers 0 have it"):
        draw_figure(both, view="regions", layer=1)
    with pytest.raises(DataError, match="no attention to a picture"):
        draw_figure(both, view="regions", role="decoder")


@pytest.mark.parametrize("record", [build_clip_record(), build_speech_record(), build_clip_record(4, pictures=False)])
def test_bars_are_as_high_as_weights(record: InspectionRecord) -> None:
    [each] = record.maps
    svg = draw_figure(record, view="frames")
    paths = [node.attrib["d"] for node in nodes(svg, "path")]
    heights = np.array([[-float(high) for high in re.findall(r"v(-?[\d.]+)h", path)] for path in paths])
    np.testing.assert_allclose(
        heights / heights.max(), each.mean_weights / each.mean_weights.max(), atol=2e-3
    )  # two digits of a pixel
    assert f"the highest bar is {each.mean_weights.max():.3f}" in " ".join(texts(svg))


def test_known_frames_are_marked_where_their_bars_are() -> None:
    svg = draw_figure(build_clip_record(), view="frames")
    marks = [node for node in nodes(svg, "rect") if node.attrib.get("class") == "hue1"]
    bars = [float(x) for x in re.findall(r"M([\d.]+) ", nodes(svg, "path")[0].attrib["d"])]
    assert [float(mark.attrib["x"]) for mark in marks] == pytest.approx([bars[2], bars[3]], abs=0.1)
    assert len(nodes(svg, "image")) == 8
    assert (
        len(nodes(draw_figure(build_clip_record(60), view="frames"), "image")) == 15
    )  # of many frames every fourth is shown
    assert len(nodes(draw_figure(build_speech_record(), view="frames"), "image")) == 1


def test_glimpses_stand_where_they_looked() -> None:
    record = build_glimpse_record()
    svg = draw_figure(record, view="glimpses")
    [picture] = nodes(svg, "image")
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    assert width / height == pytest.approx(1.5, abs=0.01)
    circles = [(float(node.attrib["cx"]), float(node.attrib["cy"])) for node in nodes(svg, "circle")]
    assert circles == [
        (pytest.approx(each.column * width, abs=0.1), pytest.approx(each.row * height, abs=0.1))
        for each in record.glimpses
    ]
    squares = [float(node.attrib["width"]) for node in nodes(svg, "rect") if "stroke" in node.attrib.get("style", "")]
    assert squares == pytest.approx([size * height for each in record.glimpses for size in each.sizes], abs=0.1)
    assert "0.950" in texts(svg)


@pytest.mark.parametrize("ramp", [GLOW, INK])
def test_hops_have_all_weights_and_a_dot_for_what_matters(ramp: object) -> None:
    record = build_story_record()
    svg = draw_figure(record, view="hops", ramp=ramp)  # type: ignore[arg-type]
    numbers = [text for text in texts(svg) if re.fullmatch(r"\d\.\d{3}", text)]
    assert numbers == [f"{weight:.3f}" for each in record.maps for weight in each.weights[0, 0].tolist()]
    assert [text for text in texts(svg) if text.startswith("● ")] == [
        "● Mary took the milk.",
        "● Sandra went to the office.",
        "● is known to matter",
    ]


def test_hops_are_maps_of_one_query_or_heads_of_a_summary() -> None:
    assert [(each.layer, head) for each, head in find_hops(build_story_record(4))] == [
        (0, None),
        (1, None),
        (2, None),
        (3, None),
    ]
    summed = build_random_record(1, 3, roles=("encoder", "summary"))
    assert [head for _, head in find_hops(summed)] == [0, 1, 2]
    assert find_hops(build_random_record()) == []
    assert find_hops(build_story_record(1)) == []


def test_turns_get_the_sums_of_their_words() -> None:
    record = build_dialogue_record()
    [each] = record.maps
    axis = record.get_axis("source")
    found = sum_over_spans(each, axis, MapSelection())
    for query in range(4):
        for number, (start, stop) in enumerate([(0, 5), (5, 9), (9, 13)]):
            assert found[query, number] == pytest.approx(
                sum(each.mean_weights[query, key] for key in range(start, stop))
            )
    numbers = [text for text in texts(draw_figure(record, view="turns")) if re.fullmatch(r"\d\.\d{3}", text)]
    assert numbers == [f"{share:.3f}" for row in found.tolist() for share in row]


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_most_probable_chains_are_those_of_counting_all(steps: int, seed: int) -> None:
    [each] = build_chain_record(steps, seed=seed, facts="abcd").maps
    assert each.edges is not None
    nodes, edges = each.weights[0].astype(float), each.edges[0].astype(float)
    chances = {}
    for path in itertools.product(range(4), repeat=steps):
        chance = nodes[0, path[0]]
        for step in range(1, steps):
            chance *= edges[step - 1, path[step - 1], path[step]] / max(nodes[step - 1, path[step - 1]], 1e-30)
        chances[path] = chance
    assert sum(chances.values()) == pytest.approx(1, abs=1e-4)
    best = sorted(chances, key=lambda path: -chances[path])[:3]
    found = find_likeliest_chains(each.weights[0], each.edges[0])
    assert [path for path, _ in found] == best
    assert [chance for _, chance in found] == pytest.approx([chances[path] for path in best], rel=1e-5)


def test_a_chain_has_a_circle_for_each_fact_and_step_and_its_best_paths() -> None:
    record = build_chain_record(3, heads=2)
    svg = draw_figure(record, view="chain", head=1)
    [each] = record.maps
    assert each.edges is not None
    found = [float(node.attrib["fill-opacity"]) for node in nodes(svg, "circle")]
    assert found == pytest.approx(each.weights[1].ravel().tolist(), abs=0.0051)
    widths = [float(node.attrib["stroke-width"]) for node in nodes(svg, "path")]
    assert widths == pytest.approx([0.5 + 7 * p for p in each.edges[1].ravel().tolist() if p > 0.01], abs=0.01)
    [told_of] = build_payload(record)["maps"]
    assert told_of["chains"] == [
        *(find_likeliest_chains(each.weights[head], each.edges[head]) for head in range(2)),
        find_likeliest_chains(each.mean_weights, each.edges.mean(0)),
    ]
    with pytest.raises(DataError, match="has heads 0, 1 in this record, not 5"):
        draw_figure(record, view="chain", head=5)


def test_a_step_that_nothing_reaches_is_in_no_chain() -> None:
    nodes, edges = np.array([[1.0, 0.0], [0.25, 0.75]]), np.array([[[0.25, 0.75], [0.0, 0.0]]])
    assert find_likeliest_chains(nodes, edges) == [((0, 1), 0.75), ((0, 0), 0.25)]


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("regions", "no attention to a picture"),
        ("frames", "no attention to frames"),
        ("glimpses", "no glimpses"),
        ("hops", "no hops"),
        ("chain", "no attention to a chain of facts"),
        ("turns", "no attention to a text with turns"),
    ],
)
def test_what_a_record_lacks_is_said(view: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        draw_figure(build_random_record(), view=view)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (build_story_record, ("hops over facts; ● is known to matter", "Mary took the milk.")),
        (build_chain_record, ("cross layer 0: the most probable chains", " → ")),
        (build_dialogue_record, ("what each word takes from each turn", "1 user")),
        (build_glimpse_record, ("glimpses, of the picture", "7 0.95")),
        (build_level_record, ("forward and backward", "forward, from the source", "attention", "its own token")),
    ],
)
def test_a_terminal_shows_them_as_tables(make: Callable[[], InspectionRecord], expected: tuple[str, ...]) -> None:
    out = StringIO()
    Console(file=out, width=160).print(render_terminal(make()))
    assert all(text in out.getvalue() for text in expected)
    assert "mostly the token at" not in out.getvalue() or make is build_chain_record
