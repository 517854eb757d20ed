"""Our trainer on a stream of tokens, as `heedful train` runs it, and its products; what it saves goes nowhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from products import ProductsAlone, language_model
from torch import nn

from heedful.architectures.build import build_language_model
from heedful.architectures.stack import DecoderConfig
from heedful.tasks.language.objective import LanguageModelingObjective
from heedful.training.callbacks import Callback, CheckpointSaver, StepMetrics, TrainingSnapshot, ValidationResult
from heedful.training.distributed import init_distributed
from heedful.training.optimizers import Adam, ConstantSchedule
from heedful.training.precision import BF16WithMasters, FullPrecision, is_faster_in_bf16
from heedful.training.trainer import StoppingLimits, Trainer, TrainerConfig


class Audience(Callback, CheckpointSaver):
    """Hears of every update and keeps the last loss, and the processes together for as long as it lives."""

    def __init__(self) -> None:
        self._world = init_distributed(torch.device("cpu"))
        self.here = self._world.__enter__()
        self.loss = 0.0

    def on_step_end(self, update: StepMetrics) -> None:
        self.loss = update.loss

    def on_evaluate(self, evaluation: ValidationResult) -> None: ...

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None: ...


def ours(settings: dict[str, Any], stream: np.ndarray, *, vocabulary: int, rate: float) -> Callable[[int], float]:
    """What makes so many updates and returns the last loss."""
    model = _model(settings, vocabulary)
    audience = Audience()
    here = audience.here
    precision = BF16WithMasters(model) if is_faster_in_bf16(model, here.device) else FullPrecision(model)
    trainer = Trainer(
        model,
        LanguageModelingObjective(
            stream,
            stream[: settings["length"]],  # what it is evaluated on before and after
            start_id=2,
            length=settings["length"],
            batch_tokens=settings["rows"] * settings["length"],
            seed=1,
            device=here.device,
        ),
        optimizer=Adam(precision.masters, betas=(0.9, 0.99), weight_decay=0.1),
        precision=precision,
        schedule=ConstantSchedule(rate, 0),
        distributed=here,
        limits=StoppingLimits(steps=0),
        config=TrainerConfig(evaluate_every=10**9, clip=1.0),
        callback=audience,
        checkpoint_saver=audience,
    )

    def train(updates: int) -> float:
        trainer.limits = StoppingLimits(steps=trainer.progress.step + updates)
        trainer.run()
        return audience.loss

    return train


def products(settings: dict[str, Any], *, vocabulary: int) -> Callable[[int], float]:
    """The products of so many updates and nothing else, in the precision that our trainer would choose; no loss."""
    half = is_faster_in_bf16(_model(settings, vocabulary), torch.device("cpu"))
    alone = ProductsAlone(torch.bfloat16 if half else torch.float32)
    update = language_model(settings, settings["rows"], settings["length"], vocabulary=vocabulary)

    def train(updates: int) -> float:
        for _ in range(updates):
            alone.run(update)
        return math.nan

    return train


def _model(settings: dict[str, Any], vocabulary: int) -> nn.Module:
    sizes = {name: settings[name] for name in ("d_model", "heads", "layers", "dropout")}
    positions = {"kind": "learned", "length": settings["length"]}
    config = DecoderConfig.model_validate({**sizes, "positions": positions, "bias": False})
    return build_language_model(config, vocabulary=vocabulary)
