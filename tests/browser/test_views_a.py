"""Alignment, heads, model and summary show the record's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_records import ENGLISH, GERMAN, build_random_record

from heedful.inspection.heads import measure_map
from heedful.inspection.record import InspectionRecord

FINE = 1 / 65535


def locate_cell(page: Any, query: int, key: int) -> tuple[float, float]:
    """Return the middle of a cell of the heat map on the screen."""
    frame = page.locator(".scroller")
    box = frame.bounding_box()
    side, left, top = (float(frame.get_attribute(f"data-{name}")) for name in ("cell", "left", "top"))
    return box["x"] + left + (key + 0.5) * side, box["y"] + top + (query + 0.5) * side


def read_readout(page: Any) -> tuple[int, int, float]:
    shown = page.locator("#readout")
    return tuple(
        kind(shown.get_attribute(f"data-{name}")) for kind, name in ((int, "query"), (int, "key"), (float, "value"))
    )


@pytest.mark.parametrize("head", [0, 1, "mean"])
def test_alignment_shows_the_hovered_value(open_page: Callable[..., Any], head: Any) -> None:
    record = build_random_record()
    page = open_page(record, query=f"#map=4&head={head}")
    page.wait_for_selector(f".view[data-shown='4/{head}']")
    weights = record.maps[4].mean_weights if head == "mean" else record.maps[4].get_head_weights(head)
    for query, key in ((0, 0), (3, 7), (8, 9), (5, 2)):
        page.mouse.move(*locate_cell(page, query, key))
        assert read_readout(page)[:2] == (query, key)
        assert read_readout(page)[2] == pytest.approx(weights[query, key], abs=FINE)
        words = page.locator("#readout").text_content()
        assert f"{GERMAN[query]} ({query}) attends to {ENGLISH[key]} ({key}): " in words
        assert float(words.rpartition(": ")[2]) == pytest.approx(weights[query, key], abs=FINE + 5e-5)


def test_alignment_by_keys(open_page: Callable[..., Any]) -> None:
    record = build_random_record()
    page = open_page(record, query="#map=5&head=1")
    page.wait_for_selector(".view[data-shown]")
    page.locator(".scroller").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert read_readout(page) == (2, 1, pytest.approx(record.maps[5].get_head_weights(1)[2, 1], abs=FINE))
    spoken = page.locator("[aria-live=polite][role=status]").text_content()
    assert spoken == page.locator("#readout").text_content()
    page.keyboard.press("Enter")
    row = page.locator(".strongest-keys dd").all_text_contents()
    best = np.sort(record.maps[5].get_head_weights(1)[2])[::-1]
    np.testing.assert_allclose([float(each) for each in row], best, atol=1e-4)
    page.keyboard.press(".")
    page.keyboard.press("[")
    page.wait_for_selector(".view[data-shown='4/1']")
    assert read_readout(page) == (2, 1, pytest.approx(record.maps[4].get_head_weights(1)[2, 1], abs=FINE))


def test_alignment_as_a_table(open_page: Callable[..., Any]) -> None:
    record = build_random_record()
    page = open_page(record, query="#map=2&head=0")
    page.wait_for_selector(".view[data-shown]")
    page.get_by_role("button", name="As a table").click()
    page.wait_for_selector(".as-table td")
    cells = page.locator(".as-table td").all_text_contents()
    np.testing.assert_allclose([float(each) for each in cells], record.maps[2].get_head_weights(0).ravel(), atol=1e-4)
    assert page.locator(".as-table tbody th").all_text_contents() == list(GERMAN)


def read_pixel(page: Any, query: int, key: int) -> list[int]:
    """Return the colour near the corner of a cell, beside its dot."""
    frame = page.locator(".scroller")
    side, left, top = (float(frame.get_attribute(f"data-{name}")) for name in ("cell", "left", "top"))
    place = [left + (key + 0.25) * side, top + (query + 0.25) * side]
    return page.evaluate(
        """([x, y]) => { const canvas = document.querySelector(".scroller canvas"), ratio = devicePixelRatio;
        return [...canvas.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data].slice(0, 3); }""",
        place,
    )


def test_white_is_high_in_the_grey_of_the_lectures(open_page: Callable[..., Any]) -> None:
    record = build_random_record()
    page = open_page(record, query="#map=4&head=0&ramp=grey")
    page.wait_for_selector(".view[data-shown]")
    for query, key in ((0, 0), (4, 4), (8, 3)):
        level = 255 * record.maps[4].get_head_weights(0)[query, key]
        np.testing.assert_allclose(read_pixel(page, query, key), [level] * 3, atol=1.5)
    page.get_by_label("Scale").select_option("most")
    level = 255 * record.maps[4].get_head_weights(0)[4, 4] / record.maps[4].get_head_weights(0).max()
    np.testing.assert_allclose(read_pixel(page, 4, 4), [level] * 3, atol=1.5)


def test_colours_equal_those_of_the_python_figures(open_page: Callable[..., Any]) -> None:
    from heedful.inspection.heatmap import GLOW, INK

    page = open_page(build_random_record())
    for name, ramp in (("glow", GLOW), ("ink", INK)):
        levels = [i / 255 for i in range(0, 256, 15)]
        found = page.evaluate(
            """async ([name, levels]) => {
              const {getRamp} = await import("heedful/colour.js");
              return levels.map(getRamp(name));
            }""",
            [name, levels],
        )
        expected = [[int(ramp.get_colour(level)[i : i + 2], 16) for i in (1, 3, 5)] for level in levels]
        np.testing.assert_allclose(found, expected, atol=1)


def test_row_sums(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(), query="#map=4&head=0")
    page.wait_for_selector(".view[data-shown]")
    page.get_by_label("row sums").check()
    assert page.locator(".scroller svg text.soft").all_text_contents() == ["1.000"] * len(GERMAN)


def test_zooming_keeps_the_hovered_cell(open_page: Callable[..., Any]) -> None:
    record = build_random_record(1, 1, source=[f"s{i}" for i in range(60)], written=[f"t{i}" for i in range(50)])
    page = open_page(record)
    page.wait_for_selector(".view[data-shown]")
    for _ in range(4):
        page.get_by_role("button", name="Zoom in").click()
    frame = page.locator(".scroller")
    frame.evaluate("each => { each.scrollLeft = 400; each.scrollTop = 300; }")
    page.wait_for_timeout(300)
    side, left, top = (float(frame.get_attribute(f"data-{name}")) for name in ("cell", "left", "top"))
    key, query = int(500 // side), int(400 // side)
    box = frame.bounding_box()
    x, y = left + (key + 0.5) * side - 400, top + (query + 0.5) * side - 300
    page.mouse.move(box["x"] + x, box["y"] + y)
    assert read_readout(page) == (query, key, pytest.approx(record.maps[2].weights[0, query, key], abs=FINE))


def count_inked_pixels(page: Any) -> int:
    """Count the pixels of the lines' canvas that are not empty."""
    return int(
        page.evaluate(
            """() => {
              const canvas = document.querySelector(".scroller canvas");
              const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              return data.filter((x, i) => i % 4 == 3 && x).length;
            }"""
        )
    )


