"""The browser in which pages are tested, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
PATIENCE = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for the tests of one file.

    While it is open, Playwright keeps an event loop running in the main thread, where no other can be run then. So it
    is closed before the tests of another file begin: these may call `asyncio.run`, in any order of files.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE)
        yield started
        started.close()
