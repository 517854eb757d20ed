"""Noisy channel reranking of translation candidates with a reverse translation model and a language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

from pydantic import BaseModel, ValidationError

from heedful.errors import DataError, RecipeError
from heedful.files import parse_json, read_bytes
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
        """Return the weighted sum log p(y|x) + a log p(x|y) + b log p(y) + c |y|."""
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
        """Score the candidates of each sentence, in order; None if one is too long for the reverse model."""
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
        """Sort the candidates of each sentence by the weighted sum, which becomes their score; unchanged if
        `score_candidates` returned None.
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
    """Return a translation with these candidates and their new scores."""
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
    """Parse one candidate; raise DataError if a field is missing or wrong."""
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise DataError(f'{location}: a candidate has no "text"; mend it')
    number: Any = record.get("log_probability")
    tokens = record.get("tokens")
    if not _is_number(number):
        raise DataError(f'{location}: a candidate has no "log_probability"; give a number, in nats')
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise DataError(f'{location}: a candidate has no "tokens"; give the list of its pieces')
    score, finished = record.get("score", number), record.get("finished", True)
    if not _is_number(score) or not isinstance(finished, bool):
        raise DataError(f'{location}: "score" is not a number, or "finished" is neither true nor false; mend it')
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
        """Parse sentences, or translations with candidates."""
        return (
            read_candidate_lists(lines, name=source_name)
            if self.translate is None
            else self.translate.parse_lines(lines, source_name=source_name)
        )

    def get_translations(self, inputs: Sequence[TranslationInput | Translation], *, start: int) -> list[Translation]:
        """Return the translations whose candidates are reranked, translating sentences first."""
        if self.translate is None:
            return [item for item in inputs if isinstance(item, Translation)]
        sentences = [item for item in inputs if isinstance(item, TranslationInput)]
        return [item for _, item in self.translate.answer_inputs(sentences, start=start)]

    def answer_inputs(
        self, inputs: Sequence[TranslationInput | Translation], *, start: int
    ) -> list[tuple[int, RerankedTranslation]]:
        """Rerank the candidates of each input and number the results."""
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
        """Return the candidates with their new scores and feature values."""
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
