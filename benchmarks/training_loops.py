"""The training loops that are compared: ours as the package runs it, the plain one around other models, products."""

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
from made_up import corpus
from plain_transformer import PlainTransformer
from products import ProductsAlone, translation
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
from heedful.training.optimizers import Adam, ConstantSchedule
from heedful.training.precision import BF16WithMasters, FullPrecision, is_faster_in_bf16
from heedful.training.trainer import StoppingLimits, Trainer, TrainerConfig

RATE, BETAS, EPSILON, SMOOTHING = 1e-4, (0.9, 0.98), 1e-9, 0.1


@dataclass(frozen=True)
class Work:
    """What every loop is asked to do.

    Attributes:
        model: d_model, heads, d_ff, layers, dropout, inner_dropout (attention weights and behind the activation).
        vocabulary: entries of the one vocabulary.
        batch_tokens: padded target tokens of a batch.
        text: an encoded corpus, made up unless given.
        seed: of the order of batches.
    """

    model: dict[str, Any]
    vocabulary: int
    batch_tokens: int
    text: str | None
    seed: int

    def corpus(self) -> Corpus:
        return corpus(20_000, self.vocabulary, seed=1) if self.text is None else Corpus.open(Path(self.text))


@dataclass(frozen=True)
class Stretch:
    """Some updates: target tokens without padding, seconds on the clock and of the processor, in all threads, and the
    mean of the loss that was minimised."""

    tokens: int
    seconds: float
    processor: float
    loss: float


class Loop(ABC):
    """Trains on, as often as it is asked."""

    @abstractmethod
    def train(self, updates: int) -> Stretch:
        """The next updates."""


class Ours(Loop, Callback, CheckpointSaver):
    """`heedful.training.Trainer` as `heedful train` builds it; what it saves goes nowhere."""

    def __init__(self, model: nn.Module, work: Work, *, precision: str) -> None:
        tune_malloc()
        self._updates: list[StepMetrics] = []
        self._began = self._ended = 0.0
        self._world = init_distributed(torch.device("cpu"))  # entered for as long as the process lives
        here = self._world.__enter__()
        half = _half(model, precision)
        masters = BF16WithMasters(model) if half else FullPrecision(model)
        self._trainer = Trainer(
            model,
            GenerationObjective(
                work.corpus(),
                corpus(8, work.vocabulary, seed=2),  # what it is evaluated on, before and after the clock runs
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

    def train(self, updates: int) -> Stretch:
        self._updates.clear()
        self._trainer.limits = StoppingLimits(steps=self._trainer.progress.step + updates)
        self._trainer.run()
        tokens = sum(update.labels for update in self._updates)
        loss = sum(update.loss * update.labels for update in self._updates) / tokens
        return Stretch(tokens, sum(update.seconds for update in self._updates), self._ended - self._began, loss)

    def on_epoch_begin(self, plan: EpochPlan) -> None:
        if not self._updates:
            self._began = time.process_time()

    def on_step_end(self, update: StepMetrics) -> None:
        self._updates.append(update)
        self._ended = time.process_time()

    def on_evaluate(self, evaluation: ValidationResult) -> None: ...

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None: ...


class Plain(Loop):
    """The loop of any tutorial around a model that gives logits: loss, backward, Adam; autocast for bf16."""

    def __init__(self, model: nn.Module, work: Work, *, bf16: bool, keep: bool) -> None:
        if keep:
            tune_malloc()
        self._model = model.train()
        self._adam = torch.optim.Adam(model.parameters(), RATE, BETAS, EPSILON)
        self._batches = _batches(work)
        self._autocast = torch.autocast("cpu", torch.bfloat16, enabled=bf16)

    def train(self, updates: int) -> Stretch:
        tokens, losses, began, before = 0, 0.0, time.perf_counter(), time.process_time()
        for _ in range(updates):
            batch = next(self._batches)()
            count = int((batch.labels >= 0).sum())
            losses += self._update(batch) * count
            tokens += count
        return Stretch(tokens, time.perf_counter() - began, time.process_time() - before, losses / tokens)

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


class Products(Loop):
    """The matrix products of the same updates and nothing else, in the precision that our trainer would choose."""

    def __init__(self, model: nn.Module, work: Work, *, precision: str) -> None:
        tune_malloc()
        self._work = work
        self._products = ProductsAlone(torch.bfloat16 if _half(model, precision) else torch.float32)
        self._batches = _batches(work)

    def train(self, updates: int) -> Stretch:
        tokens, began, before = 0, time.perf_counter(), time.process_time()
        for batch in [next(self._batches)() for _ in range(updates)]:
            source, target = batch.source.ids.shape, batch.target.ids.shape
            labels = int((batch.labels >= 0).sum())
            self._products.run(
                translation(self._work.model, source, target, labels=labels, vocabulary=self._work.vocabulary)
            )
            tokens += labels
        return Stretch(tokens, time.perf_counter() - began, time.process_time() - before, math.nan)


class Marian(nn.Module):
    """MarianMT of transformers, called like the plain model."""

    def __init__(self, work: Work) -> None:
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
        found = self.marian(
            input_ids=source, attention_mask=(source != 0).long(), decoder_input_ids=target, use_cache=False
        )
        logits: Tensor = found.logits
        return logits


def build(settings: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What answers {"updates": n} for the contestant in the settings."""
    torch.manual_seed(1)
    work = Work(**settings["work"])
    loop: Loop
    match settings["loop"]:
        case "heedful" | "products" as name:
            ours = build_sequence_to_sequence(_config(work.model), DataSizes(work.vocabulary, work.vocabulary, 128))
            loop = (Ours if name == "heedful" else Products)(ours, work, precision=settings["precision"])
        case "plain" | "marian" as name:
            model = _plain(work) if name == "plain" else Marian(work)
            loop = Plain(model, work, bf16=settings["precision"] == "bf16", keep=settings.get("keep", False))
        case unknown:
            raise ValueError(f"no loop is called {unknown}")
    return lambda job: vars(loop.train(job["updates"]))


def _half(model: nn.Module, precision: str) -> bool:
    """Whether our trainer computes in bf16."""
    return is_faster_in_bf16(model, torch.device("cpu")) if precision == "auto" else precision == "bf16"


def _plain(work: Work) -> PlainTransformer:
    sizes = dict(work.model)
    return PlainTransformer(work.vocabulary, sizes.pop("d_model"), **sizes)


def _config(sizes: dict[str, Any]) -> TransformerConfig:
    kept = {name: value for name, value in sizes.items() if name != "inner_dropout"}
    inner = sizes["inner_dropout"]
    return TransformerConfig.model_validate({**kept, "attention_dropout": inner, "activation_dropout": inner})


def _batches(work: Work) -> Iterator[Callable[[], PairBatch]]:
    """The batches that our trainer takes, in its order; each is made when called, which counts as training."""
    text = work.corpus()
    epoch = 0
    while True:
        for rows in batch_by_size(text.lengths, max_tokens=work.batch_tokens, seed=work.seed, epoch=epoch):
            yield lambda rows=rows: collate_pairs(text, rows, bos=BOS)  # type: ignore[misc]  # the default binds this round's rows
        epoch += 1
