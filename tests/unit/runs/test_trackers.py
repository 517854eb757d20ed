"""Experiment trackers get what metrics.jsonl gets, in their own files, and never end a training."""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest

from heedful import HeedfulError, MissingExtraError, TrainingError, load_recipe, train
from heedful.recipes.training import TrackerName
from heedful.runs.tracker_backends import RunOutcome, Tracker, set_missing_variables
from heedful.runs.trackers import TRACKERS, flatten_table
from heedful.training.callbacks import Callback, StepMetrics, ValidationResult

Numbers = dict[str, dict[int, float]]
"""The numbers of a training by name and update."""
STOPPED, LAST = 6, 12
"""The first sitting is interrupted in this update, and goes on after the checkpoint of update 4."""


class Listener(Callback):
    """Keeps all updates; ends a run the hard way after one."""

    def __init__(self, stop_at: int = -1, error: BaseException | None = None) -> None:
        self.stop_at = stop_at
        self.error = error or KeyboardInterrupt()
        self.updates: list[StepMetrics] = []

    def on_step_end(self, update: StepMetrics) -> None:
        if update.step == self.stop_at:
            raise self.error
        self.updates.append(update)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        return


class MemoryTracker(Tracker):
    """Keeps what it is given; `opened` are all trackers of a test, in order."""

    entry_point = ("json", "dumps")
    opened: ClassVar[list[MemoryTracker]] = []
    fails_at = 10**9
    fails_to_close = False
    is_lost = False

    def __init__(
        self, folder: Path, parameters: Mapping[str, object], *, run_id: str = "", resumed_at: int = 0
    ) -> None:
        self.run_id = f"run-{len(self.opened) + 1}" if self.is_lost or not run_id else run_id
        self.location = "memory"
        self.parameters, self.resumed_at = parameters, resumed_at
        self.numbers: Numbers = {}
        self.outcome: RunOutcome | None = None
        self.flushed: list[int] = []
        self.opened.append(self)
        assert os.environ["AIM_WAIT"] == "briefly"

    @classmethod
    def list_variables(cls) -> Mapping[str, str]:
        return {"AIM_WAIT": "briefly"}

    def log_metrics(self, metrics: Mapping[str, float], *, step: int) -> None:
        assert os.environ["AIM_WAIT"] == "briefly"
        if step >= self.fails_at:
            raise OSError("no space\nis left")
        for name, value in metrics.items():
            self.numbers.setdefault(name, {})[step] = value

    def flush(self) -> None:
        self.flushed.append(max(self.numbers["training/loss"]))

    def close(self, outcome: RunOutcome) -> None:
        if self.fails_to_close:
            raise TimeoutError("no answer")
        self.outcome = outcome


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment asks for nothing."""
    for name in list(os.environ):
        if name.startswith(("WANDB_", "MLFLOW_", "AIM_")):
            monkeypatch.delenv(name)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> type[MemoryTracker]:
    """A tracker in the place of Aim."""

    class OwnTracker(MemoryTracker):
        opened: ClassVar[list[MemoryTracker]] = []

    monkeypatch.setitem(TRACKERS, "aim", OwnTracker)
    return OwnTracker


def fit(recipe: Path, *names: str, overrides: tuple[str, ...] = (), **more: Any) -> Path:
    words = ["--training.trackers", json.dumps(names), "--training.r_drop", "1", *overrides]
    return train(load_recipe(recipe, words), device="cpu", **more).folder


def fit_in_two_sittings(recipe: Path, name: str, between: Callable[[Path], None] = lambda _: None) -> Numbers:
    """Train, be interrupted and go on; return the numbers that a tracker should have."""
    first, second = Listener(STOPPED), Listener()
    with pytest.raises(KeyboardInterrupt):
        fit(recipe, name, listeners=[first])
    between(recipe.parent / "run")
    folder = fit(recipe, name, listeners=[second])
    updates = {update.step: update for update in (*first.updates, *second.updates)}
    assert list(updates) == list(range(1, LAST + 1))
    return list_expected(folder, list(updates.values()))


def list_expected(folder: Path, updates: list[StepMetrics]) -> Numbers:
    numbers: Numbers = {}
    for update in updates:
        for key in ("loss", "nll", "rate", "gradient_norm"):
            numbers.setdefault(f"training/{key}", {})[update.step] = getattr(update, key)
        numbers.setdefault("training/r_drop", {})[update.step] = update.parts["r_drop"].mean
    for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()):
        for key in ("loss", "accuracy", "perplexity"):
            numbers.setdefault(f"{line['kind']}/{key}", {})[line["step"]] = line[key]
    assert list(numbers["validation/loss"]) == [4, 8, 12]
    assert list(numbers["final/loss"]) == [12]
    return numbers


def assert_same(found: Numbers, expected: Numbers, *, rel: float = 1e-12) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, rel=rel), name


def import_or_skip(name: str, module: str = "") -> Any:
    return pytest.importorskip(module or name, reason=f"{name} is not installed: pip install 'heedful[{name}]'")


# --- each tracker in its own files ------------------------------------------------------------------------


def test_tensorboard_drops_what_is_trained_again(small: Path) -> None:
    accumulators = import_or_skip("tensorboard", "tensorboard.backend.event_processing.event_accumulator")
    expected = fit_in_two_sittings(small, "tensorboard")
    events = accumulators.EventAccumulator(str(small.parent / "run/tensorboard"), {"scalars": 0, "tensors": 0})
    events.Reload()
    found = {tag: {event.step: event.value for event in events.Scalars(tag)} for tag in events.Tags()["scalars"]}
    assert_same(found, expected, rel=1e-6)  # in single precision
    assert [event.step for event in events.Scalars("training/loss")] == list(range(1, LAST + 1))
    text = events.Tensors("recipe/text_summary")[-1].tensor_proto.string_val[0].decode()
    assert "    training.steps = 12\n" in text
    assert "    data.train.source = " in text


def test_the_older_key_means_tensorboard(small: Path) -> None:
    recipe = load_recipe(small, ["--training.tensorboard", "--training.trackers", '["aim", "tensorboard"]'])
    assert recipe.training.all_trackers == ("tensorboard", "aim")
    assert load_recipe(small, ["--training.tensorboard"]).training.all_trackers == ("tensorboard",)
    assert load_recipe(small).training.all_trackers == ()


def read_wandb_records(path: Path) -> list[Any]:
    """The records of an offline run: messages of wandb in LevelDB's log format, which wandb reads in Go only."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, start, records, message = path.read_bytes(), 7, [], b""
    while start + 7 <= len(content):
        if (left := 32768 - start % 32768) < 7:
            start += left
            continue
        _, size, kind = struct.unpack_from("<IHB", content, start)
        message += content[start + 7 : start + 7 + size]
        start += 7 + size
        if kind in (1, 4):  # whole, or the last part
            records.append(Record.FromString(message))
            message = b""
    return records


