"""`heedful train --log json`, `--metrics-port`, and the id of a run."""

from __future__ import annotations

import json
import socket
import urllib.request
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from heedful import load_recipe, train
from heedful.cli.training_log import JsonLog, JsonProgress
from heedful.runs.prepare import generate_run_id, read_run_id
from heedful.runs.train import TrainResult
from heedful.training.callbacks import EpochPlan, StepMetrics, TrainState
from heedful.training.trainer import StoppingLimits

Say = Callable[..., Any]


def read_lines(text: str) -> list[dict[str, Any]]:
    """Each line is a JSON object, or this fails."""
    return [json.loads(line) for line in text.splitlines()]


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    return read_lines((folder / "metrics.jsonl").read_text(encoding="utf-8"))


def test_each_line_is_json_and_names_time_level_run_and_message(say: Say, small: Path) -> None:
    said = say("train", small, "--device", "cpu", "--log", "json")
    lines = read_lines(said.err)
    assert (said.code, said.out) == (0, "")
    (run_id,) = {line["run_id"] for line in lines}
    assert run_id == read_run_id(small.parent / "run")
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times)
    assert {line["level"] for line in lines} == {"info"}
    assert lines[0]["message"] == "learning the vocabulary"
    assert lines[-1]["message"].startswith("- starting from a trained model")
    tests = [line for line in lines if line["message"] == "validation"]
    assert [line["step"] for line in tests] == [4, 8, 12]
    recorded = [line for line in read_metrics(small.parent / "run") if line["kind"] == "validation"]
    for line, record in zip(tests, recorded, strict=True):
        assert line["validation"] == {name: record[name] for name in ("accuracy", "loss", "perplexity")}
        assert (line["labels"], line["improved"]) == (record["labels"], record["improved"])
    assert [line["step"] for line in lines if line["message"] == "checkpoint"] == [4, 8, 12]
    assert next(line["last_step"] for line in lines if line["message"] == "epoch") == 12


def test_a_run_keeps_its_id_and_its_bytes_do_not_depend_on_it(say: Say, small: Path, trained: Path) -> None:
    say("train", small, "--device", "cpu", "--training.steps", "4")
    folder = small.parent / "run"
    run_id = read_run_id(folder)
    said = say("train", small, "--device", "cpu", "--log", "json")
    assert {line["run_id"] for line in read_lines(said.err)} == {run_id} != {read_run_id(trained)}
    assert read_run_id(folder) == run_id
    records = read_metrics(folder)
    assert [record["run_id"] for record in records if record["kind"] in ("validation", "final")] == [run_id] * 4
    for name in ("model.safetensors", "checkpoints/step-00000012.training.safetensors"):
        assert (folder / name).read_bytes() == (trained / name).read_bytes()
    for name in ("config.json", "manifest.json", "checkpoints/step-00000012.json"):
        assert str(run_id).encode() not in (folder / name).read_bytes()


def test_a_resumed_run_keeps_its_id_in_python(small: Path) -> None:
    folder = train(load_recipe(small, ["--training.steps", "1"]), device="cpu", run_id="mine").folder
    assert read_run_id(folder) == "mine"
    train(load_recipe(small, ["--training.steps", "2"]), device="cpu")
    assert read_run_id(folder) == "mine"


def test_ids_are_random_and_leave_the_random_numbers_alone() -> None:
    import random

    state = random.getstate()
    assert len({generate_run_id() for _ in range(50)}) == 50
    assert random.getstate() == state


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"run_id": 5}', '{"run_id": "a b\\n"}', '{"run_id": ""}'])
def test_an_unreadable_id_is_none(tmp_path: Path, content: str) -> None:
    assert read_run_id(tmp_path) is None
    (tmp_path / "run.json").write_text(content)
    assert read_run_id(tmp_path) is None


def test_errors_are_json_with_the_same_exit_code(say: Say, small: Path) -> None:
    (small.parent / "train.de").unlink()
    for words in (("train", small), ("train", small, "--training.steps", "many")):
        plain, said = say(*words), say(*words, "--log", "json")
        (line,) = (line for line in read_lines(said.err) if line["level"] == "error")
        assert said.code == plain.code == 2
        assert plain.err.endswith(f"heedful: {line['message']}\n")
        assert ("run_id" in line) == ("--training.steps" not in words), "a recipe that is wrong has no run"


def test_bugs_are_json_with_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, JsonLog().report_problems():
        raise ZeroDivisionError("of mine")
    (line,) = read_lines(capsys.readouterr().err)
    assert (ended.value.code, line["level"]) == (1, "error")
    assert "ZeroDivisionError: of mine" in line["trace"]


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (MemoryError(), 2)])
def test_other_ends_are_json(capsys: pytest.CaptureFixture[str], error: BaseException, code: int) -> None:
    with pytest.raises(SystemExit) as ended, JsonLog().report_problems():
        raise error
    (line,) = read_lines(capsys.readouterr().err)
    assert (ended.value.code, line["level"]) == (code, "error")


