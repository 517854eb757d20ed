"""Reports of translation results, and comparisons of translation runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any, ClassVar, Final, final

from heedful.data.similar_pairs import ProgressCallback, SimilarityReport, find_similar_pairs
from heedful.errors import DataError
from heedful.inspection.page import PageTable, escape_page_text
from heedful.inspection.plots import PlotLine, draw_line_plot
from heedful.metrics.metric import ConfidenceInterval, Metric, compute_intervals
from heedful.metrics.report import compute_all_scores
from heedful.metrics.translation import LengthBand, MetricScore, bleu, bleu_by_length
from heedful.metrics.weighted_sacrebleu import CorpusBLEU
from heedful.tasks.comparison import RunComparison
from heedful.tasks.report import INTERVAL_COLUMNS, EvaluationReport
from heedful.tasks.report_text import format_interval, format_number
from heedful.tasks.translation.accuracy import AccuracyCounts
from heedful.tasks.translation.error_page import ErrorCases, build_error_page, list_shown_cases
from heedful.tasks.translation.evaluation import DOCUMENT_METRIC, TranslationEvaluator, TranslationOutputs
from heedful.version import __version__

_JUDGE_DIGITS: Final = 4
"""Decimal places of scores of learned metrics, some of which are all between 0 and 1."""
_EDIT_RATES: Final[Mapping[str, str]] = {"WER": "words", "CER": "characters"}
"""Edit rates and their units."""
_MIN_SENTENCES: Final = 10
"""Minimum number of sentences for a meaningful confidence interval of BLEU."""


@final
@dataclass(frozen=True, repr=False)
class TranslationReport(EvaluationReport):
    """Results of one system: sacrebleu's scores with signatures, a learned metric and accuracies, with intervals
    and significance tests.
    """

    digits: ClassVar = 2

    evaluator: TranslationEvaluator
    answers: TranslationOutputs

    @property
    def resampled_metrics(self) -> Mapping[str, Metric]:
        """Metrics with intervals: BLEU, chrF, chrF++, edit rates, learned metric, document BLEU and accuracies, as
        far as there are any.
        """
        metrics = {
            name: self.metrics[name] for name in ("BLEU", "chrF2", "chrF2++", "TER", *_EDIT_RATES, *self._judge_scores)
        }
        if self.document_metric is not None and self.document_metric.num_examples >= _MIN_SENTENCES:
            metrics[DOCUMENT_METRIC] = self.document_metric
        return metrics | {name: self.metrics[name] for name in self.accuracies}

    @property
    def document_metric(self) -> Metric | None:
        """Document BLEU; None if documents are not known or are single sentences."""
        return self.metrics.get(DOCUMENT_METRIC)

    @cached_property
    def accuracies(self) -> Mapping[str, AccuracyCounts]:
        """Accuracy of terms, numbers and contrasts; empty if there are none."""
        return self.evaluator.compute_accuracy(self.answers)

    @property
    def perplexity(self) -> float | None:
        """Perplexity of the references per token, if known."""
        return self.metrics["perplexity"].value if "perplexity" in self.metrics else None

    @cached_property
    def scores(self) -> tuple[MetricScore, ...]:
        """Scores of sacrebleu and of the learned metric."""
        sacrebleu_scores = compute_all_scores(self.answers.texts, self.evaluator.all_references, **self.scoring)
        return (*sacrebleu_scores, *self._judge_scores.values())

    @property
    def scoring(self) -> dict[str, Any]:
        """Whether case is ignored, and the tokenizer of BLEU."""
        return {"lowercase": self.evaluator.options.lowercase, "tokenize": self.evaluator.tokenize}

    def _select_rows(self, rows: Sequence[int]) -> tuple[list[str], list[tuple[str, ...]]]:
        """Return translations and references of some sentences."""
        return [self.answers.texts[row] for row in rows], [self.evaluator.all_references[row] for row in rows]

    @cached_property
    def _judge_scores(self) -> Mapping[str, MetricScore]:
        """Score of the learned metric by its title; empty if there is none."""
        asking = self.evaluator.options
        if asking.judge is None:
            return {}
        title, case = asking.judge.metric_name, "lc" if asking.lowercase else "mixed"
        signature = f"{asking.judge.signature}|case:{case}|version:{__version__}"
        return {title: MetricScore(title, self.metrics[title].value, signature)}

    def metric_digits(self, name: str) -> int:
        """Return the number of decimal places of a metric; more for the learned metric than for percentages."""
        return _JUDGE_DIGITS if name in self._judge_scores else self.digits

    @cached_property
    def signatures(self) -> list[str]:
        """Signatures of BLEU, chrF, chrF++ and TER as in sacrebleu, and of the learned metric."""
        return [score.signature for score in self.scores if score.name in self.resampled_metrics]

    @cached_property
    def error_rates(self) -> dict[str, float]:
        """Word and character error rates in percent."""
        return {name: self.metrics[name].value for name in _EDIT_RATES}

    @cached_property
    def source_lengths(self) -> list[int]:
        """Number of words of each source."""
        return [len(pair.source.split()) for pair in self.evaluator.pairs]

    @cached_property
    def length_bands(self) -> tuple[LengthBand, ...]:
        """BLEU by source length in words."""
        score = partial(bleu, **self.scoring)
        return bleu_by_length(self.answers.texts, self.evaluator.all_references, self.source_lengths, metric=score)

    @cached_property
    def by_text(self) -> Mapping[str, tuple[int, float]]:
        """Number of sentences and BLEU of each text of the evaluation, by its name; empty if the evaluation has only
        one text.
        """
        results = {}
        for name in dict.fromkeys(self.evaluator.names):
            rows = [row for row, text_name in enumerate(self.evaluator.names) if text_name == name]
            results[name] = (len(rows), bleu(*self._select_rows(rows), **self.scoring).value)
        return results

    @cached_property
    def band_intervals(self) -> list[ConfidenceInterval | None]:
        """Interval of the BLEU of each length band; None for fewer than ten sentences."""
        return [self._band_interval(band) for band in self.length_bands]

    def format_text(self) -> str:
        """Format all scores as text."""
        duration = f", translated in {self.answers.seconds:.1f} s" if self.answers.seconds is not None else ""
        width = max(len(score.name) for score in self.scores)
        lines = [f"{self.system.name}: {self.evaluator.size:,} sentences{duration}", ""]
        lines.append(f"{'metric':<{width}}  {'value':>7}  {'95 % interval':<16}  signature")
        for score in self.scores:
            value, interval = self._format_cells(score)
            lines.append(f"{score.name:<{width}}  {value:>7}  {interval:<16}  {score.signature}")
        for name, unit in _EDIT_RATES.items():
            rate, interval = self.error_rates[name], format_interval(self.intervals[name], 2)
            lines.append(f"{name:<{width}}  {rate:>7.2f}  {interval:<16}  edits per 100 {unit} of the references")
        if self.perplexity is not None:
            lines.append(f"{'perplexity':<{width}}  {self.perplexity:>7.3f}  {'':<16}  of the references, per token")
        if self.document_metric is not None:
            interval_text = (
                format_interval(self.intervals[DOCUMENT_METRIC], 2) if DOCUMENT_METRIC in self.intervals else ""
            )
            description = f"of {self.document_metric.num_examples:,} documents, their sentences joined"
            lines.append(
                f"{DOCUMENT_METRIC:<{width}}  {self.document_metric.value:>7.2f}  {interval_text:<16}  {description}"
            )
        note = self.evaluator.tokenization_note
        lines += [] if note is None else [note]
        lines += [
            f"{count:,} of {self.evaluator.size:,} sentences: {note}" for note, count in self.answers.all_notes.items()
        ]
        if self.accuracies:
            lines += ["", self._build_accuracy_table().format_text().rstrip()]
        if self.by_text:
            lines += ["", "BLEU by text"]
            width = max(map(len, self.by_text))
            lines += [f"  {name:<{width}} {value:6.2f}  ({n:,} sentences)" for name, (n, value) in self.by_text.items()]
        lines += ["", "BLEU by words in the source"]
        for band in self.length_bands:
            end = f"to {band.longest}" if band.longest is not None else "or more"
            lines.append(f"  {band.shortest:>3} {end:<8} {band.score.value:6.2f}  ({band.num_sentences:,} sentences)")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return all results as JSON data."""
        return {
            "sentences": self.evaluator.size,
            "seconds": self.answers.seconds,
            "perplexity": self.perplexity,
            "scores": [asdict(score) for score in self.scores],
            "intervals": [asdict(interval) for name, interval in self.intervals.items() if name not in self.accuracies],
            "error_rates": self.error_rates,
            "bleu_by_length": self.bands_to_json(),
            **(
                {"judge": self.judge_to_json() | {"scores": self.evaluator.list_judge_scores(self.answers)}}
                if self._judge_scores
                else {}
            ),
            **({"accuracy": self.accuracy_to_json()} if self.accuracies else {}),
            **({"bleu_by_text": {name: value for name, (_, value) in self.by_text.items()}} if self.by_text else {}),
            **({"document_bleu": self.documents_to_json()} if self.document_metric is not None else {}),
            "notes": dict(self.answers.all_notes),
        }

    def judge_to_json(self) -> dict[str, Any]:
        """Return the learned metric's mean score, interval and signature as JSON data; there must be one."""
        (score,) = self._judge_scores.values()
        return {**asdict(self.intervals[score.name]), "signature": score.signature}

    def documents_to_json(self) -> dict[str, Any]:
        """Return document BLEU as JSON data."""
        assert self.document_metric is not None, "there are documents"
        return {"documents": self.document_metric.num_examples, "bleu": self.document_metric.value}

    def accuracy_to_json(self) -> list[dict[str, Any]]:
        """Return the accuracies as JSON data, with those of the references."""
        return [
            {
                **asdict(self.intervals[name]),
                "right": int(share.correct.sum()),
                "of": int(share.total.sum()),
                "references": self.evaluator.reference_accuracy[name].metric.value
                if name in self.evaluator.reference_accuracy
                else None,
            }
            for name, share in self.accuracies.items()
        ]

    def _build_accuracy_table(self) -> PageTable:
        """Build the table of accuracies with their intervals, counts, and the accuracy of the references; a note counts
        the contrasts that were too long.
        """
        columns = ["accuracy", "percent", "95 % interval", "right", "of", "references"]
        rows = [
            [
                row["name"],
                f"{row['value']:.2f}",
                format_interval(self.intervals[row["name"]], 2),
                f"{row['right']:,}",
                f"{row['of']:,}",
                format_number(row["references"], ".2f"),
            ]
            for row in self.accuracy_to_json()
        ]
        unread = sum(answer is None for answer in self.answers.contrasts)
        return PageTable(
            "", columns, rows, [f"contrasts that are longer than the model reads: {unread:,}"] * bool(unread)
        )

    def to_html(self, on_progress: ProgressCallback = lambda _, __: None) -> str:
        """Build the HTML page of translations that deserve attention, with similar training text; `on_progress` is
        called while that is searched.
        """
        cases = ErrorCases(self.evaluator, self.answers)
        rows = [[score.name, *self._format_cells(score)] for score in self.scores]
        training, notes = self._find_similar_training_text(
            [score.pair.source for score in list_shown_cases(cases)], on_progress
        )
        return build_error_page(
            cases,
            title=f"Translations by {self.system.name} of {self.evaluator.size:,} sentences",
            scores=PageTable(
                "", ["metric", "value", "95 % interval"], rows, [f"measured on {self.evaluator.data_description}"]
            ),
            training=training,
            notes=notes,
        )

    def _find_similar_training_text(
        self, sentences: Sequence[str], on_progress: ProgressCallback
    ) -> tuple[SimilarityReport | None, Sequence[str]]:
        """Find training text that resembles sentences; None with an explanation if this is not possible. `on_progress`
        is called while the text is read.
        """
        if self.system.summary is None:
            return None, [
                "There is no run that names the training text of the system, so the page shows no similar text."
            ]
        data = self.system.summary.recipe.data
        try:
            return find_similar_pairs(
                sentences, lambda: chain(*data.readers("train").values()), on_progress=on_progress
            ), ()
        except DataError as error:
            return None, [escape_page_text(f"The page shows no similar training text: {error}.")]

    def _format_cells(self, score: MetricScore) -> tuple[str, str]:
        """Format value and interval of a score for a table."""
        digits, interval = self.metric_digits(score.name), self.intervals.get(score.name)
        return f"{score.value:.{digits}f}", "" if interval is None else format_interval(interval, digits)

    def bands_to_json(self) -> list[dict[str, Any]]:
        """Return BLEU by source length as JSON data."""
        return [
            {"from": band.shortest, "to": band.longest, "sentences": band.num_sentences, "bleu": band.score.value}
            for band in self.length_bands
        ]

    def _band_interval(self, band: LengthBand) -> ConfidenceInterval | None:
        """Return the BLEU interval of a length band; None if it has too few sentences."""
        longest = math.inf if band.longest is None else band.longest
        rows = [row for row, length in enumerate(self.source_lengths) if band.shortest <= length <= longest]
        if len(rows) < _MIN_SENTENCES:
            return None
        metric = CorpusBLEU(*self._select_rows(rows), **self.scoring)
        return compute_intervals({"BLEU": metric}, self.sampling)["BLEU"]


