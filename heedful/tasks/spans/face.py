"""A trained answerer as its user sees it: questions and texts in, parts of the texts out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float
from torch.nn import functional

from heedful.data.readers import Record as Fields
from heedful.data.sequences import Window
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.given_texts import pair_list, require_text
from heedful.inspection.record import Answer, Option, Record
from heedful.models.token_classifier import TokenClassifier
from heedful.tasks.faces import CUT, Asked, Face, Lines, at_once, in_batches
from heedful.tasks.inspecting import Scope, attributed, encoded, repeated
from heedful.tasks.spans.windows import NOWHERE, Cutting, WindowBatch, question_windows, read_windows
from heedful.values import move

_KEPT = 20


@dataclass(frozen=True)
class Span:
    """A part of a context that may be the answer.

    Attributes:
        text: as it stands in the context.
        start: its first character.
        stop: the character behind it.
        score: begin logit and end logit together.
        probability: among the best spans and saying nothing.
    """

    text: str
    start: int
    stop: int
    score: float
    probability: float = 0.0


@dataclass(frozen=True)
class Answered:
    """What a model answers.

    Attributes:
        text: the answer; empty where it says that the context has none.
        spans: the best parts of the context, whether or not one of them is the answer; none in an empty context.
        silence: how much more speaks for no answer than for the best span.
        none: the probability that there is no answer, among the best spans.
        cut: tokens at the end of the question that were not read; contexts are read in full, in windows.
    """

    text: str
    spans: tuple[Span, ...]
    silence: float
    none: float
    cut: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Answerer(Face):
    """A model with the tokenizer it was trained with.

    Attributes:
        model: in evaluation mode; its two outputs are the logits of begin and end.
        tokenizer: of questions and contexts.
        cutting: how contexts are cut.
        max_answer: tokens of an answer at most.
        threshold: the `silence` from which on there is no answer; None where there always is one.
    """

    model: TokenClassifier
    _: KW_ONLY
    tokenizer: Tokenizer
    cutting: Cutting
    max_answer: int
    threshold: float | None

    def answer(self, question: str, context: str, *, n_best: int = 1) -> Answered:
        """The answer to one question; see `answer_all`."""
        require_text(question, name="question")
        require_text(context, name="context")
        return self.answer_all([(question, context)], n_best=n_best)[0]

    def answer_all(
        self, questions: Sequence[tuple[str, str]], *, n_best: int = 1, batch_tokens: int | None = None, first: int = 1
    ) -> list[Answered]:
        """What the contexts answer to questions.

        Args:
            questions: each with its context; a single pair is a list of one.
            n_best: spans to tell.
            batch_tokens: padded tokens that are read at a time; see `at_once`.
            first: number of the first question, for messages.

        Raises:
            DataError: tokens of a context cannot be found again in its text; the message says in which.
        """
        questions = pair_list(questions, name="questions", parts="a question and its context")
        cut = [
            question_windows(self.tokenizer, question, context, cutting=self.cutting, place=f"question {number}")
            for number, (question, context) in enumerate(questions, first)
        ]
        flat = [window for windows in cut for window in windows]
        logits = self.logits(flat, batch_tokens=batch_tokens)
        found, at = [], 0
        for (question, context), windows in zip(questions, cut, strict=True):
            best = self._best(windows, logits[at : at + len(windows)], context, n_best=n_best)
            asked = len(self.tokenizer.encode(question))
            found.append(replace(best, cut=max(0, asked - self.cutting.max_question)))
            at += len(windows)
        return found

    def _best(
        self, windows: Sequence[Window], logits: Sequence[Float[np.ndarray, "T 2"]], context: str, *, n_best: int
    ) -> Answered:
        return best_answer(
            windows, logits, context, max_answer=self.max_answer, threshold=self.threshold, n_best=n_best
        )

    def inspect(self, question: str, context: str, *, scope: Scope | None = None) -> Record:
        """Everything the model attends to while it reads a question and a context, and where it sees the answer.

        Of a long context the part is shown whose best span is the answer.

        Args:
            question: one question.
            context: the text that may answer it.
            scope: layers, heads and details that are kept; all unless given.

        Raises:
            DataError: tokens of the context cannot be found again in its text.
            RecipeError: no such layer or head.
        """
        require_text(question, name="question")
        require_text(context, name="context")
        scope = scope or Scope()
        cut = question_windows(self.tokenizer, question, context, cutting=self.cutting, place="the question")
        logits = self.logits(cut)
        found = self._best(cut, logits, context, n_best=scope.alternatives)
        best = [
            max((score for _, _, score in _spans(window, values, max_answer=self.max_answer)), default=-math.inf)
            for window, values in zip(cut, logits, strict=True)
        ]
        shown = int(np.argmax(best))
        batch = self._batch([cut[shown]])
        possible = functional.pad(batch.possible, (0, scope.padding))
        record, said = encoded(
            self.model,
            lambda tokens: span_logits(self.model, replace(batch, tokens=tokens, possible=possible))[0],
            batch.tokens,
            tokenizer=self.tokenizer,
            scope=scope,
            title=f"{question} / {context}",
        )
        notes = (f"The context was read in {len(cut)} parts that overlap; this is part {shown + 1}.",)
        told = _spans_told(found, cut[shown])
        record = replace(
            record,
            answers=(told, *self._ends_told(said, cut[shown], most=scope.alternatives)),
            notes=(*record.notes, *(notes if len(cut) > 1 else ())),
        )
        chosen = next((span for span in found.spans if span.text == told.said), None)
        where = (NOWHERE, NOWHERE) if chosen is None else cut[shown].locate(chosen.start, chosen.stop)
        ends: list[int] = said.argmax(0).tolist()

        def values(rows: int) -> torch.Tensor:
            many = replace(batch, tokens=repeated(scope.padded(batch.tokens), rows), possible=possible)
            begin, end = span_logits(self.model, many).log_softmax(1).unbind(-1)
            both = [] if where is None else [begin[:, where[0]] + end[:, where[1]]]
            return torch.stack([*both, begin[:, ends[0]], end[:, ends[1]]], 1)

        places = (1, 2) if where is None else (0, 1, 2)
        return attributed(record, self.model, values, scope=scope, about="answers", places=places)

    def _ends_told(self, logits: Float[torch.Tensor, "T 2"], window: Window, *, most: int) -> list[Answer]:
        """Where the answer may begin and where it may end, in one window."""
        names = ["no answer", *self.tokenizer.pieces(window.ids[1:])]
        told = []
        for about, chances in zip(
            ("first token of the answer", "last token of the answer"), logits.softmax(0).T, strict=True
        ):
            best = chances.topk(min(most, int((chances > 0).sum())))
            options = [
                Option(names[place], chance, None if place == NOWHERE else place)
                for place, chance in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ]
            told.append(Answer(about, "", None, tuple(options)))
        return told

    def logits(self, windows: Sequence[Window], *, batch_tokens: int | None = None) -> list[Float[np.ndarray, "T 2"]]:
        """Of each token of each window the logits of beginning and of ending the answer; -inf where it cannot."""
        tokens = batch_tokens or at_once(self.model)
        return in_batches(windows, self._said, size=lambda window: len(window.ids), tokens=tokens)

    def _said(self, batch: list[Window]) -> list[np.ndarray]:
        logits = span_logits(self.model, self._batch(batch)).cpu().numpy()
        return [values[: len(window.ids)] for window, values in zip(batch, logits, strict=True)]

    def _batch(self, windows: Sequence[Window]) -> WindowBatch:
        return move(read_windows(windows), next(self.model.parameters()).device)

    def lines(self) -> AnswerLines:
        """Questions with their contexts as JSON."""
        return AnswerLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`; the second text is the context."""
        context = asked.to_read().target
        if context is None:
            raise RecipeError("--pair: give the context that --text is a question about")
        return self.inspect(asked.source, context, scope=asked.scope)


