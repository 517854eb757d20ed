"""A server as a whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from live_server import open_registry, run_server


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


def test_it_lives(trained: Path) -> None:
    with run_server(open_registry({"en-de": trained})) as live:
        answer = live.ask("/health")
        assert (answer.status, answer.json["status"]) == (200, "ok")
        assert live.ask("/nowhere").status == 404
        assert live.ask("/health", {}, method="POST").status == 405


def test_it_listens_before_torch_is_read() -> None:
    code = "import sys, heedful.serving.server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
