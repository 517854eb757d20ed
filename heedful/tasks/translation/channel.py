"""Candidates ranked by a noisy channel: one model found them, another translates back, a third knows the language."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

from pydantic import BaseModel, ValidationError

from heedful.errors import DataError, RecipeError
from heedful.files import parse_json, read_bytes
from heedful.tasks.faces import Lines, cell
from heedful.tasks.target import Candidate
from heedful.tasks.translation.face import Translator
from heedful.tasks.translation.translations import Sentence, Translation, TranslationLines

LEFT: Final = "longer than a model that judges reads, left in the order in which they came"
"""What is told of a sentence (`Lines.notes`)."""

LogProbabilities: TypeAlias = Callable[[Sequence[str]], Sequence[float]]
"""Of texts, ends included, in nats."""


class Weights(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """What counts beside the log-probability of the model that translates, whose weight is 1.

    Attributes:
        reverse: of log p(source | translation).
        language: of log p(translation).
        length: of the translation's tokens, its end included: probabilities favour short ones, the more of them there
            are.
    """

    format: Literal[1] = 1
    reverse: float = 0.0
    language: float = 0.0
    length: float = 0.0


USUAL: Final = Weights(reverse=1.0, language=0.5, length=0.5)
"""Where nobody says others."""


def read_weights(path: Path) -> Weights:
    """What `heedful rerank --tune` wrote.

    Raises:
        RecipeError: the file holds something else, or cannot be read.
    """
    try:
        content = read_bytes(path)
        parse_json(content)
        return Weights.model_validate_json(content)
    except (OSError, ValidationError, ValueError):
        raise RecipeError(
            f"{path}: holds no weights; write them with heedful rerank --tune REFERENCES -o FILE"
        ) from None


@final
@dataclass(frozen=True)
class Judged:
    """A candidate, and what others say of it.

    Attributes:
        candidate: as it was found.
        reverse: log p(source | candidate) in nats; None where nobody says it.
        language: log p(candidate), likewise.
    """

    candidate: Candidate
    reverse: float | None = None
    language: float | None = None

    @property
    def features(self) -> tuple[float, float, float]:
        """What `Weights` are of, in their order."""
        return self.reverse or 0.0, self.language or 0.0, float(len(self.candidate.tokens) + self.candidate.finished)

    def score(self, weights: Weights) -> float:
        """log p(y|x) + a log p(x|y) + b log p(y) + c |y|."""
        own = (weights.reverse, weights.language, weights.length)
        return self.candidate.log_probability + sum(a * b for a, b in zip(own, self.features, strict=True))


@final
@dataclass(frozen=True)
class NoisyChannel:
    """Judges translations by p(x|y) p(y) as well (Yu et al. 2017, section 3; Yee, Dauphin and Auli 2019, section 2).

    Attributes:
        reverse: translates translations back to sources; None if nobody does.
        language: knows the language of translations, likewise.
        batch_tokens: that are read at one time, padding included.
    """

    reverse: Translator | None = None
    language: LogProbabilities | None = None
    batch_tokens: int = 4096

    def judge(self, translations: Sequence[Translation]) -> list[tuple[Judged, ...] | None]:
        """Of each sentence its candidates, in their order; None where one is longer than the reverse model reads."""
        pairs = list(dict.fromkeys((each.text, own.source) for own in translations for each in own.candidates))
        back, unread = self._back(pairs)
        texts = list(dict.fromkeys(text for text, _ in pairs))
        said = {} if self.language is None else dict(zip(texts, self.language(texts), strict=True))
        return [
            None
            if any((each.text, own.source) in unread for each in own.candidates)
            else tuple(Judged(each, back.get((each.text, own.source)), said.get(each.text)) for each in own.candidates)
            for own in translations
        ]

    def rerank(self, translations: Sequence[Translation], weights: Weights) -> list[Translation]:
        """With candidates by the weighted sums, their scores then; as they came where `judge` says None."""
        return [
            own if judged is None else _chosen(own, ranked(judged, weights), weights)
            for own, judged in zip(translations, self.judge(translations), strict=True)
        ]

    def _back(self, pairs: Sequence[tuple[str, str]]) -> tuple[Mapping[tuple[str, str], float], set[tuple[str, str]]]:
        """log p(source | text) of pairs of a text and its source, and the pairs that are too long."""
        if self.reverse is None:
            return {}, set()
        unread = {pairs[place] for place in self.reverse.unread(pairs)}
        read = [pair for pair in pairs if pair not in unread]
        scores = self.reverse.score(read, batch_tokens=self.batch_tokens)
        return {pair: each.log_probability for pair, each in zip(read, scores, strict=True)}, unread


def ranked(judged: Sequence[Judged], weights: Weights) -> list[Judged]:
    """The best first; equal ones as they came."""
    return sorted(judged, key=lambda each: -each.score(weights))


def _chosen(own: Translation, order: Sequence[Judged], weights: Weights) -> Translation:
    chosen = tuple(replace(each.candidate, score=each.score(weights)) for each in order)
    return replace(own, candidates=chosen, doubts=())


def read_candidates(lines: Iterable[str], *, name: str) -> Iterator[Translation]:
    """What `heedful translate --n-best N --format jsonl` wrote: objects with `source` and `candidates`, one a line.

    Of a candidate `text`, `log_probability` and `tokens` are read, and `finished` and `score` if they are there.

    Raises:
        DataError: a line is none; `name` says in the message where it is from.
    """
    for number, line in enumerate(lines, 1):
        place = f"{name}:{number}"
        try:
            found = parse_json(line)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("source"), str):
            raise DataError(
                f"{place}: no translations; give lines of heedful translate RUN --n-best 10 --format jsonl, or a run "
                "that translates sentences"
            )
        given = found.get("candidates")
        if not isinstance(given, list) or not given:
            raise DataError(f'{place}: no list of "candidates"; write them with heedful translate --format jsonl')
        yield Translation(found["source"], (), tuple(_candidate(each, place) for each in given))


def _candidate(found: object, place: str) -> Candidate:
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise DataError(f'{place}: a candidate has no "text"; mend it')
    number: Any = found.get("log_probability")
    tokens = found.get("tokens")
    if not _is_number(number):
        raise DataError(f'{place}: a candidate has no "log_probability"; give a number, in nats')
    if not isinstance(tokens, list) or not all(isinstance(each, str) for each in tokens):
        raise DataError(f'{place}: a candidate has no "tokens"; give the list of its pieces')
    score, finished = found.get("score", number), found.get("finished", True)
    if not _is_number(score) or not isinstance(finished, bool):
        raise DataError(f'{place}: "score" is no number, or "finished" is neither true nor false; mend it')
    return Candidate(found["text"], (), tuple(tokens), float(number), float(score), finished)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@final
@dataclass(frozen=True)
class Reranked:
    """A translation whose candidates were ranked anew, and what others say of them; None if it was left as it came."""

    translation: Translation
    judged: tuple[Judged, ...] | None


@final
@dataclass(frozen=True)
class RerankLines(Lines["Sentence | Translation", tuple[int, Reranked]]):
    """Translations a line in JSON, or sentences a line that are translated first; the best one, or several.

    Attributes:
        channel: who judges.
        weights: of what is said.
        translate: finds candidates of sentences; None where lines have them.
        keep: candidates that are told.
    """

    channel: NoisyChannel
    weights: Weights
    translate: TranslationLines | None = None
    keep: int = 1

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[Sentence | Translation]:
        """Sentences, or translations."""
        return read_candidates(lines, name=name) if self.translate is None else self.translate.inputs(lines, name=name)

    def found(self, inputs: Sequence[Sentence | Translation], *, first: int) -> list[Translation]:
        """The translations among which is chosen."""
        if self.translate is None:
            return [each for each in inputs if isinstance(each, Translation)]
        sentences = [each for each in inputs if isinstance(each, Sentence)]
        return [each for _, each in self.translate.answers(sentences, first=first)]

    def answers(self, inputs: Sequence[Sentence | Translation], *, first: int) -> list[tuple[int, Reranked]]:
        """Numbers and translations."""
        translations = self.found(inputs, first=first)
        answers = []
        for own, judged in zip(translations, self.channel.judge(translations), strict=True):
            order = None if judged is None else tuple(ranked(judged, self.weights)[: self.keep])
            best = own if order is None else _chosen(own, order, self.weights)
            answers.append(Reranked(replace(best, candidates=best.candidates[: self.keep]), order))
        return list(enumerate(answers, first))

    def record(self, answer: tuple[int, Reranked]) -> Any:
        """Candidates with their new scores, and the log-probabilities that these are made of."""
        own = answer[1].translation
        records = [each.record for each in own.candidates]
        for record, judged in zip(records, answer[1].judged or (), strict=False):
            said = {"reverse": judged.reverse, "language": judged.language}
            record |= {name: round(value, 5) for name, value in said.items() if value is not None}
        return {"source": own.source, "translation": own.text, "candidates": records}

    def text(self, answer: tuple[int, Reranked]) -> str:
        """The best one, or a line for each."""
        number, own = answer[0], answer[1].translation
        if self.keep == 1:
            return f"{own.text}\n"
        return "".join(f"{number}\t{cell(each.text)}\t{each.score:.4f}\n" for each in own.candidates)

    def notes(self, answer: tuple[int, Reranked]) -> Iterator[str]:
        """Of sentences that were left as they came, and what translating them told."""
        if answer[1].judged is None:
            yield LEFT
        yield from answer[1].translation.notes
