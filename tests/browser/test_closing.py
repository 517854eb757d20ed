"""The browser leaves no event loop in the process of its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import browser_fixture
import pytest

USED = "def test_used(browser):\n    assert browser.is_connected()\n"
RUNS_A_LOOP = "import asyncio\n\ndef test_loop():\n    assert asyncio.run(asyncio.sleep(0, 'done')) == 'done'\n"


@pytest.mark.skipif(browser_fixture.CHROMIUM is None, reason="no chromium on PATH")
def test_event_loops_run_before_and_after_the_tests_of_a_browser(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from browser_fixture import browser\n")
    for name, text in {"test_a": RUNS_A_LOOP, "test_b": USED, "test_c": RUNS_A_LOOP, "test_d": USED}.items():
        (tmp_path / f"{name}.py").write_text(text)
    path = os.pathsep.join([str(Path(browser_fixture.__file__).parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
