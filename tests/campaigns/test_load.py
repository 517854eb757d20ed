"""Short campaigns of load and of memory over time."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.framework import Figures
from campaigns.load import LoadCampaign
from campaigns.soak import ServingSoak, TrainingSoak, judge_memory

pytestmark = pytest.mark.slow


def test_good_clients_get_their_answers_beside_rude_ones(tmp_path: Path) -> None:
    figures = LoadCampaign(tmp_path, limit=3000).run(5, 1)
    assert figures.failures == []
    assert figures.outcomes["answered"] > 300
    assert figures.outcomes["rude"] > 100


def test_memory_of_a_training_stays_flat(tmp_path: Path) -> None:
    figures = TrainingSoak(tmp_path).run(1, 1)
    assert figures.failures == []
    assert figures.measures["updates"] > 0


def test_memory_of_a_server_stays_flat(tmp_path: Path) -> None:
    figures = ServingSoak(tmp_path).run(0.5, 1)
    assert figures.failures == []
    assert figures.measures["requests"] > 0


def test_memory_that_grows_is_a_failure() -> None:
    figures = Figures("soak", 1)
    judge_memory(figures, [100 * 2**20 + n for n in range(100)])
    assert figures.failures == []
    judge_memory(figures, [100 * 2**20 + n * 2**20 for n in range(100)])
    assert "memory grew" in figures.failures[0].problem
