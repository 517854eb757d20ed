from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful import DataError, RecipeError, RunError, TrainingError, load_recipe, train
from heedful import atomic_io as files
from heedful.atomic_io import load_tensors, read_manifest
from heedful.blocks.residual import TokenBatchNorm
from heedful.recipes import toml
from heedful.runs import train as training_run
from heedful.runs.evaluate import evaluate_run
from heedful.runs.load import open_run
from heedful.runs.prepare import lock_run_folder
from heedful.runs.trainer_factory import build_trainer
from heedful.training.callbacks import Callback, StepMetrics, ValidationResult
from heedful.training.distributed import DistributedContext

Another = Callable[[str], Path]
LAST = "checkpoints/step-00000012"


class Pull(Callback):
    """Ends a run the hard way after an update."""

    def __init__(self, at: int, error: BaseException | None = None) -> None:
        self.at = at
        self.error = error or KeyboardInterrupt()
        self.evaluated_at: list[int] = []

    def on_step_end(self, update: StepMetrics) -> None:
        if update.step == self.at:
            raise self.error

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        self.evaluated_at.append(evaluation.progress.step)


def fit(recipe: Path, *overrides: str, **more: Any) -> Path:
    return train(load_recipe(recipe, overrides), device="cpu", **more).folder


def contents(folder: Path) -> dict[str, str]:
    """What training made, by digest; times differ from run to run and stand in the progress and in run.json."""
    made = ("model.safetensors", "checkpoints/", "tokenizer/", "data/")
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and (name := path.relative_to(folder).as_posix()).startswith(made)
        and not (name.startswith("checkpoints/") and name.endswith(".json"))
    }


def measured(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    own = ("seconds", "labels_per_second", "run_id")
    return [{k: v for k, v in line.items() if k not in own} for line in lines]


# --- what is made -----------------------------------------------------------------------------------------


def test_a_run_folder_holds_all_it_says_and_no_pickle(trained: Path) -> None:
    manifest = read_manifest(trained)
    assert manifest.finished
    assert (manifest.checkpoints, manifest.last) == ((4, 8, 12), 12)
    for name in manifest.files:
        files.verify_file(trained, name, manifest=manifest)
    for path in trained.rglob("*"):
        if path.is_file():
            assert path.suffix in (".json", ".jsonl", ".safetensors", ".ids", ".starts", ""), path
            assert not zipfile.is_zipfile(path), "as torch.save writes"
            assert not path.read_bytes().startswith(b"\x80"), "as pickle begins"
    told = measured(trained)
    assert [(line["kind"], line["step"]) for line in told] == [
        ("validation", 4),
        ("validation", 8),
        ("validation", 12),
        ("final", 12),
    ]
    assert told[-1]["checkpoints"] == [8, 12]


def test_the_final_model_is_the_mean_of_the_last_two(trained: Path) -> None:
    manifest = read_manifest(trained)
    first, second, found = (
        load_tensors(trained, name, manifest=manifest)
        for name in ("checkpoints/step-00000008.safetensors", f"{LAST}.safetensors", "model.safetensors")
    )
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, (first[name] + second[name]) / 2)
        assert not torch.equal(first[name], second[name])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_final_model_is_measured_as_it_will_be_used(small: Path, precision: str) -> None:
    """In single precision, as its weights are kept, whatever it was trained in."""
    folder = fit(small, "--training.precision", precision)
    _, found = evaluate_run(open_run(folder), device="cpu", say=lambda _: None)
    final = measured(folder)[-1]
    # the same weights and batches; bf16, with 8 bits, is off by 1e-4 and more
    assert {name: final[name] for name in found} == pytest.approx(found, rel=1e-6)


def test_batch_norm_trains_saves_its_statistics_and_continues(small: Path) -> None:
    norm = ("--model.norm", "batch", "--model.residual", "pre_norm")
    whole = fit(small, *norm)
    final = load_tensors(whole, f"{LAST}.safetensors", manifest=read_manifest(whole))
    means = [tensor for name, tensor in final.items() if name.endswith("norm.mean")]
    assert means
    assert all(tensor.abs().max() > 0 for tensor in means)
    expected = contents(whole)
    shutil.rmtree(whole)
    with pytest.raises(KeyboardInterrupt):
        fit(small, *norm, listeners=[Pull(6)])
    assert contents(fit(small, *norm)) == expected, "a continued training has other statistics"
    _, found = evaluate_run(open_run(whole), device="cpu", say=lambda _: None)
    assert {name: measured(whole)[-1][name] for name in found} == pytest.approx(found, rel=1e-6)