@final
@dataclass(frozen=True, repr=False)
class TranslationComparison(RunComparison):
    """Comparison of translation runs by BLEU, chrF, speed and perplexity."""

    seed_metrics: ClassVar = ("BLEU", "chrF2", "TER")

    reports: tuple[TranslationReport, ...]

    @property
    def heading(self) -> str:
        """Number of sentences and name of the test text."""
        return f"{self.run_count_text} on {self.exam.size:,} sentences of {self.exam.data_description}"

    def build_results_table(self) -> PageTable:
        """Build the table with a row for each run."""
        columns = ["run", "model", "parameters", "minutes", "train tok/s", "BLEU", *INTERVAL_COLUMNS]
        rows = []
        for report, row in zip(self.reports, self.describe_runs(), strict=True):
            seconds = _get_seconds(report)
            rows.append(
                [
                    *row,
                    format_number(report.system.required_summary.tokens_per_second, ",.0f"),
                    *report.format_score("BLEU", ".2f"),
                    *(f"{report.intervals[name].value:.2f}" for name in ("chrF2", "chrF2++")),
                    format_number(self.exam.size / seconds, ",.1f"),
                    format_number(report.answers.tokens / seconds, ",.0f"),
                    format_number(report.perplexity if self.has_same_vocabulary(report) else None, ".3f"),
                ]
            )
        return PageTable("", [*columns, "chrF2", "chrF++", "sent/s", "tok/s", "perplexity"], rows, self.collect_notes())

    def table_notes(self) -> Iterator[str]:
        """Yield explanations of the columns and their limits."""
        first, *other_reports = self.reports
        if other_reports:
            yield (
                f"p: how often chance alone makes a difference in BLEU from {first.system.name} at least this large "
                f"(paired bootstrap, {self.sampling.samples:,} samples)"
            )
        if (note := first.evaluator.tokenization_note) is not None:
            yield note
        if not all(map(self.has_same_vocabulary, other_reports)):
            yield (
                f"perplexity is per token, so it is shown only for runs with the vocabulary of {first.system.name}; "
                "tok/s also counts tokens of each run's own vocabulary"
            )
        for report in self.reports:
            for note, count in report.answers.all_notes.items():
                yield f"{report.system.name}, {count:,} of {self.exam.size:,} sentences: {note}"
        folding = [report.system.name for report in self.reports if report.answers.folds]
        if folding and len(folding) < len(self.reports) and not first.evaluator.options.lowercase:
            names = ", ".join(folding)
            yield f"{names}: writes only lowercase, but case counts here; compare fairly with --lowercase"

    def build_extra_tables(self) -> list[PageTable]:
        """Build the tables of BLEU by length, chrF and edit rates, document BLEU, learned metric and accuracies."""
        columns = [f"{_format_range(band)} ({band.num_sentences:,})" for band in self.reports[0].length_bands]
        rows = [
            [report.system.label, *(f"{length_band.score.value:.2f}" for length_band in report.length_bands)]
            for report in self.reports
        ]
        lengths = PageTable("BLEU by words in the source (sentences)", ["run", *columns], rows)
        tables = [lengths, self._build_rates_table(), *self._document_tables(), *self._judge_tables()]
        names = list(dict.fromkeys(name for report in self.reports for name in report.accuracies))
        if names:
            rows_of_accuracy = [
                [report.system.label, *_format_percents(report.accuracies, names)] for report in self.reports
            ]
            rows_of_accuracy.append(
                ["the references", *_format_percents(self.reports[0].evaluator.reference_accuracy, names)]
            )
            tables.append(PageTable("Accuracy, in percent", ["run", *names], rows_of_accuracy))
        return tables

    def draw_plots(self) -> list[str]:
        """Plot BLEU by length, and the learning curves."""
        return [self._plot_by_length(), *self.plot_loss_curves()]

    def build_json_fields(self) -> dict[str, Any]:
        """Return the scoring settings as JSON data."""
        return {
            "sentences": self.exam.size,
            "scoring": {**self.reports[0].scoring, **self.sampling_json},
            "signatures": self.reports[0].signatures,
        }

    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return scores, speed and BLEU by length of the run of a report as JSON data."""
        assert isinstance(report, TranslationReport)
        seconds, perplexity = _get_seconds(report), report.perplexity
        return {
            "bleu": asdict(report.intervals["BLEU"]),
            "chrf": asdict(report.intervals["chrF2"]),
            "chrf++": asdict(report.intervals["chrF2++"]),
            **{name.lower(): asdict(report.intervals[name]) for name in ("TER", *_EDIT_RATES)},
            "against_first": [asdict(test) for test in report.tests.values()],
            "seconds": seconds,
            "sentences_per_second": self.exam.size / seconds,
            "seconds_per_sentence": seconds / self.exam.size,
            "tokens_per_second": report.answers.tokens / seconds,
            "perplexity": perplexity if perplexity is not None and math.isfinite(perplexity) else None,
            **({"document_bleu": report.documents_to_json()} if report.document_metric is not None else {}),
            **({"judge": report.judge_to_json()} if report.evaluator.options.judge is not None else {}),
            **({"accuracy": report.accuracy_to_json()} if report.accuracies else {}),
            "bleu_by_length": [
                {**band_json, "interval": None if interval is None else asdict(interval)}
                for band_json, interval in zip(report.bands_to_json(), report.band_intervals, strict=True)
            ],
        }

    def _build_rates_table(self) -> PageTable:
        """Build the table of chrF and the edit rates with their intervals and p-values."""
        names = ("chrF2", "chrF2++", "TER", *_EDIT_RATES)
        columns = [cell for name in names for cell in (name, *INTERVAL_COLUMNS)]
        rows = [
            [report.system.label, *(cell for name in names for cell in report.format_score(name, ".2f"))]
            for report in self.reports
        ]
        return PageTable("chrF and edit rates (of which lower is better)", ["run", *columns], rows)

    def _document_tables(self) -> Iterator[PageTable]:
        """Yield the table of document BLEU, if there are documents."""
        if (metric := self.reports[0].document_metric) is not None:
            yield self._build_metric_table(
                DOCUMENT_METRIC, title=f"BLEU of {metric.num_examples:,} documents", column="BLEU"
            )

    def _judge_tables(self) -> Iterator[PageTable]:
        """Yield the table of the learned metric, if there is one."""
        if (judge := self.reports[0].evaluator.options.judge) is not None:
            yield self._build_metric_table(judge.metric_name, title=judge.metric_name, column="mean")

    def _build_metric_table(self, name: str, *, title: str, column: str) -> PageTable:
        """Build a table of one metric of each run, with its p-value against the first run; `column` is the heading of
        its values.
        """
        rows = [
            [
                report.system.label,
                f"{report.metrics[name].value:.{report.metric_digits(name)}f}",
                format_interval(report.intervals[name], report.metric_digits(name)) if name in report.intervals else "",
                format_number(report.tests[name].p_value if name in report.tests else None, ".3f"),
            ]
            for report in self.reports
        ]
        return PageTable(title, ["run", column, *INTERVAL_COLUMNS], rows)

    def _plot_by_length(self) -> str:
        """Plot BLEU by source length, without bands that are too small for an interval if at least two others
        remain.
        """
        first = self.reports[0]
        reliable = [index for index, interval in enumerate(first.band_intervals) if interval is not None]
        bands_shown = reliable if len(reliable) > 1 else range(len(first.length_bands))
        lines = [
            PlotLine(
                report.system.label,
                tuple((i, report.length_bands[index].score.value) for i, index in enumerate(bands_shown)),
                tuple(
                    (band_interval.low, band_interval.high) if (band_interval := report.band_intervals[index]) else None
                    for index in bands_shown
                ),
            )
            for report in self.reports
        ]
        return draw_line_plot(
            lines,
            title="BLEU by length",
            x_name="words in the source",
            y_name="BLEU, with its 95 % interval",
            x_ticks=[(i, _format_range(first.length_bands[index])) for i, index in enumerate(bands_shown)],
            y_include=0,
        )


def _get_seconds(report: TranslationReport) -> float:
    """Return the translation time of a report, which must be timed."""
    assert report.answers.seconds is not None, f"{report.system.name} was not timed"
    return report.answers.seconds


def _format_percents(accuracies: Mapping[str, AccuracyCounts], names: Sequence[str]) -> list[str]:
    return [format_number(accuracies[name].metric.value if name in accuracies else None, ".2f") for name in names]


def _format_range(band: LengthBand) -> str:
    """Format the lengths of a band in words."""
    return f"{band.shortest} or more" if band.longest is None else f"{band.shortest} to {band.longest}"
