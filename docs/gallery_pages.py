"""Makes the screenshots of docs/gallery.md that show the page on screens of two widths, in light and in dark.

    python examples/train_in_python.py
    python docs/gallery_pages.py --run runs/tiny

They go to docs/images/gallery; playwright and Chromium take them.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import heedful
from heedful.cli.arguments import parse_script_arguments
from heedful.inspection.web import render_viewer
from heedful.tasks.inspection_records import InspectionSelection

IMAGES = Path(__file__).parent / "images" / "gallery"
TEXT = "two black cats and a white dog"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")


@dataclass(frozen=True)
class Shot:
    """A picture of the page: a view, or a stop of the guided tour by its title."""

    name: str
    view: str
    size: tuple[int, int]
    scheme: Literal["light", "dark"]
    stop: str | None = None
    word: str | None = None


WIDE, PHONE = (1280, 800), (360, 740)
SHOTS = (
    Shot("page-tour-1280-light", "alignment", WIDE, "light", "Cross attention", "white"),
    Shot("page-tour-1280-dark", "alignment", WIDE, "dark", "One head in numbers", "cats"),
    Shot("page-layers-1280-light", "architecture", WIDE, "light"),
    Shot("page-attribution-1280-dark", "attribution", (1280, 1000), "dark"),
    Shot("page-heads-360-light", "heads", PHONE, "light"),
    Shot("page-tour-360-dark", "alignment", PHONE, "dark", "Probabilities of the next token", "cats"),
    Shot("page-attribution-360-light", "attribution", PHONE, "light"),
)


@dataclass(frozen=True)
class Options:
    """Screenshots of the page of one sentence."""

    run: Path = Path("runs/tiny")
    """run folder"""


def main() -> None:
    """Reads the command line and takes all pictures."""
    from playwright.sync_api import sync_playwright

    options = parse_script_arguments(Options, __file__)
    IMAGES.mkdir(parents=True, exist_ok=True)
    record = heedful.load(options.run, device="cpu").inspect(TEXT, scope=InspectionSelection(attribution="integrated"))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "page.html"
        page.write_text(render_viewer(record), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        for shot in SHOTS:
            _take(browser, page.as_uri(), shot)
        browser.close()


def _take(browser: Any, address: str, shot: Shot) -> None:
    width, height = shot.size
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=shot.scheme)
    page.goto(f"{address}#view={shot.view}")
    page.wait_for_selector("html[data-ready=true]")
    page.get_by_text("How to read this").click()
    if shot.stop is not None:
        page.get_by_role("button", name="Guided tour").click()
        page.wait_for_selector(".tour h3:not(:empty)")
        page.get_by_label("Word").select_option(label=shot.word)
        page.get_by_role("button", name="Next", exact=True).last.focus()
        page.wait_for_timeout(500)
        while page.locator(".tour h3").text_content() != shot.stop:
            page.keyboard.press("ArrowRight")
            page.wait_for_timeout(300)
    elif width == PHONE[0]:
        page.locator(".tabs").evaluate("each => each.scrollIntoView()")
    page.wait_for_timeout(1500)
    page.screenshot(path=IMAGES / f"{shot.name}.png")
    page.close()


if __name__ == "__main__":
    main()
