"""Training loops to compare: the trainer of heedful, a plain loop around other models, and matrix products."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from plain_transformer import PlainTransformer
from products import Product, ProductRunner, list_translation_products
from synthetic_data import build_corpus
from torch import Tensor, nn
from torch.nn import functional

from heedful import fused_operators
from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.data.batches import PairBatch, batch_by_size, collate_pairs
from heedful.data.corpus import Corpus
from heedful.data.tokenizers import BOS
from heedful.runs.device import tune_malloc
from heedful.runs.layer_compilation import enable_layer_compilation
from heedful.runs.trainer_factory import set_gradient_checkpointing
from heedful.tasks.generation_objective import GenerationObjective, LikelihoodCriterion
from heedful.tasks.translation.recipe import TranslationTrainingConfig
from heedful.tensors import move_to_device
from heedful.training.callbacks import (
    Callback,
    CheckpointSaver,
    EpochPlan,
    StepMetrics,
    TrainingSnapshot,
    ValidationResult,
)
from heedful.training.distributed import init_distributed
from heedful.training.optimizers import Adam, ConstantSchedule
from heedful.training.precision import BF16WithMasters, FullPrecision, is_faster_in_bf16
from heedful.training.trainer import StoppingLimits, Trainer, TrainerConfig

RATE, BETAS, EPSILON, SMOOTHING = 1e-4, (0.9, 0.98), 1e-9, 0.1


@dataclass(frozen=True)
class TrainingWork:
    """Settings that all loops share.

    Attributes:
        model: d_model, heads, d_ff, layers, dropout, inner_dropout (attention weights and behind the activation).
        vocabulary: entries of the shared vocabulary.
        batch_tokens: padded target tokens of a batch.
        text: folder of an encoded corpus; None for a synthetic one.
        seed: seed of the order of batches.
        device: where to compute.
        pairs: sentence pairs of the synthetic corpus.
    """

    model: dict[str, Any]
    vocabulary: int
    batch_tokens: int
    text: str | None
    seed: int
    device: str = "cpu"
    pairs: int = 20_000

    def open_corpus(self) -> Corpus:
        return build_corpus(self.pairs, self.vocabulary, seed=1) if self.text is None else Corpus.open(Path(self.text))


@dataclass(frozen=True)
class TrainingMeasurement:
    """Measurement of some updates.

    Attributes:
        tokens: target tokens without padding.
        seconds: wall-clock time until the device has finished.
        processor: processor seconds of all threads.
        loss: mean of the training loss.
    """

    tokens: int
    seconds: float
    processor: float
    loss: float


@dataclass(frozen=True)
class Clocks:
    """Wall-clock time and processor seconds of this process."""

    wall: float
    processor: float


def read_clocks(device: torch.device) -> Clocks:
    """Return the times at which the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return Clocks(time.perf_counter(), time.process_time())


class TrainingLoop(ABC):
    """Training that can be continued by any number of updates."""

    @abstractmethod
    def train(self, updates: int) -> TrainingMeasurement:
        """Make the next updates."""


