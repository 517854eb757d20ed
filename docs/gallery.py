"""Makes the pictures and pages of docs/gallery.md from trained runs of Multi30k.

    python docs/gallery.py --transformer runs/multi30k-en-de --recurrent runs/bahdanau

Figures go to docs/images/gallery, pages to docs/pages. Screenshots are taken where playwright and Chromium are there.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import heedful
from heedful.cli.arguments import parse_script_arguments
from heedful.inspection.figures import draw_figure
from heedful.inspection.record import AttentionKind, InspectionRecord
from heedful.inspection.web import render_viewer
from heedful.tasks.inspection_records import InspectionSelection

HERE = Path(__file__).parent
IMAGES, PAGES = HERE / "images" / "gallery", HERE / "pages"

MOVED = "Two women are standing next to a car that has broken down ."
AGREE = "The children who are playing in the park are wearing helmets ."
SHOTS = {"Alignment": "page-alignment", "Step by step": "page-steps", "Decoding": "page-decoding"}


@dataclass(frozen=True)
class Options:
    """Pictures of what trained models attend to."""

    transformer: Path
    """run folder"""
    recurrent: Path
    """run folder"""
    convolutional: Path | None = None
    """run folder"""


def main() -> None:
    """Reads the command line and draws everything."""
    options = parse_script_arguments(Options, __file__)
    IMAGES.mkdir(parents=True, exist_ok=True)
    PAGES.mkdir(exist_ok=True)
    transformer = heedful.load(options.transformer, device="cpu")
    moved, agree = transformer.inspect(MOVED), transformer.inspect(AGREE)
    _draw(moved, "moved-transformer", role="cross")
    _draw(moved, "model", view="model", role="cross")
    _draw(moved, "rollout", view="rollout")
    _draw(moved, "tree", view="tree")
    _draw(agree, "agreement", view="heads", role="decoder", layer=3, head=2)
    _draw(agree, "positions", view="positions")
    _draw(agree, "masks", view="masks")
    _page(agree, "transformer")
    _page(heedful.load(options.recurrent, device="cpu").inspect(MOVED), "recurrent", figure_name="moved-recurrent")
    if options.convolutional is not None:
        record = heedful.load(options.convolutional, device="cpu").inspect(
            MOVED, scope=InspectionSelection(attention_steps=False)
        )
        _page(record, "convolutional", figure_name="moved-convolutional")
    _screenshots(PAGES / "transformer.html")


def _draw(
    record: InspectionRecord,
    name: str,
    *,
    view: str = "alignment",
    role: AttentionKind | None = None,
    layer: int = -1,
    head: int | None = None,
) -> None:
    picture = draw_figure(record, view=view, role=role, layer=layer, head=head)
    (IMAGES / f"{name}.svg").write_text(picture, encoding="utf-8")
    print(f"{name}: {' '.join(each.token for each in record.written)}")


def _page(record: InspectionRecord, name: str, *, figure_name: str | None = None) -> None:
    (PAGES / f"{name}.html").write_text(render_viewer(record), encoding="utf-8")
    if figure_name is not None:
        _draw(record, figure_name, role="cross")


def _screenshots(page: Path) -> None:
    browser = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser = None
    if browser is None:
        print("no screenshots: playwright or chromium is not installed")
        return
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for place, (tab, name) in enumerate(SHOTS.items()):
            scheme = "dark" if place == 0 else "light"
            opened = chromium.new_page(viewport={"width": 1180, "height": 860}, color_scheme=scheme)
            opened.goto(page.as_uri())
            opened.get_by_role("tab", name=tab, exact=True).click()
            opened.wait_for_timeout(2500)
            opened.screenshot(path=IMAGES / f"{name}.png")
        chromium.close()


if __name__ == "__main__":
    main()
