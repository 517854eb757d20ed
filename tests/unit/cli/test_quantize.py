"""Runs whose weights are bytes: smaller, the same as by the engine, and not to be trained."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import heedful
from heedful.atomic_io import compute_digest
from heedful.engines import int8
from heedful.engines.int8 import Int8Product
from heedful.errors import RunError
from heedful.native import load_library
from heedful.runs.load import load_predictor, open_run
from heedful.runs.load import load_trained_model as trained_model

CPU = torch.device("cpu")
TUNED = ("classification", "tagging", "spans")


@pytest.fixture(autouse=True)
def _all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "MIN_ELEMENTS", 1)
    monkeypatch.setattr(Int8Product, "min_elements", 1)


def numbers(model: nn.Module) -> dict[str, torch.Tensor]:
    """All that a model of bytes computes with."""
    found = dict(model.named_parameters())
    for name, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, int8.Int8Linear | int8.Int8Embedding):
            found |= {f"{name}.rows": module.matrix.rows, f"{name}.scales": module.matrix.scale}
    return found


def test_a_quantized_run_is_a_quarter_as_large_and_translates_as_the_engine_does(trained: Path, tmp_path: Path) -> None:
    before, after = heedful.quantize(trained, tmp_path / "small")
    assert after < 0.4 * before  # norms, biases and scales of 16 numbers weigh more than in a model of use
    assert (tmp_path / "small/model.safetensors").stat().st_size < 0.6 * (trained / "model.safetensors").stat().st_size
    asked = ["1 2 3", "7 7", "", "4"]
    small, rounded = heedful.load(tmp_path / "small", device="cpu"), heedful.load(trained, device="cpu", engine="int8")
    assert [t.text for t in small.translate(asked)] == [t.text for t in rounded.translate(asked)]
    rounded = [m for m in small.models[0].modules() if isinstance(m, int8.Int8Linear | int8.Int8Embedding)]
    assert rounded
    assert not [module for module in rounded if "weight" in vars(module)], "no matrix is made of floats"
    exact = heedful.load(tmp_path / "small", device="cpu", engine="torch")
    assert not any(isinstance(module, int8.Int8Linear) for module in exact.models[0].modules())


@pytest.mark.parametrize("task", TUNED)
def test_every_task_has_the_bytes_that_the_engine_makes(
    task: str, tuned: Callable[[str], Path], tmp_path: Path
) -> None:
    require_alike(tuned(task), tmp_path)


def test_so_have_stories_and_what_was_pre_trained(told: Path, pretrained: Path, tmp_path: Path) -> None:
    require_alike(told, tmp_path / "told")
    require_alike(pretrained, tmp_path / "pretrained")


def require_alike(run: Path, folder: Path) -> None:
    heedful.quantize(run, folder / "small")
    found = numbers(trained_model(open_run(folder / "small"), device=CPU))
    expected = numbers(trained_model(open_run(run), device=CPU, engine="int8"))
    assert any(name.endswith(".rows") for name in found) == ("told" not in folder.parts)  # which has no linear maps
    assert found.keys() == expected.keys()
    assert [name for name in found if not torch.equal(found[name], expected[name])] == []


def test_it_is_measured_compared_and_exported_like_a_run(
    trained: Path, tuned: Callable[[str], Path], tmp_path: Path, say: Callable[..., Any]
) -> None:
    folder = tmp_path / "small"
    said = say("quantize", trained, folder)
    assert said.code == 0
    assert re.search(r"written: .*small, 0\.0 MB of weights instead of 0\.0", said.err)
    assert f"next: heedful evaluate {folder} --against {trained}" in said.err
    told = say("evaluate", folder, "--against", trained, "--format", "json", "--samples", "10", "--device", "cpu")
    assert told.code == 0, told.err
    assert json.loads(told.out)["against"]["system"] == str(trained)
    assert say("curve", folder).code == 0
    heedful.quantize(tuned("classification"), tmp_path / "classes")
    assert say("export", tmp_path / "classes", tmp_path / "bert").code == 0
    weights = load_file(tmp_path / "bert/model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    assert say("quantize", folder, tmp_path / "again").code == 0
    first, second = (load_file(place / "model.safetensors") for place in (folder, tmp_path / "again"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first if first[name].dtype == torch.int8)


def test_bytes_do_not_learn(trained: Path, tmp_path: Path, say: Callable[..., Any]) -> None:
    heedful.quantize(trained, tmp_path / "small")
    recipe = trained.parent / "small.toml"
    complaint = say("train", recipe, "--output", tmp_path / "small", "--training.steps", 14).complaint
    assert complaint == (
        f"{tmp_path / 'small'}: was written by heedful quantize or heedful export for use only, and training cannot be "
        "resumed from it; train the run that it was made from, or start another run from it (init)"
    )


def test_what_is_damaged_or_in_the_way_is_told(trained: Path, tmp_path: Path, say: Callable[..., Any]) -> None:
    heedful.quantize(trained, tmp_path / "small")
    assert "is not empty; choose a new folder to quantize to" in say("quantize", trained, tmp_path / "small").complaint
    path = tmp_path / "small/model.safetensors"
    weights = load_file(path)
    name = next(name for name, weight in weights.items() if weight.dtype == torch.int8)
    for damage in (weights[name].float(), weights[name][:1]):
        save_file(weights | {name: damage}, path)
        manifest = json.loads((tmp_path / "small/manifest.json").read_text())
        manifest["files"]["model.safetensors"] = compute_digest(path)
        (tmp_path / "small/manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(RunError, match=re.escape(f"{path}: {name} is damaged; restore it from a copy or quantize")):
            heedful.load(tmp_path / "small")
    (tmp_path / "none").mkdir()
    assert "contains no manifest.json" in say("quantize", tmp_path / "none", tmp_path / "x").complaint
    assert "has no checkpoint of step 99" in say("quantize", trained, tmp_path / "x", "--step", 99).complaint
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert/config.json").write_text('{"model_type": "bert"}')
    complaint = say("quantize", tmp_path / "bert", tmp_path / "x").complaint
    assert "does not contain model.safetensors; take a complete copy of this model" in complaint
    assert not (tmp_path / "x").exists()


def test_an_engine_may_be_named_where_models_are_loaded(trained: Path) -> None:
    translator = load_predictor(heedful.Translator, trained, use="translates", engine="int8", device="cpu")
    assert any(isinstance(module, int8.Int8Linear) for module in translator.models[0].modules())


@pytest.mark.parametrize(
    "words",
    [
        "translate {run} 1",
        "score {run} --data {pairs}",
        "align {run} --data {pairs}",
        "embed {run} 1",
        "evaluate {run} --samples 5",
        "compare {run} {second} --samples 5",
        "inspect {run} 1 --output {page}",
        "inspect {run} --data {pairs} --sentences 2",
        "classify {classification} eins",
        "tag {tagging} eins",
        "answer {spans} --question eins --context eins",
        "fill {pretrained} [MASK]",
        "ask {told} {story} where?",
    ],
    ids=lambda words: words.replace("{run} ", "").partition(" {")[0],
)
def test_every_command_computes_by_the_engine_that_is_named(
    words: str,
    say: Callable[..., Any],
    engine_places: dict[str, Path],
    tuned: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[bool] = []
    original = int8.quantize_to_int8
    monkeypatch.setattr(
        "heedful.engines.select_engine.quantize_to_int8",
        lambda *given, **more: (taken.append(True), original(*given, **more)),
    )
    places = engine_places | {task: tuned(task) for task in TUNED if f"{{{task}}}" in words}
    for engine in ("int8", "native") if load_library() is not None else ("int8",):
        taken.clear()
        said = say(*words.format(**places).split(), "--engine", engine, "--device", "cpu")
        assert said.code == 0, said
        assert len(taken) == (2 if words.startswith("compare") else 1)
    wrong = say(*words.format(**places).split(), "--engine", "int9").complaint
    assert wrong.startswith("--engine: ")


@pytest.fixture
def engine_places(trained: Path, second: Path, told: Path, pretrained: Path, tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "pairs.tsv").write_text("1 2\tzwei eins\n3\tdrei\n", encoding="utf-8")
    (tmp_path / "story.txt").write_text("Ben took the key.\nBen walked to the hall.\n", encoding="utf-8")
    return {
        **{"run": trained, "second": second, "told": told, "pretrained": pretrained},
        **{"pairs": tmp_path / "pairs.tsv", "story": tmp_path / "story.txt", "page": tmp_path / "page.html"},
    }