class HeedfulLoop(TrainingLoop, Callback, CheckpointSaver):
    """`heedful.training.Trainer` as `heedful train` builds it, without saving checkpoints."""

    def __init__(self, model: nn.Module, work: TrainingWork, *, precision: str) -> None:
        tune_malloc()
        self._updates: list[StepMetrics] = []
        self._start = self._end = Clocks(0.0, 0.0)
        self._world = init_distributed(torch.device(work.device))  # stays open until the process ends
        here = self._world.__enter__()
        model.to(here.device)
        use_bf16 = _computes_in_bf16(model, precision, here.device)
        masters = BF16WithMasters(model) if use_bf16 else FullPrecision(model)
        self._trainer = Trainer(
            model,
            GenerationObjective(
                work.open_corpus(),
                build_corpus(8, work.vocabulary, seed=2),  # for evaluation, which is not measured
                criterion=LikelihoodCriterion(SMOOTHING),
                batch_tokens=work.batch_tokens,
                seed=work.seed,
                device=here.device,
                collate_fn=partial(collate_pairs, bos=BOS),
            ),
            optimizer=Adam(masters.masters, betas=BETAS, epsilon=EPSILON),
            precision=masters,
            schedule=ConstantSchedule(RATE, 0),
            distributed=here,
            limits=StoppingLimits(steps=0),
            config=TrainerConfig(evaluate_every=10**9),
            callback=self,
            checkpoint_saver=self,
        )

    def train(self, updates: int) -> TrainingMeasurement:
        self._updates.clear()
        self._trainer.limits = StoppingLimits(steps=self._trainer.progress.step + updates)
        self._trainer.run()
        tokens = sum(update.labels for update in self._updates)
        loss = sum(update.loss * update.labels for update in self._updates) / tokens
        seconds, processor = self._end.wall - self._start.wall, self._end.processor - self._start.processor
        return TrainingMeasurement(tokens, seconds, processor, loss)

    def on_epoch_begin(self, plan: EpochPlan) -> None:
        if not self._updates:
            self._start = read_clocks(self._trainer.distributed.device)

    def on_step_end(self, update: StepMetrics) -> None:
        self._updates.append(update)
        if update.step == self._trainer.limits.steps:
            self._end = read_clocks(self._trainer.distributed.device)

    def on_evaluate(self, evaluation: ValidationResult) -> None: ...

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None: ...


class PlainTrainingLoop(TrainingLoop):
    """A tutorial's loop around a model that returns logits: loss, backward pass, Adam; autocast for bf16."""

    def __init__(self, model: nn.Module, work: TrainingWork, *, bf16: bool, keep: bool) -> None:
        if keep:
            tune_malloc()
        self._device = torch.device(work.device)
        self._model = model.to(self._device).train()
        self._adam = torch.optim.Adam(model.parameters(), RATE, BETAS, EPSILON)
        self._batches = iterate_batches(work)
        self._autocast = torch.autocast(self._device.type, torch.bfloat16, enabled=bf16)

    def train(self, updates: int) -> TrainingMeasurement:
        tokens, losses, start = 0, 0.0, read_clocks(self._device)
        for _ in range(updates):
            batch = next(self._batches)()
            count = int((batch.labels >= 0).sum())
            losses += self._update(move_to_device(batch, self._device)) * count
            tokens += count
        end = read_clocks(self._device)
        return TrainingMeasurement(tokens, end.wall - start.wall, end.processor - start.processor, losses / tokens)

    def _update(self, batch: PairBatch) -> float:
        self._adam.zero_grad()
        with self._autocast:
            logits: Tensor = self._model(batch.source.ids, batch.target.ids)
            loss = functional.cross_entropy(
                logits.flatten(0, 1), batch.labels.flatten(), ignore_index=-1, label_smoothing=SMOOTHING
            )
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        self._adam.step()
        return loss.item()


class ProductsLoop(TrainingLoop):
    """Only the matrix products of the same updates, in the precision that heedful's trainer would choose."""

    def __init__(self, model: nn.Module, work: TrainingWork, *, precision: str) -> None:
        tune_malloc()
        self._work, self._device = work, torch.device(work.device)
        use_bf16 = _computes_in_bf16(model, precision, self._device)
        self._products = ProductRunner(torch.bfloat16 if use_bf16 else torch.float32, self._device)
        self._batches = iterate_batches(work)

    def train(self, updates: int) -> TrainingMeasurement:
        tokens, start = 0, read_clocks(self._device)
        for batch in [next(self._batches)() for _ in range(updates)]:
            self._products.run(list_batch_products(self._work, batch))
            tokens += int((batch.labels >= 0).sum())
        end = read_clocks(self._device)
        return TrainingMeasurement(tokens, end.wall - start.wall, end.processor - start.processor, math.nan)


def list_batch_products(work: TrainingWork, batch: PairBatch) -> list[Product]:
    """List the products of an update on a batch."""
    source, target = batch.source.ids.shape, batch.target.ids.shape
    labels = int((batch.labels >= 0).sum())
    return list_translation_products(work.model, source, target, labels=labels, vocabulary=work.vocabulary)


