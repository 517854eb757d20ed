"""The evaluator of translations: test pairs of one or several directions, predictions and metrics."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, final

import numpy as np

from heedful.data.context import add_context, enumerate_documents, get_source_with_context
from heedful.data.readers import SentencePair, read_lines
from heedful.errors import DataError
from heedful.metrics.error_rates import character_error_rate, word_error_rate
from heedful.metrics.judge import JudgeScores, score_with_judge
from heedful.metrics.likelihood import Perplexity
from heedful.metrics.metric import Metric, build_mean_metric
from heedful.metrics.translation import (
    build_bleu_metric,
    compare_texts,
    describe_tokenization,
    select_bleu_tokenizer,
)
from heedful.metrics.weighted_sacrebleu import CorpusBLEU, CorpusChrF, CorpusTER, DeckBLEU
from heedful.recipes.recipe import Recipe
from heedful.tasks.decoder_target import ForcedScore
from heedful.tasks.evaluation import DEFAULT_OPTIONS, Evaluator, EvaluatorOptions
from heedful.tasks.predictor import UnreadableInput, answer_readable
from heedful.tasks.search_factory import build_length_limits, build_search
from heedful.tasks.translation.accuracy import (
    AccuracyCounts,
    ContrastiveExample,
    count_accuracies,
    count_contrasts,
    prefers_first,
)
from heedful.tasks.translation.glossary import TermGlossary
from heedful.tasks.translation.languages import LANGUAGE_TAG
from heedful.tasks.translation.quality_estimation import get_certainty
from heedful.tasks.translation.translations import TokenAlignment, Translation
from heedful.tasks.translation.translator import Translator

DOCUMENT_METRIC: Final = "document BLEU"
"""Name of the metric that scores each document as one long sentence."""
_UNREAD_NOTE: Final = "longer than the model reads, themselves or their references, not in the perplexity"
_CUT_NOTE: Final = "longer than the judge reads, themselves or their references, the end not read"
_NUM_WARMUP: Final = 8
"""Number of sentences that are translated before timing begins."""


@dataclass(frozen=True)
class TranslationStats:
    """Statistics of a translation by a model.

    Attributes:
        certainty: mean log-probability of a token, in nats.
        expected: expected chrF, from 0 to 1, if the model was calibrated.
        signs: warning signs (`hallucination_signs`).
        alignments: attention of each part that was read; empty if a model has no attention.
    """

    certainty: float
    expected: float | None
    signs: tuple[str, ...]
    alignments: tuple[TokenAlignment, ...] = ()


@dataclass(frozen=True)
class TranslationOutputs:
    """The translations of the test text by one system.

    Attributes:
        texts: the translations.
        tokens: total number of their tokens, ends included; 0 if unknown.
        seconds: duration; None for translations from a file.
        perplexity: of the references, if a model made the translations.
        folds: whether the system writes lowercase only.
        notes: notes on how sentences were read (`LineFormat.input_notes`), with their counts.
        stats: statistics of each translation, if a page is to show them.
        contrasts: whether the model prefers the right side of each contrast; None if it cannot read it.
        judgement: scores of a learned metric, if there is one.
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
        """Notes, with the number of sentences that the learned metric truncated."""
        return {
            **self.notes,
            **({_CUT_NOTE: self.judgement.num_truncated} if self.judgement and self.judgement.num_truncated else {}),
        }


