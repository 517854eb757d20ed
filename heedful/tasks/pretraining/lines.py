"""How texts, what fills their gaps and which of their tokens were replaced stand in lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

from heedful.tasks.faces import TextLines, cell

if TYPE_CHECKING:
    from heedful.tasks.pretraining.detector import Detector, Suspicion
    from heedful.tasks.pretraining.reader import Filled, Reader


@final
@dataclass(frozen=True)
class FillLines(TextLines["Filled"]):
    """A text with gaps a line; the same without, and a line of guesses for each gap.

    Attributes:
        reader: who guesses.
        top: guesses for each gap.
        blank: what stands for a hidden token.
    """

    reader: Reader
    top: int = 5
    blank: str = "[MASK]"
    chunk: ClassVar = 1024

    def answers(self, inputs: Sequence[str], *, first: int) -> list[Filled]:
        """Guesses."""
        return self.reader.fill(inputs, top=self.top, blank=self.blank, first=first)

    def record(self, answer: Filled) -> Any:
        """With ids."""
        return asdict(answer)

    def text(self, answer: Filled) -> str:
        """The text, and each gap below it."""
        told = [
            "  ".join(f"{cell(guess.piece)} {guess.probability:.3f}" for guess in guesses) for guesses in answer.gaps
        ]
        names = [f"gap {number}: " for number in range(1, len(told) + 1)] if len(told) > 1 else [""]
        return "".join([f"{answer.text}\n", *(f"  {name}{each}\n" for name, each in zip(names, told, strict=True))])


@final
@dataclass(frozen=True)
class DetectLines(TextLines[list["Suspicion"]]):
    """A text a line; a token and its probability between tabs on each line, and an empty line after each text."""

    detector: Detector
    chunk: ClassVar = 1024

    def answers(self, inputs: Sequence[str], *, first: int) -> list[list[Suspicion]]:
        """Suspicions."""
        return self.detector.detect(inputs, first=first)

    def record(self, answer: list[Suspicion]) -> Any:
        """All digits."""
        return [asdict(each) for each in answer]

    def text(self, answer: list[Suspicion]) -> str:
        """Two columns."""
        return "".join(f"{cell(each.piece)}\t{each.probability:.4f}\n" for each in answer) + "\n"
