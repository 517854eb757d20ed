"""What is handed on: the source archive is complete, and what CI says of vulnerabilities is what it knows."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOT_LISTED = {".dockerignore", ".gitignore", "pyproject.toml"}
"""What only a checkout needs, and two files that the builder adds by itself."""


def test_the_source_archive_has_all_that_the_tests_need() -> None:
    sdist = pytest.importorskip("hatchling.builders.sdist")
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    packed = {each.distribution_path for each in sdist.SdistBuilder(str(ROOT)).recurse_included_files()}
    assert tracked - packed - NOT_LISTED == set()


@pytest.fixture
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOLE = {"id": "PYSEC-1", "fix_versions": ["1.1"], "description": ""}
WRONG = {"name": "a", "version": "1.0", "vulns": [HOLE]}
RIGHT = {"name": "b", "version": "1.0", "vulns": []}
UNKNOWN = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "code", "note", "told"),
    [
        ([RIGHT], 0, "", ""),
        ([RIGHT, WRONG], 1, "", "a 1.0: PYSEC-1, fixed in 1.1\n"),
        ([WRONG, UNKNOWN], 1, "vulnerabilities: 1 of 2 packages are unknown: c\n", "a 1.0: PYSEC-1"),
        ([UNKNOWN], 0, "vulnerabilities: not audited, no vulnerability service is available here\n", ""),
        (None, 0, "vulnerabilities: not audited, the service does not answer\n", ""),
    ],
)
def test_a_vulnerability_fails_and_what_is_not_audited_is_noted(  # noqa: PLR0917 - fixtures
    audit: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    packages: list[Any] | None,
    code: int,
    note: str,
    told: str,
) -> None:
    monkeypatch.setattr(audit, "run_audit", lambda: None if packages is None else {"dependencies": packages})
    notes = tmp_path / "notes"
    notes.touch()
    assert audit.main(notes) == code
    assert notes.read_text() == note
    assert capsys.readouterr().err.startswith(told)