@final
class TranslationEvaluator(Evaluator):
    """Test pairs of sentences for translation systems; pairs with an empty side are excluded.

    Args:
        pairs: sentences and their translations.
        text: description of their files.
        part: of the recipe's data; empty if the user named a text.
        options: evaluation options.
        texts: names of the texts that the pairs are from, if there are several, with the number of pairs of each.
        language: tag of the target language, if it is known.

    Attributes:
        documents: document number of each pair that is not excluded.
        references: the first reference of each, with which its probability, its terms and the page are compared.
        all_references: all references of each.
        tokenize: tokenizer of BLEU.

    Raises:
        DataError: there are no pairs, none of the terms occurs in their sources, or there are no contrasts.
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
        language: str | None = None,
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
        self.references = [pair.target for pair in self.pairs]
        self.reference_answers = self.all_references = list_pair_references(self.pairs)
        self.language = language
        self.tokenize = options.tokenize or select_bleu_tokenizer(self.references, language=language)
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
            raise DataError(f"{options.terms}: none of its source terms occurs in {text}; check both files")
        self.contrasts: list[ContrastiveExample] = [] if options.contrasts is None else list(options.contrasts)
        if options.contrasts is not None and not self.contrasts:
            raise DataError(
                f"{options.contrasts.paths[0]}: has no contrasts; write source, right and wrong, with tabs between them"
            )

    @property
    def tokenization_note(self) -> str | None:
        """How BLEU splits words, if the language of the references is one that needs this; otherwise None."""
        return describe_tokenization(self.references, tokenize=self.tokenize, language=self.language)

    def predict(self, predictor: Translator, recipe: Recipe) -> TranslationOutputs:
        """Translate the test text once, after an untimed first batch, and score the references, the contrasts and the
        translations as far as the options ask for it. `recipe` says whether the system writes lowercase only.
        """
        config = predictor.generation if self.options.search is None else self.options.search(predictor.generation)
        search, length = build_search(config, predictor.target), build_length_limits(config)
        pairs = self._add_context(predictor.context)
        translate_pairs(predictor, pairs[:_NUM_WARMUP], search=search, length=length)
        start_time = time.perf_counter()
        translations = translate_pairs(predictor, pairs, search=search, length=length)
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
        """Score translations with the learned metric; None if there is none."""
        if self.options.judge is None:
            return None
        return score_with_judge(
            self.options.judge,
            sources=self.sources,
            candidates=texts,
            references=self.all_references,
            lowercase=self.options.lowercase,
        )

    def _evaluate_contrasts(self, translator: Translator) -> Sequence[bool | None]:
        """Return for each contrast whether the model of a translator prefers the right text; None if it cannot read one
        of its texts.
        """
        pairs = [
            SentencePair(contrast.source, text, contrast.location, contrast.tags)
            for contrast in self.contrasts
            for text in (contrast.right, *contrast.wrong)
        ]
        scores = iter(run_by_tags(translator, pairs, run_group=_score_pairs))
        return [prefers_first(list(islice(scores, 1 + len(example.wrong)))) for example in self.contrasts]

    def _collect_stats(self, translator: Translator, translations: Sequence[Translation]) -> Sequence[TranslationStats]:
        """Return the statistics of the translations of all test pairs, in their order."""
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
        """Return the complete pairs, each with at most `num_sentences` previous sentences of its document, as a
        translator reads them.
        """
        rows = zip(add_context(self._all_pairs, max_sentences=num_sentences), self._is_complete, strict=True)
        return [pair for pair, is_complete in rows if is_complete]

    def _compute_perplexity(
        self, translator: Translator, pairs: Sequence[SentencePair]
    ) -> tuple[Perplexity | None, int]:
        """Return the perplexity of the references, and the number of pairs that are too long and excluded from it; None
        if all are too long.
        """
        scored = run_by_tags(translator, pairs, run_group=_score_pairs)
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
        """Compute all metrics: percentages, perplexity of the references per token if a model answered, and
        document BLEU (d-BLEU, Liu et al. 2020, section 4.2) if there are documents of several sentences.
        """
        sides, lowercase = (answers.texts, self.all_references), self.options.lowercase
        normalise = str.lower if lowercase else str
        normalised = (
            list(map(normalise, answers.texts)),
            [tuple(map(normalise, texts)) for texts in self.all_references],
        )
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
        if 1 < len(documents := self._join_documents(answers.texts)) < self.size:
            metrics[DOCUMENT_METRIC] = CorpusBLEU(
                documents, self._join_references(), lowercase=lowercase, tokenize=self.tokenize
            )
        if answers.perplexity is not None:
            metrics["perplexity"] = answers.perplexity
        if self.options.judge is not None and answers.judgement is not None:
            metrics[self.options.judge.metric_name] = answers.judgement.metric
        return metrics | {name: share.metric for name, share in self.compute_accuracy(answers).items()}

    def compute_accuracy(self, answers: TranslationOutputs) -> Mapping[str, AccuracyCounts]:
        """Compute the accuracy of terms, numbers and contrasts, as far as there are any."""
        contrasts = count_contrasts(self.contrasts, answers.contrasts) if answers.contrasts else {}
        return {**self._compute_text_accuracy(answers.texts), **contrasts}

    @cached_property
    def reference_accuracy(self) -> Mapping[str, AccuracyCounts]:
        """Accuracy of terms and numbers in the references."""
        return self._compute_text_accuracy(self.references)

    def _compute_text_accuracy(self, texts: Sequence[str]) -> Mapping[str, AccuracyCounts]:
        """Compute the accuracy of terms and numbers in texts."""
        return count_accuracies(self.sources, texts, glossary=self.glossary, lowercase=self.options.lowercase)

    def _join_documents(self, texts: Sequence[str]) -> list[str]:
        """Return the text of each document, given the text of each pair: its sentences joined by spaces."""
        sentences_of = defaultdict[int, list[str]](list)
        for number, text in zip(self.documents, texts, strict=True):
            sentences_of[number].append(text)
        return list(map(" ".join, sentences_of.values()))

    def _join_references(self) -> list[tuple[str, ...]]:
        """Return the references of each document: its first references, then its second ones, and so on. A sentence
        with fewer references takes its first one again.
        """
        num_references = max(map(len, self.all_references))
        streams = [
            [texts[number] if number < len(texts) else texts[0] for texts in self.all_references]
            for number in range(num_references)
        ]
        return list(zip(*map(self._join_documents, streams), strict=True))

    def read_answers(self, path: Path) -> TranslationOutputs:
        """Read translations from a file with one line for each pair, excluded ones too; raise DataError if there are
        more or fewer lines.
        """
        lines = list(read_lines(path))
        if len(lines) != len(self._is_complete):
            raise DataError(
                f"{path}: has {len(lines)} lines, but there are {len(self._is_complete)} references; give one for each"
            )
        texts = tuple(line for line, is_complete in zip(lines, self._is_complete, strict=True) if is_complete)
        return TranslationOutputs(texts, judgement=self._score_with_judge(texts))

    def format_answers(self, answers: TranslationOutputs) -> Iterator[str]:
        """Return the translations as lines, empty for each excluded pair."""
        texts = iter(answers.texts)
        return (next(texts) if is_complete else "" for is_complete in self._is_complete)

    def list_judge_scores(self, answers: TranslationOutputs) -> list[float | None]:
        """Return the learned metric's score of each line; None for each excluded pair."""
        assert answers.judgement is not None, "there is a judge"
        scores = iter(answers.judgement.scores)
        return [next(scores) if is_complete else None for is_complete in self._is_complete]

    def describe_difference(self, other: Evaluator) -> str | None:
        """Describe how the test text differs from another evaluator's, in words that end with "than"; None if equal."""
        if self.inputs != other.inputs:
            return f"is tested on another text ({self.data_description}) than"
        return (
            None
            if self.reference_answers == other.reference_answers
            else f"translates the same sources into another text ({self.data_description}) than"
        )


