"""Evaluation of speech recognition: the evaluator, its reports, and comparisons of runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from heedful.atomic_io import compute_digest
from heedful.errors import DataError
from heedful.inspection.page import PageTable
from heedful.metrics.error_rates import character_error_rate, word_error_rate
from heedful.metrics.metric import Metric, build_mean_metric
from heedful.recipes.recipe import Recipe
from heedful.tasks.evaluation import DEFAULT_OPTIONS, Evaluator, EvaluatorOptions
from heedful.tasks.report import EvaluationReport, RunComparison, format_interval
from heedful.tasks.speech.data import Utterance
from heedful.tasks.speech.predictor import SpeechRecognizer


@dataclass(frozen=True)
class SpeechOutputs:
    """The transcripts of a system, and how long it took.

    Attributes:
        texts: one per sound.
        decoding_seconds: time that transcription took.
        sound_seconds: total length of the sounds.
    """

    texts: tuple[str, ...]
    decoding_seconds: float
    sound_seconds: float


@final
class SpeechEvaluator(Evaluator):
    """Evaluator of transcripts; case counts, runs of spaces count as one.

    Args:
        utterances: the utterances to transcribe; those without a text are left out.
        text: the file that they come from.
        part: of the data; empty if a file was named.
        options: evaluation options; `search` applies to sounds.

    Raises:
        DataError: there are no utterances.
    """

    progress_text = "listening"

    def __init__(
        self, utterances: Sequence[Utterance], *, text: str, part: str = "", options: EvaluatorOptions = DEFAULT_OPTIONS
    ) -> None:
        self.utterances = [utterance for utterance in utterances if utterance.text]
        if not self.utterances:
            raise DataError(f"{text}: no recordings to measure on; give a part that has some")
        self.data_description, self.part, self.options = text, part, options
        self.size = len(self.utterances)
        self.inputs = [compute_digest(utterance.sound) for utterance in self.utterances]
        self.reference_answers = self.texts = [" ".join(utterance.text.split()) for utterance in self.utterances]

    def predict(self, predictor: SpeechRecognizer, recipe: Recipe) -> SpeechOutputs:
        """Transcribe all sounds with the predictor and measure the time; the recipe is not used."""
        generation = predictor.generation if self.options.search is None else self.options.search(predictor.generation)
        start_time = time.perf_counter()
        transcriptions = predictor.transcribe([each.sound for each in self.utterances], generation=generation)
        seconds = time.perf_counter() - start_time
        return SpeechOutputs(
            tuple(each.text for each in transcriptions), seconds, sum(each.seconds for each in transcriptions)
        )

    def compute_metrics(self, answers: SpeechOutputs) -> Mapping[str, Metric]:
        """Compare the transcripts in `answers` with the references, and return word error rate, character error rate
        and exact match, in percent.
        """
        texts = [" ".join(text.split()) for text in answers.texts]
        return {
            "word errors": word_error_rate(texts, self.texts),
            "character errors": character_error_rate(texts, self.texts),
            "exact": build_mean_metric(
                [100.0 * (text == reference) for text, reference in zip(texts, self.reference_answers, strict=True)]
            ),
        }


@final
@dataclass(frozen=True, repr=False)
class SpeechReport(EvaluationReport):
    """Report of error rates with confidence intervals."""

    digits: ClassVar = 2

    evaluator: SpeechEvaluator
    answers: SpeechOutputs

    def format_text(self) -> str:
        """Format a heading and one line per metric."""
        outputs = self.answers
        lines = [
            f"{self.system.name}: {self.evaluator.part or self.evaluator.data_description}, {self.evaluator.size:,} "
            f"recordings of {outputs.sound_seconds:,.0f} s together, heard in {outputs.decoding_seconds:.1f} s",
            "",
            f"{'metric':<16}  {'percent':>7}  95 % interval",
        ]
        lines += [
            f"{name:<16}  {interval.value:>7.2f}  {format_interval(interval, 2)}"
            for name, interval in self.intervals.items()
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the number of recordings, the times and the metrics with their intervals as JSON data."""
        return {
            "part": self.evaluator.part,
            "recordings": self.evaluator.size,
            "sound_seconds": self.answers.sound_seconds,
            "seconds": self.answers.decoding_seconds,
            "metrics": self.scores_to_json()["metrics"],
        }


@final
@dataclass(frozen=True, repr=False)
class SpeechComparison(RunComparison):
    """Comparison of several runs' error rates."""

    reports: tuple[SpeechReport, ...]

    @property
    def heading(self) -> str:
        """Heading with the number of recordings."""
        return (
            f"{self.run_count_text} of {self.recipes[0].task} on {self.exam.size:,} recordings of "
            f"{self.exam.data_description}"
        )

    def build_results_table(self) -> PageTable:
        """Build the table with one row per run."""
        columns = ["run", "model", "parameters", "minutes", "heard in s"]
        for name in self.reports[0].metrics:
            columns += [name, "95 % interval", "p"]
        rows = []
        for report, row in zip(self.reports, self.describe_runs(), strict=True):
            scores = [cell for name in report.intervals for cell in report.format_score(name, ".2f")]
            rows.append([*row, f"{report.answers.decoding_seconds:.1f}", *scores])
        return PageTable("", columns, rows, self.collect_notes())

    def table_notes(self) -> list[str]:
        """Return an explanation of the columns."""
        return self.explain_p_values()

    def build_json_fields(self) -> dict[str, Any]:
        """Return the number of recordings and the resampling settings."""
        return {"recordings": self.exam.size, **self.sampling_json}

    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return all metrics and tests of one run."""
        return report.scores_to_json()
