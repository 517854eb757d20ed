"""Evaluation of pre-trained models on passages that are masked in the same way for all models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float

from heedful.data.corpus import Corpus, write_corpus
from heedful.data.documents import DocumentChunk
from heedful.data.text_splitting import split_sentences as split
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError, RunError
from heedful.inspection.page import PageTable
from heedful.metrics.metric import Metric, SummedCountsMetric
from heedful.recipes.recipe import Recipe
from heedful.tasks.evaluation import Evaluator
from heedful.tasks.pretraining.data import build_sentence_encoding, encode_sentences
from heedful.tasks.pretraining.objective import MaskedPassageBatches, PretrainingLoss
from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor, ReplacedTokenPredictor
from heedful.tasks.pretraining.recipe import PretrainingRecipe
from heedful.tasks.report import INTERVAL_COLUMNS, EvaluationReport, RunComparison
from heedful.tensors import move_to_device

_MIN_DOCUMENTS: Final = 50
"""Documents that an interval needs; where there are fewer, stretches of the text are drawn."""
_NUM_STRETCHES: Final = 100
ExampleSums: TypeAlias = Mapping[str, Float[np.ndarray, " N"]]
"""What an objective sums, for each document or stretch."""


@final
@dataclass(frozen=True)
class PretrainingMetric(SummedCountsMetric):
    """One metric of a pre-training loss, computed from sums over examples."""

    pretraining_loss: PretrainingLoss
    name: str
    sums: ExampleSums

    @cached_property
    def counts(self) -> Float[np.ndarray, "N counts"]:
        """The sums, one column each."""
        return np.stack(list(self.sums.values()), 1)

    def score_sums(self, sums: Float[np.ndarray, "samples counts"]) -> Float[np.ndarray, " samples"]:
        """Compute the metric from each row of resampled sums, whose columns are those of `counts`."""
        metrics = self.pretraining_loss.compute_metrics(dict(zip(self.sums, sums.T, strict=True)))
        return np.asarray(metrics[self.name], dtype=np.float64)


@final
@dataclass(eq=False)
class PassageEvaluator(Evaluator):
    """Evaluator on masked passages; documents are resampled or, if there are few, 100 stretches of the text.

    Attributes:
        inputs: the documents.
        recipe: of the run that decides how passages are made and masked.
        pretraining_loss: computes the metrics.
        build_passages: builds the masked passages of a corpus with a tokenizer.
    """

    progress_text = "filling hidden tokens"

    inputs: Sequence[DocumentChunk]
    recipe: PretrainingRecipe
    pretraining_loss: PretrainingLoss
    build_passages: Callable[[Corpus, Tokenizer], MaskedPassageBatches]
    data_description: str
    part: str
    reference_answers: Sequence[str] = ()

    def __post_init__(self) -> None:
        documents = sum(document.is_last for document in self.inputs[:-1]) + 1
        self.by_document = documents >= _MIN_DOCUMENTS
        self.size = documents if self.by_document else _NUM_STRETCHES

    @property
    def unit_description(self) -> str:
        """Number and kind of the resampled units, in words."""
        return f"{self.size:,} {'documents' if self.by_document else 'stretches of the text'}"

    def predict(self, predictor: MaskedLanguageModelPredictor | ReplacedTokenPredictor, recipe: Recipe) -> ExampleSums:
        """Return the sums of the predictor's losses and correct answers for each resampled unit, by name.

        Raises:
            RecipeError: the model was trained with another objective, or reads shorter passages.
        """
        assert isinstance(recipe, PretrainingRecipe)
        self._require_compatible(recipe)
        device = next(predictor.model.parameters()).device
        sums: dict[str, Float[np.ndarray, " N"]] = defaultdict(lambda: np.zeros(self.size))
        with TemporaryDirectory() as folder:
            encoded_sentences = encode_sentences(self.inputs, predictor.tokenizer, split)
            corpus = write_corpus(
                Path(folder) / "text", encoded_sentences, encoder=build_sentence_encoding(predictor.tokenizer)
            )
            passages = self.build_passages(corpus, predictor.tokenizer)
            documents = passages.passages.documents
            for number in passages.passages.plan(0)[0]:
                unit = (
                    documents.get_document_number(number) if self.by_document else number * self.size // len(documents)
                )
                batch = move_to_device(passages.build_batch(np.array([number])), device)
                with torch.inference_mode():
                    batch_sums = self.pretraining_loss.compute_batch_sums(predictor.model, batch)
                for name, value in batch_sums.items():
                    sums[name][unit] += value
        return sums

    def compute_metrics(self, answers: ExampleSums) -> Mapping[str, Metric]:
        """Compute the metrics that training reports from the sums in `answers`."""
        return {
            name: PretrainingMetric(self.pretraining_loss, name, answers)
            for name in sorted(self.pretraining_loss.metrics)
        }

    def _require_compatible(self, recipe: PretrainingRecipe) -> None:
        """Raise `RecipeError` if the objective or the pairing of a recipe differs from those of the first run, or its
        passages are shorter.
        """
        for key, other_value, own_value in (
            ("training.objective.kind", recipe.training.objective.kind, self.recipe.training.objective.kind),
            ("training.pairing", recipe.training.pairing, self.recipe.training.pairing),
        ):
            if other_value != own_value:
                raise RecipeError(
                    f'{recipe.output}: {key} = "{other_value}", and "{own_value}" in the first run, so they cannot be '
                    "compared; leave it out"
                )
        if (length := recipe.data.max_length) < self.recipe.data.max_length:
            raise RecipeError(
                f"{recipe.output}: data.max_length = {length}, and passages of the first run have "
                f"{self.recipe.data.max_length} tokens; name the run that reads least first"
            )


@final
@dataclass(frozen=True, repr=False)
class PassageReport(EvaluationReport):
    """Report of the pre-training metrics on a text."""

    evaluator: PassageEvaluator
    reference: PassageReport | None = None

    @property
    def resampled_metrics(self) -> Mapping[str, Metric]:
        """All metrics; `RunError` if the first system has another vocabulary, and so other masked tokens."""
        if (
            self.reference is not None
            and self.reference.system.required_summary.vocabulary != self.system.required_summary.vocabulary
        ):
            raise RunError(
                f"{self.system.name}: has another vocabulary than {self.reference.system.name}, so that other tokens "
                "are hidden and their losses cannot be compared; leave it out"
            )
        return self.metrics

    def format_text(self) -> str:
        """Format one line per metric."""
        lines = [f"{name:<16}  {value:9.4f}" for name, value in self.metric_values.items()]
        return "\n".join((f"{self.system.name}: {self.evaluator.part}", *lines))

    def to_json(self) -> dict[str, Any]:
        """Return the part and the metrics."""
        return {"part": self.evaluator.part, **self.metric_values}


@final
@dataclass(frozen=True, repr=False)
class PassageComparison(RunComparison):
    """Comparison of runs with one vocabulary on the same masked tokens."""

    reports: tuple[PassageReport, ...]

    @property
    def exam(self) -> PassageEvaluator:
        """The evaluator of all runs."""
        return self.reports[0].evaluator

    @property
    def heading(self) -> str:
        """Heading that names the text."""
        return f"{self.run_count_text} of pretraining on {self.exam.data_description}"

    def build_results_table(self) -> PageTable:
        """Build the table with one row per run: its name, model, number of parameters and minutes of training, then
        each metric with its confidence interval and p-value.
        """
        names = list(self.reports[0].metrics)
        columns = ["run", "model", "parameters", "minutes"]
        columns += [column for name in names for column in (name, *INTERVAL_COLUMNS)]
        rows = [
            [*row, *(cell for name in names for cell in report.format_score(name))]
            for report, row in zip(self.reports, self.describe_runs(), strict=True)
        ]
        return PageTable("", columns, rows, self.collect_notes())

    def table_notes(self) -> list[str]:
        """Return an explanation of the columns."""
        return [
            f"p: how often chance alone makes a difference from {self.reports[0].system.name} at least this large "
            f"(paired bootstrap, {self.sampling.samples:,} samples of {self.exam.unit_description})"
        ]

    def build_json_fields(self) -> dict[str, Any]:
        """Return the part, the resampled units and the resampling settings."""
        sampling_units = {"drawn": self.exam.unit_description, "examples": self.exam.size}
        return {"part": self.exam.part, **sampling_units, **self.sampling_json}

    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return all metrics and tests of one run."""
        return report.scores_to_json()
