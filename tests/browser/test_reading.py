"""How people read the page: its heading, its explanations, its colours, on a phone and on paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_records import build_answer_record, build_random_record

PHONE = {"width": 320, "height": 640}
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def list_views(page: Any) -> list[str]:
    return list(page.locator("[role=tab]").evaluate_all("tabs => tabs.map((tab) => tab.id.slice(4))"))


def open_view(page: Any, view: str) -> None:
    page.evaluate("view => { location.hash = `#view=${view}` }", view)
    page.wait_for_selector(f".view-{view} > *", state="attached")
    page.wait_for_timeout(250)


def test_the_heading_shows_the_text(open_page: Callable[..., Any]) -> None:
    """This works also without scripts; a text with HTML stays text."""
    page = open_page(replace(build_random_record(), title="a man", said="ein <b>Mann</b>"))
    assert page.locator("h1").text_content() == "a man"
    assert page.locator("h1 + .said").text_content() == "ein <b>Mann</b>"
    page = open_page(build_answer_record())
    assert page.locator("h1 + .said").text_content().startswith("class: entailment · number: -2.5")
    assert open_page(build_random_record()).locator(".said").count() == 0


def test_an_explanation_is_open_at_first_only(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record())
    help_ = page.locator("details.help")
    shown = "each => each.open"
    assert help_.evaluate(shown)
    page.keyboard.press("2")
    assert help_.evaluate(shown)
    page.keyboard.press("1")
    assert not help_.evaluate(shown)
    page.get_by_text("How to read this").click()
    page.keyboard.press("2")
    assert not help_.evaluate(shown)
    page.keyboard.press("1")
    assert help_.evaluate(shown), "the user opened it"
    page.reload()
    page.wait_for_selector("html[data-ready=true]")
    assert help_.evaluate(shown)
    page.keyboard.press("2")
    assert not help_.evaluate(shown), "the next page remembers the choice"


def test_explanations_work_without_storage(page_opener: Any) -> None:
    """As in frames without an address, and in browsers that store nothing for files."""
    from heedful.inspection.web import render_viewer

    html = render_viewer(build_random_record()).replace(
        "<head>",
        "<head><script>Object.defineProperty(window, 'localStorage', {get() { throw new Error('refused') }})</script>",
    )
    page = page_opener.page(html)
    page.wait_for_selector("html[data-ready=true]")
    assert page.locator("details.help").evaluate("each => each.open")
    page.keyboard.press("2")
    page.keyboard.press("1")
    assert not page.locator("details.help").evaluate("each => each.open")


@pytest.mark.parametrize("width", [320, 360])
def test_nothing_scrolls_sideways_on_a_phone(open_page: Callable[..., Any], width: int) -> None:
    for record in (build_random_record(2, 8, walk=True), build_answer_record(walk=True)):
        page = open_page(record, query="#theme=dark")
        page.set_viewport_size({"width": width, "height": 640})
        for view in list_views(page):
            open_view(page, view)
            assert page.evaluate(SIDEWAYS) <= 0, view
            unfolded = page.locator(".view .controls:not(.keep)").evaluate_all(
                "all => all.filter((each) => each.checkVisibility()).length"
            )
            assert unfolded == 0, "controls are folded away"


def test_controls_unfold(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record())
    assert page.get_by_label("Layer", exact=True).is_visible()
    fold = page.get_by_role("button", name="Controls")
    assert not fold.is_visible(), "there is enough space"
    page.set_viewport_size(PHONE)
    assert not page.get_by_label("Layer", exact=True).is_visible()
    assert fold.get_attribute("aria-expanded") == "false"
    fold.click()
    assert fold.get_attribute("aria-expanded") == "true"
    assert page.get_by_label("Layer", exact=True).is_visible()
    assert page.get_by_label("Scale").is_visible()
    assert page.evaluate(SIDEWAYS) <= 0


def test_hints_and_controls_are_not_printed(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(walk=True))
    for view in list_views(page):
        open_view(page, view)
        page.emulate_media(media="print")
        page.wait_for_timeout(150)
        seen = page.locator("button, select, input, .hint").evaluate_all(
            "all => all.filter((each) => each.checkVisibility()"
            " && !each.closest('table, .words, .thumbnails, [data-box]'))"
            ".map((each) => each.outerHTML)"
        )
        chosen = [each for each in seen if 'aria-checked="true"' not in each]
        assert chosen == [], view
        page.emulate_media(media="screen")


LIGHTNESS = """async ([name, dark]) => {
  const {getRamp, resolveRamp} = await import("heedful/colour.js");
  return [0, 1].map((weight) => getRamp(resolveRamp(name, dark))(weight).reduce((sum, each) => sum + each, 0) / 765);
}"""


@pytest.mark.parametrize("name", ["paper", "ink"])
def test_colour_ramps_start_at_the_background(open_page: Callable[..., Any], name: str) -> None:
    page = open_page(build_random_record())
    for dark in (False, True):
        nothing, all_ = page.evaluate(LIGHTNESS, [name, dark])
        assert (nothing < 0.15 and all_ > 0.8) if dark else (nothing > 0.95 and all_ < 0.35)


def test_a_map_changes_its_colours_with_the_theme(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(sharpness=0.0), color_scheme="light", query="#map=0")
    page.wait_for_selector(".view[data-shown]")
    corner = """() => { const frame = document.querySelector(".scroller"), ratio = devicePixelRatio;
      const [x, y] = [Number(frame.dataset.left) + 5, Number(frame.dataset.top) + 5];
      const context = document.querySelector(".scroller canvas").getContext("2d");
      return [...context.getImageData(x * ratio, y * ratio, 1, 1).data]; }"""
    light = sum(page.evaluate(corner)[:3])
    page.keyboard.press("t")
    page.keyboard.press("t")
    page.wait_for_timeout(100)
    dark = sum(page.evaluate(corner)[:3])
    assert light > 600, "a weight of 0.1 is almost white"
    assert dark < 250


def test_the_threshold_depends_on_the_selected_heads(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record(1, 8), query="#view=heads")
    page.wait_for_selector(".view-heads[data-shown]")
    slider = page.get_by_label("Lines from")
    assert slider.input_value() == "19"
    page.get_by_role("button", name="all").click()
    page.get_by_role("button", name="head 3").click()
    assert slider.input_value() == "5"
    slider.fill("40")
    page.get_by_role("button", name="head 4").click()
    assert slider.input_value() == "40", "a choice is kept"
    even = open_page(build_random_record(1, 8, sharpness=0.0), query="#view=heads")
    even.wait_for_selector(".view-heads[data-shown]")
    assert even.get_by_label("Lines from").input_value() == "5", "half of 1/10, because otherwise there is no line"


def test_lines_between_the_same_tokens_are_side_by_side(open_page: Callable[..., Any]) -> None:
    page = open_page(build_random_record())
    offsets = page.evaluate(
        """async () => {
          const {getLineOffset} = await import("heedful/head_lines.js");
          const list = (count) => Array.from({length: count}, (_, i) => getLineOffset(i, count, 27).offset);
          return [1, 2, 4, 16].map(list);
        }"""
    )
    for row in offsets:
        assert len(set(row)) == len(row)
        assert sum(row) == pytest.approx(0, abs=1e-9)
        assert max(np.abs(row)) <= (27 - 6) / 2 + 1e-9, "inside the row of the token"
