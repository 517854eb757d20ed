"""Models that have no room are refused with the number and the key, before they are built."""

from __future__ import annotations

import json
import math
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import heedful
from heedful import memory_limits
from heedful.architectures.build import build_sequence_to_sequence
from heedful.architectures.interface import DataSizes
from heedful.architectures.model import TransformerConfig
from heedful.atomic_io import compute_digest, read_manifest, write_manifest, write_run_files
from heedful.errors import RecipeError, RunError
from heedful.models.model_size import MAX_MODULES, ModelTooLargeError, build_without_memory, limit_model_size
from heedful.recipes.load import load_recipe
from heedful.runs.checkpoints import METRICS_FILE, FolderCheckpointSaver
from heedful.runs.load import open_run
from heedful.runs.trainer_factory import require_memory
from heedful.tasks.task import build_model
from heedful.training.distributed import DistributedContext


def transformer(**keys: object) -> TransformerConfig:
    base = {"kind": "transformer", "d_model": 16, "heads": 2, "d_ff": 32, "encoder_layers": 2, "decoder_layers": 2}
    return TransformerConfig.model_validate(base | keys)


@pytest.mark.parametrize(
    ("keys", "vocabulary"),
    [
        ({"d_model": 2**20, "d_ff": 2**20}, 100),
        ({"d_model": 2**40, "d_ff": 2**20}, 100),
        ({"d_model": 2**62, "d_ff": 2**20}, 100),
        ({"d_ff": 10**12}, 100),
        ({"encoder_layers": 10**9, "d_model": 2048, "d_ff": 2048}, 100),
        ({"positions": {"kind": "learned", "length": 10**12}}, 100),
        ({}, 10**12),
        ({}, 2**62),
    ],
)
def test_a_model_is_given_up_as_soon_as_it_is_too_large(keys: dict[str, object], vocabulary: int) -> None:
    words = r"GiB, and this machine has 4\.0 GiB|64 bits"
    with pytest.raises(ModelTooLargeError, match=words), build_without_memory(max_bytes=2.0**32):
        build_sequence_to_sequence(transformer(**keys), DataSizes(vocabulary, vocabulary, 30))


def test_what_just_fits_is_built_and_one_byte_less_is_too_little() -> None:
    config = transformer()

    def build() -> nn.Module:
        return build_sequence_to_sequence(config, DataSizes(50, 60, 30))

    needed = float(sum(4 * parameter.numel() for parameter in build().parameters()))
    with limit_model_size(max_bytes=needed):
        made = build()
    with build_without_memory(max_bytes=needed):
        made = build()
    del made
    kept: list[nn.Module] = []
    for short in (lambda: limit_model_size(max_bytes=needed - 1), lambda: build_without_memory(max_bytes=needed - 1)):
        with pytest.raises(ModelTooLargeError), short():
            kept.append(build())


def test_tied_parameters_and_those_of_parts_that_were_thrown_away_count_once() -> None:
    with limit_model_size(max_bytes=4.0 * 100):
        for _ in range(50):
            nn.Linear(10, 10, bias=False)
        first, second = nn.Linear(10, 10, bias=False), nn.Linear(10, 10, bias=False)
        second.weight = first.weight
    with pytest.raises(ModelTooLargeError), limit_model_size(max_bytes=4.0 * 199):
        first, second = nn.Linear(10, 10, bias=False), nn.Linear(10, 10, bias=False)


def test_other_threads_are_not_counted() -> None:
    made: list[nn.Module] = []
    with limit_model_size(max_bytes=100.0):
        thread = threading.Thread(target=lambda: made.append(nn.Linear(100, 100)))
        thread.start()
        thread.join()
    assert len(made) == 1


def test_memory_that_the_system_does_not_give_is_told() -> None:
    with pytest.raises(ModelTooLargeError, match="the model needs at least"), limit_model_size(max_bytes=math.inf):
        torch.empty(2**60)


def test_modules_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_MODULES == 100_000
    monkeypatch.setattr("heedful.models.model_size.MAX_MODULES", 30)
    with (
        pytest.raises(ModelTooLargeError, match="has more than 30 modules, the largest possible number"),
        build_without_memory(),
    ):
        build_sequence_to_sequence(transformer(encoder_layers=100), DataSizes(50, 60, 30))


# --- recipes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model.layers", "1000000"], "model.encoder_layers = 1,000,000: a model has at most 10,000"),
        (["--model.layers", "1000000000"], "model.encoder_layers = 1,000,000,000"),
        (["--model.d_model", "1048576"], "model.d_model = 1,048,576: the model needs at least"),
        (["--model.d_ff", "1000000000000"], "model.d_ff = 1,000,000,000,000: the model needs at least"),
    ],
)
def test_what_a_recipe_asks_for_is_compared_with_the_memory(small: Path, words: list[str], message: str) -> None:
    recipe = load_recipe(small, words)
    with pytest.raises(RecipeError, match=message.replace(".", r"\.")):
        build_model(recipe, {"tokenizer/source": 40, "tokenizer/target": 40})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--training.batch_tokens", "1" + "0" * 30], r"training\.batch_tokens is too large"),
        (["--model.d_model", str(2**62)], r"model\.d_model is too large"),
        (["--training.threads", "1000000000000"], "must be at most 4096"),
        (["--training.minutes", "1e308"], "must be at most"),
        (["--generation.max_ratio", "1e15"], "must be at most 1000"),
        (["--output", "b" * 300], "cannot be a path"),
    ],
)
def test_numbers_and_names_that_nobody_can_mean(small: Path, words: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=f"command line: .*{message}"):
        load_recipe(small, words)


