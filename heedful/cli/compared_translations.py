"""What `heedful compare` found about translation runs, as text, as a page and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from heedful.cli.comparison import Compared
from heedful.cli.comparison_tables import NONE, difference_table, number, unfinished
from heedful.inspection.page import Table, html_page
from heedful.inspection.plots import Line, line_plot
from heedful.runs.facts import Facts, differences, kinds
from heedful.tasks.translation.comparison import Band, Scores, Scoring, Translated
from heedful.tasks.translation.recipe import TranslationRecipe
from heedful.version import __version__


@dataclass(frozen=True)
class Row:
    """One run."""

    facts: Facts
    recipe: TranslationRecipe
    translated: Translated
    scores: Scores

    @property
    def name(self) -> str:
        """The folder as it was named."""
        return self.facts.name

    @property
    def label(self) -> str:
        """The name, with a star where training is not finished."""
        return self.facts.label


@dataclass(frozen=True)
class ComparedTranslations(Compared):
    """Runs on one text.

    Attributes:
        rows: in the order in which they were named; the first is what the others are tested against.
        text_name: the files of the text.
        sentences: how many pairs of it count.
        scoring: how translations were scored.
        device: where they were made.
        threads: of the processor that took part.
    """

    rows: tuple[Row, ...]
    text_name: str
    sentences: int
    scoring: Scoring
    device: str
    threads: int

    @cached_property
    def kinds(self) -> list[str]:
        """The kind of each model, told apart."""
        return kinds([row.recipe for row in self.rows])

    @cached_property
    def differences(self) -> dict[str, list[Any]]:
        """Keys in which the recipes differ."""
        return differences([row.recipe for row in self.rows])

    def text(self) -> str:
        """For a terminal: plain lines, whatever its width."""
        return f"{self._heading}\n\n{self._results().text()}\n{self._by_length().text()}"

    def html(self) -> str:
        """A page that needs nothing else."""
        table = difference_table([row.name for row in self.rows], self.differences)
        tables = [self._results(), self._by_length(), *([table] if table.rows else [])]
        return html_page(self._heading, tables=tables, pictures=[self.figure(), *self._curve_plots()])

    def json(self) -> str:
        """All numbers."""
        content = {
            "heedful": __version__,
            "text": self.text_name,
            "sentences": self.sentences,
            "scoring": asdict(self.scoring),
            "signatures": list(self.rows[0].scores.signatures),
            "device": self.device,
            "threads": self.threads,
            "runs": [_record(row, kind) for row, kind in zip(self.rows, self.kinds, strict=True)],
            "differences": self.differences,
            "notes": self._notes(),
        }
        return json.dumps(content, indent=2, allow_nan=False) + "\n"

    @property
    def _heading(self) -> str:
        what = f"{len(self.rows)} runs" if len(self.rows) > 1 else "1 run"
        return f"{what} on {self.sentences:,} sentences of {self.text_name}"

    def _results(self) -> Table:
        columns = ["run", "model", "parameters", "minutes", "train tok/s", "BLEU", "95 % interval", "p", "chrF2"]
        rows = []
        for row, kind in zip(self.rows, self.kinds, strict=True):
            facts, scores = row.facts, row.scores
            rows.append(
                [
                    row.label,
                    kind,
                    f"{facts.parameters:,}",
                    number(facts.minutes, ".1f"),
                    number(facts.tokens_per_second, ",.0f"),
                    f"{scores.bleu.value:.2f}",
                    f"{scores.bleu.low:.2f} to {scores.bleu.high:.2f}",
                    f"{scores.against[0].p_value:.3f}" if scores.against else NONE,
                    f"{scores.chrf.value:.2f}",
                    number(self.sentences / row.translated.seconds, ",.1f"),
                    number(row.translated.tokens / row.translated.seconds, ",.0f"),
                    number(row.translated.perplexity if self._is_comparable(row) else None, ".3f"),
                ]
            )
        return Table("", [*columns, "sent/s", "tok/s", "perplexity"], rows, self._notes())

    def _is_comparable(self, row: Row) -> bool:
        return row.facts.vocabulary == self.rows[0].facts.vocabulary

    def _notes(self) -> list[str]:
        first, *others = self.rows
        notes = list(unfinished([row.facts for row in self.rows]))
        if others:
            notes.append(
                f"p: how often chance alone makes a difference in BLEU from {first.name} at least this large "
                f"(paired bootstrap, {self.scoring.samples:,} samples)"
            )
        if not all(map(self._is_comparable, others)):
            notes.append(
                f"perplexity is per token, so it is shown only for runs with the vocabulary of {first.name}; "
                "tok/s too counts tokens of each run's own vocabulary"
            )
        folding = [row.recipe.tokenizer.lowercase for row in self.rows]
        if any(folding) and not all(folding) and not self.scoring.lowercase:
            names = ", ".join(row.name for row, folds in zip(self.rows, folding, strict=True) if folds)
            notes.append(f"{names}: writes lowercase only, and case counts here; compare fairly with --lowercase")
        if besides := [key for key in self.differences if not key.startswith("model.")]:
            notes.append(f"besides the model, the recipes differ in {', '.join(besides)}")
        return notes

    def _by_length(self) -> Table:
        columns = [f"{_range(band)} ({band.sentences:,})" for band in self.rows[0].scores.bands]
        rows = [[row.label, *(f"{band.bleu:.2f}" for band in row.scores.bands)] for row in self.rows]
        return Table("BLEU by words in the source (sentences)", ["run", *columns], rows)

    def figure(self) -> str:
        """BLEU by the length of the source, as SVG; bands too small for an interval are left out if two others stay."""
        bands = list(enumerate(self.rows[0].scores.bands))
        sure = [place for place, band in bands if band.interval is not None]
        shown = sure if len(sure) > 1 else [place for place, _ in bands]
        lines = [Line(row.label, *_points([row.scores.bands[place] for place in shown])) for row in self.rows]
        ticks = [(i, _range(bands[place][1])) for i, place in enumerate(shown)]
        return line_plot(
            lines,
            title="BLEU by length",
            x_name="words in the source",
            y_name="BLEU, with its 95 % interval",
            x_ticks=ticks,
            y_from=0,
        )

    def _curve_plots(self) -> list[str]:
        """Two for each group of runs whose losses are of the same tokens."""
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            validation = row.recipe.data.validation.model_dump_json()
            groups.setdefault((row.facts.vocabulary, validation), []).append(row)
        return [
            plot
            for rows in groups.values()
            if any(row.facts.curve for row in rows)
            for plot in _curves(rows, alone=len(groups) == 1)
        ]


def _points(
    bands: Sequence[Band],
) -> tuple[tuple[tuple[int, float], ...], tuple[tuple[float, float] | None, ...]]:
    """Each band's BLEU, and its interval."""
    spread = tuple((band.interval.low, band.interval.high) if band.interval else None for band in bands)
    return tuple((i, band.bleu) for i, band in enumerate(bands)), spread