def test_chips_switch_heads(open_page: Callable[..., Any]) -> None:
    record = build_random_record()
    page = open_page(record, query="#view=heads&map=4")
    page.wait_for_selector(".view[data-shown='4']")
    both = count_inked_pixels(page)
    page.get_by_role("button", name="head 0").click()
    one = count_inked_pixels(page)
    assert 0 < one < both
    page.get_by_role("button", name="head 1").click()
    assert count_inked_pixels(page) == 0
    page.get_by_role("button", name="all").click()
    assert count_inked_pixels(page) == both
    page.locator(".controls input[type=range]").fill("50")
    assert 0 < count_inked_pixels(page) < both / 2


def test_a_token_shows_only_its_lines(open_page: Callable[..., Any]) -> None:
    record = build_random_record()
    page = open_page(record, query="#view=heads&map=4&head=1")
    page.wait_for_selector(".view[data-shown='4']")
    whole = count_inked_pixels(page)
    frame = page.locator(".scroller")
    top, row = (float(frame.get_attribute(f"data-{name}")) for name in ("top", "row"))
    box = frame.bounding_box()
    page.mouse.move(box["x"] + 40, box["y"] + top + 3.5 * row)
    assert 0 < count_inked_pixels(page) < whole / 2
    weights = record.maps[4].get_head_weights(1)[3]
    words = page.locator("output.readout").text_content()
    assert words.startswith(f"{GERMAN[3]} attends most to {ENGLISH[int(weights.argmax())]} {weights.max():.3f}"[:-1])
    frame.focus()
    page.keyboard.press("ArrowRight")
    assert "gets most attention from" in page.locator(".view-heads [aria-live]").text_content()


