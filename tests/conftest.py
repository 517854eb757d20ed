"""Setup of all tests: random seeds, one thread, and checks of shapes at run time."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shape_checks import disable_shape_checks, install_checks

# Only packages whose signatures have shapes. The hook must be installed before they are imported. It is not part of the
# library, because torch.compile cannot follow checks. beartype requires that their Protocols are runtime_checkable.
CHECKED = ("tensors", "attention", "blocks", "adapters", "models", "generation", "inspection")
install_checks(f"heedful.{room}" for room in CHECKED)

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from time_limits import (  # noqa: E402, F401 - hooks
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_enter_pdb,
    pytest_exception_interact,
    pytest_runtest_protocol,
    pytest_timeout_cancel_timer,
    pytest_timeout_set_timer,
    pytest_unconfigure,
)

from heedful import fused_operators  # noqa: E402

torch.set_num_threads(1)
gc.set_threshold(10_000)  # Python looks for garbage every 700 objects
atexit.register(gc.freeze)  # or all that lives is looked through once more at the end
for _logger in map(logging.getLogger, list(logging.root.manager.loggerDict)):
    # pytest adds handlers to each logger that does not propagate, three times in a test; PyTorch has dozens of them.
    if _logger.name.startswith("torch.") and any(type(each) is logging.StreamHandler for each in _logger.handlers):
        _logger.handlers.clear()
        _logger.propagate = True
logging.getLogger("torch").propagate = True


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of each search for garbage."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _set_seeds() -> None:
    """Set the same random state before each test."""
    random.seed(1)
    np.random.seed(1)
    torch.default_generator.manual_seed(1)  # `torch.manual_seed` would visit every device, which takes time
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(1)


@pytest.fixture(params=["native code", "PyTorch"])
def operators(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the fused operators of training, and again with those of PyTorch."""
    if request.param == "native code" and fused_operators.load_library() is None:
        pytest.skip("heedful-native is not installed")
    if request.param == "PyTorch":
        monkeypatch.setattr(fused_operators, "load_library", lambda: None)
    return str(request.param)


@pytest.fixture(name="unchecked")
def _disable_shape_checks() -> Iterator[None]:
    """Disable the checks of shapes in a test whose calls other tests check."""
    with disable_shape_checks():
        yield


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the reasons of skipped tests with their numbers, which is shorter than pytest's summary."""
    if notes := os.environ.get("NOTES"):  # the checks that .ci/run skipped
        for line in Path(notes).read_text(encoding="utf-8").splitlines():
            terminalreporter.write_line(f"not checked: {line}")
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, number in reasons.most_common():
        terminalreporter.write_line(f"{number} skipped: {reason.removeprefix('Skipped: ')}")
