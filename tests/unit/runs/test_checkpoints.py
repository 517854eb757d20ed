from __future__ import annotations

import errno
import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heedful import atomic_io as files
from heedful.atomic_io import MODEL_FILE, RunManifest, load_tensors, read_manifest, write_manifest
from heedful.errors import RunError, TrainingError
from heedful.runs import checkpoints
from heedful.runs.checkpoints import (
    AveragedTensors,
    FolderCheckpointSaver,
    load_snapshot,
    read_stored_weights,
    write_final_model,
)
from heedful.training.callbacks import TrainingSnapshot, TrainState, ValidationResult


class Killed(BaseException):
    """Stands for a kill -9: nobody catches it, and nothing is cleaned up by hand."""


def load_weights(folder: Path, model: nn.Module, *, step: int | None = None) -> None:
    stored = read_stored_weights(folder, step=step)
    files.load_parameters(model, stored.dequantize(), location=str(stored.path))


def weights(step: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {"weight": torch.randn(2, 3, generator=generator), "bias": torch.randn(2, generator=generator)}


def snapshot(step: int, *, best: float | None = None) -> TrainingSnapshot:
    moments = {"adam.weight.exp_avg": torch.full((2, 3), float(step))}
    return TrainingSnapshot(
        weights(step), moments, TrainState(step=step, position=step % 7, seconds=1.5 * step, best=best)
    )


def evaluation(step: int, *, improved: bool) -> ValidationResult:
    return ValidationResult(TrainState(step=step), {"loss": 1.0}, improved)


def save(folder: Path, *steps: tuple[int, bool], keep: int = 3) -> None:
    """Saves an evaluated checkpoint for each step; True makes it the best."""
    keeper = FolderCheckpointSaver(folder, keep=keep)
    for step, improved in steps:
        keeper.save(snapshot(step), evaluation(step, improved=improved))


def stored(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {"manifest.json"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_manifest(tmp_path, RunManifest())
    return tmp_path


def test_the_last_ones_and_the_best_are_kept_and_nothing_else(folder: Path) -> None:
    save(folder, (10, True), (20, True), *((step, False) for step in range(30, 80, 10)))
    manifest = read_manifest(folder)
    assert (manifest.checkpoints, manifest.last, manifest.best) == ((50, 60, 70), 70, 20)
    kept = {f"checkpoints/step-{step:08}.safetensors" for step in (20, 50, 60, 70)}
    assert stored(folder) == kept | {"checkpoints/step-00000070.training.safetensors", "checkpoints/step-00000070.json"}
    assert set(manifest.files) == stored(folder)
    for step in (20, 50, 60, 70):
        loaded = load_tensors(folder, f"checkpoints/step-{step:08}.safetensors", manifest=manifest)
        assert all(torch.equal(loaded[name], tensor) for name, tensor in weights(step).items())


@pytest.mark.parametrize("evaluated", [False, True])
def test_what_was_saved_comes_back(folder: Path, evaluated: bool) -> None:
    assert load_snapshot(folder) is None
    save(folder, (10, True))
    given = snapshot(20, best=0.1)
    FolderCheckpointSaver(folder, keep=3).save(given, evaluation(20, improved=False) if evaluated else None)
    found = load_snapshot(folder)
    assert found is not None
    assert found.progress == given.progress
    for loaded, expected in ((found.weights, given.weights), (found.training, given.training)):
        assert loaded.keys() == expected.keys()
        assert all(torch.equal(loaded[name], expected[name]) for name in loaded)


def test_what_was_gathered_comes_back_and_older_checkpoints_have_none(folder: Path) -> None:
    given = replace(snapshot(20), callback_state={"line": {"loss": 0.1, "parts": {"a": 1}}})
    FolderCheckpointSaver(folder, keep=3).save(given, None)
    found = load_snapshot(folder)
    assert found is not None
    assert (found.callback_state, found.progress) == (given.callback_state, given.progress)
    path = folder / "checkpoints/step-00000020.interrupted.json"
    content = json.loads(path.read_text())
    del content["gathered"]
    files.write_json(path, content)
    name = path.relative_to(folder).as_posix()
    write_manifest(folder, read_manifest(folder).with_file(name, files.compute_digest(path)))
    found = load_snapshot(folder)
    assert found is not None
    assert (found.callback_state, found.progress) == ({}, given.progress)


def test_an_interruption_can_be_resumed_but_is_neither_averaged_nor_best(folder: Path) -> None:
    save(folder, (10, True), (20, False))
    keeper = FolderCheckpointSaver(folder, keep=3)
    keeper.save(snapshot(25), None)
    manifest = read_manifest(folder)
    assert (manifest.checkpoints, manifest.last, manifest.best) == ((10, 20), 25, 10)
    keeper.save(snapshot(25, best=0.5), evaluation(25, improved=True))
    manifest = read_manifest(folder)
    assert (manifest.checkpoints, manifest.last, manifest.best) == ((10, 20, 25), 25, 25)
    found = load_snapshot(folder)
    assert found is not None
    assert found.progress.best == 0.5, "the progress after the evaluation counts"
    assert "checkpoints/step-00000025.interrupted.json" not in stored(folder)


def test_the_average_is_the_mean_of_the_last_ones(folder: Path) -> None:
    save(folder, *((step, step == 10) for step in range(10, 60, 10)), keep=4)
    assert write_final_model(folder, average=3) == (30, 40, 50)
    manifest = read_manifest(folder)
    assert manifest.finished
    found = load_tensors(folder, MODEL_FILE, manifest=manifest)
    for name, tensor in found.items():
        total = np.zeros(tensor.shape)
        for step in (30, 40, 50):
            total += weights(step)[name].numpy().astype(np.float64)
        np.testing.assert_array_equal(tensor.numpy(), (total / 3).astype(np.float32))
    assert write_final_model(folder, average=100) == (20, 30, 40, 50), "as many as there are"


@pytest.mark.parametrize("best", [10, 20, 50])
def test_without_an_average_the_model_is_the_best_one(folder: Path, best: int) -> None:
    save(folder, *((step, step in (10, best)) for step in range(10, 60, 10) if step <= best or step > 20), keep=2)
    assert write_final_model(folder, average=1) == (best,)
    found = load_tensors(folder, MODEL_FILE, manifest=read_manifest(folder))
    assert all(torch.equal(found[name], tensor) for name, tensor in weights(best).items())


def test_the_mean_loses_no_digits() -> None:
    models = [{"w": 1000 + torch.rand(50)} for _ in range(99)]
    exact = np.stack([model["w"].numpy().astype(np.float64) for model in models]).mean(0)
    np.testing.assert_array_equal(AveragedTensors(models)["w"].numpy(), exact.astype(np.float32))
    halves = [{"w": torch.tensor([1.0]).bfloat16()}, {"w": torch.tensor([2.0]).bfloat16()}]
    assert AveragedTensors(halves)["w"].dtype == torch.bfloat16
    with pytest.raises(RunError, match="average checkpoints of one run"):
        AveragedTensors([{"w": torch.ones(1)}, {"v": torch.ones(1)}])


def test_going_on_unmakes_the_finished_model(folder: Path) -> None:
    save(folder, (10, True))
    write_final_model(folder, average=1)
    assert read_manifest(folder).finished
    save(folder, (20, False))
    manifest = read_manifest(folder)
    assert not manifest.finished
    assert MODEL_FILE not in manifest.files
    assert not (folder / MODEL_FILE).exists()


def model() -> nn.Linear:
    return nn.Linear(3, 2)


def test_weights_are_those_of_the_model_else_the_best_else_the_last(folder: Path) -> None:
    linear = model()
    with pytest.raises(RunError, match="no checkpoint has been saved yet"):
        load_weights(folder, linear)
    FolderCheckpointSaver(folder, keep=3).save(snapshot(5), None)
    load_weights(folder, linear)
    assert torch.equal(linear.weight, weights(5)["weight"])
    save(folder, (10, True), (20, False))
    load_weights(folder, linear)
    assert torch.equal(linear.weight, weights(10)["weight"])
    load_weights(folder, linear, step=20)
    assert torch.equal(linear.weight, weights(20)["weight"])
    with pytest.raises(RunError, match="has no checkpoint of step 15; it has 10, 20"):
        load_weights(folder, linear, step=15)
    write_final_model(folder, average=2)
    load_weights(folder, linear)
    assert torch.equal(linear.weight, load_tensors(folder, MODEL_FILE, manifest=read_manifest(folder))["weight"])
    load_weights(folder, linear, step=20)
    assert torch.equal(linear.weight, weights(20)["weight"]), "also beside a finished model"


def test_weights_of_another_model(folder: Path) -> None:
    save(folder, (10, True))
    with pytest.raises(RunError, match=r"does not fit the model of config\.json \(differs in bias\)"):
        load_weights(folder, nn.Linear(3, 2, bias=False))
    with pytest.raises(RunError, match=r"weight has shape \(2, 3\), but config\.json needs \(2, 4\)"):
        load_weights(folder, nn.Linear(4, 2))


def test_weights_that_are_whole_numbers(folder: Path) -> None:
    odd = weights(10) | {"bias": torch.ones(2, dtype=torch.int64)}
    FolderCheckpointSaver(folder, keep=3).save(replace(snapshot(10), weights=odd), evaluation(10, improved=True))
    with pytest.raises(RunError, match=r"step-00000010\.safetensors: bias holds torch\.int64, which are not weights"):
        load_weights(folder, nn.Linear(3, 2))


def test_checkpoints_that_differ_in_shape_are_not_averaged(folder: Path) -> None:
    save(folder, (10, True))
    odd = weights(20) | {"bias": torch.ones(1)}
    FolderCheckpointSaver(folder, keep=3).save(replace(snapshot(20), weights=odd), evaluation(20, improved=True))
    with pytest.raises(RunError, match=r"step-00000020\.safetensors: bias is float32 of shape \(1,\), this run needs"):
        write_final_model(folder, average=2)


def test_a_checkpoint_says_where_it_lies(folder: Path) -> None:
    save(folder, (10, True))
    found = load_snapshot(folder)
    assert found is not None
    beside = folder / "checkpoints/step-00000010"
    assert found.file_names == (f"{beside}.safetensors", f"{beside}.training.safetensors")


def test_a_damaged_checkpoint_is_told_from_a_good_one(folder: Path) -> None:
    save(folder, (10, True), (20, False))
    for name in ("step-00000020.safetensors", "step-00000020.training.safetensors", "step-00000020.json"):
        path = folder / "checkpoints" / name
        good = path.read_bytes()
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(RunError, match=f"{name}: is not the file that was saved"):
            load_snapshot(folder)
        path.write_bytes(good)
    assert load_snapshot(folder) is not None


def test_progress_of_another_version(folder: Path) -> None:
    save(folder, (10, True))
    path = folder / "checkpoints/step-00000010.json"
    path.write_text('{"step": 10, "something": "new"}')
    manifest = read_manifest(folder)
    write_manifest(folder, manifest.with_file("checkpoints/step-00000010.json", files.compute_digest(path)))
    with pytest.raises(RunError, match="install the version of heedful that wrote it"):
        load_snapshot(folder)


# --- what may happen in between ---------------------------------------------------------------------------


@contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, *, after: int, error: BaseException) -> Iterator[None]:
    """Everything that touches the disk works `after` times, then no more."""
    left = [after]

    def watched(work: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            if left[0] <= 0:
                raise error
            left[0] -= 1
            return work(*arguments, **more)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(files, "save_file", watched(files.save_file))
        patch.setattr(os, "fsync", watched(os.fsync))
        for name in ("replace", "write_text", "unlink", "mkdir"):
            patch.setattr(Path, name, watched(getattr(Path, name)))
        yield


@pytest.mark.parametrize("error", [Killed(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))], ids=["kill", "full"])
def test_wherever_a_save_ends_the_last_good_checkpoint_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The save is cut at each of its dealings with the disk, and once it got through."""
    save(folder, (10, True), (20, False), keep=2)
    step, ended = 20, 0
    for after in range(40):
        try:
            with interrupted(monkeypatch, after=after, error=error):
                save(folder, (step + 10, False), keep=2)
        except (Killed, TrainingError) as caught:
            ended += 1
            if isinstance(caught, TrainingError):
                assert "the disk is full; free some space and start the same command again" in str(caught)
        found = load_snapshot(folder)
        assert found is not None
        assert found.progress.step in (step, step + 10)
        expected = snapshot(found.progress.step)
        assert found.progress == expected.progress
        assert all(torch.equal(found.weights[name], tensor) for name, tensor in expected.weights.items())
        load_weights(folder, model())
        step = found.progress.step
    assert ended > 10
    assert step > 100, "and saves that were not cut got through"
    save(folder, (step + 10, False), keep=2)
    assert set(read_manifest(folder).files) == stored(folder), "what was left behind is swept away"


def test_wherever_finishing_ends_nothing_is_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(folder, (10, True), (20, False))
    for round_ in range(3):
        for after in range(16):
            with suppress(Killed), interrupted(monkeypatch, after=after, error=Killed()):
                write_final_model(folder, average=1 + round_ % 2)
            load_weights(folder, model())
            assert load_snapshot(folder) is not None
    assert write_final_model(folder, average=2) == (10, 20)
    assert read_manifest(folder).finished


def test_a_step_is_never_written_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the manifest names stays as it is, or a kill in between would make the manifest a lie."""
    FolderCheckpointSaver(folder, keep=3).save(snapshot(10), None)
    written: list[str] = []
    monkeypatch.setattr(checkpoints, "save_tensors", lambda path, _: written.append(path.name))
    FolderCheckpointSaver(folder, keep=3).save(snapshot(10), evaluation(10, improved=True))
    assert written == []


def test_any_history_can_be_resumed(folder: Path) -> None:
    """Random evaluations, interruptions, resumptions and ends, against a model of what must be there."""
    dice = random.Random(5)
    step, evaluated, best = 0, list[int](), None
    for _ in range(60):
        event = dice.choice(("evaluate", "evaluate", "interrupt", "finish"))
        if event == "finish" and evaluated:
            average = dice.choice((1, 2))
            expected = tuple(evaluated[-2:]) if average == 2 else (best,)
            assert write_final_model(folder, average=average) == expected
            continue
        step += dice.randint(0 if event == "evaluate" and step not in evaluated else 1, 3)
        if step == 0:
            continue
        improved = event == "evaluate" and (best is None or dice.random() < 0.4)
        told = evaluation(step, improved=improved) if event == "evaluate" else None
        given = replace(snapshot(step), progress=TrainState(step=step, stale=dice.randrange(9)))
        FolderCheckpointSaver(folder, keep=3).save(given, told)
        if told is not None:
            evaluated.append(step)
            best = step if improved else best
        manifest = read_manifest(folder)
        assert (manifest.checkpoints, manifest.last, manifest.best) == (tuple(evaluated[-3:]), step, best)
        found = load_snapshot(folder)
        assert found is not None
        assert found.progress == given.progress
        assert stored(folder) == set(manifest.files)
        best_or_last = step if best is None else best
        linear = model()
        load_weights(folder, linear)
        assert torch.equal(linear.weight, weights(best_or_last)["weight"])


def test_what_a_kill_leaves_after_the_last_save_is_removed_with_the_final_model(folder: Path) -> None:
    """No later save removes it."""
    save(folder, (10, True), (20, False))
    for name in ("step-00000005.safetensors", "step-00000005.training.safetensors"):
        (folder / "checkpoints" / name).write_bytes(b"superseded")
    (folder / "checkpoints" / ".step-00000030.json.writing").mkdir()
    write_final_model(folder, average=2)
    assert stored(folder) == set(read_manifest(folder).files)
    assert not (folder / "checkpoints" / ".step-00000030.json.writing").exists()
