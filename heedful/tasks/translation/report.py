"""How translations and runs that translate are told of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any, ClassVar, Final, final

from heedful.data.nearest import Resemblance, Tick, resemblance
from heedful.errors import DataError
from heedful.inspection.page import Table, page_text
from heedful.inspection.plots import Line, line_plot
from heedful.metrics.bootstrap import Interval, intervals
from heedful.metrics.counted import CorpusBLEU
from heedful.metrics.metric import Metric
from heedful.metrics.report import scored
from heedful.metrics.translation import LengthBand, Score, bleu, bleu_by_length, words_note
from heedful.tasks.report import Comparison, Report, number, span
from heedful.tasks.translation.accuracy import Share
from heedful.tasks.translation.cases import Cases
from heedful.tasks.translation.error_page import error_page, shown
from heedful.tasks.translation.exam import DOCUMENTS, Translated, TranslationExam
from heedful.version import __version__

_FINE: Final = 4
"""Digits behind the point of what a judge says: some judges' scores are all from 0 to 1."""
_RATES: Final[Mapping[str, str]] = {"WER": "words", "CER": "characters"}
"""Rates of edits, and of what."""
_FEWEST: Final = 10
"""Sentences that an interval of BLEU needs at the least to mean anything."""


@final
@dataclass(frozen=True, repr=False)
class TranslationReport(Report):
    """sacrebleu's scores with signatures, a judge's, and what is counted; intervals and tests of that, BLEU, chrF,
    chrF++ and the rates of edits.
    """

    digits: ClassVar = 2

    exam: TranslationExam
    answers: Translated

    @property
    def resampled(self) -> Mapping[str, Metric]:
        """BLEU, chrF and chrF++; TER, WER and CER; what a judge says; BLEU of documents, where there are some; what is
        counted.
        """
        metrics = {name: self.metrics[name] for name in ("BLEU", "chrF2", "chrF2++", "TER", *_RATES, *self._judged)}
        if self.documents is not None and self.documents.examples >= _FEWEST:
            metrics[DOCUMENTS] = self.documents
        return metrics | {name: self.metrics[name] for name in self.shares}

    @property
    def documents(self) -> Metric | None:
        """BLEU of documents; None where nothing tells these from sentences, or from each other."""
        return self.metrics.get(DOCUMENTS)

    @cached_property
    def shares(self) -> Mapping[str, Share]:
        """Terms, numbers and contrasts that are right; none where there are none."""
        return self.exam.shares(self.answers)

    @property
    def perplexity(self) -> float | None:
        """Of the references, per token."""
        return self.metrics["perplexity"].value if "perplexity" in self.metrics else None

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """As sacrebleu says it; what a judge says."""
        asking = self.exam.asking
        found = scored(
            self.answers.texts, self.exam.references, lowercase=asking.lowercase, tokenize=self.exam.tokenize
        )
        return (*found, *self._judged.values())

    @cached_property
    def _judged(self) -> Mapping[str, Score]:
        """What a judge says, by its title; none where there is none."""
        asking = self.exam.asking
        if asking.judge is None:
            return {}
        title, case = asking.judge.title, "lc" if asking.lowercase else "mixed"
        signature = f"{asking.judge.signature}|case:{case}|version:{__version__}"
        return {title: Score(title, self.metrics[title].value, signature)}

    def places(self, name: str) -> int:
        """Of percents fewer than of what a judge says."""
        return _FINE if name in self._judged else self.digits

    @cached_property
    def signatures(self) -> list[str]:
        """Of BLEU, chrF, chrF++ and TER, as sacrebleu writes them, and of a judge."""
        asking = self.exam.asking
        found = scored(
            self.answers.texts[:1], self.exam.references[:1], lowercase=asking.lowercase, tokenize=self.exam.tokenize
        )
        return [score.signature for score in (*found, *self._judged.values()) if score.name in self.resampled]

    @cached_property
    def error_rates(self) -> dict[str, float]:
        """Edits of words and of characters, in percent of those of the references."""
        return {name: self.metrics[name].value for name in _RATES}

    @cached_property
    def lengths(self) -> list[int]:
        """Words in each source."""
        return [len(pair.source.split()) for pair in self.exam.pairs]

    @cached_property
    def bands(self) -> tuple[LengthBand, ...]:
        """BLEU by words in the source."""
        asking = self.exam.asking
        score = partial(bleu, lowercase=asking.lowercase, tokenize=self.exam.tokenize)
        return bleu_by_length(self.answers.texts, self.exam.references, self.lengths, metric=score)

    @cached_property
    def by_text(self) -> Mapping[str, tuple[int, float]]:
        """Of each text that the exam is made of: its sentences, and BLEU; none where there is one text."""
        asking, found = self.exam.asking, {}
        for name in dict.fromkeys(self.exam.names):
            rows = [row for row, each in enumerate(self.exam.names) if each == name]
            own, other = ([lines[row] for row in rows] for lines in (self.answers.texts, self.exam.references))
            found[name] = len(rows), bleu(own, other, lowercase=asking.lowercase, tokenize=self.exam.tokenize).value
        return found

    @cached_property
    def band_intervals(self) -> list[Interval | None]:
        """Of the BLEU of each band; None for fewer than ten sentences."""
        return [self._interval(band) for band in self.bands]

    def text(self) -> str:
        """A line for each score."""
        took = f", translated in {self.answers.seconds:.1f} s" if self.answers.seconds is not None else ""
        width = max(len(score.name) for score in self.scores)
        lines = [f"{self.system.name}: {self.exam.size:,} sentences{took}", ""]
        lines.append(f"{'metric':<{width}}  {'value':>7}  {'95 % interval':<16}  signature")
        for score in self.scores:
            value, interval = self._cells(score)
            lines.append(f"{score.name:<{width}}  {value:>7}  {interval:<16}  {score.signature}")
        for name, what in _RATES.items():
            rate, interval = self.error_rates[name], span(self.intervals[name], 2)
            lines.append(f"{name:<{width}}  {rate:>7.2f}  {interval:<16}  edits per 100 {what} of the references")
        if self.perplexity is not None:
            lines.append(f"{'perplexity':<{width}}  {self.perplexity:>7.3f}  {'':<16}  of the references, per token")
        if self.documents is not None:
            shown = span(self.intervals[DOCUMENTS], 2) if DOCUMENTS in self.intervals else ""
            told = f"of {self.documents.examples:,} documents, their sentences joined"
            lines.append(f"{DOCUMENTS:<{width}}  {self.documents.value:>7.2f}  {shown:<16}  {told}")
        note = words_note(self.exam.references, tokenize=self.exam.tokenize)
        lines += [] if note is None else [note]
        lines += [f"{count:,} of {self.exam.size:,} sentences: {note}" for note, count in self.answers.told.items()]
        if self.shares:
            lines += ["", self._accuracy().text().rstrip()]
        if self.by_text:
            lines += ["", "BLEU by text"]
            width = max(map(len, self.by_text))
            lines += [f"  {name:<{width}} {value:6.2f}  ({n:,} sentences)" for name, (n, value) in self.by_text.items()]
        lines += ["", "BLEU by words in the source"]
        for band in self.bands:
            end = f"to {band.longest}" if band.longest is not None else "or more"
            lines.append(f"  {band.shortest:>3} {end:<8} {band.score.value:6.2f}  ({band.sentences:,} sentences)")
        return "\n".join(lines)

    def content(self) -> dict[str, Any]:
        """The same with all there is."""
        return {
            "sentences": self.exam.size,
            "seconds": self.answers.seconds,
            "perplexity": self.perplexity,
            "scores": [asdict(score) for score in self.scores],
            "intervals": [asdict(found) for name, found in self.intervals.items() if name not in self.shares],
            "error_rates": self.error_rates,
            "bleu_by_length": self.banded(),
            **({"judge": self.judged() | {"scores": self.exam.judged(self.answers)}} if self._judged else {}),
            **({"accuracy": self.accuracy()} if self.shares else {}),
            **({"bleu_by_text": {name: value for name, (_, value) in self.by_text.items()}} if self.by_text else {}),
            **({"document_bleu": self.of_documents()} if self.documents is not None else {}),
            "notes": dict(self.answers.told),
        }

    def judged(self) -> dict[str, Any]:
        """What the judge says of all sentences, with its signature, as JSON has it; there must be one."""
        (score,) = self._judged.values()
        return {**asdict(self.intervals[score.name]), "signature": score.signature}

    def of_documents(self) -> dict[str, Any]:
        """BLEU of documents, as JSON has it."""
        assert self.documents is not None, "there are documents"
        return {"documents": self.documents.examples, "bleu": self.documents.value}

    def accuracy(self) -> list[dict[str, Any]]:
        """Terms, numbers and contrasts that are right, as JSON has it, beside what the references reach."""
        return [
            {
                **asdict(self.intervals[name]),
                "right": int(share.found.sum()),
                "of": int(share.of.sum()),
                "references": self.exam.attainable[name].metric.value if name in self.exam.attainable else None,
            }
            for name, share in self.shares.items()
        ]

    def _accuracy(self) -> Table:
        columns = ["accuracy", "percent", "95 % interval", "right", "of", "references"]
        rows = [
            [
                each["name"],
                f"{each['value']:.2f}",
                span(self.intervals[each["name"]], 2),
                f"{each['right']:,}",
                f"{each['of']:,}",
                number(each["references"], ".2f"),
            ]
            for each in self.accuracy()
        ]
        unread = sum(answer is None for answer in self.answers.contrasts)
        return Table("", columns, rows, [f"contrasts that are longer than the model reads: {unread:,}"] * bool(unread))

    def page(self, tick: Tick = lambda _, __: None) -> str:
        """The translations that are worth reading, with text for training that resembles their sources."""
        cases = Cases(self.exam, self.answers)
        rows = [[each.name, *self._cells(each)] for each in self.scores]
        training, notes = self._training([each.pair.source for each in shown(cases)], tick)
        return error_page(
            cases,
            title=f"Translations by {self.system.name} of {self.exam.size:,} sentences",
            scores=Table("", ["metric", "value", "95 % interval"], rows, [f"measured on {self.exam.text}"]),
            training=training,
            notes=notes,
        )

    def _training(self, sentences: Sequence[str], tick: Tick) -> tuple[Resemblance | None, Sequence[str]]:
        """What the run learned from has of some sentences, or why that cannot be told."""
        if self.system.facts is None:
            return None, ["No run says what the system learned from, so no text is shown beside its sentences."]
        data = self.system.facts.recipe.data
        try:
            return resemblance(sentences, lambda: chain(*data.readers("train").values()), tick=tick), ()
        except DataError as error:
            return None, [page_text(f"No text for training is shown beside the sentences: {error}.")]

    def _cells(self, score: Score) -> tuple[str, str]:
        """Value and interval, as a table shows them."""
        places, found = self.places(score.name), self.intervals.get(score.name)
        return f"{score.value:.{places}f}", "" if found is None else span(found, places)

    def banded(self) -> list[dict[str, Any]]:
        """BLEU by words in the source, as JSON has it."""
        return [
            {"from": b.shortest, "to": b.longest, "sentences": b.sentences, "bleu": b.score.value} for b in self.bands
        ]

    def _interval(self, band: LengthBand) -> Interval | None:
        last = math.inf if band.longest is None else band.longest
        rows = [i for i, n in enumerate(self.lengths) if band.shortest <= n <= last]
        if len(rows) < _FEWEST:
            return None
        own, other = ([lines[i] for i in rows] for lines in (self.answers.texts, self.exam.references))
        asking = self.exam.asking
        metric = CorpusBLEU(own, other, lowercase=asking.lowercase, tokenize=self.exam.tokenize)
        return intervals({"BLEU": metric}, self.sampling)["BLEU"]