@final
@dataclass(frozen=True)
class AnswerLines(Lines[tuple[str, str], Answered]):
    """A JSON object with `question` and `context` a line, empty ones left out; an answer a line, empty for none.

    Attributes:
        answerer: who answers.
        n_best: parts of the text that JSON tells.
    """

    answerer: Answerer
    n_best: int = 1
    chunk: ClassVar = 256

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[tuple[str, str]]:
        """Questions and their contexts."""
        for number, line in enumerate(lines, 1):
            if line.strip():
                record = Fields.read(line, place=f"{name}:{number}")
                yield record.text("question"), record.text("context")

    def answers(self, inputs: Sequence[tuple[str, str]], *, first: int) -> list[Answered]:
        """Parts of the contexts."""
        return self.answerer.answer_all(inputs, n_best=self.n_best, first=first)

    def record(self, answer: Answered) -> Any:
        """With places and probabilities."""
        content = {"answer": answer.text, "none": answer.none, "spans": [asdict(span) for span in answer.spans]}
        return {**content, "cut": answer.cut} if answer.cut else content

    def text(self, answer: Answered) -> str:
        """One line."""
        return " ".join(answer.text.split()) + "\n"

    def notes(self, answer: Answered) -> Iterator[str]:
        """Of questions that are too long."""
        return iter([CUT] if answer.cut else [])


