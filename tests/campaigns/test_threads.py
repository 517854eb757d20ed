"""Short campaign of threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.threads import ThreadCampaign

pytestmark = pytest.mark.slow


def test_threads_get_the_answers_that_one_thread_gets(tmp_path: Path) -> None:
    figures = ThreadCampaign(tmp_path, limit=256).run(10, 1)
    assert figures.failures == []
    assert figures.attempts >= 256
    assert (tmp_path / "threads-1.json").is_file()