@pytest.mark.slow
def test_wandb_goes_on_offline_and_leaves_the_process_as_it_was(small: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wandb = import_or_skip("wandb")
    hooks = sys.exit, sys.excepthook, [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    environment = dict(os.environ)
    expected = fit_in_two_sittings(small, "wandb")
    assert hooks == (sys.exit, sys.excepthook, [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)])
    assert {k: v for k, v in os.environ.items() if k.startswith("WANDB_") and k != "WANDB_SERVICE"} == {
        k: v for k, v in environment.items() if k.startswith("WANDB_")
    }
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("Otel")], "sends numbers"
    wandb.teardown()  # its process writes for another while
    assert capfd.readouterr().out == ""
    paths = sorted((small.parent / "run/wandb").glob("offline-run-*/run-*.wandb"))
    assert len(paths) == 2
    assert len({path.name for path in paths}) == 1, "one id"
    sittings = [read_wandb_records(path) for path in paths]
    found: Numbers = {}
    for record in chain.from_iterable(sittings):
        if record.HasField("history"):
            row = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            for name, value in row.items():
                if "/" in name:
                    found.setdefault(name, {})[row["step"]] = value
    assert_same(found, expected)
    runs = [record.run for records in sittings for record in records if record.HasField("run")]
    assert {(run.project, run.display_name) for run in runs} == {("heedful", "run")}
    config = {
        item.key or ".".join(item.nested_key): json.loads(item.value_json)
        for record in sittings[1]
        if record.HasField("config")
        for item in record.config.update
    }
    assert (config["training.steps"], config["model.d_model"]) == (12, 16)
    codes = [record.exit.exit_code for records in sittings for record in records if record.HasField("exit")]
    assert codes == [255, 0]