class MarianLogits(nn.Module):
    """MarianMT of transformers, with the interface of the plain model."""

    def __init__(self, work: TrainingWork) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        sizes = work.model
        both: dict[str, Any] = {}
        for side in ("encoder", "decoder"):
            both |= {f"{side}_layers": sizes["layers"], f"{side}_ffn_dim": sizes["d_ff"]}
            both |= {f"{side}_attention_heads": sizes["heads"]}
        config = MarianConfig(
            vocab_size=work.vocabulary,
            d_model=sizes["d_model"],
            activation_function="relu",
            scale_embedding=True,
            dropout=sizes["dropout"],
            attention_dropout=sizes["inner_dropout"],
            activation_dropout=sizes["inner_dropout"],
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            **both,
        )
        self.marian = MarianMTModel(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        output = self.marian(
            input_ids=source, attention_mask=(source != 0).long(), decoder_input_ids=target, use_cache=False
        )
        logits: Tensor = output.logits
        return logits


def build_job_runner(settings: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that does jobs {"updates": n} for the contestant in the settings."""
    loop = build_training_loop(settings)
    return lambda job: vars(loop.train(job["updates"]))


def build_training_loop(settings: dict[str, Any]) -> TrainingLoop:
    """Build the loop of a contestant from its settings.

    Args:
        settings: `loop`, `work`, `precision`; `keep` (whether glibc keeps freed pages); for heedful also
            `checkpointing` (gradient checkpointing), `compiler` (torch.compile's backend for the layers) and `native`
            (whether to use native operators, by default where they are installed).
    """
    torch.manual_seed(1)
    if not settings.get("native", True):
        fused_operators.load_library = lambda: None
    work = TrainingWork(**settings["work"])
    match settings["loop"]:
        case "heedful" | "products" as name:
            model = build_sequence_to_sequence(
                _build_config(work.model), DataSizes(work.vocabulary, work.vocabulary, 128)
            )
            checkpointing, backend = settings.get("checkpointing", False), settings.get("compiler")
            config = TranslationTrainingConfig(
                steps=1, gradient_checkpointing=checkpointing, compile=backend is not None
            )
            set_gradient_checkpointing(model, config)
            enable_layer_compilation(model, config, device=torch.device(work.device), backend=backend)
            return (HeedfulLoop if name == "heedful" else ProductsLoop)(model, work, precision=settings["precision"])
        case "plain" | "marian" as name:
            other = _build_plain_model(work) if name == "plain" else MarianLogits(work)
            return PlainTrainingLoop(
                other, work, bf16=settings["precision"] == "bf16", keep=settings.get("keep", False)
            )
        case unknown:
            raise ValueError(f"unknown loop {unknown}")


def _computes_in_bf16(model: nn.Module, precision: str, device: torch.device) -> bool:
    """Return whether heedful's trainer computes in bf16."""
    return is_faster_in_bf16(model, device) if precision == "auto" else precision == "bf16"


def _build_plain_model(work: TrainingWork) -> PlainTransformer:
    sizes = dict(work.model)
    return PlainTransformer(work.vocabulary, sizes.pop("d_model"), **sizes)


def _build_config(sizes: dict[str, Any]) -> TransformerConfig:
    kept = {name: value for name, value in sizes.items() if name != "inner_dropout"}
    inner = sizes["inner_dropout"]
    return TransformerConfig.model_validate({**kept, "attention_dropout": inner, "activation_dropout": inner})


def iterate_batches(work: TrainingWork) -> Iterator[Callable[[], PairBatch]]:
    """Yield functions that build the batches of heedful's trainer, in its order; building counts as training."""
    text = work.open_corpus()
    epoch = 0
    while True:
        for rows in batch_by_size(text.lengths, max_tokens=work.batch_tokens, seed=work.seed, epoch=epoch):
            yield lambda rows=rows: collate_pairs(text, rows, bos=BOS)  # type: ignore[misc]  # the default binds the rows of this batch
        epoch += 1
