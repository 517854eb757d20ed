"""The site of a lecture from a disk: repeated pictures and views load files of the site and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_fixture import PATIENCE, browser
from random_records import build_random_record

from heedful.inspection.plots import PlotLine, draw_line_plot
from heedful.lecture.contents import Deck, Question, Slide
from heedful.lecture.figures import FigureContent
from heedful.lecture.models import MODELS
from heedful.lecture.site import write_site

__all__ = ["browser"]

SLIDE = Slide(
    heading="Attention",
    explanation="Weights are positive.",
    equation="c_{t} = Σ_{i} w_{ti} h_{i}" * 6,
    figures=("scaled-scores",),
    questions=(Question(question="Why?", answer="Because."),),
)
DECK = Deck(number=3, title="Deck", lecturer="Somebody", slides=(SLIDE, SLIDE))


@pytest.fixture(name="site")
def _write_site(tmp_path: Path) -> Path:
    plot = draw_line_plot([PlotLine("a", ((0, 1), (1, 2)))], title="t", x_name="x", y_name="y")
    content = FigureContent(plot, "It falls.", build_random_record(layers=1, heads=1), command="heedful " * 40)
    write_site([DECK], {"scaled-scores": content}, list(MODELS.values()), tmp_path, log=print)
    return tmp_path


def open_site_page(browser: Any, path: Path, **options: Any) -> tuple[Any, list[str], list[str]]:
    """Open a page; return it with its requests and its errors and warnings, which grow while it is used."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(PATIENCE)
    requests: list[str] = []
    troubles: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: troubles.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(path.as_uri())
    return page, requests, troubles


def test_a_view_loads_the_shared_script_from_the_disk(browser: Any, site: Path) -> None:
    page, requests, troubles = open_site_page(browser, site / "views" / "scaled-scores.html")
    page.wait_for_selector("html[data-ready=true]")
    files = [url for url in requests if not url.startswith(("data:", "blob:"))]
    assert files == [(site / "views" / name).as_uri() for name in ("scaled-scores.html", "viewer.js")]
    assert troubles == []


def test_a_repeated_picture_is_loaded_from_its_file(browser: Any, site: Path) -> None:
    page, requests, troubles = open_site_page(browser, site / "deck-3.html")
    assert page.locator("figure > svg").count() == page.locator("figure > img").count() == 1
    image = page.locator("figure > img")
    image.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('figure > img').naturalWidth > 0")
    assert {url for url in requests if not url.startswith("data:")} == {
        (site / name).as_uri() for name in ("deck-3.html", "figures/scaled-scores.svg")
    }
    assert troubles == []


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("name", ["index.html", "deck-3.html"])
def test_pages_are_not_wider_than_the_window(browser: Any, site: Path, name: str, width: int) -> None:
    page, _, _ = open_site_page(browser, site / name, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_pages_are_dark_where_the_reader_wants_it(browser: Any, site: Path) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        page, _, _ = open_site_page(browser, site / "deck-3.html", color_scheme=scheme)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness[scheme] = sum(map(int, colour.strip("rgb()").split(",")))
    assert brightness["dark"] < 150, brightness
    assert brightness["light"] > 600, brightness


def test_pages_can_be_read_with_the_keyboard(browser: Any, site: Path) -> None:
    page, _, _ = open_site_page(browser, site / "deck-3.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.parentElement.open")
