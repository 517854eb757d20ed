"""Short campaign of errors of the system."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.errors import ErrorCampaign

pytestmark = pytest.mark.slow


def test_errors_of_the_system_are_told_and_harm_nothing(tmp_path: Path) -> None:
    figures = ErrorCampaign(tmp_path, limit=36).run(10, 1)
    assert figures.failures == []
    assert figures.attempts >= 36
    assert (tmp_path / "errors-1.json").is_file()
