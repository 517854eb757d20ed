"""Trainings whose parameters are split over processes learn the same as those of one process."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from task_runs import READING, create_task_runs
from torchrun_training import run_processes, start_processes
from untrained_runs import create_language_model_run, create_untrained_run

import heedful
from heedful.errors import RecipeError
from heedful.recipes.load import build_recipe, dump, load_recipe
from heedful.runs import train as training_run
from heedful.runs.initialization import ignore_message
from heedful.runs.load import open_run, read_run_recipe
from heedful.runs.metrics_log import MetricsLog
from heedful.runs.resolve import ResolvedRecipe
from heedful.runs.trackers import ExperimentTrackers
from heedful.runs.trainer_factory import build_trainer
from heedful.tasks.objective import TrainingObjective
from heedful.training.callbacks import CallbackList
from heedful.training.distributed import DistributedContext
from heedful.training.sharding import supports_sharding

pytestmark = pytest.mark.skipif(not supports_sharding(), reason="needs PyTorch 2.13")
TRAINING: Mapping[str, Any] = {
    "steps": 4,
    "evaluate_every": 2,
    "batch_tokens": 60,
    "precision": "fp32",
    # Adam must not make a whole step of a gradient that is only rounding
    "optimizer": {"epsilon": 1e-3},
    "schedule": {"kind": "constant", "rate": 1e-2, "warmup": 0},
    "clip": 0.5,
    "keep": 3,
}


def write_recipe(folder: Path, *, like: Path, init: Path | None = None, **training: Any) -> Path:
    """Write a recipe with the data and model of the run `like`, without dropout, into a folder."""
    table = read_run_recipe(like).model_dump(mode="json", exclude_none=True)
    table["training"] |= {**TRAINING, **training}
    table["output"] = str(folder / "run")

    def remove_dropout(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: 0.0 if "dropout" in key else remove_dropout(part) for key, part in value.items()}

    table["model"] = remove_dropout(table["model"])
    if init is not None:
        table |= {"init": str(init), "tokenizer": {"kind": "given"}}
    folder.mkdir(exist_ok=True)
    path = folder / "recipe.toml"
    path.write_text(dump(build_recipe(table, source="here")), encoding="utf-8")
    return path


def read_metrics(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "run_id")} for line in lines]


def require_same_numbers(line: Mapping[str, Any], other: Mapping[str, Any], *, tolerance: float) -> None:
    """Compare two lines of metrics; floats may differ by a share of `tolerance`."""
    assert line.keys() == other.keys()
    for key, value in line.items():
        expected = pytest.approx(other[key], rel=tolerance, abs=tolerance) if isinstance(value, float) else other[key]
        assert value == expected, (key, line)


def require_same_training(run: Path, reference: Path, *, tolerance: float = 1e-6) -> None:
    """Compare metrics and weights; sums of fp32 in another order differ in the seventh digit."""
    metrics, expected = read_metrics(run), read_metrics(reference)
    assert [line["step"] for line in metrics] == [line["step"] for line in expected]
    for line, other in zip(metrics, expected, strict=True):
        require_same_numbers(line, other, tolerance=tolerance)
    weights, others = load_file(run / "model.safetensors"), load_file(reference / "model.safetensors")
    assert weights.keys() == others.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(weight, others[name], rtol=10 * tolerance, atol=10 * tolerance)


def create_joint_runs(folder: Path) -> dict[str, Path]:
    """Create a run of matching and one of several tasks on the data of `create_task_runs` in the same folder."""

    def build_data(name: str) -> dict[str, Any]:
        part = {"path": str(folder / name)}
        return {"train": part, "validation": part, "max_length": 24}

    pairs = {"source": str(folder / "t.en"), "target": str(folder / "t.de")}
    tables: Mapping[str, Mapping[str, Any]] = {
        "match": {
            "task": "matching",
            "data": {"train": pairs, "validation": pairs, "max_length": 24},
            "training": {"steps": 1, "pairs": 7, "margin": 0.1},
        },
        "several": {
            "task": "multitask",
            "tasks": {
                name: {"kind": kind, "data": build_data(file), "weight": weight}
                for name, kind, file, weight in (
                    ("class", "classification", "c.tsv", 1.0),
                    ("tags", "tagging", "g.txt", 0.5),
                    ("answers", "spans", "q.jsonl", 2.0),
                )
            },
            "training": {"steps": 1},
        },
    }
    return {
        name: create_untrained_run(
            {"output": str(folder / name), "tokenizer": {"kind": "words"}, "model": READING, **table}
        )
        for name, table in tables.items()
    }


@pytest.mark.slow
def test_models_of_all_tasks_are_trained_like_by_one_process(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    runs = create_task_runs(tmp_path / "given")
    runs |= create_joint_runs(tmp_path / "given")
    more: Mapping[str, Any] = {
        "several": {"steps": 12, "accumulate": 2, "optimizer": {"epsilon": 1e-3, "weight_decay": 0.1}}
    }
    alone, sharded = (
        {
            name: write_recipe(tmp_path / f"{name}-{shard}", like=run, shard=shard, **more.get(name, {}))
            for name, run in runs.items()
        }
        for shard in (False, True)
    )
    for name, recipe in alone.items():
        if name != "match":
            heedful.train(recipe, device="cpu")
    # pairs are compared with those of the same share
    for recipes in ([alone["match"]], list(sharded.values())):
        finished = run_processes(recipes, count=2)
        assert finished.returncode == 0, finished.stderr
    for name, recipe in sharded.items():
        if name == "detect":  # its replaced tokens are drawn at random in each process
            assert read_metrics(recipe.parent / "run")[-1]["step"] == TRAINING["steps"]
        else:
            require_same_training(recipe.parent / "run", alone[name].parent / "run")


@pytest.fixture(scope="module")
def translation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a Transformer that translates numbers."""
    folder = tmp_path_factory.mktemp("translation") / "given"
    folder.mkdir()
    return create_task_runs(folder)["translate"]