def test_a_training_needs_more_room_than_its_model(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = open_run(trained)
    bytes_ = sum(4 * parameter.numel() for parameter in run.build_model().parameters())
    device = torch.device("cpu")
    for share, fits in ((4, True), (3.99, False)):  # weights, gradients and both moments of Adam
        monkeypatch.setattr("heedful.runs.trainer_factory.get_memory_limit", lambda share=share: int(share * bytes_))
        if fits:
            require_memory(run, world=DistributedContext(0, 1, device))
            continue
        with pytest.raises(ModelTooLargeError, match=r"training: .*the model needs at least"):
            require_memory(run, world=DistributedContext(0, 1, device))


def test_a_stored_recipe_is_refused_before_it_is_built(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    content = json.loads(path.read_text())
    content["recipe"]["model"] |= {"d_model": 2**20, "d_ff": 2**20}
    path.write_text(json.dumps(content))
    manifest = read_manifest(tmp_path / "run")
    write_manifest(tmp_path / "run", manifest.with_file("config.json", compute_digest(path)))
    with pytest.raises(RecipeError, match=r"model\.d_(model|ff) = 1,048,576: the model needs"):
        heedful.load(tmp_path / "run", device="cpu")


# --- the machine ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("0::/a/b", {"a/memory.max": "5000", "a/memory.swap.max": "0", "a/b/memory.max": "max"}, 5000),
        ("0::/a/b", {"a/memory.max": "5000", "a/b/memory.max": "4000", "a/b/memory.swap.max": "10"}, 4010),
        ("4:memory:/c", {"memory/c/memory.limit_in_bytes": "3000"}, 3000),
        ("4:memory:/c", {"memory/memory.limit_in_bytes": "2000"}, 2000),
        ("4:cpu:/c", {"cpu/c/memory.limit_in_bytes": "3000"}, None),
    ],
)
def test_limits_of_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, files: dict[str, str], expected: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "own").write_text(f"{group}\n")
    (tmp_path / "meminfo").write_text("SwapTotal: 0 kB\n")
    monkeypatch.setattr(memory_limits, "_CGROUPS", tmp_path)
    monkeypatch.setattr(memory_limits, "_OWN_CGROUP", tmp_path / "own")
    monkeypatch.setattr(memory_limits, "_SWAPS", tmp_path / "meminfo")
    whole = memory_limits.get_memory_limit.__wrapped__()
    assert whole == expected if expected is not None else whole > 2**20
    monkeypatch.setattr(memory_limits, "_read_address_space_limit", lambda: 1234)
    assert memory_limits.get_memory_limit.__wrapped__() == 1234


# --- what decides answers ------------------------------------------------------------------------------------------


def test_what_a_task_found_out_is_in_the_manifest(tuned: Callable[[str], Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tuned("spans"), run)
    assert "silence.json" in read_manifest(run).files
    heedful.load(run, device="cpu")
    (run / "silence.json").unlink()
    with pytest.raises(RunError, match=r"silence\.json: cannot be read .*restore it"):
        heedful.load(run, device="cpu")
    (run / "silence.json").write_text('{"format": 1, "threshold": 1e9}')
    with pytest.raises(RunError, match=r"silence\.json: is not the file that was saved"):
        heedful.load(run, device="cpu")
    write_manifest(run, read_manifest(run).without_files("silence.json"))
    assert heedful.load(run, device="cpu").threshold == 1e9, "older runs name it in no manifest"


def test_a_kill_while_findings_are_written_leaves_a_run_that_opens(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    write_run_files(run, {"found.json": {"a": 1}})

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("heedful.atomic_io.compute_digest", die)
        with pytest.raises(KeyboardInterrupt):
            write_run_files(run, {"found.json": {"a": 2}})
    open_run(run)
    write_run_files(run, {"found.json": {"a": 3}})
    assert read_manifest(run).files["found.json"] == compute_digest(run / "found.json")
    (run / "found.json").write_text("{}")
    with pytest.raises(RunError, match=r"found\.json: is not the file that was saved"):
        open_run(run)


def test_the_curve_is_on_the_disk_before_the_checkpoint_counts(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heedful.runs.checkpoints import load_snapshot

    run = tmp_path / "run"
    shutil.copytree(trained, run)
    snapshot = load_snapshot(run)
    assert snapshot is not None
    synced: list[str] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    monkeypatch.setattr("heedful.atomic_io.os.fsync", noted)
    FolderCheckpointSaver(run, keep=2).save(snapshot, None)
    assert synced.index(METRICS_FILE) < synced.index("manifest.json")
    assert "run" in synced[synced.index("manifest.json") :], "the entry of the manifest"
