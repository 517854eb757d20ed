"""A trained classifier as its user sees it: texts in, classes or numbers out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import islice
from typing import Any, Final, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from heedful.data.batches import paired_tokens
from heedful.data.labels import Labels
from heedful.data.sequences import Joined, frame
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.given_texts import text_list
from heedful.inspection.record import Answer, Record
from heedful.models.text_classifier import TextClassifier
from heedful.tasks.classification.recipe import Verdict
from heedful.tasks.faces import CUT, Asked, Face, Lines, Saying, at_once, cell, in_batches
from heedful.tasks.inspecting import Scope, attributed, best_options, encoded, repeated
from heedful.values import Tokens, move

ALONE: Final = "one text alone, and the model learned from pairs; give the second one too (--pair, or behind a tab)"
UNMARKED: Final = "no word between asterisks, and the model learned from texts that mark one, as in: the *bank* is near"
_MARKED: Final = re.compile(r"\*[^*]+\*")
Texts = str | Sequence[str]
"""One text, or two that are judged together."""
Columns = tuple[str, ...]


@dataclass(frozen=True)
class Classified:
    """What a model says of a text.

    Attributes:
        label: the most probable class, or the number.
        probabilities: of all classes, the most probable first; empty where the answer is a number. They sum to 1,
            unless the model judges each class by itself.
        cut: tokens at the end of the text, or of the longer of two, that there was no room for.
        doubts: how the text differs from all that training had, so that the answer may mean nothing.
    """

    label: str | float
    probabilities: Mapping[str, float] = field(default_factory=dict)
    cut: int = 0
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chosen:
    """Which of several candidates is right: its number, from 0, and the probability of each.

    `cut` tokens of all candidates and what they share were not read, at the ends of what is too long.
    """

    number: int
    probabilities: tuple[float, ...]
    cut: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Classifier(Face):
    """A model with the tokenizer and the classes it was trained with.

    Attributes:
        model: in evaluation mode.
        tokenizer: of the texts.
        answered: what it says of a text.
        labels: the classes; None where there are none.
        max_length: tokens that are read, with begin and ends.
        paired: whether it reads nothing but two texts together.
        independent: whether each class is judged by itself, so that several or none may be right.
        pairs: whether it learned from pairs of texts; a text alone then gets an answer, and a doubt.
        marked: whether it learned from texts with a word between asterisks; others get a doubt.
    """

    model: TextClassifier
    _: KW_ONLY
    tokenizer: Tokenizer
    answered: Verdict
    labels: Labels | None
    max_length: int
    paired: bool = False
    independent: bool = False
    pairs: bool = False
    marked: bool = False

    def classify(self, texts: str | Sequence[Texts], *, batch_tokens: int | None = None) -> list[Classified]:
        """The class or the number of each text, or of each pair of texts.

        Raises:
            DataError: the model chooses among candidates, is given more than two texts to judge together, or one where
                it reads two.
        """
        if self.answered == "choice":
            raise DataError("this model chooses among candidates: give it candidates with `choose`")
        given = _listed(texts)
        rows, doubts = [self._frame(each) for each in given], list(map(self._doubts, given))
        logits = self._logits(rows, batch_tokens=batch_tokens)
        if self.answered == "number":
            numbers = logits.squeeze(1).tolist()
            return [
                Classified(number, cut=row.cut, doubts=own)
                for number, row, own in zip(numbers, rows, doubts, strict=True)
            ]
        assert self.labels is not None
        found = []
        for chances, row, own in zip(self._chances(logits).tolist(), rows, doubts, strict=True):
            ordered = sorted(zip(self.labels.names, chances, strict=True), key=lambda pair: -pair[1])
            found.append(Classified(ordered[0][0], dict(ordered), row.cut, own))
        return found

    def choose(self, choices: Sequence[Sequence[Texts]], *, batch_tokens: int | None = None) -> list[Chosen]:
        """The most probable of the candidates of each choice; each candidate is one text, or two.

        Raises:
            DataError: the model does not choose, or a choice has no candidates.
        """
        if self.answered != "choice":
            raise DataError("this model tells what texts are and does not choose: give it texts with `classify`")
        choices = [_listed(candidates, f"choices[{place}]") for place, candidates in enumerate(choices)]
        for number, candidates in enumerate(choices, 1):
            if not candidates:
                raise DataError(f"choice {number}: has no candidates")
        rows = [self._frame(candidate) for candidates in choices for candidate in candidates]
        scores = self._logits(rows, batch_tokens=batch_tokens).squeeze(1)
        sizes, cuts = [len(candidates) for candidates in choices], iter([row.cut for row in rows])
        return [
            Chosen(int(part.argmax()), tuple(part.softmax(0).tolist()), sum(islice(cuts, len(part))))
            for part in torch.split(scores, sizes)
        ]

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int | None = None,
        first: int = 1,
        cut: Callable[[int], None] | None = None,
    ) -> Float[np.ndarray, "N d_summary"]:
        """The summary of each text, which is what the model classifies: Lin et al.'s M where that is its kind.

        Arguments are those of `Embedder.embed`.

        Raises:
            DataError: a text is longer than the model reads, or the model reads two together.
        """
        rows = [self._frame(text) for text in text_list(texts)]
        for number, row in enumerate(rows, first):
            if row.cut and cut is None:
                raise DataError(
                    f"text {number}: has {len(row.ids) + row.cut} tokens with begin and end, this model reads at most "
                    f"{self.max_length}; split it"
                )
            if row.cut and cut is not None:
                cut(number)
        found: np.ndarray = self._each(rows, self.model.vector, batch_tokens=batch_tokens).numpy()
        return found

    def inspect(self, texts: Texts, *, scope: Scope | None = None) -> Record:
        """Everything the model attends to while it reads a text or a pair of texts, and what it says of it.

        Args:
            texts: one, or two that are judged together; of a model that chooses, a candidate, whose score is told.
            scope: layers, heads and details that are kept; all unless given.

        Raises:
            DataError: more than two texts.
            RecipeError: no such layer or head.
        """
        scope, row = scope or Scope(), self._frame(texts)
        title = texts if isinstance(texts, str) else " / ".join(texts)
        record, logits = encoded(
            self.model, self._said, self._tokens([row]), tokenizer=self.tokenizer, scope=scope, title=title
        )
        if self.labels is None:
            about = "score of the candidate" if self.answered == "choice" else "number"
            answer = Answer(about, "", None, (), number=float(logits[0]))
        else:
            names = self.labels.names
            options = best_options(
                self._chances(logits), lambda ids: [names[number] for number in ids], most=len(names)
            )
            answer = Answer("class", "", None, options)
        notes = (f"The text was too long: {row.cut:,} tokens at its end were not read.",) if row.cut else ()
        record = replace(record, answers=(answer,), notes=(*record.notes, *notes))
        said = int(logits.argmax())

        def values(rows: int) -> Tensor:
            tokens = repeated(scope.padded(self._tokens([row])), rows)
            told: Tensor = self.model.output(self.model(tokens)).float()
            if self.labels is None:
                return told[:, :1]
            return (functional.logsigmoid(told) if self.independent else told.log_softmax(-1))[:, [said]]

        unit = "" if self.labels is None else "nats"
        return attributed(record, self.model, values, scope=scope, about="answers", unit=unit)

    def lines(self) -> ClassLines | ChoiceLines:
        """Texts, pairs with a tab between them, or candidates behind what they share."""
        return ChoiceLines(self) if self.answered == "choice" else ClassLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`."""
        asked = asked.to_read()
        return self.inspect(asked.source if asked.target is None else (asked.source, asked.target), scope=asked.scope)

    def _said(self, tokens: Tokens) -> Tensor:
        """Logits of one text."""
        logits: Tensor = self.model.output(self.model(tokens))[0].float()
        return logits

    def _chances(self, logits: Float[Tensor, "*N C"]) -> Float[Tensor, "*N C"]:
        """Probabilities of the classes."""
        return logits.sigmoid() if self.independent else logits.softmax(-1)

    def _doubts(self, texts: Texts) -> tuple[str, ...]:
        """Return how texts differ from those of training."""
        parts = (texts,) if isinstance(texts, str) else tuple(texts)
        found = []
        if self.pairs and len(parts) == 1:
            found.append(ALONE)
        if self.marked and not any(_MARKED.search(part) for part in parts):
            found.append(UNMARKED)
        return tuple(found)

    def _frame(self, texts: Texts) -> Joined:
        parts = tuple(text_list(texts))
        if not 1 <= len(parts) <= 2:
            raise DataError(f"{len(parts)} texts are to be judged together; give one or two")
        if self.paired and len(parts) == 1:
            raise DataError(f"{parts[0][:40]!r}: one text alone, and this model reads two together; give both")
        return frame(self.tokenizer, parts, max_length=self.max_length)

    def _logits(self, rows: Sequence[Joined], *, batch_tokens: int | None) -> Tensor:
        return self._each(rows, self._output, batch_tokens=batch_tokens)

    def _output(self, tokens: Tokens) -> Tensor:
        found: Tensor = self.model.output(self.model(tokens))
        return found

    def _each(self, rows: Sequence[Joined], say: Callable[[Tokens], Tensor], *, batch_tokens: int | None) -> Tensor:
        """What the model says of each, in their order; on the processor."""
        asked = Saying[Joined, Tensor](self._batch, (say,))
        said = in_batches(rows, asked, size=lambda row: len(row.ids), tokens=batch_tokens or at_once(self.model))
        return torch.stack(said) if said else torch.zeros(0, 0)

    def _batch(self, rows: list[Joined], say: Callable[[Tokens], Tensor]) -> Tensor:
        return say(self._tokens(rows)).float().cpu()

    def _tokens(self, rows: Sequence[Joined]) -> Tokens:
        tokens = paired_tokens([row.ids for row in rows], [row.segments.count(0) for row in rows])
        return move(tokens, next(self.model.parameters()).device)


