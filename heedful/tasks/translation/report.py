"""How translations and runs that translate are told of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, final

from heedful.inspection.page import Table
from heedful.inspection.plots import Line, line_plot
from heedful.metrics.bootstrap import Interval, intervals
from heedful.metrics.counted import CorpusBLEU
from heedful.metrics.metric import Metric
from heedful.metrics.report import Report as Scored
from heedful.metrics.report import evaluate
from heedful.metrics.translation import bleu, bleu_by_length, chrf
from heedful.tasks.report import Comparison, Report, number, span
from heedful.tasks.translation.exam import Translated, TranslationExam

_FEWEST: Final = 10
"""Sentences that an interval of BLEU needs at the least to mean anything."""


@dataclass(frozen=True)
class Band:
    """BLEU of the sentences whose source has `shortest` to `longest` words; no interval for fewer than ten."""

    shortest: int
    longest: int | None
    sentences: int
    bleu: float
    interval: Interval | None

    @property
    def range(self) -> str:
        """Its words."""
        return f"{self.shortest} or more" if self.longest is None else f"{self.shortest} to {self.longest}"


@final
@dataclass(frozen=True)
class TranslationReport(Report):
    """sacrebleu's scores with signatures; intervals and tests of BLEU and chrF."""

    digits: ClassVar = 2

    exam: TranslationExam
    answers: Translated

    @property
    def resampled(self) -> Mapping[str, Metric]:
        """BLEU and chrF."""
        return {name: self.metrics[name] for name in ("BLEU", "chrF2")}

    @property
    def perplexity(self) -> float | None:
        """Of the references, per token."""
        return self.metrics["perplexity"].value if "perplexity" in self.metrics else None

    @cached_property
    def scored(self) -> Scored:
        """As sacrebleu says it."""
        return evaluate(
            self.answers.texts,
            self.exam.references,
            sources=[pair.source for pair in self.exam.pairs],
            lowercase=self.exam.asking.lowercase,
            tokenize=self.exam.asking.tokenize,
            samples=self.sampling.samples,
            seed=self.sampling.seed,
        )

    @cached_property
    def signatures(self) -> list[str]:
        """Of BLEU and chrF, as sacrebleu writes them."""
        texts, references, lowercase = self.answers.texts[:1], self.exam.references[:1], self.exam.asking.lowercase
        found = bleu(texts, references, lowercase=lowercase, tokenize=self.exam.asking.tokenize)
        return [found.signature, chrf(texts, references, lowercase=lowercase).signature]

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        """BLEU by words in the source."""
        return tuple(self._bands())

    def text(self) -> str:
        """A line for each score."""
        took = f", translated in {self.answers.seconds:.1f} s" if self.answers.seconds is not None else ""
        width = max(len(score.name) for score in self.scored.scores)
        known = {interval.name: interval for interval in self.scored.intervals}
        lines = [f"{self.system.name}: {self.exam.size:,} sentences{took}", ""]
        lines.append(f"{'metric':<{width}}  {'value':>7}  {'95 % interval':<16}  signature")
        for score in self.scored.scores:
            shown = span(known[score.name], 2) if score.name in known else ""
            lines.append(f"{score.name:<{width}}  {score.value:>7.2f}  {shown:<16}  {score.signature}")
        if self.perplexity is not None:
            lines.append(f"{'perplexity':<{width}}  {self.perplexity:>7.3f}  {'':<16}  of the references, per token")
        lines += ["", "BLEU by words in the source"]
        for band in self.scored.bands:
            end = f"to {band.longest}" if band.longest is not None else "or more"
            lines.append(f"  {band.shortest:>3} {end:<8} {band.score.value:6.2f}  ({band.sentences:,} sentences)")
        return "\n".join(lines)

    def content(self) -> dict[str, Any]:
        """The same with all there is."""
        return {
            "sentences": self.exam.size,
            "seconds": self.answers.seconds,
            "perplexity": self.perplexity,
            "scores": [asdict(score) for score in self.scored.scores],
            "intervals": [asdict(interval) for interval in self.scored.intervals],
            "bleu_by_length": [
                {"from": b.shortest, "to": b.longest, "sentences": b.sentences, "bleu": b.score.value}
                for b in self.scored.bands
            ],
        }

    def _bands(self) -> Iterator[Band]:
        texts, references = self.answers.texts, self.exam.references
        lengths = [len(pair.source.split()) for pair in self.exam.pairs]
        lowercase, tokenize = self.exam.asking.lowercase, self.exam.asking.tokenize
        bands = bleu_by_length(
            texts, references, lengths, metric=lambda h, r: bleu(h, r, lowercase=lowercase, tokenize=tokenize)
        )
        for band in bands:
            rows = [
                i for i, n in enumerate(lengths) if n >= band.shortest and (band.longest is None or n <= band.longest)
            ]
            interval = None
            if len(rows) >= _FEWEST:
                own, other = ([lines[i] for i in rows] for lines in (texts, references))
                metric = CorpusBLEU(own, other, lowercase=lowercase, tokenize=tokenize)
                interval = intervals({"BLEU": metric}, self.sampling)["BLEU"]
            yield Band(band.shortest, band.longest, band.sentences, band.score.value, interval)


