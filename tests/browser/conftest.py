"""A browser that opens pages from the disk and tells what they ask for, complain about and break on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_fixture import PATIENCE, browser

from heedful.inspection.record import InspectionRecord
from heedful.inspection.web import render_viewer

__all__ = ["browser", "open_page", "opened"]


class Opened:
    """Pages of one test, and all that they asked for or complained about."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.browser, self.folder = browser, folder
        self.contexts: list[Any] = []
        self.allowed: set[str] = set()
        self.troubles: list[str] = []

    def page(self, html: str, *, query: str = "", **options: Any) -> Any:
        """Opens the page and waits until it can be used."""
        path = self.folder / f"page{len(self.contexts)}.html"
        path.write_text(html, encoding="utf-8")
        self.allowed.add(path.as_uri())
        context = self.browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: self._asked(request.url))
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.goto(path.as_uri() + query)
        return page

    def _asked(self, url: str) -> None:
        if not url.startswith(("data:", "blob:")) and url.partition("#")[0] not in self.allowed:
            self.troubles.append(f"request: {url}")

    def _said(self, message: Any) -> None:
        reading = "getImageData" in message.text  # tests look at pixels more often than pages do
        if message.type in ("error", "warning") and not reading:
            self.troubles.append(f"console: {message.text}")


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    """Opens pages of any HTML; at the end none may have asked for anything else, nor complained."""
    pages = Opened(browser, tmp_path)
    yield pages
    for context in pages.contexts:
        context.close()
    assert pages.troubles == []


@pytest.fixture
def open_page(opened: Opened) -> Callable[..., Any]:
    """Opens the viewer of a record, with `query` (such as "#view=model") at the end of its address."""

    def open_(record: InspectionRecord, *, query: str = "", **options: Any) -> Any:
        page = opened.page(render_viewer(record), query=query, **options)
        page.wait_for_selector("html[data-ready=true]")
        return page

    return open_
