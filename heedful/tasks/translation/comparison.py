"""How well and how fast a run translates, beside others."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.metrics.bootstrap import Comparison, CountedBLEU, CountedChrF, Interval, bootstrap, paired_bootstrap
from heedful.metrics.likelihood import perplexity
from heedful.metrics.translation import bleu, bleu_by_length, chrf
from heedful.recipes.generation import GenerationConfig
from heedful.runs.load import load_as
from heedful.tasks.searches import build_length, build_search
from heedful.tasks.translation.face import Translator

_WARM = 8
_FEWEST = 10
"""Sentences that an interval of BLEU needs at the least to mean anything."""


@dataclass(frozen=True)
class Translated:
    """A test set as a run translates it.

    Attributes:
        texts: the translations.
        tokens: their tokens, ends included.
        seconds: how long that took, after a first batch that does not count.
        perplexity: of the references, per token of the run's vocabulary.
    """

    texts: tuple[str, ...]
    tokens: int
    seconds: float
    perplexity: float


def translate(
    folder: Path, sources: Sequence[str], references: Sequence[str], *, search: GenerationConfig, device: str | None
) -> Translated:
    """One pass over a test set.

    Raises:
        DataError: a sentence is longer than the model reads.
        RunError: the run is damaged.
    """
    translator = load_as(Translator, folder, use="translates", device=device)
    looked_for, length = build_search(search, translator.target.special), build_length(search)
    translator.translate(sources[:_WARM], search=looked_for, length=length)
    began = time.perf_counter()
    found = translator.translate(sources, search=looked_for, length=length)
    seconds = time.perf_counter() - began
    best = [translation.candidates[0] for translation in found]
    scores = translator.score(list(zip(sources, references, strict=True)))
    return Translated(
        texts=tuple(candidate.text for candidate in best),
        tokens=sum(len(candidate.ids) + candidate.finished for candidate in best),
        seconds=seconds,
        perplexity=perplexity(sum(s.log_probability for s in scores), sum(s.count for s in scores)),
    )


@dataclass(frozen=True)
class Band:
    """BLEU of the sentences whose source has `shortest` to `longest` words; no interval for fewer than ten."""

    shortest: int
    longest: int | None
    sentences: int
    bleu: float
    interval: Interval | None


@dataclass(frozen=True)
class Scores:
    """How good translations are, and how sure that is.

    Attributes:
        bleu: with its interval.
        chrf: with its interval.
        against: BLEU and chrF against another system's, by paired bootstrap; empty for that system itself.
        bands: BLEU by words in the source.
        signatures: of both metrics, as sacrebleu writes them.
    """

    bleu: Interval
    chrf: Interval
    against: tuple[Comparison, ...]
    bands: tuple[Band, ...]
    signatures: tuple[str, str]


@dataclass(frozen=True)
class Scoring:
    """How translations are compared with references; the numbers are those of `heedful evaluate`."""

    lowercase: bool = False
    tokenize: str = "13a"
    samples: int = 1000
    seed: int = 1

    def scores(
        self, texts: Sequence[str], sources: Sequence[str], references: Sequence[str], *, against: Sequence[str] | None
    ) -> Scores:
        """The scores of translations, and whether they differ from those of another system."""
        bleu_interval, chrf_interval = bootstrap(
            texts, references, metrics=self._metrics(), samples=self.samples, seed=self.seed
        )
        found: tuple[Comparison, ...] = ()
        if against is not None:
            found = paired_bootstrap(
                against, texts, references, metrics=self._metrics(), samples=self.samples, seed=self.seed
            )
        signatures = (
            bleu(texts, references, lowercase=self.lowercase, tokenize=self.tokenize).signature,
            chrf(texts[:1], references[:1], lowercase=self.lowercase).signature,
        )
        return Scores(bleu_interval, chrf_interval, found, tuple(self._bands(texts, sources, references)), signatures)

    def _metrics(self) -> tuple[CountedBLEU, CountedChrF]:
        return CountedBLEU(lowercase=self.lowercase, tokenize=self.tokenize), CountedChrF(lowercase=self.lowercase)

    def _bands(self, texts: Sequence[str], sources: Sequence[str], references: Sequence[str]) -> Iterator[Band]:
        lengths = [len(source.split()) for source in sources]
        bands = bleu_by_length(
            texts,
            references,
            lengths,
            metric=lambda h, r: bleu(h, r, lowercase=self.lowercase, tokenize=self.tokenize),
        )
        for band in bands:
            rows = [
                i for i, n in enumerate(lengths) if n >= band.shortest and (band.longest is None or n <= band.longest)
            ]
            interval = None
            if len(rows) >= _FEWEST:
                own, other = ([lines[i] for i in rows] for lines in (texts, references))
                metric = self._metrics()[:1]
                (interval,) = bootstrap(own, other, metrics=metric, samples=self.samples, seed=self.seed)
            yield Band(band.shortest, band.longest, band.sentences, band.score.value, interval)
