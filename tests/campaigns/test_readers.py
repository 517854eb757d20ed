"""Short campaign of mutated inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.readers import ReaderCampaign

pytestmark = pytest.mark.slow


def test_mutated_inputs_end_with_a_result_or_a_sentence(tmp_path: Path) -> None:
    figures = ReaderCampaign(tmp_path, limit=5000).run(10, 1)
    assert figures.failures == []
    assert figures.attempts >= 5000
    assert (tmp_path / "readers-1.json").is_file()
