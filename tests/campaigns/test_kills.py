"""Short campaign of kills."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.kills import KillCampaign

pytestmark = pytest.mark.slow


def test_commands_that_were_killed_go_on_as_if_nothing_happened(tmp_path: Path) -> None:
    figures = KillCampaign(tmp_path, limit=36).run(10, 1)
    assert figures.failures == []
    assert figures.attempts >= 36
    assert (tmp_path / "kills-1.json").is_file()
