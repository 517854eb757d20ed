"""How sentences and their tags stand in lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, final

from heedful.tasks.faces import Lines, cell

if TYPE_CHECKING:
    from heedful.tasks.tagging.face import Tag, Tagger


@final
@dataclass(frozen=True)
class TagLines(Lines[list[str], list["Tag"]]):
    """A sentence a line; a word and its tag between tabs on each line, and an empty line after each sentence."""

    tagger: Tagger

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[list[str]]:
        """Words."""
        return (line.split() for line in lines)

    def answers(self, inputs: Sequence[list[str]], *, first: int) -> list[list[Tag]]:
        """Tags."""
        return self.tagger.tag(inputs)

    def record(self, answer: list[Tag]) -> Any:
        """With probabilities."""
        return [asdict(tag) for tag in answer]

    def text(self, answer: list[Tag]) -> str:
        """Two columns."""
        return "".join(f"{cell(tag.word)}\t{cell(tag.name)}\n" for tag in answer) + "\n"
