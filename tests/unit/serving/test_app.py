"""A server as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from serving import opened, serving


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


def test_it_lives(trained: Path) -> None:
    with serving(opened({"en-de": trained})) as live:
        answer = live.ask("/health")
        assert (answer.status, answer.json) == (200, {"status": "ok"})
        assert live.ask("/nowhere").status == 404
        assert live.ask("/health", {}, method="POST").status == 405