def test_warnings_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    shown = warnings.showwarning
    json_log = JsonLog()
    json_log("warning: the text has changed")
    with json_log.report_problems():
        warnings.simplefilter("always")
        warnings.warn("an old name", DeprecationWarning, stacklevel=1)
    first, second = read_lines(capsys.readouterr().err)
    assert (first["level"], first["message"]) == ("warning", "the text has changed")
    assert (second["level"], second["message"], second["category"]) == ("warning", "an old name", "DeprecationWarning")
    assert warnings.showwarning is shown


def test_updates_have_all_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    progress = JsonProgress(StoppingLimits(steps=10), JsonLog(), seconds=0.0)
    state = TrainState(step=4, labels=400)
    progress.on_epoch_begin(EpochPlan(state, updates=10, done=4, batches=10, examples=50, evaluate_every=5))
    for step, loss in ((5, 2.0), (6, float("nan"))):
        progress.on_step_end(
            StepMetrics(
                step, 0, loss=loss, nll=1.5, rate=1e-3, gradient_norm=float("inf"), labels=100, seconds=1.0,
                elapsed=float(step), task="x",
            )
        )  # fmt: skip
    _, first, second = read_lines(capsys.readouterr().err)
    named = ("message", "step", "epoch", "loss", "nll", "rate", "gradient_norm", "labels", "seconds", "task")
    assert [first[name] for name in named] == ["update", 5, 0, 2.0, 1.5, 1e-3, None, 500, 5.0, "x"]
    assert first["labels_per_second"] == 100
    assert (first["eta_seconds"], second["eta_seconds"]) == (None, 4.0)
    assert (second["loss"], second["labels"]) == (None, 600)


def test_updates_are_written_from_time_to_time(capsys: pytest.CaptureFixture[str]) -> None:
    progress = JsonProgress(StoppingLimits(steps=10), JsonLog(), seconds=1000.0)
    progress.on_step_end(StepMetrics(1, 0, 1.0, 1.0, 1e-3, 1.0, 10, 0.1))
    assert capsys.readouterr().err == ""


# --- metrics ----------------------------------------------------------------------------------------------


def test_a_taken_port_is_an_error_before_work_begins(say: Say, small: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = say("train", small, "--metrics-port", taken.getsockname()[1])
    assert said.code == 2
    assert said.err.startswith("heedful: --metrics-port ") and said.err.count("\n") == 1
    assert not (small.parent / "run").exists()


def test_metrics_can_be_read_while_it_trains(
    say: Say, small: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heedful.training import prometheus

    pages: list[str] = []

    class Reading(prometheus.TrainingMetrics):  # type: ignore[misc]
        def on_save(self, checkpoint: Any) -> None:
            super().on_save(checkpoint)
            with urllib.request.urlopen(servers[0].address, timeout=10) as answer:
                pages.append(answer.read().decode())

    servers: list[prometheus.MetricsServer] = []
    start = prometheus.MetricsServer.__enter__
    monkeypatch.setattr(prometheus, "TrainingMetrics", Reading)
    monkeypatch.setattr(prometheus.ReadingCounter, "wait_for_next", lambda _: None)
    monkeypatch.setattr(prometheus.MetricsServer, "__enter__", lambda self: servers.append(self) or start(self))
    said = say("train", small, "--device", "cpu", "--metrics-port", "0")
    assert said.code == 0
    assert said.err.splitlines()[0] == f"metrics: {servers[0].address}"
    assert len(pages) == 3
    for step, page in zip((4, 8, 12), pages, strict=True):
        assert f"heedful_training_step {step}.0\n" in page
        assert f"heedful_training_checkpoint_step {step}.0\n" in page
    run_id = read_run_id(small.parent / "run")
    assert f'heedful_training_info{{run="run",run_id="{run_id}",task="translation"' in pages[0]
    assert servers[0]._metrics.outcome == "finished"
    for name in ("model.safetensors", "checkpoints/step-00000012.training.safetensors"):
        assert (small.parent / "run" / name).read_bytes() == (trained / name).read_bytes()


def test_of_several_processes_only_the_first_listens(say: Say, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.cli import train as train_command

    listening: list[object] = []
    monkeypatch.setattr("heedful.runs.train.train", lambda *_, **__: TrainResult(small.parent / "run", 0, False))
    monkeypatch.setattr(
        train_command, "_publish_metrics", lambda *_, **__: nullcontext(listening.append(1) or Listening())
    )
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        assert say("train", small, "--metrics-port", "0").code == 0
    assert listening == [1]


class Listening:
    """Stands for the metrics of a training."""

    def set_outcome(self, outcome: str) -> None:
        assert outcome == "finished"
