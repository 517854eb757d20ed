"""What holds for every test: seeds, one thread, and shapes that are checked while the tests run."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxtyping import install_import_hook

# Only rooms whose signatures carry shapes. The hook must be there before any of them is imported, and stays
# out of the library because it and torch.compile disagree. beartype wants their Protocols runtime_checkable.
CHECKED = ("values", "attention", "blocks", "adapters", "models", "generation", "inspection")
install_import_hook([f"heedful.{room}" for room in CHECKED], "beartype.beartype")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from limits import (  # noqa: E402, F401 - hooks
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_enter_pdb,
    pytest_exception_interact,
    pytest_runtest_protocol,
    pytest_timeout_cancel_timer,
    pytest_timeout_set_timer,
    pytest_unconfigure,
)
from shapes import unchecked  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test starts from the same random state, alone or among others."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


@pytest.fixture(name="unchecked")
def _unchecked() -> Iterator[None]:
    """The shapes of what this test calls are not checked, since other tests call the same."""
    with unchecked():
        yield


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Why tests were skipped, and how many; what a summary of pytest's own says at length."""
    if notes := os.environ.get("NOTES"):  # what .ci/run could not check here
        for line in Path(notes).read_text(encoding="utf-8").splitlines():
            terminalreporter.write_line(f"not checked: {line}")
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, number in reasons.most_common():
        terminalreporter.write_line(f"{number} skipped: {reason.removeprefix('Skipped: ')}")
