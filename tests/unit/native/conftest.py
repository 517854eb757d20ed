"""Native code, once for each instruction set that this processor has; nothing where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from heedful import native

INSTALLED = native.load_library()
PROCESSORS = ("none",) if INSTALLED is None else INSTALLED.processors()


@pytest.fixture(autouse=True)
def _installed(unchecked: None) -> None:
    """Where there is a library; shapes are checked where what is called has its units."""
    if INSTALLED is None:
        pytest.skip("heedful-native is not installed")


@pytest.fixture(params=PROCESSORS)
def library(request: pytest.FixtureRequest) -> Iterator[Any]:
    assert INSTALLED is not None
    INSTALLED.use(request.param)
    yield INSTALLED
    INSTALLED.use(PROCESSORS[0])