@final
@dataclass(frozen=True, repr=False)
class TranslationComparison(Comparison):
    """BLEU, chrF, speed and perplexity."""

    reports: tuple[TranslationReport, ...]

    @property
    def heading(self) -> str:
        """How much of which text."""
        return f"{self.counted} on {self.exam.size:,} sentences of {self.exam.text}"

    def results(self) -> Table:
        """A row for each run."""
        columns = ["run", "model", "parameters", "minutes", "train tok/s", "BLEU", "95 % interval", "p"]
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
                    *(f"{report.intervals[name].value:.2f}" for name in ("chrF2", "chrF2++")),
                    number(self.exam.size / seconds, ",.1f"),
                    number(report.answers.tokens / seconds, ",.0f"),
                    number(report.perplexity if self.is_alike(report) else None, ".3f"),
                ]
            )
        return Table("", [*columns, "chrF2", "chrF++", "sent/s", "tok/s", "perplexity"], rows, self.notes())

    def remarks(self) -> Iterator[str]:
        """What the columns mean, and whom they do not do justice."""
        first, *others = self.reports
        if others:
            yield (
                f"p: how often chance alone makes a difference in BLEU from {first.system.name} at least this large "
                f"(paired bootstrap, {self.sampling.samples:,} samples)"
            )
        if (note := words_note(first.exam.references, tokenize=first.exam.tokenize)) is not None:
            yield note
        if not all(map(self.is_alike, others)):
            yield (
                f"perplexity is per token, so it is shown only for runs with the vocabulary of {first.system.name}; "
                "tok/s too counts tokens of each run's own vocabulary"
            )
        for report in self.reports:
            for note, count in report.answers.told.items():
                yield f"{report.system.name}, {count:,} of {self.exam.size:,} sentences: {note}"
        folding = [report.system.name for report in self.reports if report.answers.folds]
        if folding and len(folding) < len(self.reports) and not first.exam.asking.lowercase:
            names = ", ".join(folding)
            yield f"{names}: writes lowercase only, and case counts here; compare fairly with --lowercase"

    def tables(self) -> list[Table]:
        """BLEU by length and of documents, what a judge says, and what is counted."""
        columns = [f"{_range(band)} ({band.sentences:,})" for band in self.reports[0].bands]
        rows = [[report.system.label, *(f"{b.score.value:.2f}" for b in report.bands)] for report in self.reports]
        lengths = Table("BLEU by words in the source (sentences)", ["run", *columns], rows)
        tables = [lengths, *self._of_documents(), *self._judged()]
        names = list(dict.fromkeys(name for report in self.reports for name in report.shares))
        if names:
            counted = [[report.system.label, *_percents(report.shares, names)] for report in self.reports]
            counted.append(["the references", *_percents(self.reports[0].exam.attainable, names)])
            tables.append(Table("Accuracy, in percent", ["run", *names], counted))
        return tables

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
                "tokenize": self.reports[0].exam.tokenize,
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
            "chrf++": asdict(report.intervals["chrF2++"]),
            **{name.lower(): asdict(report.intervals[name]) for name in ("TER", *_RATES)},
            "against_first": [asdict(test) for test in report.tests.values()],
            "seconds": seconds,
            "sentences_per_second": self.exam.size / seconds,
            "seconds_per_sentence": seconds / self.exam.size,
            "tokens_per_second": report.answers.tokens / seconds,
            "perplexity": perplexity if perplexity is not None and math.isfinite(perplexity) else None,
            **({"document_bleu": report.of_documents()} if report.documents is not None else {}),
            **({"judge": report.judged()} if report.exam.asking.judge is not None else {}),
            **({"accuracy": report.accuracy()} if report.shares else {}),
            "bleu_by_length": [
                {**band, "interval": None if interval is None else asdict(interval)}
                for band, interval in zip(report.banded(), report.band_intervals, strict=True)
            ],
        }

    def _of_documents(self) -> Iterator[Table]:
        """BLEU of documents, where there are some."""
        if (metric := self.reports[0].documents) is not None:
            yield self._tested(DOCUMENTS, title=f"BLEU of {metric.examples:,} documents", column="BLEU")

    def _judged(self) -> Iterator[Table]:
        """What a judge says, where there is one."""
        if (judge := self.reports[0].exam.asking.judge) is not None:
            yield self._tested(judge.title, title=judge.title, column="mean")

    def _tested(self, name: str, *, title: str, column: str) -> Table:
        """One metric of each run, beside that of the first."""
        rows = [
            [
                report.system.label,
                f"{report.metrics[name].value:.{report.places(name)}f}",
                span(report.intervals[name], report.places(name)) if name in report.intervals else "",
                number(report.tests[name].p_value if name in report.tests else None, ".3f"),
            ]
            for report in self.reports
        ]
        return Table(title, ["run", column, "95 % interval", "p"], rows)

    def _by_length(self) -> str:
        """Bands that are too small for an interval are left out if two others stay."""
        first = self.reports[0]
        sure = [place for place, interval in enumerate(first.band_intervals) if interval is not None]
        shown = sure if len(sure) > 1 else range(len(first.bands))
        lines = [
            Line(
                report.system.label,
                tuple((i, report.bands[place].score.value) for i, place in enumerate(shown)),
                tuple((each.low, each.high) if (each := report.band_intervals[place]) else None for place in shown),
            )
            for report in self.reports
        ]
        return line_plot(
            lines,
            title="BLEU by length",
            x_name="words in the source",
            y_name="BLEU, with its 95 % interval",
            x_ticks=[(i, _range(first.bands[place])) for i, place in enumerate(shown)],
            y_from=0,
        )


def _seconds(report: TranslationReport) -> float:
    assert report.answers.seconds is not None, f"{report.system.name} was not timed"
    return report.answers.seconds


def _percents(shares: Mapping[str, Share], names: Sequence[str]) -> list[str]:
    return [number(shares[name].metric.value if name in shares else None, ".2f") for name in names]


def _range(band: LengthBand) -> str:
    """Its words."""
    return f"{band.shortest} or more" if band.longest is None else f"{band.shortest} to {band.longest}"