def _curves(rows: Sequence[Row], *, alone: bool) -> list[str]:
    by_minutes = [Line(row.label, tuple((p.minutes, p.loss) for p in row.facts.curve)) for row in rows]
    by_updates = [Line(row.label, tuple((float(p.step), p.loss) for p in row.facts.curve)) for row in rows]
    whose = "" if alone else f" with the vocabulary and the validation text of {rows[0].name}"
    return [
        line_plot(
            lines, title=f"Validation loss by {unit}{whose}", x_name=f"{unit} of training", y_name="nats per token"
        )
        for unit, lines in (("minutes", by_minutes), ("updates", by_updates))
    ]


def _record(row: Row, kind: str) -> dict[str, Any]:
    facts, found, scores = row.facts, row.translated, row.scores
    seconds = found.seconds
    return {
        "run": row.name,
        "model": kind,
        "finished": facts.finished,
        "step": facts.step,
        "parameters": facts.parameters,
        "minutes": facts.minutes,
        "training_tokens_per_second": facts.tokens_per_second,
        "bleu": asdict(scores.bleu),
        "chrf": asdict(scores.chrf),
        "against_first": [asdict(comparison) for comparison in scores.against],
        "seconds": seconds,
        "sentences_per_second": len(found.texts) / seconds,
        "seconds_per_sentence": seconds / len(found.texts),
        "tokens_per_second": found.tokens / seconds,
        "vocabulary": facts.vocabulary,
        "perplexity": found.perplexity if math.isfinite(found.perplexity) else None,
        "bleu_by_length": [
            {
                "from": band.shortest,
                "to": band.longest,
                "sentences": band.sentences,
                "bleu": band.bleu,
                "interval": None if band.interval is None else asdict(band.interval),
            }
            for band in scores.bands
        ],
        "curve": [asdict(point) for point in facts.curve],
    }


def _range(band: Band) -> str:
    return f"{band.shortest} or more" if band.longest is None else f"{band.shortest} to {band.longest}"
