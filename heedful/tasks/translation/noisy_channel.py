"""Noisy channel reranking of candidates with a reverse translation model and a language model; tuned weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ValidationError

from heedful.errors import DataError, RecipeError
from heedful.files import parse_json, read_bytes
from heedful.inspection.page import PageTable
from heedful.metrics.translation import select_bleu_tokenizer
from heedful.metrics.weighted_sacrebleu import CorpusBLEU, CorpusChrF
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.predictor import LineFormat, escape_cell
from heedful.tasks.translation.translations import Translation, TranslationInput, TranslationLineFormat
from heedful.tasks.translation.translator import Translator

UNRANKED: Final = "longer than a model that judges reads, left in the order in which they came"
"""Note on a sentence whose candidates kept their order, because one is too long for a scoring model."""

TextScorer: TypeAlias = Callable[[Sequence[str]], Sequence[float]]
"""Returns the log-probabilities of texts, ends included, in nats."""


class ChannelWeights(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """Weights of the noisy channel features relative to the translation model's log-probability, whose weight is 1.

    Attributes:
        reverse: of log p(source | translation).
        language: of log p(translation).
        length: of the number of tokens, end included: probabilities favour short translations, the more so the more
            features are added.
    """

    format: Literal[1] = 1
    reverse: float = 0.0
    language: float = 0.0
    length: float = 0.0


DEFAULT_WEIGHTS: Final = ChannelWeights(reverse=1.0, language=0.5, length=0.5)
"""Default weights."""


def read_channel_weights(path: Path) -> ChannelWeights:
    """Read the weights that `heedful rerank --tune` wrote.

    Raises:
        RecipeError: the file holds something else, or cannot be read.
    """
    try:
        content = read_bytes(path)
        parse_json(content)
        return ChannelWeights.model_validate_json(content)
    except (OSError, ValidationError, ValueError):
        raise RecipeError(
            f"{path}: holds no weights; write them with heedful rerank --tune REFERENCES -o FILE"
        ) from None


@final
@dataclass(frozen=True)
class ScoredCandidate:
    """A candidate with the scores of the reverse model and the language model.

    Attributes:
        candidate: as it was found.
        reverse: log p(source | candidate) in nats; None without a reverse model.
        language: log p(candidate) in nats; None without a language model.
    """

    candidate: TextCandidate
    reverse: float | None = None
    language: float | None = None

    @property
    def features(self) -> tuple[float, float, float]:
        """Feature values in the order of `ChannelWeights`."""
        return self.reverse or 0.0, self.language or 0.0, float(len(self.candidate.tokens) + self.candidate.finished)

    def compute_score(self, weights: ChannelWeights) -> float:
        """Return the weighted sum log p(y|x) + a log p(x|y) + b log p(y) + c |y| with the weights a, b and c."""
        weight_values = (weights.reverse, weights.language, weights.length)
        return self.candidate.log_probability + sum(
            weight * feature for weight, feature in zip(weight_values, self.features, strict=True)
        )


@final
@dataclass(frozen=True)
class NoisyChannel:
    """Scores translations by p(x|y) p(y) too (Yu et al. 2017, section 3; Yee, Dauphin and Auli 2019, section 2).

    Attributes:
        reverse: translates from the target to the source language; None to skip this feature.
        language: language model of the target language; None to skip this feature.
        batch_tokens: number of tokens of a batch, padding included.
    """

    reverse: Translator | None = None
    language: TextScorer | None = None
    batch_tokens: int = 4096

    def score_candidates(self, translations: Sequence[Translation]) -> list[tuple[ScoredCandidate, ...] | None]:
        """Score the candidates of each translation, in order; None if one of them is too long for the reverse model."""
        pairs = list(
            dict.fromkeys(
                (candidate.text, translation.source)
                for translation in translations
                for candidate in translation.candidates
            )
        )
        reverse_scores, unread = self._score_reverse(pairs)
        texts = list(dict.fromkeys(text for text, _ in pairs))
        language_scores = {} if self.language is None else dict(zip(texts, self.language(texts), strict=True))
        return [
            None
            if any((candidate.text, translation.source) in unread for candidate in translation.candidates)
            else tuple(
                ScoredCandidate(
                    candidate,
                    reverse_scores.get((candidate.text, translation.source)),
                    language_scores.get(candidate.text),
                )
                for candidate in translation.candidates
            )
            for translation in translations
        ]

    def rerank(self, translations: Sequence[Translation], weights: ChannelWeights) -> list[Translation]:
        """Sort the candidates of each translation by the sum with these weights, which becomes their score; unchanged
        if `score_candidates` returned None.
        """
        return [
            translation if scored is None else _with_candidates(translation, rank_candidates(scored, weights), weights)
            for translation, scored in zip(translations, self.score_candidates(translations), strict=True)
        ]

    def _score_reverse(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[Mapping[tuple[str, str], float], set[tuple[str, str]]]:
        """Return log p(source | text) for pairs of text and source, and the pairs that are too long."""
        if self.reverse is None:
            return {}, set()
        unread = {pairs[index] for index in self.reverse.unread(pairs)}
        readable = [pair for pair in pairs if pair not in unread]
        scores = self.reverse.score(readable, batch_tokens=self.batch_tokens)
        return {pair: score.log_probability for pair, score in zip(readable, scores, strict=True)}, unread


def rank_candidates(candidates: Sequence[ScoredCandidate], weights: ChannelWeights) -> list[ScoredCandidate]:
    """Sort candidates by score, best first; ties keep their order."""
    return sorted(candidates, key=lambda candidate: -candidate.compute_score(weights))


def _with_candidates(
    translation: Translation, ranking: Sequence[ScoredCandidate], weights: ChannelWeights
) -> Translation:
    """Return a translation with these candidates, in this order and with their weighted scores, and without doubts."""
    candidates = tuple(replace(candidate.candidate, score=candidate.compute_score(weights)) for candidate in ranking)
    return replace(translation, candidates=candidates, doubts=())


def read_candidate_lists(lines: Iterable[str], *, name: str) -> Iterator[Translation]:
    """Parse the JSON lines of `heedful translate --n-best N --format jsonl`: objects with `source` and `candidates`.

    Of a candidate, `text`, `log_probability` and `tokens` are required, `finished` and `score` optional.

    Raises:
        DataError: a line is not valid; the message contains `name`, the name of the input.
    """
    for number, line in enumerate(lines, 1):
        location = f"{name}:{number}"
        try:
            record = parse_json(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("source"), str):
            raise DataError(
                f"{location}: is not a translation; give lines of heedful translate RUN --n-best 10 --format jsonl, or "
                "a run that translates sentences"
            )
        candidates = record.get("candidates")
        if not isinstance(candidates, list) or not candidates:
            raise DataError(
                f'{location}: has no list of "candidates"; write them with heedful translate --format jsonl'
            )
        yield Translation(
            record["source"], (), tuple(_parse_candidate(candidate, location) for candidate in candidates)
        )


def _parse_candidate(record: object, location: str) -> TextCandidate:
    """Parse the JSON record of one candidate; raise DataError with its location if a field is missing or wrong."""
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise DataError(f'{location}: a candidate has no "text"; correct it')
    number: Any = record.get("log_probability")
    tokens = record.get("tokens")
    if not _is_number(number):
        raise DataError(f'{location}: a candidate has no "log_probability"; give a number, in nats')
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise DataError(f'{location}: a candidate has no "tokens"; give the list of its pieces')
    score, finished = record.get("score", number), record.get("finished", True)
    if not _is_number(score) or not isinstance(finished, bool):
        raise DataError(f'{location}: "score" is not a number, or "finished" is neither true nor false; correct it')
    return TextCandidate(record["text"], (), tuple(tokens), float(number), float(score), finished)


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@final
@dataclass(frozen=True)
class RerankedTranslation:
    """A translation with reranked candidates and their scores; None if the order was kept."""

    translation: Translation
    scored: tuple[ScoredCandidate, ...] | None


@final
@dataclass(frozen=True)
class RerankLineFormat(LineFormat["TranslationInput | Translation", tuple[int, RerankedTranslation]]):
    """Translations as JSON lines, or sentences that are translated first; the best candidate, or several.

    Attributes:
        channel: scores the candidates.
        weights: of the features.
        translate: translates sentences; None if the lines contain candidates.
        num_candidates: number of candidates to write.
    """

    channel: NoisyChannel
    weights: ChannelWeights
    translate: TranslationLineFormat | None = None
    num_candidates: int = 1

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[TranslationInput | Translation]:
        """Parse lines as sentences, or as translations with candidates if the format does not translate; `source_name`
        is named in errors.
        """
        return (
            read_candidate_lists(lines, name=source_name)
            if self.translate is None
            else self.translate.parse_lines(lines, source_name=source_name)
        )

    def get_translations(self, inputs: Sequence[TranslationInput | Translation], *, start: int) -> list[Translation]:
        """Return the translations whose candidates are reranked, translating sentences first; the first input has the
        number `start`.
        """
        if self.translate is None:
            return [item for item in inputs if isinstance(item, Translation)]
        sentences = [item for item in inputs if isinstance(item, TranslationInput)]
        return [item for _, item in self.translate.answer_inputs(sentences, start=start)]

    def answer_inputs(
        self, inputs: Sequence[TranslationInput | Translation], *, start: int
    ) -> list[tuple[int, RerankedTranslation]]:
        """Rerank the candidates of each input and number the results from `start`."""
        translations = self.get_translations(inputs, start=start)
        answers = []
        for translation, scored in zip(translations, self.channel.score_candidates(translations), strict=True):
            ranking = None if scored is None else tuple(rank_candidates(scored, self.weights)[: self.num_candidates])
            best = translation if ranking is None else _with_candidates(translation, ranking, self.weights)
            answers.append(
                RerankedTranslation(replace(best, candidates=best.candidates[: self.num_candidates]), ranking)
            )
        return list(enumerate(answers, start))

    def to_json(self, answer: tuple[int, RerankedTranslation]) -> Any:
        """Return source, best translation, and candidates with their new scores and feature values, as JSON data."""
        translation = answer[1].translation
        records = [candidate.json_record for candidate in translation.candidates]
        for record, scored in zip(records, answer[1].scored or (), strict=False):
            features = {"reverse": scored.reverse, "language": scored.language}
            record |= {name: round(value, 5) for name, value in features.items() if value is not None}
        return {"source": translation.source, "translation": translation.text, "candidates": records}

    def format_answer(self, answer: tuple[int, RerankedTranslation]) -> str:
        """Format the best candidate, or one line for each."""
        number, translation = answer[0], answer[1].translation
        if self.num_candidates == 1:
            return f"{translation.text}\n"
        return "".join(
            f"{number}\t{escape_cell(candidate.text)}\t{candidate.score:.4f}\n" for candidate in translation.candidates
        )

    def input_notes(self, answer: tuple[int, RerankedTranslation]) -> Iterator[str]:
        """Return a note on sentences that kept their order, and the notes of the translation."""
        if answer[1].scored is None:
            yield UNRANKED
        yield from answer[1].translation.notes


MetricName = Literal["bleu", "chrf"]
_NAMES: Final = {"bleu": "BLEU", "chrf": "chrF2"}
_STARTS: Final = ((0.0, 0.0, 0.0), (0.5, 0.25, 0.5), (1.0, 1.0, 1.0))
_STEPS: Final = (0.2, 0.05, 0.01)
_SEARCH_RADIUS: Final = 10
"""Number of steps that are tried on both sides of a weight."""


@dataclass(frozen=True)
class TuningResult:
    """Tuned weights and their quality.

    Attributes:
        weights: tuned on all sentences.
        sentences: number of sentences.
        metric: display name of the metric.
        before: score of the first candidates, in percent.
        direct: score of the candidates that the translation model finds most probable.
        after: score of the candidates that the weights select.
        held_out: score with two-fold cross-validation.
    """

    weights: ChannelWeights
    sentences: int
    metric: str
    before: float
    direct: float
    after: float
    held_out: float

    def to_table(self) -> PageTable:
        """Build a table of the scores."""
        rows = [
            ["original order", self.before],
            ["most probable", self.direct],
            ["tuned", self.after],
            ["tuned on one half, measured on the other", self.held_out],
        ]
        notes = (f"{self.sentences:,} sentences; only the last line estimates the result on other text",)
        return PageTable("", ["chosen", self.metric], [[str(name), f"{value:.2f}"] for name, value in rows], notes)


class _CandidateLists:
    """Candidate lists as arrays, padded with candidates that are never selected.

    Args:
        candidates: scored candidates of each sentence, not empty.
        references: of each sentence.
        metric: by which candidates are scored.
    """

    def __init__(
        self, candidates: Sequence[Sequence[ScoredCandidate]], references: Sequence[str], metric: MetricName
    ) -> None:
        sizes = [len(sentence_candidates) for sentence_candidates in candidates]
        is_real = np.arange(max(sizes)) < np.array(sizes)[:, None]
        pairs = [
            (candidate.candidate.text, reference)
            for sentence_candidates, reference in zip(candidates, references, strict=True)
            for candidate in sentence_candidates
        ]
        pair_numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        texts, reference = zip(*pair_numbers, strict=True)
        self._metric = (
            CorpusBLEU(texts, reference, tokenize=select_bleu_tokenizer(references))
            if metric == "bleu"
            else CorpusChrF(texts, reference)
        )
        self._counts = np.zeros((*is_real.shape, self._metric.counts.shape[1]))
        self._counts[is_real] = self._metric.counts[[pair_numbers[pair] for pair in pairs]]
        self._log_probabilities = np.full(is_real.shape, -np.inf)
        self._log_probabilities[is_real] = [
            candidate.candidate.log_probability
            for sentence_candidates in candidates
            for candidate in sentence_candidates
        ]
        self._features = np.zeros((*is_real.shape, 3))
        self._features[is_real] = [
            candidate.features for sentence_candidates in candidates for candidate in sentence_candidates
        ]

    def score_first(self, mask: slice) -> float:
        """Return the score of the first candidates."""
        return float(self._metric.score_sums(self._counts[mask, 0].sum(0, keepdims=True))[0])

    def score_weights(self, weights: Float[np.ndarray, "W 3"], mask: slice) -> Float[np.ndarray, " W"]:
        """Return the score of the candidates that each row of weights (W, 3) selects, in the sentences of a slice."""
        return self._metric.score_sums(self._sum_counts(weights, mask))

    def score_combined(self, parts: Sequence[tuple[slice, Float[np.ndarray, " 3"]]]) -> float:
        """Return the score of a corpus whose parts, slices of the sentences, use different weights."""
        sums = sum(self._sum_counts(weights[None], mask) for mask, weights in parts)
        assert isinstance(sums, np.ndarray)
        return float(self._metric.score_sums(sums)[0])

    def _sum_counts(self, weights: Float[np.ndarray, "W 3"], mask: slice) -> Float[np.ndarray, "W counts"]:
        """Return the summed metric counts (W, counts) of the candidates that each row of weights selects, in the
        sentences of the slice `mask`.
        """
        counts = self._counts[mask]
        scores = self._log_probabilities[mask] + np.tensordot(weights, self._features[mask], (1, 2))
        best_candidates, rows = scores.argmax(2), np.arange(len(counts))
        return np.stack([counts[rows, selected].sum(0) for selected in best_candidates])

    def optimize_weights(self, axes: Sequence[int], mask: slice) -> Float[np.ndarray, " 3"]:
        """Find the best weights for the sentences of the slice `mask` by coordinate ascent from a few starts; weights
        whose index is not in `axes` stay 0.
        """
        optima = []
        for start in _STARTS:
            weights = np.array([number if axis in axes else 0.0 for axis, number in enumerate(start)])
            for step in _STEPS:
                weights = self._climb(weights, axes, mask, step=step)
            optima.append((float(self.score_weights(weights[None], mask)[0]), weights))
        return max(optima, key=lambda optimum: optimum[0])[1]

    def _climb(
        self, weights: Float[np.ndarray, " 3"], axes: Sequence[int], mask: slice, *, step: float
    ) -> Float[np.ndarray, " 3"]:
        """Ascend from `weights` along one of the `axes` after the other by multiples of `step`, until none improves the
        score of the sentences of the slice `mask`; among equal ones the nearest is taken.
        """
        value = float(self.score_weights(weights[None], mask)[0])
        while True:
            previous = value
            for axis in axes:
                candidates = np.repeat(weights[None], 2 * _SEARCH_RADIUS + 1, 0)
                candidates[:, axis] += step * np.array(sorted(range(-_SEARCH_RADIUS, _SEARCH_RADIUS + 1), key=abs))
                if axis < 2:  # probabilities never count against a text
                    candidates = candidates[candidates[:, axis] >= 0]
                scores = self.score_weights(candidates, mask)
                if scores.max() > value + 1e-9:
                    weights, value = candidates[scores.argmax()], float(scores.max())
            if value <= previous:
                return weights


def tune_weights(
    candidates: Sequence[Sequence[ScoredCandidate] | None], references: Sequence[str], *, metric: MetricName = "bleu"
) -> TuningResult:
    """Find the weights whose selected candidates are closest to the references, as a corpus, by BLEU or chrF
    (`metric`). `candidates` are those of each sentence, or None without scores.

    Coordinate ascent with decreasing steps from three starts; it is deterministic. A missing model gets the weight 0,
    and sentences without scores are left out.

    Raises:
        DataError: the numbers of references and sentences differ, or fewer than two sentences have scores.
    """
    if len(candidates) != len(references):
        raise DataError(f"{len(candidates):,} sentences, and {len(references):,} references; give one for each")
    pairs = [
        (sentence_candidates, reference)
        for sentence_candidates, reference in zip(candidates, references, strict=True)
        if sentence_candidates
    ]
    if len(pairs) < 2:
        raise DataError("fewer than two sentences have candidates; give more, some hundreds to tune by")
    lists = _CandidateLists(
        [sentence_candidates for sentence_candidates, _ in pairs], [reference for _, reference in pairs], metric
    )
    first_candidates = [sentence_candidates[0] for sentence_candidates, _ in pairs]
    free = [
        axis for axis, name in enumerate(("reverse", "language")) if getattr(first_candidates[0], name) is not None
    ] + [2]
    all_rows = slice(None)
    weights = lists.optimize_weights(free, all_rows)
    halves = slice(0, None, 2), slice(1, None, 2)
    shares = [(halves[1 - index], lists.optimize_weights(free, half)) for index, half in enumerate(halves)]
    reverse, language, length = (round(float(number), 4) for number in weights)
    return TuningResult(
        ChannelWeights(reverse=reverse, language=language, length=length),
        len(pairs),
        _NAMES[metric],
        before=lists.score_first(all_rows),
        direct=float(lists.score_weights(np.zeros((1, 3)), all_rows)[0]),
        after=float(lists.score_weights(weights[None], all_rows)[0]),
        held_out=lists.score_combined(shares),
    )
