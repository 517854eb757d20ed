from __future__ import annotations

import errno
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heedful.errors import TrainingError
from heedful.runs.metrics_log import MetricsLog
from heedful.training.callbacks import LossSum, StepMetrics, TrainState, ValidationResult


def update(step: int, *, loss: float = 2.0, labels: int = 10, norm: float = 1.0) -> StepMetrics:
    return StepMetrics(step, step // 100, loss, loss / 2, 0.1 * step, norm, labels, 0.5)


def evaluation(step: int, **metrics: float) -> ValidationResult:
    return ValidationResult(TrainState(step=step, epoch=1, seconds=3.14159, labels=7), metrics or {"loss": 1.0}, True)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def told(path: Path) -> list[tuple[str, int]]:
    return [(line["kind"], line["step"]) for line in lines(path)]


def test_fifty_updates_are_one_line_of_means_per_label(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    updates = [update(step, loss=1 / step, labels=step, norm=(step * 7) % 50) for step in range(1, 121)]
    for each in updates:
        log.on_step_end(each)
    first, second = lines(tmp_path / "m")
    assert (first["step"], second["step"]) == (50, 100)
    for line, part in ((first, updates[:50]), (second, updates[50:100])):
        labels = sum(u.labels for u in part)
        assert line["loss"] == pytest.approx(50 / labels), "loss times labels is 1 in each"
        assert line["nll"] == pytest.approx(25 / labels)
        assert line["gradient_norm"] == max(u.gradient_norm for u in part)
        assert line["labels_per_second"] == pytest.approx(labels / 25)
        assert line["rate"] == part[-1].rate


def test_parts_are_means_over_what_they_count(tmp_path: Path) -> None:
    """A part that only some updates tell of, as one that asks about pairs; `nll` has its place already."""
    log = MetricsLog(tmp_path / "m")
    for step in range(1, 101):
        parts = {
            "nll": LossSum(3.0, 10),
            **({"pair": LossSum(float(step), step % 4)} if step % 4 and step <= 50 else {}),
        }
        log.on_step_end(replace(update(step), parts=parts))
    first, second = lines(tmp_path / "m")
    asked = [step for step in range(1, 51) if step % 4]
    assert first["pair"] == pytest.approx(sum(asked) / sum(step % 4 for step in asked))
    assert (first["nll"], "pair" in second) == (1.0, False)
    assert list(second) == [key for key in first if key != "pair"]


def test_several_tasks_have_their_own_means(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    for step in range(1, 51):
        name, weight = ("a", 2.0) if step % 5 else ("b", 1.0)
        parts = {"loss": LossSum(step, 4), "nll": LossSum(step / 2, 4)}
        log.on_step_end(replace(update(step, loss=weight * step / 4, labels=4), task=name, parts=parts))
    (line,) = lines(tmp_path / "m")
    every = {"a": [step for step in range(1, 51) if step % 5], "b": list(range(5, 51, 5))}
    for name, steps in every.items():
        assert line[f"{name}/loss"] == pytest.approx(sum(steps) / 4 / len(steps))
        assert line[f"{name}/nll"] == pytest.approx(sum(steps) / 8 / len(steps))
    assert line["loss"] == pytest.approx((2 * sum(every["a"]) + sum(every["b"])) / 4 / 50), "what was minimised"


def test_no_part_takes_the_place_of_a_key(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    for step in range(1, 51):
        log.on_step_end(replace(update(step), parts={"rate": LossSum(7.0, 1), "step": LossSum(7.0, 1)}))
    (line,) = lines(tmp_path / "m")
    assert (line["rate"], line["step"]) == (0.1 * 50, 50)


@pytest.mark.parametrize("cut", [1, 30, 49, 50, 75])
def test_a_line_of_two_sittings_is_that_of_one(tmp_path: Path, cut: int) -> None:
    def parts(step: int) -> dict[str, LossSum]:
        return {"nll": LossSum(step / 7, 10), "pair": LossSum(step / 3, step % 3)}

    updates = [replace(update(step, loss=1 / step, norm=step % 60), parts=parts(step)) for step in range(1, 101)]
    whole, first, second = (MetricsLog(tmp_path / name) for name in ("whole", "parts", "parts"))
    for each in updates:
        whole.on_step_end(each)
    for each in updates[: cut + 10]:
        if each.step == cut + 1:
            kept = json.loads(json.dumps(first.get_state()))
        first.on_step_end(each)
    second.rewind(TrainState(step=cut), kept)
    for each in updates[cut:]:
        second.on_step_end(each)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "parts").read_bytes()


def test_an_older_checkpoint_has_gathered_nothing(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    log.on_step_end(update(1, loss=100.0))
    log.rewind(TrainState(step=30), {})
    for step in range(31, 51):
        log.on_step_end(update(step))
    (line,) = lines(tmp_path / "m")
    assert line["loss"] == 2.0


def test_infinite_perplexity_is_null_because_json_has_no_infinity(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    log.on_evaluate(evaluation(4, loss=800.0, perplexity=math.inf))
    (line,) = lines(tmp_path / "m")
    assert (line["loss"], line["perplexity"], line["seconds"], line["labels"]) == (800.0, None, 3.1, 7)


def test_going_on_drops_what_will_be_told_again(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    for step in range(1, 201):
        log.on_step_end(update(step))
        if step % 60 == 0:
            log.on_evaluate(evaluation(step))
    log.write_final(TrainState(step=200), {"loss": 1.0}, steps=[60, 120])
    with (tmp_path / "m").open("a") as file:
        file.write('{"kind": "training", "st')
    log.rewind(TrainState(step=120, evaluated=120), {})
    assert told(tmp_path / "m") == [("training", 50), ("validation", 60), ("training", 100), ("validation", 120)]
    log.rewind(TrainState(step=120, evaluated=60), {})
    assert told(tmp_path / "m")[-1] == ("training", 100), "the evaluation was told, but not saved"
    log.rewind(TrainState(), {})
    assert told(tmp_path / "m") == []
    MetricsLog(tmp_path / "none").rewind(TrainState(), {})
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("junk", ["", "[]", "3", "null", '{"kind": "validation"}', '{"kind": 1, "step": "x"}', "\0"])
def test_lines_that_a_crash_left_are_dropped(tmp_path: Path, junk: str) -> None:
    log = MetricsLog(tmp_path / "m")
    log.on_evaluate(evaluation(4))
    with (tmp_path / "m").open("a") as file:
        file.write(junk + "\n")
    log.rewind(TrainState(step=4, evaluated=4), {})
    assert told(tmp_path / "m") == [("validation", 4)]


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(TrainingError, match=r"cannot be written .No space left on device.; free some space and start"):
        MetricsLog(tmp_path / "m").on_evaluate(evaluation(4))
