"""Trainings whose Transformer layers are compiled, and what users are told where that cannot be."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

from heedful import RecipeError, load_recipe, train
from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.blocks.layer_compiler import LayerCompiler, supports_isolated_recompiles
from heedful.blocks.transformer import TransformerStack
from heedful.recipes.training import TrainingConfig
from heedful.runs import layer_compilation
from heedful.runs.layer_compilation import check_compilation, enable_layer_compilation, explain_compile_errors
from heedful.tasks.translation.recipe import TranslationTrainingConfig

# Warnings of PyTorch about its own compiler, which users do not see.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif(not supports_isolated_recompiles(), reason="needs PyTorch 2.13"),
]
CPU = torch.device("cpu")
COMPILED = TrainingConfig.model_validate({"steps": 1, "compile": True})
COMPILE = ("--training.compile", "true")


def run_graph(graph: GraphModule, _inputs: Sequence[Tensor]) -> Any:
    """Run a graph as it is: a backend that compiles nothing."""
    return graph.forward


def fit(recipe: Path, *overrides: str, **more: Any) -> Path:
    return train(load_recipe(recipe, overrides), device="cpu", **more).folder


def digest_model(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_all_stacks_of_a_model_are_compiled() -> None:
    model = build_sequence_to_sequence(TransformerConfig(d_model=8, heads=2, d_ff=8, layers=1), DataSizes(9, 9, 9))
    enable_layer_compilation(model, TrainingConfig(steps=1), device=CPU)
    stacks = [module for module in model.modules() if isinstance(module, TransformerStack)]
    assert [stack.compiler for stack in stacks] == [None, None]
    enable_layer_compilation(model, COMPILED, device=CPU)
    assert all(isinstance(stack.compiler, LayerCompiler) for stack in stacks)


def test_only_transformers_have_layers_to_compile() -> None:
    with pytest.raises(RecipeError, match=r"training\.compile = true: this model has no Transformer layers; leave"):
        enable_layer_compilation(torch.nn.Linear(2, 2), COMPILED, device=CPU)


def test_weights_that_are_computed_key_by_key_are_refused() -> None:
    config = TransformerConfig.model_validate(
        {"d_model": 8, "heads": 2, "d_ff": 8, "layers": 1, "cross_attention": {"weights": "linear_chain"}}
    )
    model = build_sequence_to_sequence(config, DataSizes(9, 9, 9))
    with pytest.raises(RecipeError, match=r'weights = "linear_chain" are computed key by key, so each length would be'):
        enable_layer_compilation(model, COMPILED, device=CPU)


def test_losses_of_attention_weights_are_refused() -> None:
    """Nothing would be compiled while a hook reads them."""
    config = TranslationTrainingConfig.model_validate({"steps": 1, "compile": True, "decorrelation": 0.1})
    model = build_sequence_to_sequence(TransformerConfig(d_model=8, heads=2, d_ff=8, layers=1), DataSizes(9, 9, 9))
    with pytest.raises(
        RecipeError, match=r"true: training\.decorrelation reads attention weights, .* leave one of both"
    ):
        enable_layer_compilation(model, config, device=CPU)


def test_older_versions_of_torch_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_compilation, "supports_isolated_recompiles", lambda: False)
    with pytest.raises(RecipeError, match=r"training\.compile = true: needs PyTorch 2\.13 or later, but 2\."):
        check_compilation(COMPILED, CPU)
    check_compilation(TrainingConfig(steps=1), CPU)


@pytest.mark.parametrize("error", [RuntimeError("No working C++ compiler found.\nMore."), PermissionError("not yours")])
def test_a_missing_compiler_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(_graph: GraphModule, _inputs: Sequence[Tensor]) -> Any:
        raise error

    monkeypatch.setattr(layer_compilation, "_BACKEND", fail)
    told = (
        r"training\.compile = true: PyTorch cannot compile here: .*; install what it needs .*, or leave training\.comp"
    )
    with pytest.raises(RecipeError, match=told):
        check_compilation(COMPILED, CPU)


def test_only_errors_of_the_compiler_are_explained() -> None:
    from torch._dynamo.exc import Unsupported

    told = (
        r"training\.compile = true: PyTorch cannot compile the layers of this model: no such operation; leave training"
    )
    with pytest.raises(RecipeError, match=told), explain_compile_errors():
        raise Unsupported("no such operation\nHint: none")
    with pytest.raises(RuntimeError, match="out of memory"), explain_compile_errors():
        raise RuntimeError("out of memory")


@pytest.mark.slow
def test_compiled_trainings_make_the_same_bytes(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dropout and a moving average: once more, with layers that are computed again, and from the middle on."""
    monkeypatch.setattr(layer_compilation, "_BACKEND", run_graph)
    options, told = (*COMPILE, "--training.ema", "0.9"), list[str]()
    expected = digest_model(fit(small, *options, "--output", str(tmp_path / "first"), say=told.append))
    assert told.count("compiling the layers; the first updates take longer") == 1
    again = ("--output", str(tmp_path / "again"), "--training.gradient_checkpointing", "true")
    fit(small, *options, *again, "--training.steps", "6")
    assert digest_model(fit(small, *options, *again)) == expected
    assert digest_model(fit(small, "--training.ema", "0.9", "--output", str(tmp_path / "plain"))) != expected


@pytest.mark.slow
def test_without_a_compiler_the_command_ends_with_a_message(small: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "heedful", "train", str(small), *COMPILE]
    environment = os.environ | {"CXX": "false", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "training.compile = true: PyTorch cannot compile here: InvalidCxxCompiler: No working C++" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (small.parent / "run").exists()