def _score_pairs(translator: Translator, pairs: Sequence[SentencePair]) -> Sequence[ForcedScore | UnreadableInput]:
    """Score the reference of each pair; a pair that is too long for the model gets an `UnreadableInput` instead."""
    texts = [(get_source_with_context(pair), pair.target) for pair in pairs]
    return answer_readable(texts, translator.unread(texts), translator.score)


def _compute_stats(translator: Translator, translations: Sequence[Translation]) -> list[TranslationStats]:
    """Compute statistics of translations; the translator reads all of them again for its attention, if it has any."""
    parts = [translation.read_parts for translation in translations]
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


ExampleT = TypeVar("ExampleT")
AnswerT = TypeVar("AnswerT")


def run_by_tags(
    translator: Translator,
    examples: Sequence[ExampleT],
    *,
    run_group: Callable[[Translator, list[ExampleT]], Sequence[AnswerT]],
    tags: Callable[[ExampleT], tuple[str, ...]] = attrgetter("tags"),
) -> list[AnswerT]:
    """Answer examples in their order, grouped by tags; the translator is given the tags of each group.

    A translator with a single target language ignores language tags, so that it can be compared with a multilingual
    one.

    Args:
        translator: gets the tags of each group.
        examples: of any directions.
        run_group: answers the examples of a group.
        tags: returns the tags before the source of an example; by default its attribute of that name.
    """
    groups = defaultdict[tuple[str, ...], list[int]](list)
    for index, example in enumerate(examples):
        own_tags = tags(example)
        groups[own_tags if translator.languages else _drop_language_tags(own_tags)].append(index)
    results: dict[int, AnswerT] = {}
    for own_tags, indices in groups.items():
        answers = run_group(translator.with_tags(own_tags), [examples[index] for index in indices])
        results.update(zip(indices, answers, strict=True))
    return [results[index] for index in range(len(examples))]


def list_pair_references(pairs: Iterable[SentencePair]) -> list[tuple[str, ...]]:
    """Return all references of each pair, the target first."""
    return [(pair.target, *pair.references) for pair in pairs]


def translate_pairs(translator: Translator, pairs: Sequence[SentencePair], **options: Any) -> list[Translation]:
    """Translate the sources of pairs of any directions, in their order; `options` are those of
    `Translator.translate`.
    """
    return run_by_tags(
        translator,
        pairs,
        run_group=lambda directed, group: directed.translate(list(map(get_source_with_context, group)), **options),
    )


def _drop_language_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags that do not ask for a language."""
    return tuple(tag for tag in tags if not LANGUAGE_TAG.fullmatch(tag))
