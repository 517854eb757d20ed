"""heedful's page beside BertViz 1.4.1's, for the same weights: bytes, requests, and time until a person can use it.

    python benchmarks/viewer.py                                             # heedful alone
    python benchmarks/viewer.py --bertviz FOLDER --libraries FOLDER         # and BertViz
    python benchmarks/viewer.py --quick                                     # whether all of it runs

Weights are random, of a Dirichlet distribution with concentration 0.1 for each query, which is about as sharp as
trained heads are. Each page is opened by Chromium from the disk, in a new browser context each time, one page after
the other in turns. Time runs from the navigation until what the page is for is drawn: heedful's map, lines or
thumbnails, BertViz's SVG; scripts that draw block a page, so what is drawn can be used.

BertViz is no dependency of heedful. Install it where nothing else is disturbed: `pip install --target FOLDER
--no-deps bertviz==1.4.1`, and into the same folder `ipython`, which it imports. Its pages ask a CDN for require.js,
jQuery and d3. Here nothing answers, and they stay blank, as they do wherever there is no network; unless
`--libraries` names a folder with require.min.js, jquery.min.js and d3.min.js, which are then there at once.
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
from contest import Report, jsonable, machine, say

from heedful.cli.arguments import parse_script_arguments

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from inspected import dirichlet

from heedful.inspection.record import InspectionRecord
from heedful.inspection.web import render_viewer


@dataclass(frozen=True)
class Options:
    """What is measured.

    Attributes:
        layers: of the model.
        heads: of each layer.
        length: tokens that look at each other.
        repeats: how often each page is opened.
        patience: seconds until a page counts as blank.
        bertviz: folder in which BertViz and IPython are installed.
        libraries: folder with what its pages load from a CDN.
        chromium: the browser.
        quick: a small model, opened once.
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
    """A page and how one sees that it can be used.

    Attributes:
        name: of the view.
        html: all of it.
        drawn: a selector of what is there then.
        fragment: what its address ends with.
    """

    name: str
    html: str
    drawn: str
    fragment: str = ""


@dataclass(frozen=True)
class Opening:
    """One time that a page was opened.

    Attributes:
        seconds: until it could be used; None if never.
        busy: seconds that its main thread worked until then, which other programs hardly change.
        asked: how many addresses it asked for.
    """

    seconds: float | None
    busy: float
    asked: int


def main() -> None:
    """Measures and reports."""
    options = parse_script_arguments(Options, __file__)
    if options.quick:
        options = replace(options, layers=2, heads=2, length=16, repeats=1, patience=20.0)
    record = dirichlet(options.layers, options.heads, options.length)
    with measured_with(options) as open_:
        pages = [*_ours(record), *(_theirs(record, options.bertviz) if options.bertviz else [])]
        openings: dict[str, list[Opening]] = {page.name: [] for page in pages}
        for turn in range(options.repeats):
            for page in pages:
                openings[page.name].append(open_(page))
                say(f"{turn + 1}/{options.repeats} {page.name}: {openings[page.name][-1]}")
    report = Report("The viewer", [*machine(), *_conditions(options)], raw={"options": jsonable(options)})
    _fill(report, pages, openings)
    report.publish(markdown=options.markdown, json_file=options.json)


def _conditions(options: Options) -> list[str]:
    served = "the folder given" if options.libraries else "nobody: there is no network"
    return [
        f"{options.layers} layers of {options.heads} heads, {options.length} tokens, {options.repeats} openings each; "
        f"what pages ask a CDN for is answered by {served}",
    ]


def _fill(report: Report, pages: list[Page], openings: dict[str, list[Opening]]) -> None:
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


def _ours(record: InspectionRecord) -> Iterator[Page]:
    html = render_viewer(record)
    for view in ("alignment", "heads", "model"):
        yield Page(f"heedful, {view} view", html, f".view-{view}[data-shown]", f"#view={view}")


def _theirs(record: InspectionRecord, folder: Path) -> Iterator[Page]:
    sys.path.append(str(folder))
    from bertviz import head_view, model_view

    attention = [torch.from_numpy(each.weights)[None] for each in record.maps]
    tokens = list(record.axes[0].tokens)
    for name, view in (("head", head_view), ("model", model_view)):
        html = view(attention=attention, tokens=tokens, html_action="return").data
        yield Page(f"BertViz, {name} view", html, "svg line, svg rect, svg text")


@contextmanager
def measured_with(options: Options) -> Iterator[Callable[[Page], Opening]]:
    """A browser, as a function that opens a page in it."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"], timeout=120_000)
        yield lambda page: _open(browser, page, Path(folder) / "page.html", options)
        browser.close()


# Two frames later, what was drawn is on the screen.
_PAINTED = """async () => {
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() / 1000;
}"""


def _open(browser: Any, page: Page, path: Path, options: Options) -> Opening:
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
        seconds: float | None = tab.evaluate(_PAINTED)
    except TooLate:
        seconds = None
    measured = {each["name"]: each["value"] for each in clock.send("Performance.getMetrics")["metrics"]}
    context.close()
    return Opening(seconds, measured["TaskDuration"], len(asked))


if __name__ == "__main__":
    main()
