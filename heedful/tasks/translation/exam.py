"""What translators are asked, and what their translations are worth."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import ClassVar, Final, final

import numpy as np

from heedful.data.context import asked, documents, in_context
from heedful.data.contrasts import Contrast
from heedful.data.readers import Pair, read_lines
from heedful.errors import DataError
from heedful.metrics.counted import CorpusBLEU, CorpusChrF, CorpusTER
from heedful.metrics.deck_bleu import DeckBLEU
from heedful.metrics.edits import character_error_rate, word_error_rate
from heedful.metrics.judge import Judgement
from heedful.metrics.likelihood import Perplexity
from heedful.metrics.metric import Metric, mean
from heedful.metrics.translation import bleu_metric, equals, tokenizer_for
from heedful.recipes.recipe import Recipe
from heedful.tasks.exam import PLAIN, Asking, Exam
from heedful.tasks.faces import Unread, despite
from heedful.tasks.searches import build_length, build_search
from heedful.tasks.target import ForcedScore
from heedful.tasks.translation.accuracy import Share, contrasted, shares, tells_apart
from heedful.tasks.translation.confidence import certainty
from heedful.tasks.translation.directions import by_tags
from heedful.tasks.translation.face import Translator
from heedful.tasks.translation.glossary import Glossary
from heedful.tasks.translation.translations import Alignment, Translation

DOCUMENTS: Final = "document BLEU"
"""The metric of documents, each read as one long sentence."""
_UNREAD: Final = "longer than the model reads, themselves or their references, not in the perplexity"
_CUT: Final = "longer than the judge reads, themselves or their references, the end not read"
_WARM: Final = 8
"""Sentences that are translated before the clock runs."""


@dataclass(frozen=True)
class Seen:
    """What is known of a translation that a model made.

    Attributes:
        certainty: mean log-probability of a token, in nats.
        expected: what chrF to expect, from 0 to 1, where the model was calibrated.
        signs: what is suspicious (`signs`).
        alignments: what each part that was read looked at; none where a model has no attention.
    """

    certainty: float
    expected: float | None
    signs: tuple[str, ...]
    alignments: tuple[Alignment, ...] = ()


@dataclass(frozen=True)
class Translated:
    """The text as a system translates it.

    Attributes:
        texts: the translations.
        tokens: theirs, ends included; 0 where nobody knows them.
        seconds: how long that took; None where they come from a file.
        perplexity: of the references, where a model made the translations.
        folds: whether the system writes lowercase alone.
        notes: how sentences were read otherwise than given (`Lines.notes`), and how many.
        seen: what is known of each besides its text, where a page is to tell it.
        contrasts: whether a model tells each contrast apart; None of what it cannot read.
        judgement: what the judge says of each, where there is one.
    """

    texts: tuple[str, ...]
    tokens: int = 0
    seconds: float | None = None
    perplexity: Perplexity | None = None
    folds: bool = False
    notes: Mapping[str, int] = field(default_factory=dict)
    seen: Sequence[Seen] = ()
    contrasts: Sequence[bool | None] = ()
    judgement: Judgement | None = None

    @property
    def told(self) -> Mapping[str, int]:
        """The notes, and what the judge did not read."""
        return {**self.notes, **({_CUT: self.judgement.cut} if self.judgement and self.judgement.cut else {})}


@final
class TranslationExam(Exam):
    """Pairs of sentences; those with an empty side tell nothing about a system, and are left out.

    Args:
        pairs: sentences and their translations.
        text: the files that they are from, in words.
        part: of the data; empty where a text was named.
        asking: what of it there is for translations.
        texts: the names of the texts that the pairs are from, where there are several, and how many pairs each has.

    Attributes:
        documents: the number of the document of each pair that is not left out.
        tokenize: how BLEU cuts words.

    Raises:
        DataError: there are no pairs, none of the terms stands in their sources, or there are no contrasts.
        MissingExtraError: the Japanese or Korean tokenizer is not installed.
        RecipeError: there is no such BLEU tokenizer.
    """

    written: ClassVar = True

    def __init__(
        self,
        pairs: Sequence[Pair],
        *,
        text: str,
        part: str = "",
        asking: Asking = PLAIN,
        texts: Sequence[tuple[str, int]] = (),
    ) -> None:
        self._all = list(pairs)
        self._real = [bool(pair.source and pair.target) for pair in pairs]
        self.pairs = [pair for pair, real in zip(pairs, self._real, strict=True) if real]
        if not self.pairs:
            raise DataError(f"{text}: no sentences to measure on; give a text that has some")
        names = [name for name, count in texts for _ in range(count)]
        self.names = [name for name, real in zip(names, self._real, strict=True) if real] if texts else []
        self.documents = [number for (number, _), real in zip(documents(pairs), self._real, strict=True) if real]
        self.asked = self.sources = [pair.source for pair in self.pairs]
        self.right = self.references = [pair.target for pair in self.pairs]
        self.tokenize = asking.tokenize or tokenizer_for(self.references)
        bleu_metric(lowercase=asking.lowercase, tokenize=self.tokenize)  # complains before anything is translated
        self.text = text
        self.part = part
        self.size = len(self.pairs)
        self.doing = f"translating {self.size:,} sentences"
        self.asking = asking
        self.glossary = None if asking.terms is None else Glossary.read(asking.terms)
        if self.glossary is not None and not any(map(self.glossary.terms, self.sources)):
            raise DataError(f"{asking.terms}: none of its source terms stands in {text}; check both files")
        self.contrasts: list[Contrast] = [] if asking.contrasts is None else list(asking.contrasts)
        if asking.contrasts is not None and not self.contrasts:
            raise DataError(f"{asking.contrasts.paths[0]}: no contrasts; write source, right and wrong, tabs between")

    def answers(self, user: Translator, recipe: Recipe) -> Translated:
        """One pass over the text, after a first batch that does not count."""
        config = user.generation if self.asking.search is None else self.asking.search(user.generation)
        search, length = build_search(config, user.target), build_length(config)

        def translate(user: Translator, pairs: Sequence[Pair]) -> Sequence[Translation]:
            return user.translate([asked(pair) for pair in pairs], search=search, length=length)

        pairs = self._in_context(user.context)
        by_tags(user, pairs[:_WARM], tags=_tags, ask=translate)
        began = time.perf_counter()
        found = by_tags(user, pairs, tags=_tags, ask=translate)
        seconds = time.perf_counter() - began
        best = [translation.candidates[0] for translation in found]
        perplexity, unread = self._perplexity(user, pairs)
        notes = Counter(note for translation in found for note in translation.notes)
        return Translated(
            tuple(candidate.text for candidate in best),
            sum(len(candidate.ids) + candidate.finished for candidate in best),
            seconds,
            perplexity,
            folds=bool(getattr(recipe.tokenizer, "lowercase", False)),
            notes=notes + Counter({_UNREAD: unread}),
            seen=self._seen(user, found) if self.asking.paged else (),
            contrasts=self._told_apart(user),
            judgement=self._judged([candidate.text for candidate in best]),
        )

    def _judged(self, texts: Sequence[str]) -> Judgement | None:
        if self.asking.judge is None:
            return None
        fold = str.lower if self.asking.lowercase else str
        sources, candidates, references = ([*map(fold, side)] for side in (self.sources, texts, self.references))
        return self.asking.judge.judge(sources=sources, candidates=candidates, references=references)

    def _told_apart(self, user: Translator) -> Sequence[bool | None]:
        asked = [Pair(c.source, text, c.place, c.tags) for c in self.contrasts for text in (c.right, *c.wrong)]
        scores = iter(by_tags(user, asked, tags=_tags, ask=_scores))
        return [tells_apart(list(islice(scores, 1 + len(each.wrong)))) for each in self.contrasts]

    def _seen(self, user: Translator, found: Sequence[Translation]) -> Sequence[Seen]:
        told = list(zip(self.pairs, found, strict=True))
        return by_tags(
            user, told, tags=lambda each: each[0].tags, ask=lambda asked, some: _seen(asked, [t for _, t in some])
        )

    def _in_context(self, sentences: int) -> list[Pair]:
        """The pairs with what a translator reads before each, whatever the run reads that the text is of."""
        found = zip(in_context(self._all, sentences=sentences), self._real, strict=True)
        return [pair for pair, real in found if real]

    def _perplexity(self, user: Translator, pairs: Sequence[Pair]) -> tuple[Perplexity | None, int]:
        """Of the references, and how many pairs are too long for it; these weigh nothing."""
        found = by_tags(user, pairs, tags=_tags, ask=_scores)
        unread = sum(isinstance(score, Unread) for score in found)
        if unread == len(found):
            return None, unread
        scores = [
            (0.0, 0.0) if isinstance(score, Unread) else (-score.log_probability, float(score.count)) for score in found
        ]
        nats, counts = np.array(scores).T
        return Perplexity(nats, counts), unread

    def metrics(self, answers: Translated) -> Mapping[str, Metric]:
        """In percent; perplexity of the references, per token, where a model answered; BLEU of documents (Liu et al.
        2020, section 4.2: d-BLEU) where an empty source, or a name, tells them apart, and some have several sentences.
        """
        sides, lowercase = (answers.texts, self.references), self.asking.lowercase
        folded = [[*map(str.lower, side)] if lowercase else side for side in sides]
        metrics: dict[str, Metric] = {
            "BLEU": CorpusBLEU(*sides, lowercase=lowercase, tokenize=self.tokenize),
            "chrF2": CorpusChrF(*sides, lowercase=lowercase),
            "chrF2++": CorpusChrF(*sides, lowercase=lowercase, word_order=2),
            "TER": CorpusTER(*sides, lowercase=lowercase),
            "WER": word_error_rate(*folded),
            "CER": character_error_rate(*folded),
            "exact match": mean([100.0 * same for same in equals(*sides, lowercase=lowercase)]),
            "BLEU (deck variant)": DeckBLEU(*sides, lowercase=lowercase),
        }
        joined = [self._joined(side) for side in sides]
        if 1 < len(joined[0]) < self.size:
            metrics[DOCUMENTS] = CorpusBLEU(*joined, lowercase=lowercase, tokenize=self.tokenize)
        if answers.perplexity is not None:
            metrics["perplexity"] = answers.perplexity
        if self.asking.judge is not None and answers.judgement is not None:
            metrics[self.asking.judge.title] = answers.judgement.metric
        return metrics | {name: share.metric for name, share in self.shares(answers).items()}

    def shares(self, answers: Translated) -> Mapping[str, Share]:
        """What of terms, numbers and contrasts is right; what there is none of is left out."""
        contrasts = contrasted(self.contrasts, answers.contrasts) if answers.contrasts else {}
        return {**self._listed(answers.texts), **contrasts}

    @cached_property
    def attainable(self) -> Mapping[str, Share]:
        """The same of terms and numbers in the references."""
        return self._listed(self.references)

    def _listed(self, texts: Sequence[str]) -> Mapping[str, Share]:
        return shares(self.sources, texts, glossary=self.glossary, lowercase=self.asking.lowercase)

    def _joined(self, texts: Sequence[str]) -> list[str]:
        """The sentences of each document as one."""
        held = defaultdict[int, list[str]](list)
        for number, text in zip(self.documents, texts, strict=True):
            held[number].append(text)
        return list(map(" ".join, held.values()))

    def read(self, path: Path) -> Translated:
        """A translation on each line, also of pairs that are left out."""
        lines = list(read_lines(path))
        if len(lines) != len(self._real):
            raise DataError(
                f"{path}: has {len(lines)} lines, but there are {len(self._real)} references; give one for each"
            )
        texts = tuple(line for line, real in zip(lines, self._real, strict=True) if real)
        return Translated(texts, judgement=self._judged(texts))

    def lines(self, answers: Translated) -> Iterator[str]:
        """The translations; a line that is empty for each pair that is left out, as `read` has it."""
        texts = iter(answers.texts)
        return (next(texts) if real else "" for real in self._real)

    def judged(self, answers: Translated) -> list[float | None]:
        """What the judge says of each of these lines; None for each pair that is left out."""
        assert answers.judgement is not None, "there is a judge"
        scores = iter(answers.judgement.scores)
        return [next(scores) if real else None for real in self._real]

    def unlike(self, first: Exam) -> str | None:
        """Names the text."""
        if self.asked != first.asked:
            return f"is tested on another text ({self.text}) than"
        return (
            None if self.right == first.right else f"translates the same sources into another text ({self.text}) than"
        )


def _tags(pair: Pair) -> tuple[str, ...]:
    return pair.tags


def _scores(user: Translator, pairs: Sequence[Pair]) -> Sequence[ForcedScore | Unread]:
    sides = [(asked(pair), pair.target) for pair in pairs]
    return despite(sides, user.unread(sides), user.score)


def _seen(user: Translator, found: Sequence[Translation]) -> list[Seen]:
    """Of each translation; the models read all of them once more to say where they look."""
    read = [[part for part in each.parts or (each,) if part.source_tokens] for each in found]
    pairs = [(part.asked, part.candidates[0]) for own in read for part in own]
    aligned = iter(user.align_all(pairs) if user.attentive else ())
    return [
        Seen(
            certainty(each.candidates[0]),
            None if user.confidence is None else user.confidence.of(each.candidates[0]),
            each.signs,
            tuple(islice(aligned, len(own))),
        )
        for each, own in zip(found, read, strict=True)
    ]
