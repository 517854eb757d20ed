"""How sentences, their translations, and what belongs to these stand in lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

from heedful.errors import DataError
from heedful.generation.search import Search
from heedful.tasks.faces import Lines, cell
from heedful.tasks.searches import Length
from heedful.tasks.translation.translations import ForcedScore, Translation
from heedful.tasks.translation.unknown import replace_unknown

if TYPE_CHECKING:
    from heedful.tasks.translation.face import Translator

Begun = tuple[str, str]
"""A sentence, and how its translation must begin."""


@final
@dataclass(frozen=True)
class TranslationLines(Lines[Begun, tuple[int, Translation]]):
    """A sentence a line; its translation, or several with number and score between tabs.

    Attributes:
        translator: who translates.
        search: how; the translator's way unless given.
        length: of translations, likewise.
        several: whether all candidates are told.
        batch_tokens: padded source tokens that are translated at one time.
        align: whether JSON tells what each token looked at.
        unknown: whether the source's words take the place of what the model has no piece for.
        tick: told how many sentences are finished.
    """

    translator: Translator
    search: Search | None = None
    length: Length | None = None
    several: bool = False
    batch_tokens: int = 4096
    align: bool = False
    unknown: bool = False
    tick: Callable[[int], None] | None = None

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[Begun]:
        """Sentences whose translations may begin as they like."""
        return ((line, "") for line in lines)

    def answers(self, inputs: Sequence[Begun], *, first: int) -> list[tuple[int, Translation]]:
        """Numbers and translations."""
        found = self.translator.translate(
            [sentence for sentence, _ in inputs],
            search=self.search,
            length=self.length,
            prefixes=[prefix for _, prefix in inputs] if any(prefix for _, prefix in inputs) else None,
            batch_tokens=self.batch_tokens,
            tick=self.tick,
            first=first,
        )
        return list(enumerate(replace_unknown(self.translator, found) if self.unknown else found, first))

    def record(self, answer: tuple[int, Translation]) -> Any:
        """All candidates with their scores."""
        _, translation = answer
        record: dict[str, Any] = {
            "source": translation.source,
            "translation": translation.text,
            "candidates": [
                {
                    "text": each.text,
                    "score": round(each.score, 5),
                    "log_probability": round(each.log_probability, 5),
                    "tokens": list(each.tokens),
                    "finished": each.finished,
                }
                for each in translation.candidates
            ],
        }
        if self.align and translation.source_tokens:
            alignment = self.translator.align(translation.source, translation.candidates[0])
            last = list(alignment.weights.values())[-1]
            record["alignment"] = {
                "source": list(alignment.source_tokens),
                "target": list(alignment.target_tokens),
                "weights": [[round(float(weight), 4) for weight in row] for row in last],
            }
        return record

    def text(self, answer: tuple[int, Translation]) -> str:
        """The best one, or a line for each."""
        number, translation = answer
        if not self.several:
            return f"{translation.text}\n"
        return "".join(f"{number}\t{cell(each.text)}\t{each.score:.4f}\n" for each in translation.candidates)


@final
@dataclass(frozen=True)
class ScoreLines(Lines[tuple[str, str], ForcedScore]):
    """A sentence and its translation a line with a tab between them; its log-probability and number of tokens.

    Attributes:
        translator: who judges.
    """

    translator: Translator
    chunk: ClassVar = sys.maxsize

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[tuple[str, str]]:
        """Pairs."""
        for number, line in enumerate(lines, 1):
            source, tab, target = line.partition("\t")
            if not tab:
                raise DataError(
                    f"{name}:{number}: no translation; write it behind its sentence, with a tab between them"
                )
            yield source, target

    def answers(self, inputs: Sequence[tuple[str, str]], *, first: int) -> list[ForcedScore]:
        """Scores."""
        return self.translator.score(inputs)

    def record(self, answer: ForcedScore) -> Any:
        """With each token's."""
        return {
            "log_probability": round(answer.log_probability, 5),
            "count": answer.count,
            "tokens": [*answer.tokens, "</s>"],
            "token_log_probabilities": [round(each, 5) for each in answer.token_log_probabilities],
        }

    def text(self, answer: ForcedScore) -> str:
        """Two columns."""
        return f"{answer.log_probability:.4f}\t{answer.count}\n"