@final
@dataclass(frozen=True)
class TranslationComparison(Comparison):
    """BLEU, chrF, speed and perplexity."""

    reports: tuple[TranslationReport, ...]

    @property
    def heading(self) -> str:
        """How much of which text."""
        what = f"{len(self.reports)} runs" if len(self.reports) > 1 else "1 run"
        return f"{what} on {self.exam.size:,} sentences of {self.exam.text}"

    def results(self) -> Table:
        """A row for each run."""
        columns = ["run", "model", "parameters", "minutes", "train tok/s", "BLEU", "95 % interval", "p", "chrF2"]
        rows = []
        for report, kind in zip(self.reports, self.kinds, strict=True):
            facts, found, test = report.system.told, report.intervals["BLEU"], report.tests.get("BLEU")
            seconds = _seconds(report)
            rows.append(
                [
                    report.system.label,
                    kind,
                    f"{facts.parameters:,}",
                    number(facts.minutes, ".1f"),
                    number(facts.tokens_per_second, ",.0f"),
                    f"{found.value:.2f}",
                    span(found, 2),
                    number(test.p_value if test else None, ".3f"),
                    f"{report.intervals['chrF2'].value:.2f}",
                    number(self.exam.size / seconds, ",.1f"),
                    number(report.answers.tokens / seconds, ",.0f"),
                    number(report.perplexity if self.is_alike(report) else None, ".3f"),
                ]
            )
        return Table("", [*columns, "sent/s", "tok/s", "perplexity"], rows, self.notes())

    def remarks(self) -> Iterator[str]:
        """What the columns mean, and whom they do not do justice."""
        first, *others = self.reports
        if others:
            yield (
                f"p: how often chance alone makes a difference in BLEU from {first.system.name} at least this large "
                f"(paired bootstrap, {self.sampling.samples:,} samples)"
            )
        if not all(map(self.is_alike, others)):
            yield (
                f"perplexity is per token, so it is shown only for runs with the vocabulary of {first.system.name}; "
                "tok/s too counts tokens of each run's own vocabulary"
            )
        folding = [report.system.name for report in self.reports if report.answers.folds]
        if folding and len(folding) < len(self.reports) and not first.exam.asking.lowercase:
            names = ", ".join(folding)
            yield f"{names}: writes lowercase only, and case counts here; compare fairly with --lowercase"

    def tables(self) -> list[Table]:
        """BLEU by length."""
        columns = [f"{band.range} ({band.sentences:,})" for band in self.reports[0].bands]
        rows = [[report.system.label, *(f"{band.bleu:.2f}" for band in report.bands)] for report in self.reports]
        return [Table("BLEU by words in the source (sentences)", ["run", *columns], rows)]

    def pictures(self) -> list[str]:
        """BLEU by length, and how the runs learned."""
        return [self._by_length(), *self.curves()]

    def content(self) -> dict[str, Any]:
        """How translations were scored."""
        asking = self.reports[0].exam.asking
        return {
            "sentences": self.exam.size,
            "scoring": {
                "lowercase": asking.lowercase,
                "tokenize": asking.tokenize,
                "samples": self.sampling.samples,
                "seed": self.sampling.seed,
            },
            "signatures": self.reports[0].signatures,
        }

    def record(self, report: Report) -> dict[str, Any]:
        """Scores, speed, and BLEU by length."""
        assert isinstance(report, TranslationReport)
        seconds, perplexity = _seconds(report), report.perplexity
        return {
            "bleu": asdict(report.intervals["BLEU"]),
            "chrf": asdict(report.intervals["chrF2"]),
            "against_first": [asdict(test) for test in report.tests.values()],
            "seconds": seconds,
            "sentences_per_second": self.exam.size / seconds,
            "seconds_per_sentence": seconds / self.exam.size,
            "tokens_per_second": report.answers.tokens / seconds,
            "perplexity": perplexity if perplexity is not None and math.isfinite(perplexity) else None,
            "bleu_by_length": [
                {
                    "from": band.shortest,
                    "to": band.longest,
                    "sentences": band.sentences,
                    "bleu": band.bleu,
                    "interval": None if band.interval is None else asdict(band.interval),
                }
                for band in report.bands
            ],
        }

    def _by_length(self) -> str:
        """Bands that are too small for an interval are left out if two others stay."""
        bands = list(enumerate(self.reports[0].bands))
        sure = [place for place, band in bands if band.interval is not None]
        shown = sure if len(sure) > 1 else [place for place, _ in bands]
        lines = [
            Line(report.system.label, *_points([report.bands[place] for place in shown])) for report in self.reports
        ]
        return line_plot(
            lines,
            title="BLEU by length",
            x_name="words in the source",
            y_name="BLEU, with its 95 % interval",
            x_ticks=[(i, bands[place][1].range) for i, place in enumerate(shown)],
            y_from=0,
        )


def _seconds(report: TranslationReport) -> float:
    assert report.answers.seconds is not None, f"{report.system.name} was not timed"
    return report.answers.seconds


def _points(
    bands: Sequence[Band],
) -> tuple[tuple[tuple[int, float], ...], tuple[tuple[float, float] | None, ...]]:
    """Each band's BLEU, and its interval."""
    spread = tuple((band.interval.low, band.interval.high) if band.interval else None for band in bands)
    return tuple((i, band.bleu) for i, band in enumerate(bands)), spread
