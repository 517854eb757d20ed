"""A test that hangs is ended and reported, and so are the processes that it waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import time_limits

ROOT = Path(__file__).parents[2]
GREEN = "\ndef test_next(): pass\n"
IN_PYTHON = "import time\ndef test_hangs(): time.sleep(60)\n" + GREEN
IN_TEARDOWN_FOR_A_PROCESS = """
import subprocess, sys
def test_hangs():
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:  # leaving the block waits for its end
        assert server.stdout.readline() == "ready"
"""
IN_NATIVE_CODE = """
import ctypes
def test_hangs():
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)  # a PyDLL keeps the interpreter's lock
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)
"""
LEFT_RUNNING = """
import threading
def test_leaves_a_thread(): threading.Thread(target=threading.Event().wait).start()
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs tests with a limit of half a second; what stands behind it follows soon."""
    (tmp_path / "conftest.py").write_text(
        "import time_limits\ntime_limits.PROCESSES, time_limits.GRACE = 0.5, 4.0\nfrom time_limits import *\n"
    )
    path = os.pathsep.join([str(Path(time_limits.__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {key: each for key, each in os.environ.items() if not key.startswith("PYTEST_")}

    def run(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_hanging.py").write_text(text)
        words = [
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "pytest_timeout",
            "--timeout",
            "0.5",
            *options,
            "test_hanging.py",
        ]
        return subprocess.run(
            [sys.executable, *words],
            check=False,
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=200,
        )

    return run


def test_one_that_hangs_in_python_fails_and_the_next_one_runs(run: Run) -> None:
    done = run(IN_PYTHON)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "Timeout (>0.5s)" in done.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_a_process_that_is_waited_for_is_ended(run: Run) -> None:
    done = run(IN_TEARDOWN_FOR_A_PROCESS + GREEN)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="its mutex is that of Linux")
def test_one_that_hangs_in_native_code_is_reported_with_its_place(run: Run) -> None:
    done = run(IN_NATIVE_CODE)
    assert done.returncode == 1
    assert "in test_hangs" in done.stderr


def test_a_process_that_does_not_exit_is_reported(run: Run) -> None:
    done = run(LEFT_RUNNING)
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert "Timeout" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="its mutex is that of Linux")
def test_other_tests_run_in_another_worker_then(run: Run) -> None:
    done = run(IN_NATIVE_CODE + GREEN, "-p", "xdist", "--numprocesses", "1")
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "test_hanging.py::test_hangs" in done.stdout


def test_every_test_has_a_limit(request: pytest.FixtureRequest) -> None:
    assert 0 < float(request.config.getini("timeout")) <= 600
    for item in request.session.items:
        marker = item.get_closest_marker("timeout")
        assert marker is None or 0 < marker.args[0] <= 2 * time_limits.SLOW, item.nodeid
        assert marker is not None or not item.get_closest_marker("slow"), item.nodeid