@pytest.mark.slow
def test_split_layers_can_be_compiled(tmp_path: Path, translation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooks that gather their parameters are outside of compiled code."""
    monkeypatch.setenv("COMPILER_BACKEND", "aot_eager")
    alone = write_recipe(tmp_path / "alone", like=translation)
    heedful.train(alone, device="cpu")
    recipe = write_recipe(tmp_path / "split", like=translation, shard=True, compile=True, gradient_checkpointing=True)
    finished = run_processes([recipe], count=2)
    assert finished.returncode == 0, finished.stderr
    require_same_training(recipe.parent / "run", alone.parent / "run", tolerance=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("training", [{}, {"ema": 0.9, "average": 2, "gradient_checkpointing": True}])
def test_runs_go_on_with_any_number_of_processes(tmp_path: Path, translation: Path, training: dict[str, Any]) -> None:
    """One process, then two, four, and one again, with the same batches in the same order."""
    alone = write_recipe(tmp_path / "alone", like=translation, **training, shard=True, steps=8)
    heedful.train(alone, device="cpu")
    changing = tmp_path / "changing"
    for steps, count in ((2, 1), (4, 2), (6, 4), (8, 1)):
        recipe = write_recipe(changing, like=translation, **training, shard=True, steps=steps)
        finished = run_processes([recipe], count=count)
        assert finished.returncode == 0, finished.stderr
    ends = [line for line in read_metrics(changing / "run") if line["kind"] == "validation"]
    expected = [line for line in read_metrics(alone.parent / "run") if line["kind"] == "validation"]
    assert [line["step"] for line in ends] == [2, 4, 6, 8]
    for line, other in zip(ends, expected, strict=True):
        require_same_numbers(line, other, tolerance=1e-5)
    for name in ("model.safetensors", "checkpoints/step-00000008.training.safetensors"):
        weights, others = load_file(changing / "run" / name), load_file(alone.parent / "run" / name)
        for key, weight in weights.items():
            torch.testing.assert_close(weight, others[key], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_bf16_and_adapters_are_split_too(tmp_path: Path, translation: Path) -> None:
    """In bf16, each process rounds the sum over its examples, so losses agree to three digits."""
    half = [write_recipe(tmp_path / f"half{i}", like=translation, precision="bf16", shard=i == 1) for i in (0, 1)]
    adapter = {"kind": "lora", "rank": 2, "dropout": 0.0}
    recipes = [
        write_recipe(tmp_path / f"lora{i}", like=translation, init=translation, adapter=adapter, shard=i == 1)
        for i in (0, 1)
    ]
    for recipe in (half[0], recipes[0]):
        heedful.train(recipe, device="cpu")
    finished = run_processes([half[1], recipes[1]], count=2)
    assert finished.returncode == 0, finished.stderr
    require_same_training(recipes[1].parent / "run", recipes[0].parent / "run")
    for line, other in zip(*(read_metrics(recipe.parent / "run") for recipe in half), strict=True):
        assert line["loss"] == pytest.approx(other["loss"], rel=5e-3)
    weights = load_file(half[1].parent / "run/model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


def test_split_parameters_need_an_optimizer_of_single_numbers(tmp_path: Path, translation: Path) -> None:
    recipe = load_recipe(write_recipe(tmp_path / "new", like=translation, shard=True, optimizer={"kind": "adafactor"}))
    run, world = open_run(translation, recipe), DistributedContext(0, 2, torch.device("cpu"))
    with pytest.raises(RecipeError, match='"adafactor": needs means over whole matrices'):
        build_trainer(run, run.init_model(), EmptyObjective(), world=world, callback=CallbackList())


def test_truncated_training_is_not_split(tmp_path: Path) -> None:
    """Processes whose batches have other lengths would wait for each other without end."""
    (tmp_path / "given").mkdir()
    like = create_language_model_run(tmp_path / "given", ["once upon a time"])
    recipe = load_recipe(write_recipe(tmp_path / "new", like=like, shard=True, truncation=8))
    run, world = open_run(like, recipe), DistributedContext(0, 2, torch.device("cpu"))
    with pytest.raises(RecipeError, match=r"training\.truncation: .* leave one of them out"):
        build_trainer(run, run.init_model(), EmptyObjective(), world=world, callback=CallbackList())


class EmptyObjective(TrainingObjective[Any]):
    metric_names = frozenset({"loss"})

    def plan_epoch(self, epoch: int) -> list[Any]:
        return []

    def build_batch(self, rows: Any) -> Any: ...

    def loss(self, model: Any, batch: Any) -> Any: ...

    def evaluate(self, model: Any) -> dict[str, float]:
        return {"loss": 0.0}


def test_only_the_leading_process_builds_weights(
    tmp_path: Path, translation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training stops when the trainer is built, because there is only one process."""
    recipe = load_recipe(write_recipe(tmp_path / "new", like=translation, shard=True))
    run = open_run(translation, recipe)
    models: list[torch.nn.Module] = []

    def keep_model(_run: Any, model: torch.nn.Module, *_: Any, **__: Any) -> None:
        models.append(model)
        raise KeyboardInterrupt

    monkeypatch.setattr(training_run, "build_trainer", keep_model)
    monkeypatch.setattr(training_run, "load_snapshot", lambda *_, **__: None)
    monkeypatch.setattr(training_run, "CostReporter", lambda *_, **__: None)
    for rank in (0, 1):
        world = DistributedContext(rank, 2, torch.device("cpu"))
        with pytest.raises(KeyboardInterrupt):
            training_run._update_model(
                run,
                EmptyObjective(),
                ResolvedRecipe(recipe),
                metrics_log=MetricsLog(tmp_path / "metrics.jsonl"),
                trackers=ExperimentTrackers(run, log=ignore_message),
                useful_labels=None,
                process_group=world,
                callbacks=(),
                log=ignore_message,
            )
    leader, follower = models
    assert not any(parameter.is_meta for parameter in leader.parameters())
    assert all(parameter.is_meta for parameter in follower.parameters() if parameter.dim())


def test_offloading_needs_split_parameters(tmp_path: Path, translation: Path) -> None:
    with pytest.raises(RecipeError, match=r"training\.offload = true needs training\.shard = true"):
        write_recipe(tmp_path / "new", like=translation, offload=True)


@pytest.mark.slow
def test_a_restarted_process_goes_on_from_the_last_checkpoint(tmp_path: Path, translation: Path) -> None:
    """Torchrun starts all processes again when one of them dies."""
    alone = write_recipe(tmp_path / "alone", like=translation, steps=8)
    heedful.train(alone, device="cpu")
    recipe = write_recipe(tmp_path / "killed", like=translation, shard=True, steps=8)
    options = ["--max-restarts", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    finished = run_processes([recipe], count=2, options=options, kill_at_step=4)
    assert finished.returncode == 0, finished.stderr
    assert "killed at step 4" in finished.stdout
    steps = [line["step"] for line in read_metrics(recipe.parent / "run")]
    assert steps == [2, 4, 6, 8, 8]
    require_same_training(recipe.parent / "run", alone.parent / "run", tolerance=1e-5)


@pytest.mark.slow
def test_two_nodes_train_as_one(tmp_path: Path, translation: Path) -> None:
    alone = write_recipe(tmp_path / "alone", like=translation)
    heedful.train(alone, device="cpu")
    recipe = write_recipe(tmp_path / "nodes", like=translation, shard=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nodes = [
        start_processes(
            [recipe],
            count=1,
            options=[
                "--nnodes",
                "2",
                "--node-rank",
                str(rank),
                "--master-addr",
                "127.0.0.1",
                "--master-port",
                str(port),
            ],
        )
        for rank in (0, 1)
    ]
    for node in nodes:
        _, errors = node.communicate(timeout=300)
        assert node.returncode == 0, errors
    require_same_training(recipe.parent / "run", alone.parent / "run")