def _spans_told(found: Answered, window: Window) -> Answer:
    """The best spans and saying nothing, by probability; those that are in the window have their place there."""
    options = [Option("no answer", found.none)]
    for span in found.spans:
        where = window.locate(span.start, span.stop)
        options.append(Option(span.text, span.probability, None if where is None else where[0]))
    return Answer("answer", "", None, tuple(sorted(options, key=lambda option: -option.probability)))


def span_logits(model: TokenClassifier, batch: WindowBatch) -> Float[torch.Tensor, "B T 2"]:
    """Logits of begin and end, -inf where there cannot be any."""
    logits = model.output(model(batch.tokens)).float()
    masked: torch.Tensor = logits.masked_fill(~batch.possible.unsqueeze(-1), -math.inf)
    return masked


def best_answer(
    windows: Sequence[Window],
    logits: Sequence[Float[np.ndarray, "T 2"]],
    context: str,
    *,
    max_answer: int,
    threshold: float | None,
    n_best: int = 1,
) -> Answered:
    """The best parts of a context by what each window says (Devlin et al. 2019, 4.2 and 4.3).

    The score of a span is its begin logit and its end logit together; spans that begin where another window knows more
    of the context are left to that window. What speaks for no answer is the smallest score of `NOWHERE`, because only
    one window needs to hold the answer.
    """
    silent = min(float(values[NOWHERE].sum()) for values in logits)
    best: dict[tuple[int, int], float] = {}
    for window, values in zip(windows, logits, strict=True):
        for first, last, score in _spans(window, values, max_answer=max_answer):
            place = (window.offsets[first - window.begin][0], window.offsets[last - window.begin][1])
            best[place] = max(score, best.get(place, -math.inf))
    ordered = sorted(best.items(), key=lambda item: (-item[1], item[0]))[: max(n_best, _KEPT)]
    scores = np.array([silent, *(score for _, score in ordered)])
    chances = np.exp(scores - scores.max())
    chances = chances / chances.sum()
    spans = tuple(
        Span(context[start:stop], start, stop, score, float(chance))
        for ((start, stop), score), chance in zip(ordered, chances[1:], strict=True)
    )
    silence = silent - spans[0].score if spans else math.inf
    quiet = not spans or (threshold is not None and silence >= threshold)
    return Answered("" if quiet else spans[0].text, spans[:n_best], silence, float(chances[0]))


def _spans(window: Window, values: Float[np.ndarray, "T 2"], *, max_answer: int) -> list[tuple[int, int, float]]:
    """The best spans of a window: indices in its ids, and score."""
    count = len(window.offsets)
    if not count:
        return []
    inside = values[window.begin : window.begin + count]
    solid = np.array([stop > start for start, stop in window.offsets])
    begins = np.where(solid & np.array(window.central), inside[:, 0], -math.inf)
    ends = np.where(solid, inside[:, 1], -math.inf)
    width = min(max_answer, count)
    # row i, column j: from token i to token i + j
    shifted = np.concatenate((ends, np.full(width, -math.inf)))
    table = begins[:, None] + np.lib.stride_tricks.sliding_window_view(shifted, width)[:count]
    flat = table.ravel()
    chosen = np.argpartition(-flat, min(_KEPT, len(flat) - 1))[:_KEPT]
    return [
        (window.begin + int(at) // width, window.begin + int(at) // width + int(at) % width, float(flat[at]))
        for at in chosen
        if flat[at] > -math.inf
    ]