def test_batch_norm_in_bf16_is_an_error(small: Path) -> None:
    with pytest.raises(RecipeError, match=r'training.precision = "bf16": model.norm = "batch" is trained in fp32'):
        fit(small, "--model.norm", "batch", "--training.precision", "bf16")


def test_batch_norm_in_several_processes_is_an_error(small: Path) -> None:
    folder = fit(small, "--model.norm", "batch", "--training.steps", "1")
    run, world = open_run(folder), DistributedContext(0, 2, torch.device("cpu"))
    model: Any = torch.nn.Sequential(TokenBatchNorm(4))
    unused: Any = None
    with pytest.raises(RecipeError, match="is trained by one process, because each of 2 would have statistics"):
        build_trainer(run, model, unused, world=world, callback=unused)


def test_run_json_says_how_to_make_it_again(trained: Path) -> None:
    about = json.loads((trained / "run.json").read_text(encoding="utf-8"))
    assert (about["heedful"], about["torch"], about["seed"]) == (heedful.__version__, torch.__version__, 3)
    assert about["examples"]["train"] == {"kept": 120, "empty": 0, "too_long": 0}
    assert about["data"]["train"]["files"] == ["train.en", "train.de"]
    assert open_run(trained).recipe == load_recipe(trained.parent / "small.toml")


def test_same_recipe_and_seed_make_the_same_bytes(trained: Path, small: Path) -> None:
    torch.manual_seed(99)  # whatever the program did before
    assert contents(fit(small)) == contents(trained)


def test_layers_that_are_computed_again_make_the_same_bytes(trained: Path, small: Path) -> None:
    """With dropout, also from the middle of training on."""
    fit(small, "--training.steps", "6")
    found, expected = contents(fit(small, "--training.gradient_checkpointing", "true")), contents(trained)
    assert {n: d for n, d in found.items() if "00000006" not in n} == {
        n: d for n, d in expected.items() if "00000004" not in n
    }


TEXTS = {
    "translation": ("t.en", "t.de"),
    "language_modelling": ("t.en",),
    "classification": ("t.tsv",),
    "tagging": ("t.tags",),
}
R_DROP, DROPOUT = ("--training.r_drop", "5"), ("--model.dropout", "0.3")


SLOW_TASKS = [pytest.param(task, marks=pytest.mark.slow) for task in TEXTS if task != "tagging"]


@pytest.mark.parametrize("task", ["tagging", *SLOW_TASKS])
def test_two_passes_without_dropout_are_one_in_every_task(tmp_path: Path, task: str) -> None:
    lines = [f"{a} {b} {a}" for a in "abcd" for b in "abcd"]
    (tmp_path / "t.en").write_text("\n".join(lines) + "\n")
    (tmp_path / "t.de").write_text("\n".join(line.upper() for line in lines) + "\n")
    (tmp_path / "t.tsv").write_text("text\tlabel\n" + "".join(f"{line}\t{line[0]}\n" for line in lines))
    tagged = ("".join(f"{word}\t{word.upper()}\n" for word in line.split()) for line in lines)
    (tmp_path / "t.tags").write_text("\n".join(tagged))
    keys = ("source", "target") if task == "translation" else ("path",)
    text = toml.format_value({key: str(tmp_path / name) for key, name in zip(keys, TEXTS[task], strict=True)})
    length = "length = 8" if task == "language_modelling" else ""
    (tmp_path / "r.toml").write_text(
        f'task = "{task}"\n[data]\ntrain = {text}\nvalidation = {text}\n{length}\n[tokenizer]\nkind = "words"\n'
        + "[model]\nd_model = 8\nheads = 2\nd_ff = 8\nlayers = 1\ndropout = 0.0\n"
        + '[training]\nsteps = 4\nbatch_tokens = 200\nprecision = "fp32"\nevaluate_every = 2\n'
        + 'schedule = { kind = "constant", rate = 5e-2 }\noptimizer = { epsilon = 1e-4 }\n'
    )
    losses = {}
    for name, more in {"one": (), "two": R_DROP, "dropped": DROPOUT, "drawn": (*R_DROP, *DROPOUT)}.items():
        lines_of_run = measured(fit(tmp_path / "r.toml", "--output", str(tmp_path / name), *more))
        losses[name] = [line["loss"] for line in lines_of_run if line["kind"] == "validation"]
    assert losses["one"] == pytest.approx(losses["two"], rel=1e-5)
    assert losses["dropped"] != pytest.approx(losses["drawn"], rel=1e-5)


