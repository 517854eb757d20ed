"""How prompts and what follows them stand in lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

from heedful.generation.search import Search
from heedful.tasks.faces import TextLines

if TYPE_CHECKING:
    from heedful.tasks.language.face import Continuation, Writer


@final
@dataclass(frozen=True)
class WriteLines(TextLines[tuple[str, "Continuation"]]):
    """A prompt a line; it and what follows it, with an empty line behind, for each of its continuations.

    Attributes:
        writer: who goes on.
        search: how; the writer's way unless given.
    """

    writer: Writer
    search: Search | None = None
    chunk: ClassVar = 32

    def answers(self, inputs: Sequence[str], *, first: int) -> list[tuple[str, Continuation]]:
        """Continuations, those of one prompt behind each other."""
        found = self.writer.write(inputs, search=self.search, first=first - 1)
        return [(prompt, each) for prompt, continuations in zip(inputs, found, strict=True) for each in continuations]

    def record(self, answer: tuple[str, Continuation]) -> Any:
        """With tokens and log-probability."""
        prompt, continuation = answer
        return {"prompt": prompt, **asdict(continuation)}

    def text(self, answer: tuple[str, Continuation]) -> str:
        """As one reads it."""
        return f"{answer[0]}{answer[1].text}\n\n"
