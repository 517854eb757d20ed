"""Native code, once for each instruction set that this processor has; nothing where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

native = pytest.importorskip("heedful_native", reason="heedful-native is not installed")


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """What is checked is called where it has its units."""


@pytest.fixture(params=native.processors())
def library(request: pytest.FixtureRequest) -> Iterator[Any]:
    native.use(request.param)
    yield native
    native.use(native.processors()[0])