@pytest.mark.slow
def test_pairs_of_weight_0_might_as_well_not_be_there(small: Path, another: Another) -> None:
    weights = [(0, 0.5, 2)[number % 3] for number in range(120)]
    (small.parent / "w").write_text("".join(f"{weight}\n" for weight in weights))
    whole = contents(fit(small, "--data.train.sentence_weights", str(small.parent / "w")))
    less = another("less")
    for language in ("en", "de"):
        lines = (small.parent / f"train.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
        kept = "".join(line for line, weight in zip(lines, weights, strict=True) if weight)
        (less.parent / f"train.{language}").write_text(kept, encoding="utf-8")
    (less.parent / "w").write_text("".join(f"{weight}\n" for weight in weights if weight))
    option = ("--data.train.sentence_weights", str(less.parent / "w"))
    rest = contents(fit(less, *option))
    (less.parent / "w").write_text("1\n" * 80)
    alike = contents(fit(less, *option, "--output", str(less.parent / "alike")))
    name = "model.safetensors"
    assert whole[name] == rest[name] != alike[name]


def test_only_predictions_can_be_compared(small: Path, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("text\tlabel\n" + "".join(f"{number} {number}\t{number}\n" for number in range(9)))
    table = '{ path = "t.tsv" }'
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        f'task = "classification"\n[data]\nnumbers = true\ntrain = {table}\nvalidation = {table}\n'
        '[tokenizer]\nkind = "words"\n'
        "[model]\nd_model = 8\nheads = 2\nd_ff = 8\nlayers = 1\n[training]\nsteps = 1\nr_drop = 1.0\n"
    )
    with pytest.raises(RecipeError, match=r"training\.r_drop = 1: compares predicted distributions"):
        fit(recipe)


def test_only_transformers_have_layers_to_compute_again(small: Path) -> None:
    with pytest.raises(RecipeError, match=r"training\.gradient_checkpointing = true: this model has no Transformer"):
        fit(small, "--model.kind", "recurrent", "--model.d_model", "8", "--training.gradient_checkpointing", "true")


def test_another_seed_makes_another_model(trained: Path, small: Path) -> None:
    again = contents(fit(small, "--seed", "4"))
    assert again["model.safetensors"] != contents(trained)["model.safetensors"]
    assert again["tokenizer/source"] == contents(trained)["tokenizer/source"]


def test_a_risk_of_the_recipe_is_told_before_anything_is_done(small: Path) -> None:
    said: list[str] = []
    table = "--model.self_attention"
    fit(small, f"{table}.score", "exp_dot", f"{table}.weights", "softmax", "--training.steps", "1", say=said.append)
    assert said[0].startswith('warning: model.self_attention.weights = "softmax" takes exponentials of')
    assert said[1] == "learning the vocabulary"


# --- going on ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ema", [(), ("--training.ema", "0.9")], ids=["plain", "ema"])
def test_two_sittings_are_as_one(small: Path, another: Another, ema: tuple[str, ...]) -> None:
    whole = fit(small, *ema)
    parts = another("parts")
    fit(parts, "--training.steps", "6", *ema)
    assert read_manifest(parts.parent / "run").last == 6
    found = fit(parts, *ema)
    # the first sitting ended at step 6, which the run in one sitting had no reason to keep
    theirs, ours = contents(whole), contents(found)
    assert {n: d for n, d in ours.items() if "00000006" not in n} == {
        n: d for n, d in theirs.items() if "00000004" not in n
    }
    assert f"{LAST}.training.safetensors" in ours


@pytest.mark.parametrize(
    ("page", "sign"),
    [
        pytest.param("recurrent.md", '"adadelta"', id="bahdanau", marks=pytest.mark.slow),
        pytest.param("recurrent.md", '"step"', id="luong"),
        pytest.param("translation.md", "hold = 10_000", id="t5", marks=pytest.mark.slow),
    ],
)
def test_training_as_in_the_papers_in_two_sittings_is_as_in_one(
    small: Path, another: Another, page: str, sign: str
) -> None:
    """The recipes of the documentation, with small numbers and the small text."""
    text = (Path(__file__).parents[3] / "docs" / page).read_text(encoding="utf-8")
    block = next(block for block in re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if sign in block)
    tables = tomllib.loads(block)
    model = {"d_model": 8, "d_embedding": 8, "d_ff": 16, "layers": 1, "heads": 2}
    tables["model"] = {key: model.get(key, value) for key, value in tables["model"].items()}
    overrides = ["--model", toml.format_value(tables["model"]), "--training.average", "1"]
    for key in ("optimizer", "schedule", "clip", "label_smoothing"):
        if key in tables["training"]:
            overrides += [f"--training.{key}", toml.format_value(tables["training"][key])]
    whole = fit(small, *overrides)
    parts = another("parts")
    fit(parts, "--training.steps", "8", *overrides)
    assert contents(fit(parts, *overrides)) == contents(whole)
    losses = [line["loss"] for line in measured(whole) if line["kind"] == "validation"]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("at", [1, 4, 7, 12])
def test_a_run_that_was_pulled_the_plug_goes_on_as_if_nothing_happened(trained: Path, small: Path, at: int) -> None:
    for end in (at, min(12, at + 2)):
        with pytest.raises(KeyboardInterrupt):
            fit(small, listeners=[Pull(end)])
    found = fit(small)
    assert contents(found) == contents(trained)
    assert measured(found) == measured(trained)


@pytest.mark.parametrize("at", [pytest.param(29, marks=pytest.mark.slow), 75, pytest.param(95, marks=pytest.mark.slow)])
def test_lines_of_training_are_those_of_one_sitting(small: Path, another: Another, at: int) -> None:
    """Each line tells of fifty updates, whatever happened between them."""
    words = ("--training.steps", "105", "--training.evaluate_every", "30")
    whole, parts = fit(small, *words), another("parts")
    with pytest.raises(KeyboardInterrupt):
        fit(parts, *words, listeners=[Pull(at)])
    found = fit(parts, *words)
    assert [line["step"] for line in measured(found) if line["kind"] == "training"] == [50, 100]
    assert measured(found) == measured(whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", pytest.param("SIGTERM", marks=pytest.mark.slow)])
def test_a_process_that_is_told_to_stop_saves_and_leaves(trained: Path, small: Path, name: str) -> None:
    """In a process of its own: the signal arrives while update 6 is made, and nothing is printed but how to go on."""
    script = small.parent / "stopped.py"
    script.write_text(
        "import signal, sys\n"
        "import torch\n"
        "from heedful.training.optimizers import Adam\n"
        "update, done = Adam.step, []\n"
        "def stop(self, rate):\n"
        "    update(self, rate)\n"
        "    done.append(rate)\n"
        f"    if len(done) == 6: signal.raise_signal(signal.{name})\n"
        "Adam.step = stop\n"
        "torch.set_num_threads(1)\n"
        "from heedful.__main__ import main\n"
        f"sys.exit(main(['train', {str(small)!r}, '--device', 'cpu']))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    folder = small.parent / "run"
    assert done.returncode == {"SIGINT": 130, "SIGTERM": 143}[name]
    assert done.stderr.splitlines()[-1] == f"{name}: saved; run the same command again to continue from here ({folder})"
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert (read_manifest(folder).last, read_manifest(folder).checkpoints) == (6, (4,))
    fit(small)
    assert contents(folder) == contents(trained)
    assert measured(folder) == measured(trained)


def test_a_finished_run_is_not_trained_again(small: Path, another: Another) -> None:
    folder = fit(small)
    before = contents(folder)
    watcher = Pull(-1)
    fit(small, listeners=[watcher])
    assert watcher.evaluated_at == []
    assert contents(folder) == before
    assert [line["kind"] for line in measured(folder)].count("final") == 1


@pytest.mark.parametrize(
    ("override", "key"),
    [
        (("--model.d_ff", "64"), "model.d_ff"),
        (("--training.label_smoothing", "0.2"), "training.label_smoothing"),
        (("--training.optimizer.beta2", "0.9"), "training.optimizer.beta2"),
        (("--seed", "4"), "seed"),
        (("--data.max_length", "17"), "data.max_length"),
        (("--training.ema", "0.9"), "training.ema"),
    ],
)
def test_a_run_of_another_recipe_is_left_alone(trained: Path, override: tuple[str, ...], key: str) -> None:
    before = contents(trained)
    with pytest.raises(RunError, match=rf"recipe differs in {key}; choose another folder with --output"):
        fit(trained.parent / "small.toml", *override)
    assert contents(trained) == before


def test_a_run_in_which_nothing_was_trained_may_change_its_recipe(trained: Path, small: Path) -> None:
    """The remedy of an error may be another recipe, which must not then be refused."""
    with pytest.raises(DataError, match="120 with a side that is too long"):
        fit(small, "--data.max_length", "1", "--tokenizer.size", "20")
    said: list[str] = []
    folder = fit(small, say=said.append)
    assert said[0] == f"{folder}: nothing was trained with the earlier recipe; starting again"
    assert contents(folder) == contents(trained)


def test_learned_positions_bound_what_is_written_in_training(small: Path) -> None:
    """Greedy translations for BLEU may grow past max_length; positions that are not there must not be asked for."""
    learned = ("--model.positions.kind", "learned", "--model.positions.length", "17")
    folder = fit(small, *learned, "--training.monitor", "bleu", "--training.steps", "2")
    model = heedful.load(folder, device="cpu")
    long = model.translate(["1 2 3 4 5 6 7 8 9 1 2 3 4 5"])[0].candidates[0]
    assert len(long.tokens) <= 17
    model.score([("1", "eins " * 16)])
    with pytest.raises(DataError, match="sentence 2: its translation is given 17 tokens, this model reads at most 16"):
        model.score([("1", "eins"), ("1", "eins " * 17)])
    with pytest.raises(DataError, match="sentence 5: its translation is given 30 tokens"):
        model.translate(["1"], prefixes=["eins " * 30], first=5)


def test_text_that_changed_is_encoded_again(small: Path) -> None:
    fit(small, "--training.steps", "4")
    text = small.parent / "train.en"
    text.write_text(text.read_text().replace("1", "2"))
    said: list[str] = []
    fit(small, "--training.steps", "5", say=said.append)
    assert any("encoding again" in line and "other text" in line for line in said)
    (told,) = (line for line in said if line.startswith("warning: "))
    assert told.startswith(
        "warning: data.train: train.en, train.de: has changed since this run was last trained (sha256 "
    )
    assert told.endswith(" now); restore the old text, or start another run with --output")
    said.clear()
    fit(small, "--training.steps", "6", say=said.append)
    assert not [line for line in said if line.startswith("warning: ")]


def test_text_that_was_removed_is_told_by_its_hash(small: Path) -> None:
    folder = fit(small, "--training.steps", "4")
    noted = json.loads((folder / "run.json").read_text(encoding="utf-8"))["data"]["train"]["sha256"]
    (small.parent / "train.en").unlink()
    with pytest.raises(DataError) as caught:
        fit(small, "--training.steps", "5")
    assert str(caught.value).startswith(
        f"{small.parent / 'train.en'}: there is no such file; check the path; the run in "
    )
    assert f"was trained on data.train: train.en, train.de, sha256 {noted[:12]}; data.validation: " in str(caught.value)


def test_a_run_that_was_moved_with_its_text_goes_on(small: Path, trained: Path) -> None:
    fit(small, "--training.steps", "4")
    moved = small.parent / "elsewhere"
    moved.mkdir()
    for path in small.parent.iterdir():
        if path != moved:
            path.rename(moved / path.name)
    said: list[str] = []
    folder = fit(moved / small.name, "--output", str(moved / "run"), say=said.append)
    assert said[0] == "resuming this run"
    assert contents(folder)["model.safetensors"] == contents(trained)["model.safetensors"]
    text = moved / "other.en"
    text.write_text((moved / "train.en").read_text().replace("1", "2"))
    with pytest.raises(RunError, match=r"recipe differs in data\.train\.source"):
        fit(moved / small.name, "--output", str(folder), "--data.train.source", str(text))


# --- what can go wrong ------------------------------------------------------------------------------------


def test_a_full_disk_costs_only_what_came_after_the_last_checkpoint(
    trained: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[str] = []
    write = files.save_file

    def fills_up(tensors: Any, path: Path) -> None:
        if "00000008.training" in path.name:
            path.write_bytes(b"half a file")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        saved.append(path.name)
        write(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "save_file", fills_up)
        with pytest.raises(TrainingError, match="the disk is full; free some space and start the same command again"):
            fit(small)
    folder = small.parent / "run"
    assert read_manifest(folder).last == 4
    assert not list(folder.rglob(".*.writing"))
    fit(small)
    assert contents(folder) == contents(trained)


def test_a_loss_that_is_not_finite_leaves_the_run_usable(small: Path) -> None:
    with pytest.raises(TrainingError, match=r"not finite; lower the learning rate .*Checkpoints saved before"):
        fit(small, "--training.schedule.rate", "1e30")
    assert not (small.parent / "run" / "model.safetensors").exists()
    fit(small)
    manifest = read_manifest(small.parent / "run")
    assert manifest.finished
    assert all(
        torch.isfinite(t).all()
        for t in load_tensors(small.parent / "run", "model.safetensors", manifest=manifest).values()
    )


@pytest.mark.parametrize("kind", ["moment", "weight", "master", "average"])
def test_a_crafted_checkpoint_is_refused_by_name(small: Path, kind: str) -> None:
    """Whoever changes a checkpoint can change its digest too; the kernels must not see what does not fit."""
    ema = () if kind in ("moment", "weight") else ("--training.ema", "0.9")
    folder = fit(small, "--training.steps", "4", *ema)
    file = "step-00000004.training.safetensors" if kind in ("moment", "master") else "step-00000004.safetensors"
    manifest = read_manifest(folder)
    tensors = load_tensors(folder, f"checkpoints/{file}", manifest=manifest)
    prefix = {"moment": "adam.", "master": "master."}.get(kind, "")
    name = next(each for each in tensors if each.startswith(prefix) and not each.endswith(".step"))
    tensors[name] = tensors[name].flatten()[:1].clone()
    digest = files.save_tensors(folder / "checkpoints" / file, tensors)
    files.write_manifest(folder, manifest.with_file(f"checkpoints/{file}", digest))
    place = re.escape(str(folder / "checkpoints" / file))
    with pytest.raises(
        RunError, match=rf"{place}: {re.escape(name)} is float32 of shape \(1,\), this run needs float32"
    ):
        fit(small, *ema)


def test_a_run_folder_belongs_to_one_process(small: Path) -> None:
    folder = small.parent / "run"
    with (
        lock_run_folder(folder),
        pytest.raises(RunError, match="another process is training in it; wait until it ends"),
    ):
        fit(small)
    fit(small, "--training.steps", "1")


@pytest.mark.parametrize("kind", ["file", "below a file", "unwritable"])
def test_a_folder_that_cannot_be_written(small: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    place = small.parent / "place"
    if kind == "unwritable":

        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    else:
        place.write_text("a file")
    output = place / "run" if kind == "below a file" else place
    with pytest.raises(RunError, match=r"cannot be a run folder .*; choose another one with --output") as caught:
        fit(small, "--output", str(output))
    assert str(caught.value).startswith(f"{output}: ")


def test_a_folder_with_something_else_in_it(small: Path) -> None:
    place = small.parent / "place"
    place.mkdir()
    (place / "thesis.tex").write_text("years of work")
    (place / "figures").symlink_to(small.parent, target_is_directory=True)
    with pytest.raises(RunError, match="is not empty and contains no run; choose another folder"):
        fit(small, "--output", str(place))
    assert sorted(path.name for path in place.iterdir()) == ["figures", "thesis.tex"]


@pytest.mark.parametrize("part", ["data", "data/train", "checkpoints"])
def test_what_a_link_leads_to_is_left_alone(small: Path, part: str) -> None:
    """It may be another run's, and training removes superseded checkpoints and what was made of older texts."""
    run, other = fit(small, "--training.steps", "1"), small.parent / "other"
    (run / part).rename(other)
    (run / part).symlink_to(other, target_is_directory=True)
    (other / "step-00000099.weights.safetensors").write_bytes(b"of another run")
    before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    (small.parent / "train.en").write_text("changed\n" * len((small.parent / "train.en").read_text().splitlines()))
    with pytest.raises(RunError, match=r"leads to .*/other, where training would write and remove files; copy the run"):
        fit(small)
    assert {path: path.read_bytes() for path in other.rglob("*") if path.is_file()} == before


def test_the_folder_of_a_run_may_be_a_link(small: Path) -> None:
    run, other = fit(small, "--training.steps", "1"), small.parent / "other"
    run.rename(other)
    run.symlink_to(other, target_is_directory=True)
    assert read_manifest(fit(small)).finished


def half_written(folder: Path, kind: str) -> None:
    match kind:
        case "no manifest":
            (folder / "manifest.json").unlink()
        case "no tokenizer":
            (folder / "tokenizer/source").unlink()
        case "cut tokenizer":
            (folder / "tokenizer/target").write_bytes(b"")
        case "no config":
            (folder / "config.json").unlink()
        case "cut model":
            with (folder / "model.safetensors").open("rb+") as file:
                file.truncate(100)
        case "no model":
            (folder / "model.safetensors").unlink()
        case "changed byte":
            data = bytearray((folder / "model.safetensors").read_bytes())
            data[-3] ^= 1
            (folder / "model.safetensors").write_bytes(data)


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("no manifest", r"contains model\.safetensors, but neither manifest\.json"),
        ("no tokenizer", "tokenizer/source: cannot be read"),
        ("cut tokenizer", "tokenizer/target: is not the file that was saved"),
        ("no config", r"config\.json: cannot be read"),
        ("cut model", r"model\.safetensors: is not the file that was saved"),
        ("no model", r"model\.safetensors: cannot be read"),
        ("changed byte", r"model\.safetensors: is not the file that was saved"),
    ],
)
def test_half_written_runs_are_not_loaded(trained: Path, tmp_path: Path, kind: str, complaint: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(trained, folder)
    heedful.load(folder, device="cpu")
    half_written(folder, kind)
    with pytest.raises(RunError, match=complaint) as caught:
        heedful.load(folder, device="cpu")
    assert str(folder) in str(caught.value)


def test_a_lost_manifest_does_not_cost_the_checkpoints(small: Path) -> None:
    folder = fit(small)
    before = contents(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(RunError, match="is missing, although a model was trained here; restore it from a copy"):
        fit(small)
    assert contents(folder) == before


def test_a_run_that_was_cut_while_it_was_prepared_is_prepared_again(
    trained: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("heedful.runs.load.write_manifest", cut)
        with pytest.raises(KeyboardInterrupt):
            fit(small)
    assert (small.parent / "run/tokenizer/source").exists()
    assert contents(fit(small)) == contents(trained)


@pytest.mark.parametrize("version", [0, 2, "1"])
def test_config_of_another_version(trained: Path, tmp_path: Path, version: object) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(trained, folder)
    content = json.loads((folder / "config.json").read_text()) | {"format": version}
    files.write_json(folder / "config.json", content)
    manifest = read_manifest(folder)
    files.write_manifest(folder, manifest.with_file("config.json", files.compute_digest(folder / "config.json")))
    with pytest.raises(RunError, match=r"config\.json: has format .*; install the version that wrote it"):
        heedful.load(folder)


def test_parts_of_the_data_are_named(small: Path) -> None:
    for name, part in (("train", "data.train"), ("validation", "data.validation")):
        text = small.parent / f"{name}.en"
        before = text.read_text()
        text.write_text("\n" * before.count("\n"))
        with pytest.raises(
            DataError, match=rf"^{re.escape(part)}: none of \d+ examples can be used: \d+ with an empty"
        ):
            fit(small)
        text.write_text(before)
        shutil.rmtree(small.parent / "run")


# --- several processes ------------------------------------------------------------------------------------


ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
FOREVER = ("--training.steps", "1000000", "--training.evaluate_every", "20")


def two_processes(recipe: Path, *overrides: str) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
    command += ["--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    return [*command, "-m", "heedful", "train", str(recipe), "--device", "cpu", *overrides]


def together(recipe: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    """Two processes that train as one."""
    command = two_processes(recipe, *overrides)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=300)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_who_loses_another_process_says_so_and_leaves(small: Path, killed: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = ENVIRONMENT | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, "-m", "heedful", "train", str(small), "--device", "cpu", *FOREVER]
    with ExitStack() as held:
        ranks = []
        for rank in (0, 1):
            own = environment | {"RANK": str(rank)}
            ranks.append(held.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=own)))
            held.callback(ranks[-1].kill)
        wait_until((small.parent / "run/metrics.jsonl").exists)
        ranks[killed].kill()
        told = ranks[1 - killed].communicate(timeout=60)[1].splitlines()
        assert ranks[1 - killed].returncode == 2
    assert told[-1].startswith("heedful: another process of this training has ended (")
    assert not [line for line in told if "Traceback" in line or "bug in heedful" in line]


@pytest.mark.slow
def test_processes_end_when_torchrun_is_killed(small: Path) -> None:
    folder, told = small.parent / "run", small.parent / "told"
    with (
        told.open("w") as file,
        subprocess.Popen(two_processes(small, *FOREVER), stderr=file, env=ENVIRONMENT) as launched,
    ):
        wait_until((folder / "metrics.jsonl").exists)
        launched.kill()
    wait_until(lambda: "SIGTERM: saved" in told.read_text())
    last = read_manifest(folder).last
    assert last is not None
    with lock_run_folder(folder):
        assert read_manifest(folder).last == last


@pytest.mark.slow
def test_two_processes_train_as_one_and_take_turns_with_it(small: Path, another: Another) -> None:
    """One process, then two, then one. Without dropout, whose masks belong to a process, nobody could tell.

    A bias of keys moves all scores of a query alike, so its gradient is rounding, of which Adam would make whole steps;
    so epsilon is far above rounding.
    """
    still = ("--model.dropout", "0", "--training.accumulate", "2", "--training.optimizer.epsilon", "1e-4")
    alone, mixed = fit(small, *still), another("mixed")
    fit(mixed, "--training.steps", "4", *still)
    done = together(mixed, "--training.steps", "8", "--training.tensorboard", *still)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert len(list((mixed.parent / "run/tensorboard").iterdir())) == 1, "of the first process"
    assert [line["step"] for line in measured(mixed.parent / "run")] == [4, 8, 8]
    folder = fit(mixed, *still)
    for line, expected in zip(measured(folder), measured(alone), strict=True):
        numbers = {key for key, value in expected.items() if isinstance(value, float)}
        assert {k: v for k, v in line.items() if k not in numbers} == {
            k: v for k, v in expected.items() if k not in numbers
        }
        for key in numbers:
            assert line[key] == pytest.approx(expected[key], rel=1e-4)
    ours, theirs = (load_tensors(f, "model.safetensors", manifest=read_manifest(f)) for f in (folder, alone))
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_both_processes_end_when_the_first_one_cannot_go_on(small: Path) -> None:
    (small.parent / "train.de").write_text("too short\n")
    done = together(small)
    assert done.returncode != 0
    assert "line-aligned files must have the same number" in done.stderr
    assert "this is a bug" not in done.stderr


def test_training_is_not_left_to_chance(monkeypatch: pytest.MonkeyPatch, small: Path) -> None:
    """What training makes must not depend on hidden state: no generator is read that the recipe does not seed."""
    made = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        monkeypatch.setattr(training_run, "tune_malloc", lambda: False)
        made.append(contents(fit(small, "--output", str(small.parent / f"run{seed}"))))
    assert made[0] == made[1]
