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

from heedful.data.context import add_context, enumerate_documents, get_source_with_context
from heedful.data.contrastive_pairs import ContrastiveExample
from heedful.data.readers import SentencePair, read_lines
from heedful.errors import DataError
from heedful.metrics.deck_bleu import DeckBLEU
from heedful.metrics.error_rates import character_error_rate, word_error_rate
from heedful.metrics.judge import JudgeScores
from heedful.metrics.likelihood import Perplexity
from heedful.metrics.metric import Metric, build_mean_metric
from heedful.metrics.translation import build_bleu_metric, compare_texts, select_bleu_tokenizer
from heedful.metrics.weighted_sacrebleu import CorpusBLEU, CorpusChrF, CorpusTER
from heedful.recipes.recipe import Recipe
from heedful.tasks.decoder_target import ForcedScore
from heedful.tasks.evaluation import DEFAULT_OPTIONS, Evaluator, EvaluatorOptions
from heedful.tasks.predictor import UnreadableInput, answer_readable
from heedful.tasks.search_factory import build_length_limits, build_search
from heedful.tasks.translation.accuracy import AccuracyCounts, count_accuracies, count_contrasts, prefers_first
from heedful.tasks.translation.confidence import get_certainty
from heedful.tasks.translation.directions import run_by_tags
from heedful.tasks.translation.glossary import TermGlossary
from heedful.tasks.translation.translations import TokenAlignment, Translation
from heedful.tasks.translation.translator import Translator

DOCUMENT_METRIC: Final = "document BLEU"
"""The metric of documents, each read as one long sentence."""
_UNREAD_NOTE: Final = "longer than the model reads, themselves or their references, not in the perplexity"
_CUT_NOTE: Final = "longer than the judge reads, themselves or their references, the end not read"
_NUM_WARMUP: Final = 8
"""Sentences that are translated before the clock runs."""


@dataclass(frozen=True)
class TranslationStats:
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
    alignments: tuple[TokenAlignment, ...] = ()


@dataclass(frozen=True)
class TranslationOutputs:
    """The text as a system translates it.

    Attributes:
        texts: the translations.
        tokens: theirs, ends included; 0 where nobody knows them.
        seconds: how long that took; None where they come from a file.
        perplexity: of the references, where a model made the translations.
        folds: whether the system writes lowercase alone.
        notes: how sentences were read otherwise than given (`Lines.notes`), and how many.
        stats: what is known of each besides its text, where a page is to tell it.
        contrasts: whether a model tells each contrast apart; None of what it cannot read.
        judgement: what the judge says of each, where there is one.
    """

    texts: tuple[str, ...]
    tokens: int = 0
    seconds: float | None = None
    perplexity: Perplexity | None = None
    folds: bool = False
    notes: Mapping[str, int] = field(default_factory=dict)
    stats: Sequence[TranslationStats] = ()
    contrasts: Sequence[bool | None] = ()
    judgement: JudgeScores | None = None

    @property
    def all_notes(self) -> Mapping[str, int]:
        """The notes, and what the judge did not read."""
        return {
            **self.notes,
            **({_CUT_NOTE: self.judgement.num_truncated} if self.judgement and self.judgement.num_truncated else {}),
        }


