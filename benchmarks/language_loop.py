"""Heedful's trainer on a stream of tokens, without checkpoints, and its matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from products import ProductRunner, list_language_model_products
from torch import nn

from heedful.architectures.build import build_language_model
from heedful.architectures.stack import DecoderConfig
from heedful.runs.layer_compilation import enable_layer_compilation
from heedful.tasks.language.objective import LanguageModelingObjective
from heedful.tasks.language.recipe import LanguageTrainingConfig
from heedful.training.callbacks import Callback, CheckpointSaver, StepMetrics, TrainingSnapshot, ValidationResult
from heedful.training.distributed import init_distributed
from heedful.training.optimizers import Adam, ConstantSchedule
from heedful.training.precision import BF16WithMasters, FullPrecision, is_faster_in_bf16
from heedful.training.trainer import StoppingLimits, Trainer, TrainerConfig


class LossCallback(Callback, CheckpointSaver):
    """Callback that keeps the last loss, and keeps the process group open."""

    def __init__(self) -> None:
        self._world = init_distributed(torch.device("cpu"))
        self.distributed = self._world.__enter__()
        self.loss = 0.0

    def on_step_end(self, update: StepMetrics) -> None:
        self.loss = update.loss

    def on_evaluate(self, evaluation: ValidationResult) -> None: ...

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None: ...


def build_heedful_loop(
    settings: dict[str, Any], stream: np.ndarray, *, vocabulary: int, rate: float
) -> Callable[[int], float]:
    """Return a function that makes the given number of updates and returns the last loss."""
    model = _build_model(settings, vocabulary)
    callback, backend = LossCallback(), settings.get("compiler")
    distributed = callback.distributed
    config = LanguageTrainingConfig(steps=1, compile=backend is not None)
    enable_layer_compilation(model, config, device=distributed.device, backend=backend)
    precision = BF16WithMasters(model) if is_faster_in_bf16(model, distributed.device) else FullPrecision(model)
    trainer = Trainer(
        model,
        LanguageModelingObjective(
            stream,
            stream[: settings["length"]],  # for evaluation, which is not measured
            start_id=2,
            length=settings["length"],
            batch_tokens=settings["rows"] * settings["length"],
            seed=1,
            device=distributed.device,
        ),
        optimizer=Adam(precision.masters, betas=(0.9, 0.99), weight_decay=0.1),
        precision=precision,
        schedule=ConstantSchedule(rate, 0),
        distributed=distributed,
        limits=StoppingLimits(steps=0),
        config=TrainerConfig(evaluate_every=10**9, clip=1.0),
        callback=callback,
        checkpoint_saver=callback,
    )

    def train(updates: int) -> float:
        trainer.limits = StoppingLimits(steps=trainer.progress.step + updates)
        trainer.run()
        return callback.loss

    return train


def build_products_loop(settings: dict[str, Any], *, vocabulary: int) -> Callable[[int], float]:
    """Return a function that computes only the matrix products of updates, in the precision of heedful's trainer."""
    use_bf16 = is_faster_in_bf16(_build_model(settings, vocabulary), torch.device("cpu"))
    runner = ProductRunner(torch.bfloat16 if use_bf16 else torch.float32)
    update = list_language_model_products(settings, settings["rows"], settings["length"], vocabulary=vocabulary)

    def train(updates: int) -> float:
        for _ in range(updates):
            runner.run(update)
        return math.nan

    return train


def _build_model(settings: dict[str, Any], vocabulary: int) -> nn.Module:
    sizes = {name: settings[name] for name in ("d_model", "heads", "layers", "dropout")}
    positions = {"kind": "learned", "length": settings["length"]}
    config = DecoderConfig.model_validate({**sizes, "positions": positions, "bias": False})
    return build_language_model(config, vocabulary=vocabulary)
