"""Compare heedful's page with BertViz 1.4.1's for the same weights: bytes, requests, and time until a page is usable.

    python benchmarks/viewer.py                                             # heedful alone
    python benchmarks/viewer.py --bertviz FOLDER --libraries FOLDER         # and BertViz
    python benchmarks/viewer.py --quick                                     # checks that everything runs

The weights of each query are drawn from a Dirichlet distribution with concentration 0.1, and are about as sharp as
those of trained heads. Chromium opens each page from the disk, in a new browser context each time; the pages take
turns. The time runs from the navigation until the main content is drawn: heedful's map, lines or thumbnails, or
BertViz's SVG. Scripts that draw block the page, so a drawn page is usable.

BertViz is not a dependency of heedful. Install it in a separate folder: `pip install --target FOLDER --no-deps
bertviz==1.4.1`, and also `ipython`, which it imports. Its pages load require.js, jQuery and d3 from a CDN. The
benchmark blocks these requests, so the pages stay blank, as without a network. With `--libraries`, it serves
require.min.js, jquery.min.js and d3.min.js from a folder.
"""

from __future__ import annotations

import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from comparison import Report, describe_machine, options_to_json, print_progress

from heedful.cli.arguments import parse_script_arguments

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from random_records import build_dirichlet_record

from heedful.inspection.record import InspectionRecord
from heedful.inspection.web import render_viewer


@dataclass(frozen=True)
class Options:
    """Compare the pages of heedful and BertViz.

    Attributes:
        layers: number of layers of the model.
        heads: number of heads of each layer.
        length: number of tokens.
        repeats: number of times that each page is opened.
        patience: seconds until a page counts as blank.
        bertviz: folder in which BertViz and IPython are installed.
        libraries: folder with the libraries that BertViz's pages load from a CDN.
        chromium: path of the browser.
        quick: open the page of a small model once.
        json: file for all measurements.
        markdown: file for the table.
    """

    layers: int = 12
    heads: int = 12
    length: int = 128
    repeats: int = 5
    patience: float = 60.0
    bertviz: Path | None = None
    libraries: Path | None = None
    chromium: str = shutil.which("chromium") or "chromium"
    quick: bool = False
    json: Path | None = None
    markdown: Path | None = None


@dataclass(frozen=True)
class Page:
    """A page, and a selector that shows that it is usable.

    Attributes:
        name: name of the view.
        html: content of the page.
        drawn: selector that matches when the page is drawn.
        fragment: fragment of its URL.
    """

    name: str
    html: str
    drawn: str
    fragment: str = ""


@dataclass(frozen=True)
class PageOpening:
    """Measurement of one opening of a page.

    Attributes:
        seconds: time until the page was usable; None if it stayed blank.
        busy: seconds of work of the main thread until then, which other programs hardly change.
        asked: number of requests.
    """

    seconds: float | None
    busy: float
    asked: int


def main() -> None:
    """Run the benchmark with the options of the command line."""
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = replace(options, layers=2, heads=2, length=16, repeats=1, patience=20.0)
    record = build_dirichlet_record(options.layers, options.heads, options.length)
    with start_browser(options) as measure_page:
        pages = [
            *_build_heedful_pages(record),
            *(_build_bertviz_pages(record, options.bertviz) if options.bertviz else []),
        ]
        openings: dict[str, list[PageOpening]] = {page.name: [] for page in pages}
        for turn in range(options.repeats):
            for page in pages:
                openings[page.name].append(measure_page(page))
                print_progress(f"{turn + 1}/{options.repeats} {page.name}: {openings[page.name][-1]}")
    report = Report(
        "The viewer", [*describe_machine(), *_describe_conditions(options)], raw={"options": options_to_json(options)}
    )
    _fill_report(report, pages, openings)
    report.publish(markdown=options.markdown, json_file=options.json)


def _describe_conditions(options: Options) -> list[str]:
    served = "the given folder" if options.libraries else "nothing, as without a network"
    return [
        f"{options.layers} layers of {options.heads} heads, {options.length} tokens, {options.repeats} openings each; "
        f"requests to a CDN are answered by {served}",
    ]


def _fill_report(report: Report, pages: list[Page], openings: dict[str, list[PageOpening]]) -> None:
    rows = []
    for page in pages:
        found = openings[page.name]
        times = [each.seconds for each in found if each.seconds is not None]
        seconds = f"{statistics.median(times):.2f} ({min(times):.2f}-{max(times):.2f})" if times else "stays blank"
        busy = f"{statistics.median(each.busy for each in found):.2f}"
        rows.append([page.name, f"{len(page.html.encode()):,}", seconds, busy, str(max(each.asked for each in found))])
        report.raw[page.name] = {"bytes": len(page.html.encode()), "openings": [asdict(each) for each in found]}
    heads = ["page", "bytes", "seconds until drawn: median (range)", "main thread busy", "requests beside the page"]
    report.tables.append(("Pages", heads, rows))


def _build_heedful_pages(record: InspectionRecord) -> Iterator[Page]:
    html = render_viewer(record)
    for view in ("alignment", "heads", "model"):
        yield Page(f"heedful, {view} view", html, f".view-{view}[data-shown]", f"#view={view}")


def _build_bertviz_pages(record: InspectionRecord, folder: Path) -> Iterator[Page]:
    sys.path.append(str(folder))
    from bertviz import head_view, model_view

    attention = [torch.from_numpy(each.weights)[None] for each in record.maps]
    tokens = list(record.axes[0].tokens)
    for name, view in (("head", head_view), ("model", model_view)):
        html = view(attention=attention, tokens=tokens, html_action="return").data
        yield Page(f"BertViz, {name} view", html, "svg line, svg rect, svg text")


@contextmanager
def start_browser(options: Options) -> Iterator[Callable[[Page], PageOpening]]:
    """Start a browser; yield a function that opens and measures a page."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"], timeout=120_000)
        yield lambda page: _measure_page(browser, page, Path(folder) / "page.html", options)
        browser.close()


# After two frames, everything drawn is on the screen.
_WAIT_UNTIL_PAINTED = """async () => {
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() / 1000;
}"""


def _measure_page(browser: Any, page: Page, path: Path, options: Options) -> PageOpening:
    from playwright.sync_api import TimeoutError as TooLate

    path.write_text(page.html, encoding="utf-8")
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    clock = context.new_cdp_session(tab)
    clock.send("Performance.enable", {"timeDomain": "threadTicks"})
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.url)
        file = None if options.libraries is None else options.libraries / Path(route.request.url).name
        if file is None or not file.is_file():
            route.abort()
        else:
            route.fulfill(path=file, content_type="text/javascript")

    tab.route(re.compile("^https?:"), answer)
    try:
        tab.goto(path.as_uri() + page.fragment, wait_until="commit", timeout=1000 * options.patience)
        tab.wait_for_selector(page.drawn, state="attached", timeout=1000 * options.patience)
        seconds: float | None = tab.evaluate(_WAIT_UNTIL_PAINTED)
    except TooLate:
        seconds = None
    measured = {each["name"]: each["value"] for each in clock.send("Performance.getMetrics")["metrics"]}
    context.close()
    return PageOpening(seconds, measured["TaskDuration"], len(asked))


if __name__ == "__main__":
    main()
