"""Native code under sanitizers: no access out of bounds, no undefined behaviour, no race."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3] / "native" / "tests"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "c++")) is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("kind", ["address,undefined", "thread"])
def test_random_shapes_under_a_sanitizer(kind: str, tmp_path: Path) -> None:
    program = tmp_path / "fuzz"
    flags = f"-fsanitize={kind}", "-fno-sanitize-recover=all"
    subprocess.run([TESTS / "build.sh", program, *flags], check=True, timeout=600)
    # threads that nobody waits for, or that are waited for too long, are a race, or a program that does not end
    found = subprocess.run([program, "40", "1"], check=False, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.endswith("plain: 40 rounds\n")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("aarch64-linux-gnu-g++") is None, reason="there is no C++ compiler for ARM")
@pytest.mark.skipif(shutil.which("qemu-aarch64-static") is None, reason="there is no emulator of ARM")
def test_random_shapes_on_an_emulated_arm_processor(tmp_path: Path) -> None:
    program, environment = tmp_path / "fuzz", {**os.environ, "CXX": "aarch64-linux-gnu-g++"}
    subprocess.run([TESTS / "build.sh", program, "-static"], check=True, timeout=600, env=environment)
    found = subprocess.run(
        ["qemu-aarch64-static", program, "20", "1"], check=False, capture_output=True, text=True, timeout=600
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout == "neon_i8mm: 20 rounds\nneon: 20 rounds\nplain: 20 rounds\n"
