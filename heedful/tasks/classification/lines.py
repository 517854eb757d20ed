"""How texts and what they are, or which of several is right, stand in lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from heedful.errors import DataError
from heedful.tasks.faces import Lines, cell

if TYPE_CHECKING:
    from heedful.tasks.classification.face import Chosen, Classified, Classifier

Columns = tuple[str, ...]


@final
@dataclass(frozen=True)
class ClassLines(Lines[Columns, "Classified"]):
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


@final
@dataclass(frozen=True)
class ChoiceLines(Lines[Columns, "Chosen"]):
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
        return {"number": answer.number, "probabilities": answer.probabilities}

    def text(self, answer: Chosen) -> str:
        """One line."""
        return f"{answer.number}\t{answer.probabilities[answer.number]:.4f}\n"
