"""Report of all metrics of a set of translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from heedful.argument_checks import to_text_list
from heedful.metrics.metric import BootstrapOptions, ConfidenceInterval, compute_intervals
from heedful.metrics.translation import (
    LengthBand,
    MetricScore,
    References,
    bleu,
    bleu_by_length,
    check_pairs,
    chrf,
    exact_match,
    list_references,
    select_bleu_tokenizer,
    ter,
)
from heedful.metrics.weighted_sacrebleu import CorpusBLEU, CorpusChrF, CorpusTER, deck_bleu


@dataclass(frozen=True, repr=False)
class MetricsReport:
    """Scores with signatures, confidence intervals of all but the last two, and BLEU by source length.

    Attributes:
        scores: BLEU, chrF, chrF++, TER, exact match, and the lecture's variant of BLEU.
        intervals: of BLEU, chrF, chrF++ and TER, over resampled corpora.
        bands: BLEU by source length, if the sources are known.
    """

    scores: tuple[MetricScore, ...]
    intervals: tuple[ConfidenceInterval, ...]
    bands: tuple[LengthBand, ...]

    def __repr__(self) -> str:
        cells = [("metric", "value", "95 % interval", "signature"), *self._build_rows()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join(
            f"{name:<{widths[0]}}  {value:>{widths[1]}}  {span:<{widths[2]}}  {signature}"
            for name, value, span, signature in cells
        )

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("metric", "value", "95 % interval", "signature"))
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in self._build_rows())
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    def _build_rows(self) -> list[tuple[str, str, str, str]]:
        """Return a row for each score, then one for each length band: name, value, confidence interval (or empty), and
        signature (for bands the number of sentences).
        """
        interval_texts = {interval.name: f"{interval.low:.2f} to {interval.high:.2f}" for interval in self.intervals}
        rows = [
            (score.name, f"{score.value:.2f}", interval_texts.get(score.name, ""), score.signature)
            for score in self.scores
        ]
        for band in self.bands:
            range_end = f" to {band.longest}" if band.longest is not None else " or more"
            label = f"{band.score.name}, {band.shortest}{range_end} words"
            rows.append((label, f"{band.score.value:.2f}", "", f"{band.num_sentences:,} sentences"))
        return rows

    @property
    def bleu(self) -> float:
        """The BLEU score, 0 to 100."""
        return self.scores[0].value


def evaluate(
    hypotheses: Sequence[str],
    references: References,
    *,
    sources: Sequence[str] = (),
    lowercase: bool = False,
    tokenize: str | None = None,
    samples: int = 1000,
    seed: int = 1,
) -> MetricsReport:
    """Score detokenized translations against references: one text for each, or a list of several; a single text is a
    list of one. With `sources`, BLEU by source length is added. `samples` and `seed` are for the confidence intervals.

    Without `tokenize`, BLEU splits words as suits the language of the references.

    Raises:
        DataError: no sentences, an element that is not a string, or lists of different length.
        RecipeError: unknown BLEU tokenizer, or fewer than 2 samples.

    >>> import heedful
    >>> round(heedful.evaluate(["ein Hund rennt schnell"], ["ein Hund rennt schnell"]).bleu)
    100
    """
    hypotheses = to_text_list(hypotheses, name="hypotheses")
    reference_list = references if isinstance(references, list | tuple) else to_text_list(references, name="references")
    references = [
        texts if isinstance(texts, str) else to_text_list(texts, name=f"references[{index}]")
        for index, texts in enumerate(reference_list)
    ]
    sources = to_text_list(sources, name="sources")
    if tokenize is None:
        check_pairs(hypotheses, references)
        tokenize = select_bleu_tokenizer([texts[0] for texts in list_references(references)])
    scores = compute_all_scores(hypotheses, references, lowercase=lowercase, tokenize=tokenize)
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
    confidence_intervals = compute_intervals(metrics, BootstrapOptions(samples, seed))
    return MetricsReport(scores, tuple(confidence_intervals.values()), bands)


def compute_all_scores(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False, tokenize: str = "13a"
) -> tuple[MetricScore, ...]:
    """Compute BLEU, chrF, chrF++, TER, exact match, and the lecture's variant of BLEU; raises as `evaluate` does.
    `tokenize` names the tokenizer of BLEU.
    """
    return (
        bleu(hypotheses, references, lowercase=lowercase, tokenize=tokenize),
        chrf(hypotheses, references, lowercase=lowercase),
        chrf(hypotheses, references, lowercase=lowercase, word_order=2),
        ter(hypotheses, references, lowercase=lowercase),
        exact_match(hypotheses, references, lowercase=lowercase),
        deck_bleu(hypotheses, references, lowercase=lowercase),
    )
