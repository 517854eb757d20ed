"""All there is to say about a set of translations, at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.metrics.bootstrap import Interval, Sampling, intervals
from heedful.metrics.counted import CorpusBLEU, CorpusChrF
from heedful.metrics.deck_bleu import bleu_deck
from heedful.metrics.translation import LengthBand, Score, bleu, bleu_by_length, chrf, exact_match, ter


@dataclass(frozen=True)
class Report:
    """Scores with signatures, confidence intervals of BLEU and chrF, and BLEU by words in the source.

    Attributes:
        scores: BLEU, chrF, TER, exact match, and the lecture's variant of BLEU.
        intervals: of BLEU and chrF, over resampled corpora.
        bands: BLEU by source length, where the sources are known.
    """

    scores: tuple[Score, ...]
    intervals: tuple[Interval, ...]
    bands: tuple[LengthBand, ...]

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
    tokenize: str = "13a",
    samples: int = 1000,
    seed: int = 1,
) -> Report:
    """Scores detokenized translations against references.

    Raises:
        DataError: no sentences, or lists of different length.
        RecipeError: no such BLEU tokenizer, or fewer than 2 samples.

    >>> import heedful
    >>> round(heedful.evaluate(["ein Hund rennt schnell"], ["ein Hund rennt schnell"]).bleu)
    100
    """
    scores = (
        bleu(hypotheses, references, lowercase=lowercase, tokenize=tokenize),
        chrf(hypotheses, references, lowercase=lowercase),
        ter(hypotheses, references, lowercase=lowercase),
        exact_match(hypotheses, references, lowercase=lowercase),
        bleu_deck(hypotheses, references, lowercase=lowercase),
    )
    metrics = {
        "BLEU": CorpusBLEU(hypotheses, references, lowercase=lowercase, tokenize=tokenize),
        "chrF2": CorpusChrF(hypotheses, references, lowercase=lowercase),
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
