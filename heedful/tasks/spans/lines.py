"""How questions and their answers stand in lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

from heedful.data.readers import Record
from heedful.tasks.faces import Lines

if TYPE_CHECKING:
    from heedful.tasks.spans.face import Answered, Answerer


@final
@dataclass(frozen=True)
class AnswerLines(Lines[tuple[str, str], "Answered"]):
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
                record = Record.read(line, place=f"{name}:{number}")
                yield record.text("question"), record.text("context")

    def answers(self, inputs: Sequence[tuple[str, str]], *, first: int) -> list[Answered]:
        """Parts of the contexts."""
        return self.answerer.answer_all(inputs, n_best=self.n_best, first=first)

    def record(self, answer: Answered) -> Any:
        """With places and probabilities."""
        return {"answer": answer.text, "none": answer.none, "spans": [asdict(span) for span in answer.spans]}

    def text(self, answer: Answered) -> str:
        """One line."""
        return " ".join(answer.text.split()) + "\n"
