"""Short campaign of hostile folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.hostile import HostileCampaign

pytestmark = pytest.mark.slow


def test_folders_that_were_changed_and_signed_anew_load_or_are_refused(tmp_path: Path) -> None:
    figures = HostileCampaign(tmp_path, limit=160).run(10, 1)
    assert figures.failures == []
    assert figures.attempts >= 160
    assert (tmp_path / "hostile-1.json").is_file()