def test_keys_change_the_layer(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(layers=2), query="#view=heads&map=4")
    page.wait_for_selector(".view[data-shown='4']")
    before, after = (page.locator(".view .group button").nth(i) for i in range(2))
    assert before.is_disabled()
    after.click()
    page.wait_for_selector(".view[data-shown='5']")
    assert after.is_disabled()
    assert before.is_enabled()


def test_model_opens_a_head_by_click_or_key(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(layers=2, heads=3), query="#view=model&map=0")
    page.wait_for_selector(".view[data-shown=encoder]")
    assert page.locator(".thumbnail").count() == 6
    page.locator(".thumbnail").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector(".view-alignment[data-shown='1/1']")


def test_model_draws_all_heads(open_page: Callable[..., Any]) -> None:
    record = build_random_record()
    page = open_page(record, query="#view=model&map=4&ramp=grey")
    page.wait_for_selector(".view[data-shown=cross]")
    page.get_by_label("Scale").select_option("1")
    pictures = page.evaluate(
        """() => [...document.querySelectorAll(".thumbnail canvas")].map((canvas) => {
          const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return [...data].filter((_, i) => i % 4 === 0);
        })"""
    )
    expected = [head.ravel() * 255 for each in record.maps[4:] for head in each.weights]
    np.testing.assert_allclose(pictures, expected, atol=1)


def read_numbers(page: Any) -> list[list[str]]:
    return list(
        page.evaluate(
            """() => [...document.querySelectorAll("table.summary tbody tr")].map(
              (row) => [...row.children].map((each) => each.textContent))"""
        )
    )


def test_summary_has_the_numbers_of_python(open_page: Callable[..., Any]) -> None:
    record = build_random_record(layers=2, heads=2)
    page = open_page(record, query="#view=summary")
    page.wait_for_selector("table.summary td")
    names = ("relative_entropy", "distance", "diagonal", "previous", "next", "first", "last", "largest")
    expected = []
    for each in record.maps:
        measures = measure_map(each)
        expected += [[float(getattr(measures, name)[i]) for name in names] for i in range(2)]
    found = [[float("nan") if text == "\u2013" else float(text) for text in row[3:11]] for row in read_numbers(page)]
    np.testing.assert_allclose(found, expected, atol=6e-3, equal_nan=True)


def test_summary_sorts_and_opens(open_page: Callable[..., Any]) -> None:
    record = build_random_record(layers=2, heads=2)
    page = open_page(record, query="#view=summary")
    page.get_by_role("button", name="Entropy").click()
    found = [float(row[3]) for row in read_numbers(page)]
    assert found == sorted(found, reverse=True)
    assert page.locator("th[aria-sort=descending]").text_content() == "Entropy"
    page.get_by_role("button", name="Entropy").click()
    assert [float(row[3]) for row in read_numbers(page)] == sorted(found)
    first = page.locator("table.summary tbody tr").first
    index, head = first.get_attribute("data-map"), first.get_attribute("data-head")
    first.locator("td").nth(4).click()
    page.wait_for_selector(f".view-alignment[data-shown='{index}/{head}']")


def add_odd_heads(record: InspectionRecord) -> InspectionRecord:
    """Return the record with a head 0 that attends uniformly, and a head 1 that always attends to the same token."""
    weights = np.empty_like(record.maps[0].weights)
    weights[0] = 1 / weights.shape[2]
    weights[1] = 0
    weights[1, :, 2] = 1
    return replace(record, maps=(replace(record.maps[0], weights=weights), *record.maps[1:]))


def test_warnings(open_page: Callable[..., Any]) -> None:
    page = open_page(add_odd_heads(build_random_record()), query="#view=summary")
    page.wait_for_selector(".banner")
    said = page.locator(".banner li").all_text_contents()
    assert len(said) == 2
    assert "encoder layer 0, head 0" in said[0]
    assert "same weight" in said[0]
    assert "never changes" in said[1]
    assert [row[11] for row in read_numbers(page)][:3] == ["uniform", "never changes", ""]
    page.get_by_role("button", name="encoder layer 0, head 1").click()
    page.wait_for_selector(".view-alignment[data-shown='0/1'] .banner")
    page.keyboard.press("]")
    page.wait_for_selector(".view-alignment[data-shown='1/1']")
    assert page.locator(".view-alignment .banner").count() == 0
