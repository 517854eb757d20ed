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
from products import ProductRunner, list_translation_products
from synthetic_data import build_corpus
from torch import Tensor, nn
from torch.nn import functional

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.data.batches import PairBatch, batch_by_size, collate_pairs
from heedful.data.corpus import Corpus
from heedful.data.tokenizers import BOS
from heedful.runs.device import tune_malloc
from heedful.tasks.generation_objective import GenerationObjective, LikelihoodCriterion
from heedful.training.callbacks import (
    Callback,
    CheckpointSaver,
    EpochPlan,
    StepMetrics,
    TrainingSnapshot,
    ValidationResult,
)
from heedful.training.distributed import init_distributed
from heedful.training.optimizers import Adam, BF16WithMasters, ConstantSchedule, FullPrecision, is_faster_in_bf16
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
    """

    model: dict[str, Any]
    vocabulary: int
    batch_tokens: int
    text: str | None
    seed: int

    def open_corpus(self) -> Corpus:
        return build_corpus(20_000, self.vocabulary, seed=1) if self.text is None else Corpus.open(Path(self.text))


@dataclass(frozen=True)
class TrainingMeasurement:
    """Measurement of some updates.

    Attributes:
        tokens: target tokens without padding.
        seconds: wall-clock time.
        processor: processor seconds of all threads.
        loss: mean of the training loss.
    """

    tokens: int
    seconds: float
    processor: float
    loss: float


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
        self._start = self._end = 0.0
        self._world = init_distributed(torch.device("cpu"))  # stays open until the process ends
        here = self._world.__enter__()
        use_bf16 = _computes_in_bf16(model, precision)
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
        return TrainingMeasurement(
            tokens, sum(update.seconds for update in self._updates), self._end - self._start, loss
        )

    def on_epoch_begin(self, plan: EpochPlan) -> None:
        if not self._updates:
            self._start = time.process_time()

    def on_step_end(self, update: StepMetrics) -> None:
        self._updates.append(update)
        self._end = time.process_time()

    def on_evaluate(self, evaluation: ValidationResult) -> None: ...

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None: ...


class PlainTrainingLoop(TrainingLoop):
    """A tutorial's loop around a model that returns logits: loss, backward pass, Adam; autocast for bf16."""

    def __init__(self, model: nn.Module, work: TrainingWork, *, bf16: bool, keep: bool) -> None:
        if keep:
            tune_malloc()
        self._model = model.train()
        self._adam = torch.optim.Adam(model.parameters(), RATE, BETAS, EPSILON)
        self._batches = _iterate_batches(work)
        self._autocast = torch.autocast("cpu", torch.bfloat16, enabled=bf16)

    def train(self, updates: int) -> TrainingMeasurement:
        tokens, losses, start, before = 0, 0.0, time.perf_counter(), time.process_time()
        for _ in range(updates):
            batch = next(self._batches)()
            count = int((batch.labels >= 0).sum())
            losses += self._update(batch) * count
            tokens += count
        return TrainingMeasurement(tokens, time.perf_counter() - start, time.process_time() - before, losses / tokens)

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
        self._work = work
        self._products = ProductRunner(torch.bfloat16 if _computes_in_bf16(model, precision) else torch.float32)
        self._batches = _iterate_batches(work)

    def train(self, updates: int) -> TrainingMeasurement:
        tokens, start, before = 0, time.perf_counter(), time.process_time()
        for batch in [next(self._batches)() for _ in range(updates)]:
            source, target = batch.source.ids.shape, batch.target.ids.shape
            labels = int((batch.labels >= 0).sum())
            self._products.run(
                list_translation_products(
                    self._work.model, source, target, labels=labels, vocabulary=self._work.vocabulary
                )
            )
            tokens += labels
        return TrainingMeasurement(tokens, time.perf_counter() - start, time.process_time() - before, math.nan)


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
    torch.manual_seed(1)
    work = TrainingWork(**settings["work"])
    loop: TrainingLoop
    match settings["loop"]:
        case "heedful" | "products" as name:
            model = build_sequence_to_sequence(
                _build_config(work.model), DataSizes(work.vocabulary, work.vocabulary, 128)
            )
            loop = (HeedfulLoop if name == "heedful" else ProductsLoop)(model, work, precision=settings["precision"])
        case "plain" | "marian" as name:
            other = _build_plain_model(work) if name == "plain" else MarianLogits(work)
            loop = PlainTrainingLoop(
                other, work, bf16=settings["precision"] == "bf16", keep=settings.get("keep", False)
            )
        case unknown:
            raise ValueError(f"unknown loop {unknown}")
    return lambda job: vars(loop.train(job["updates"]))


def _computes_in_bf16(model: nn.Module, precision: str) -> bool:
    """Return whether heedful's trainer computes in bf16."""
    return is_faster_in_bf16(model, torch.device("cpu")) if precision == "auto" else precision == "bf16"


def _build_plain_model(work: TrainingWork) -> PlainTransformer:
    sizes = dict(work.model)
    return PlainTransformer(work.vocabulary, sizes.pop("d_model"), **sizes)


def _build_config(sizes: dict[str, Any]) -> TransformerConfig:
    kept = {name: value for name, value in sizes.items() if name != "inner_dropout"}
    inner = sizes["inner_dropout"]
    return TransformerConfig.model_validate({**kept, "attention_dropout": inner, "activation_dropout": inner})


def _iterate_batches(work: TrainingWork) -> Iterator[Callable[[], PairBatch]]:
    """Yield functions that build the batches of heedful's trainer, in its order; building counts as training."""
    text = work.open_corpus()
    epoch = 0
    while True:
        for rows in batch_by_size(text.lengths, max_tokens=work.batch_tokens, seed=work.seed, epoch=epoch):
            yield lambda rows=rows: collate_pairs(text, rows, bos=BOS)  # type: ignore[misc]  # the default binds the rows of this batch
        epoch += 1