def _listed(texts: Any, name: str = "texts") -> list[Texts]:
    """Return texts, or pairs of texts, as a list; a string is a list of one."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        return text_list(texts, name=name)
    found = list(texts)
    for place, each in enumerate(found):
        text_list(each, name=f"{name}[{place}]")
    return found


@final
@dataclass(frozen=True)
class ClassLines(Lines[Columns, Classified]):
    """A text a line, or two with a tab between them; its class and the probability of it, or its number."""

    classifier: Classifier

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[Columns]:
        """One or two texts; `DataError` for more."""
        for number, line in enumerate(lines, 1):
            columns = tuple(line.split("\t"))
            if len(columns) > 2:
                raise DataError(f"line {number}: {len(columns)} texts; write one, or two with a tab between them")
            yield columns

    def answers(self, inputs: Sequence[Columns], *, first: int) -> list[Classified]:
        """Classes or numbers."""
        return self.classifier.classify(inputs)

    def record(self, answer: Classified) -> Any:
        """With the probabilities of all classes."""
        content: dict[str, Any] = {"label": answer.label}
        if answer.probabilities:
            content["probabilities"] = dict(answer.probabilities)
        if answer.cut:
            content["cut"] = answer.cut
        return content

    def text(self, answer: Classified) -> str:
        """One line."""
        if isinstance(answer.label, str):
            return f"{cell(answer.label)}\t{answer.probabilities[answer.label]:.4f}\n"
        return f"{answer.label:.4f}\n"

    def notes(self, answer: Classified) -> Iterator[str]:
        """Of texts that are too long."""
        return iter([*([CUT] if answer.cut else []), *answer.doubts])


@final
@dataclass(frozen=True)
class ChoiceLines(Lines[Columns, Chosen]):
    """A text and its candidates a line, with tabs between them; the number of the right one and its probability."""

    classifier: Classifier

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[Columns]:
        """What all candidates share, and the candidates; `DataError` where there are none."""
        for number, line in enumerate(lines, 1):
            columns = tuple(line.split("\t"))
            if len(columns) < 2:
                raise DataError(f"line {number}: no candidates; write a text and its candidates with tabs between them")
            yield columns

    def answers(self, inputs: Sequence[Columns], *, first: int) -> list[Chosen]:
        """Which is right."""
        return self.classifier.choose([[(text, candidate) for candidate in others] for text, *others in inputs])

    def record(self, answer: Chosen) -> Any:
        """With the probabilities of all candidates."""
        content = {"number": answer.number, "probabilities": answer.probabilities}
        return {**content, "cut": answer.cut} if answer.cut else content

    def text(self, answer: Chosen) -> str:
        """One line."""
        return f"{answer.number}\t{answer.probabilities[answer.number]:.4f}\n"

    def notes(self, answer: Chosen) -> Iterator[str]:
        """Of candidates that are too long."""
        return iter([CUT] if answer.cut else [])
