"""Where heedful-native is not installed, everything else works, and its tests say that they are left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WITHOUT = "import sys; sys.modules['heedful_native'] = None\n"


def said(program: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + program, *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)


@pytest.mark.slow
def test_its_tests_are_skipped_and_say_why() -> None:
    found = said(
        "import pytest; sys.exit(pytest.main([*sys.argv[1:], '-q', '-p', 'no:cacheprovider']))",
        *("tests/unit/native/test_products.py", "tests/unit/native/test_engine.py"),
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "heedful-native is not installed" in found.stdout


@pytest.mark.slow
def test_a_model_translates_and_the_engine_says_what_it_needs(trained: Path) -> None:
    program = "from heedful.__main__ import main; sys.exit(main(['translate', *sys.argv[1:], '--device', 'cpu']))"
    found = said(program, trained, "1", "--engine", "auto")
    assert found.returncode == 0, found.stderr
    assert "native" not in found.stderr
    found = said(program, trained, "1", "--engine", "native")
    assert found.returncode == 2
    assert found.stderr.startswith("heedful: engine 'native': needs heedful-native, which is not installed; install it")