@pytest.mark.slow
def test_mlflow_goes_on_in_the_run_folder(small: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import_or_skip("mlflow")
    from mlflow import MlflowClient

    def read_run(folder: Path) -> tuple[MlflowClient, Any]:
        with set_missing_variables({"MLFLOW_ALLOW_FILE_STORE": "true"}):
            client = MlflowClient((folder / "mlruns").as_uri())
        (run,) = client.search_runs([client.get_experiment_by_name("heedful").experiment_id])
        return client, run

    statuses = []
    expected = fit_in_two_sittings(small, "mlflow", lambda folder: statuses.append(read_run(folder)[1].info.status))
    assert capfd.readouterr().out == ""
    client, run = read_run(small.parent / "run")
    assert [*statuses, run.info.status] == ["KILLED", "FINISHED"]
    assert run.info.run_name == "run"
    assert_same(
        {
            name: {each.step: each.value for each in client.get_metric_history(run.info.run_id, name)}
            for name in run.data.metrics
        },
        expected,
    )
    parameters = run.data.params
    assert (parameters["training.steps"], parameters["training.trackers"]) == ("12", '["mlflow"]')
    fit(small, "mlflow", overrides=("--training.steps", "13"))
    _, run = read_run(small.parent / "run")
    assert run.data.params == parameters
    assert run.data.tags["training.steps after update 12"] == "13"


@pytest.mark.slow
def test_mlflow_gets_many_and_long_parameters(tmp_path: Path) -> None:
    """MLflow takes 100 in a call and 6,000 characters each."""
    import_or_skip("mlflow")
    tracker_class = TRACKERS["mlflow"]
    given = {**{f"data.train.texts.text-{number}.path": "é" * 7000 for number in range(250)}, "empty": "", "none": []}
    with set_missing_variables(tracker_class.list_variables()):
        tracker = tracker_class(tmp_path, given)
        again = tracker_class(tmp_path, given, run_id=tracker.run_id)
        data = again._client.get_run(tracker.run_id).data
    assert data.params == {**dict.fromkeys(list(given)[:250], "é" * 6000), "empty": "", "none": "[]"}
    assert not [tag for tag in data.tags if "after update" in tag]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SQLAlchemy, in Aim itself
def test_aim_goes_on_in_the_run_folder(small: Path, capfd: pytest.CaptureFixture[str]) -> None:
    aim = import_or_skip("aim")
    from aim.sdk.index_manager import RepoIndexManager

    expected = fit_in_two_sittings(small, "aim")
    assert capfd.readouterr().out == ""
    repository = aim.Repo(str(small.parent / "run/aim"))
    (run_hash,) = repository.list_all_runs()
    RepoIndexManager.get_index_manager(repository).index(run_hash)  # as `aim up` does
    run = aim.Run(run_hash, repo=repository, read_only=True)
    found = {}
    for metric in run.metrics():
        steps, (values,) = metric.data.view(["val"]).items_list()
        found[metric.name] = dict(zip(steps, values, strict=True))
    assert_same(found, expected)
    assert (run.experiment, run.name, run["outcome"]) == ("heedful", "run", "finished")
    assert (run["recipe", "training.steps"], run["recipe", "model.d_model"]) == (12, 16)


# --- all trackers -----------------------------------------------------------------------------------------


def test_a_tracker_gets_all_numbers_and_goes_on(small: Path, memory: type[MemoryTracker]) -> None:
    expected = fit_in_two_sittings(small, "aim")
    first, second = memory.opened
    assert {name: {**first.numbers.get(name, {}), **values} for name, values in second.numbers.items()} == expected
    assert (first.run_id, second.run_id) == ("run-1", "run-1")
    assert (first.resumed_at, second.resumed_at) == (0, 4)
    assert (first.flushed, second.flushed) == ([4], [8, 12])
    assert (first.outcome, second.outcome) == (RunOutcome.INTERRUPTED, RunOutcome.FINISHED)
    assert second.parameters["data.train.target"] == str(small.parent / "train.de")
    assert "init" not in second.parameters, "it has no value"


def test_one_that_fails_is_switched_off_with_one_warning(
    small: Path, memory: type[MemoryTracker], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = type("OtherTracker", (MemoryTracker,), {"opened": []})
    monkeypatch.setitem(TRACKERS, "mlflow", other)
    memory.fails_at = 5
    said: list[str] = []
    folder = fit(small, "aim", "mlflow", say=said.append)
    assert [line for line in said if line.startswith("warning")] == [
        "warning: aim is switched off, and gets no more numbers until training is resumed (OSError: no space is left); "
        "metrics.jsonl has them"
    ]
    assert list(memory.opened[0].numbers["training/loss"]) == [1, 2, 3, 4]
    assert list(other.opened[0].numbers["training/loss"]) == list(range(1, LAST + 1))
    assert (memory.opened[0].outcome, other.opened[0].outcome) == (None, RunOutcome.FINISHED)
    memory.fails_at = 10**9
    fit(small, "aim", overrides=("--training.steps", "13"))
    assert (memory.opened[1].run_id, list(memory.opened[1].numbers["training/loss"])) == ("run-1", [13])
    assert (folder / "model.safetensors").exists()


def test_one_that_cannot_be_closed_warns(small: Path, memory: type[MemoryTracker]) -> None:
    memory.fails_to_close = True
    said: list[str] = []
    fit(small, "aim", say=said.append, overrides=("--training.steps", "1"))
    assert len([line for line in said if "warning: aim is switched off" in line and "TimeoutError" in line]) == 1


def test_an_error_ends_the_run_of_a_tracker(small: Path, memory: type[MemoryTracker]) -> None:
    with pytest.raises(ZeroDivisionError):
        fit(small, "aim", listeners=[Listener(2, ZeroDivisionError())])
    assert memory.opened[0].outcome is RunOutcome.FAILED


def test_a_lost_run_is_told_and_begun_again(small: Path, memory: type[MemoryTracker]) -> None:
    fit(small, "aim", overrides=("--training.steps", "4"))
    memory.is_lost = True
    said: list[str] = []
    fit(small, "aim", say=said.append)
    assert "warning: aim: there is no run run-1 any more; the new run is run-2" in said
    assert "aim: memory, run run-2" in said


def test_one_that_cannot_start_is_an_error_before_the_first_update(
    small: Path, memory: type[MemoryTracker], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Tracker, *_: object, **__: object) -> None:
        raise ConnectionError("refused by http://me:secret@localhost/x")

    other = type("OtherTracker", (MemoryTracker,), {"__init__": fail})
    monkeypatch.setitem(TRACKERS, "mlflow", other)
    with pytest.raises(TrainingError) as caught:
        fit(small, "aim", "mlflow")
    assert str(caught.value) == (
        'training.trackers: "mlflow" cannot start (ConnectionError: refused by http://localhost/x); correct this, or '
        "leave it out"
    )
    assert memory.opened[0].outcome is RunOutcome.FAILED
    assert not (small.parent / "run/metrics.jsonl").exists()


@pytest.mark.parametrize("name", get_args(TrackerName))
def test_a_missing_package_is_told_before_anything_is_made(
    small: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, TRACKERS[name].entry_point[0], None)
    with pytest.raises(MissingExtraError) as caught:
        fit(small, name)
    assert str(caught.value).startswith(f'training.trackers: "{name}" needs the package {name}, which cannot be imp')
    assert str(caught.value).endswith(f"install it with: pip install 'heedful[{name}]', or leave it out")
    assert not (small.parent / "run").exists()


def test_the_older_key_is_named_if_the_package_is_missing(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"^training.tensorboard = true: needs the package tensorboard, which"):
        fit(small, overrides=("--training.tensorboard",))


def test_unknown_and_repeated_names_are_refused(small: Path) -> None:
    with pytest.raises(HeedfulError, match=r'training.trackers.*"comet"'):
        fit(small, "comet")
    with pytest.raises(HeedfulError, match=r'training.trackers.*names "aim" twice'):
        fit(small, "aim", "aim")


def test_variables_are_defaults_and_go_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIM_GIVEN", "by the user")
    with set_missing_variables({"AIM_GIVEN": "x", "AIM_MISSING": "y"}):
        assert (os.environ["AIM_GIVEN"], os.environ["AIM_MISSING"]) == ("by the user", "y")
    assert os.environ["AIM_GIVEN"] == "by the user"
    assert "AIM_MISSING" not in os.environ


def test_wandb_sends_only_if_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TRACKERS["wandb"].list_variables()["WANDB_MODE"] == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert TRACKERS["wandb"].list_variables()["WANDB_MODE"] == "online"
    for name in ("tensorboard", "wandb", "mlflow", "aim"):
        for variable in TRACKERS[name].list_variables():
            assert variable.startswith(f"{name.upper()}_")


def test_tables_are_flattened() -> None:
    table = {"a": 1, "b": {"c": [1, {"d": 2}], "e": {"f": "g"}, "h": {}}}
    assert dict(flatten_table(table)) == {"a": 1, "b.c": [1, {"d": 2}], "b.e.f": "g"}