@final
class TranslationEvaluator(Evaluator):
    """Pairs of sentences; those with an empty side tell nothing about a system, and are left out.

    Args:
        pairs: sentences and their translations.
        data_description: the files that they are from, in words.
        part: of the data; empty where a text was named.
        options: what of it there is for translations.
        texts: the names of the texts that the pairs are from, where there are several, and how many pairs each has.

    Attributes:
        documents: the number of the document of each pair that is not left out.
        tokenize: how BLEU cuts words.

    Raises:
        DataError: there are no pairs, none of the terms stands in their sources, or there are no contrasts.
        MissingExtraError: the Japanese or Korean tokenizer is not installed.
        RecipeError: there is no such BLEU tokenizer.
    """

    has_answer_files: ClassVar = True

    def __init__(
        self,
        pairs: Sequence[SentencePair],
        *,
        text: str,
        part: str = "",
        options: EvaluatorOptions = DEFAULT_OPTIONS,
        texts: Sequence[tuple[str, int]] = (),
    ) -> None:
        self._all_pairs = list(pairs)
        self._is_complete = [bool(pair.source and pair.target) for pair in pairs]
        self.pairs = [pair for pair, is_complete in zip(pairs, self._is_complete, strict=True) if is_complete]
        if not self.pairs:
            raise DataError(f"{text}: no sentences to measure on; give a text that has some")
        names = [name for name, count in texts for _ in range(count)]
        self.names = (
            [name for name, is_complete in zip(names, self._is_complete, strict=True) if is_complete] if texts else []
        )
        self.documents = [
            number
            for (number, _), is_complete in zip(enumerate_documents(pairs), self._is_complete, strict=True)
            if is_complete
        ]
        self.inputs = self.sources = [pair.source for pair in self.pairs]
        self.reference_answers = self.references = [pair.target for pair in self.pairs]
        self.tokenize = options.tokenize or select_bleu_tokenizer(self.references)
        build_bleu_metric(
            lowercase=options.lowercase, tokenize=self.tokenize
        )  # complains before anything is translated
        self.data_description = text
        self.part = part
        self.size = len(self.pairs)
        self.progress_text = f"translating {self.size:,} sentences"
        self.options = options
        self.glossary = None if options.terms is None else TermGlossary.from_file(options.terms)
        if self.glossary is not None and not any(map(self.glossary.find_terms, self.sources)):
            raise DataError(f"{options.terms}: none of its source terms stands in {text}; check both files")
        self.contrasts: list[ContrastiveExample] = [] if options.contrasts is None else list(options.contrasts)
        if options.contrasts is not None and not self.contrasts:
            raise DataError(f"{options.contrasts.paths[0]}: no contrasts; write source, right and wrong, tabs between")

    def predict(self, predictor: Translator, recipe: Recipe) -> TranslationOutputs:
        """One pass over the text, after a first batch that does not count."""
        config = predictor.generation if self.options.search is None else self.options.search(predictor.generation)
        search, length = build_search(config, predictor.target), build_length_limits(config)

        def translate_pairs(translator: Translator, pairs: Sequence[SentencePair]) -> Sequence[Translation]:
            return translator.translate([get_source_with_context(pair) for pair in pairs], search=search, length=length)

        pairs = self._add_context(predictor.context)
        run_by_tags(predictor, pairs[:_NUM_WARMUP], tags=_get_tags, run_group=translate_pairs)
        start_time = time.perf_counter()
        translations = run_by_tags(predictor, pairs, tags=_get_tags, run_group=translate_pairs)
        seconds = time.perf_counter() - start_time
        best_candidates = [translation.candidates[0] for translation in translations]
        perplexity, unread = self._compute_perplexity(predictor, pairs)
        notes = Counter(note for translation in translations for note in translation.notes)
        return TranslationOutputs(
            tuple(candidate.text for candidate in best_candidates),
            sum(len(candidate.ids) + candidate.finished for candidate in best_candidates),
            seconds,
            perplexity,
            folds=bool(getattr(recipe.tokenizer, "lowercase", False)),
            notes=notes + Counter({_UNREAD_NOTE: unread}),
            stats=self._collect_stats(predictor, translations) if self.options.paged else (),
            contrasts=self._evaluate_contrasts(predictor),
            judgement=self._score_with_judge([candidate.text for candidate in best_candidates]),
        )

    def _score_with_judge(self, texts: Sequence[str]) -> JudgeScores | None:
        if self.options.judge is None:
            return None
        normalise = str.lower if self.options.lowercase else str
        sources, candidates, references = (
            [*map(normalise, texts_of_side)] for texts_of_side in (self.sources, texts, self.references)
        )
        return self.options.judge.score_translations(sources=sources, candidates=candidates, references=references)

    def _evaluate_contrasts(self, translator: Translator) -> Sequence[bool | None]:
        pairs = [
            SentencePair(contrast.source, text, contrast.location, contrast.tags)
            for contrast in self.contrasts
            for text in (contrast.right, *contrast.wrong)
        ]
        scores = iter(run_by_tags(translator, pairs, tags=_get_tags, run_group=_score_pairs))
        return [prefers_first(list(islice(scores, 1 + len(example.wrong)))) for example in self.contrasts]

    def _collect_stats(self, translator: Translator, translations: Sequence[Translation]) -> Sequence[TranslationStats]:
        rows = list(zip(self.pairs, translations, strict=True))
        return run_by_tags(
            translator,
            rows,
            tags=lambda row: row[0].tags,
            run_group=lambda group_translator, group: _compute_stats(
                group_translator, [translation for _, translation in group]
            ),
        )

    def _add_context(self, num_sentences: int) -> list[SentencePair]:
        """The pairs with what a translator reads before each, whatever the run reads that the text is of."""
        rows = zip(add_context(self._all_pairs, max_sentences=num_sentences), self._is_complete, strict=True)
        return [pair for pair, is_complete in rows if is_complete]

    def _compute_perplexity(
        self, translator: Translator, pairs: Sequence[SentencePair]
    ) -> tuple[Perplexity | None, int]:
        """Of the references, and how many pairs are too long for it; these weigh nothing."""
        scored = run_by_tags(translator, pairs, tags=_get_tags, run_group=_score_pairs)
        num_unread = sum(isinstance(score, UnreadableInput) for score in scored)
        if num_unread == len(scored):
            return None, num_unread
        scores = [
            (0.0, 0.0) if isinstance(score, UnreadableInput) else (-score.log_probability, float(score.count))
            for score in scored
        ]
        nats, counts = np.array(scores).T
        return Perplexity(nats, counts), num_unread

    def compute_metrics(self, answers: TranslationOutputs) -> Mapping[str, Metric]:
        """In percent; perplexity of the references, per token, where a model answered; BLEU of documents (Liu et al.
        2020, section 4.2: d-BLEU) where an empty source, or a name, tells them apart, and some have several sentences.
        """
        sides, lowercase = (answers.texts, self.references), self.options.lowercase
        normalised = [[*map(str.lower, side)] if lowercase else side for side in sides]
        metrics: dict[str, Metric] = {
            "BLEU": CorpusBLEU(*sides, lowercase=lowercase, tokenize=self.tokenize),
            "chrF2": CorpusChrF(*sides, lowercase=lowercase),
            "chrF2++": CorpusChrF(*sides, lowercase=lowercase, word_order=2),
            "TER": CorpusTER(*sides, lowercase=lowercase),
            "WER": word_error_rate(*normalised),
            "CER": character_error_rate(*normalised),
            "exact match": build_mean_metric(
                [100.0 * is_equal for is_equal in compare_texts(*sides, lowercase=lowercase)]
            ),
            "BLEU (deck variant)": DeckBLEU(*sides, lowercase=lowercase),
        }
        document_texts = [self._join_documents(side) for side in sides]
        if 1 < len(document_texts[0]) < self.size:
            metrics[DOCUMENT_METRIC] = CorpusBLEU(*document_texts, lowercase=lowercase, tokenize=self.tokenize)
        if answers.perplexity is not None:
            metrics["perplexity"] = answers.perplexity
        if self.options.judge is not None and answers.judgement is not None:
            metrics[self.options.judge.metric_name] = answers.judgement.metric
        return metrics | {name: share.metric for name, share in self.compute_accuracy(answers).items()}

    def compute_accuracy(self, answers: TranslationOutputs) -> Mapping[str, AccuracyCounts]:
        """What of terms, numbers and contrasts is right; what there is none of is left out."""
        contrasts = count_contrasts(self.contrasts, answers.contrasts) if answers.contrasts else {}
        return {**self._compute_text_accuracy(answers.texts), **contrasts}

    @cached_property
    def reference_accuracy(self) -> Mapping[str, AccuracyCounts]:
        """The same of terms and numbers in the references."""
        return self._compute_text_accuracy(self.references)

    def _compute_text_accuracy(self, texts: Sequence[str]) -> Mapping[str, AccuracyCounts]:
        return count_accuracies(self.sources, texts, glossary=self.glossary, lowercase=self.options.lowercase)

    def _join_documents(self, texts: Sequence[str]) -> list[str]:
        """The sentences of each document as one."""
        sentences_of = defaultdict[int, list[str]](list)
        for number, text in zip(self.documents, texts, strict=True):
            sentences_of[number].append(text)
        return list(map(" ".join, sentences_of.values()))

    def read_answers(self, path: Path) -> TranslationOutputs:
        """A translation on each line, also of pairs that are left out."""
        lines = list(read_lines(path))
        if len(lines) != len(self._is_complete):
            raise DataError(
                f"{path}: has {len(lines)} lines, but there are {len(self._is_complete)} references; give one for each"
            )
        texts = tuple(line for line, is_complete in zip(lines, self._is_complete, strict=True) if is_complete)
        return TranslationOutputs(texts, judgement=self._score_with_judge(texts))

    def format_answers(self, answers: TranslationOutputs) -> Iterator[str]:
        """The translations; a line that is empty for each pair that is left out, as `read_answers` has it."""
        texts = iter(answers.texts)
        return (next(texts) if is_complete else "" for is_complete in self._is_complete)

    def list_judge_scores(self, answers: TranslationOutputs) -> list[float | None]:
        """What the judge says of each of these lines; None for each pair that is left out."""
        assert answers.judgement is not None, "there is a judge"
        scores = iter(answers.judgement.scores)
        return [next(scores) if is_complete else None for is_complete in self._is_complete]

    def describe_difference(self, other: Evaluator) -> str | None:
        """Names the text."""
        if self.inputs != other.inputs:
            return f"is tested on another text ({self.data_description}) than"
        return (
            None
            if self.reference_answers == other.reference_answers
            else f"translates the same sources into another text ({self.data_description}) than"
        )


def _get_tags(pair: SentencePair) -> tuple[str, ...]:
    return pair.tags


def _score_pairs(translator: Translator, pairs: Sequence[SentencePair]) -> Sequence[ForcedScore | UnreadableInput]:
    texts = [(get_source_with_context(pair), pair.target) for pair in pairs]
    return answer_readable(texts, translator.unread(texts), translator.score)


def _compute_stats(translator: Translator, translations: Sequence[Translation]) -> list[TranslationStats]:
    """Of each translation; the models read all of them once more to say where they look."""
    parts = [
        [part for part in translation.parts or (translation,) if part.source_tokens] for translation in translations
    ]
    pairs = [(part.input_text, part.candidates[0]) for parts_of_one in parts for part in parts_of_one]
    alignments = iter(translator.align_all(pairs) if translator.has_attention else ())
    return [
        TranslationStats(
            get_certainty(translation.candidates[0]),
            None if translator.confidence is None else translator.confidence.predict_chrf(translation.candidates[0]),
            translation.warning_signs,
            tuple(islice(alignments, len(parts_of_one))),
        )
        for translation, parts_of_one in zip(translations, parts, strict=True)
    ]
