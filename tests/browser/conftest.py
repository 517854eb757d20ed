"""A browser that opens pages from the disk and records their requests, warnings and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_fixture import PATIENCE, browser

from heedful.inspection.record import InspectionRecord
from heedful.inspection.web import render_viewer

__all__ = ["browser", "open_page", "page_opener"]


class PageOpener:
    """Pages of one test, with their requests, warnings and errors."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.browser, self.folder = browser, folder
        self.contexts: list[Any] = []
        self.allowed: set[str] = set()
        self.troubles: list[str] = []

    def page(self, html: str, *, query: str = "", **options: Any) -> Any:
        """Open the page and wait until it is usable."""
        path = self.folder / f"page{len(self.contexts)}.html"
        path.write_text(html, encoding="utf-8")
        self.allowed.add(path.as_uri())
        context = self.browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: self._on_request(request.url))
        page.on("console", self._on_message)
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.goto(path.as_uri() + query)
        return page

    def _on_request(self, url: str) -> None:
        if not url.startswith(("data:", "blob:")) and url.partition("#")[0] not in self.allowed:
            self.troubles.append(f"request: {url}")

    def _on_message(self, message: Any) -> None:
        reading = "getImageData" in message.text  # tests read pixels more often than pages do
        if message.type in ("error", "warning") and not reading:
            self.troubles.append(f"console: {message.text}")


@pytest.fixture
def page_opener(browser: Any, tmp_path: Path) -> Iterator[PageOpener]:
    """Open pages with any HTML; at the end there may be no other requests, warnings or errors."""
    pages = PageOpener(browser, tmp_path)
    yield pages
    for context in pages.contexts:
        context.close()
    assert pages.troubles == []


@pytest.fixture
def open_page(page_opener: PageOpener) -> Callable[..., Any]:
    """Open the viewer of a record, with `query` (such as "#view=model") at the end of its URL."""

    def open_(record: InspectionRecord, *, query: str = "", **options: Any) -> Any:
        page = page_opener.page(render_viewer(record), query=query, **options)
        page.wait_for_selector("html[data-ready=true]")
        return page

    return open_
