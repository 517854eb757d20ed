"""Short campaign of damaged files."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.corruption import CorruptionCampaign

pytestmark = pytest.mark.slow


def test_damaged_files_are_refused_with_their_names(tmp_path: Path) -> None:
    figures = CorruptionCampaign(tmp_path, limit=120).run(10, 1)
    assert figures.failures == []
    assert figures.attempts >= 120
    assert (tmp_path / "corruption-1.json").is_file()
