"""All there is to say about a set of translations, at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from heedful.given_texts import text_list
from heedful.metrics.bootstrap import Interval, Sampling, intervals
from heedful.metrics.counted import CorpusBLEU, CorpusChrF, CorpusTER
from heedful.metrics.deck_bleu import bleu_deck
from heedful.metrics.translation import (
    LengthBand,
    Score,
    bleu,
    bleu_by_length,
    check_pairs,
    chrf,
    exact_match,
    ter,
    tokenizer_for,
)


@dataclass(frozen=True, repr=False)
class Report:
    """Scores with signatures, confidence intervals of all but the last two, and BLEU by words in the source.

    Attributes:
        scores: BLEU, chrF, chrF++, TER, exact match, and the lecture's variant of BLEU.
        intervals: of BLEU, chrF, chrF++ and TER, over resampled corpora.
        bands: BLEU by source length, where the sources are known.
    """

    scores: tuple[Score, ...]
    intervals: tuple[Interval, ...]
    bands: tuple[LengthBand, ...]

    def __repr__(self) -> str:
        cells = [("metric", "value", "95 % interval", "signature"), *self._rows()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join(
            f"{name:<{widths[0]}}  {value:>{widths[1]}}  {span:<{widths[2]}}  {signature}"
            for name, value, span, signature in cells
        )

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("metric", "value", "95 % interval", "signature"))
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in self._rows())
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    def _rows(self) -> list[tuple[str, str, str, str]]:
        """A row for each score, then one for each band of lengths."""
        known = {interval.name: f"{interval.low:.2f} to {interval.high:.2f}" for interval in self.intervals}
        rows = [(each.name, f"{each.value:.2f}", known.get(each.name, ""), each.signature) for each in self.scores]
        for band in self.bands:
            longest = f" to {band.longest}" if band.longest is not None else " or more"
            named = f"{band.score.name}, {band.shortest}{longest} words"
            rows.append((named, f"{band.score.value:.2f}", "", f"{band.sentences:,} sentences"))
        return rows

    @property
    def bleu(self) -> float:
        """The value of BLEU, 0 to 100."""
        return self.scores[0].value


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    sources: Sequence[str] = (),
    lowercase: bool = False,
    tokenize: str | None = None,
    samples: int = 1000,
    seed: int = 1,
) -> Report:
    """Scores detokenized translations against references; a single text is a list of one.

    Without `tokenize` BLEU cuts words as the language of the references wants.

    Raises:
        DataError: no sentences, an element that is not a string, or lists of different length.
        RecipeError: no such BLEU tokenizer, or fewer than 2 samples.

    >>> import heedful
    >>> round(heedful.evaluate(["ein Hund rennt schnell"], ["ein Hund rennt schnell"]).bleu)
    100
    """
    hypotheses = text_list(hypotheses, name="hypotheses")
    references = text_list(references, name="references")
    sources = text_list(sources, name="sources")
    if tokenize is None:
        check_pairs(hypotheses, references)
        tokenize = tokenizer_for(references)
    scores = scored(hypotheses, references, lowercase=lowercase, tokenize=tokenize)
    metrics = {
        "BLEU": CorpusBLEU(hypotheses, references, lowercase=lowercase, tokenize=tokenize),
        "chrF2": CorpusChrF(hypotheses, references, lowercase=lowercase),
        "chrF2++": CorpusChrF(hypotheses, references, lowercase=lowercase, word_order=2),
        "TER": CorpusTER(hypotheses, references, lowercase=lowercase),
    }
    bands: tuple[LengthBand, ...] = ()
    if sources:
        bands = bleu_by_length(
            hypotheses,
            references,
            [len(source.split()) for source in sources],
            metric=lambda h, r: bleu(h, r, lowercase=lowercase, tokenize=tokenize),
        )
    found = intervals(metrics, Sampling(samples, seed))
    return Report(scores, tuple(found.values()), bands)


def scored(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a"
) -> tuple[Score, ...]:
    """BLEU, chrF, chrF++, TER, exact match, and the lecture's variant of BLEU; raises as `evaluate` does."""
    return (
        bleu(hypotheses, references, lowercase=lowercase, tokenize=tokenize),
        chrf(hypotheses, references, lowercase=lowercase),
        chrf(hypotheses, references, lowercase=lowercase, word_order=2),
        ter(hypotheses, references, lowercase=lowercase),
        exact_match(hypotheses, references, lowercase=lowercase),
        bleu_deck(hypotheses, references, lowercase=lowercase),
    )
