from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from heedful.errors import TrainingError
from heedful.runs.metrics_log import MetricsLog
from heedful.training.listeners import Evaluation, Progress, Update


def update(step: int, *, loss: float = 2.0, labels: int = 10, norm: float = 1.0) -> Update:
    return Update(step, step // 100, loss, loss / 2, 0.1 * step, norm, labels, 0.5)


def evaluation(step: int, **metrics: float) -> Evaluation:
    return Evaluation(Progress(step=step, epoch=1, seconds=3.14159, labels=7), metrics or {"loss": 1.0}, True)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def told(path: Path) -> list[tuple[str, int]]:
    return [(line["kind"], line["step"]) for line in lines(path)]


def test_fifty_updates_are_one_line_of_means_per_label(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    updates = [update(step, loss=1 / step, labels=step, norm=(step * 7) % 50) for step in range(1, 121)]
    for each in updates:
        log.updated(each)
    first, second = lines(tmp_path / "m")
    assert (first["step"], second["step"]) == (50, 100)
    for line, part in ((first, updates[:50]), (second, updates[50:100])):
        labels = sum(u.labels for u in part)
        assert line["loss"] == pytest.approx(50 / labels), "loss times labels is 1 in each"
        assert line["nll"] == pytest.approx(25 / labels)
        assert line["gradient_norm"] == max(u.gradient_norm for u in part)
        assert line["labels_per_second"] == pytest.approx(labels / 25)
        assert line["rate"] == part[-1].rate


def test_infinite_perplexity_is_null_because_json_has_no_infinity(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    log.evaluated(evaluation(4, loss=800.0, perplexity=math.inf))
    (line,) = lines(tmp_path / "m")
    assert (line["loss"], line["perplexity"], line["seconds"], line["labels"]) == (800.0, None, 3.1, 7)


def test_going_on_drops_what_will_be_told_again(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    for step in range(1, 201):
        log.updated(update(step))
        if step % 60 == 0:
            log.evaluated(evaluation(step))
    log.concluded(Progress(step=200), {"loss": 1.0}, steps=[60, 120])
    with (tmp_path / "m").open("a") as file:
        file.write('{"kind": "training", "st')
    log.rewind(Progress(step=120, evaluated=120))
    assert told(tmp_path / "m") == [("training", 50), ("validation", 60), ("training", 100), ("validation", 120)]
    log.rewind(Progress(step=120, evaluated=60))
    assert told(tmp_path / "m")[-1] == ("training", 100), "the evaluation was told, but not saved"
    log.rewind(Progress())
    assert told(tmp_path / "m") == []
    MetricsLog(tmp_path / "none").rewind(Progress())
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("junk", ["", "[]", "3", "null", '{"kind": "validation"}', '{"kind": 1, "step": "x"}', "\0"])
def test_lines_that_a_crash_left_are_dropped(tmp_path: Path, junk: str) -> None:
    log = MetricsLog(tmp_path / "m")
    log.evaluated(evaluation(4))
    with (tmp_path / "m").open("a") as file:
        file.write(junk + "\n")
    log.rewind(Progress(step=4, evaluated=4))
    assert told(tmp_path / "m") == [("validation", 4)]


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(TrainingError, match=r"cannot be written .No space left on device.; make room and start"):
        MetricsLog(tmp_path / "m").evaluated(evaluation(4))
