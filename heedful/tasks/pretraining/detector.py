"""A detector of replaced tokens as its user sees it: texts in, how probable it is that a token was replaced out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

from torch import Tensor, nn

from heedful.data.tokenizers import Tokenizer
from heedful.inspection.record import Answer, Option, Record
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.tasks.embedder import Embedder
from heedful.tasks.faces import Asked, Face, in_batches
from heedful.tasks.inspecting import Scope, encoded
from heedful.tasks.pretraining.lines import DetectLines
from heedful.values import Tokens


@dataclass(frozen=True)
class Suspicion:
    """A piece of a text, and how probable it is that something else was written there."""

    piece: str
    probability: float


@final
class Detector(Face):
    """A detector of replaced tokens with its tokenizer.

    Args:
        model: in evaluation mode.
        tokenizer: that it was trained with.
        max_length: tokens that it reads, begin and end included.

    Attributes:
        embed: a vector for each text; see `Embedder.embed`.
    """

    def __init__(self, model: ReplacedTokenDetector, *, tokenizer: Tokenizer, max_length: int) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.embedder = Embedder(model.encoder, tokenizer=tokenizer, max_length=max_length)
        self.embed = self.embedder.embed

    def detect(self, texts: Sequence[str], *, first: int = 1) -> list[list[Suspicion]]:
        """For each piece of each text how probable it is that it was replaced.

        Args:
            texts: one string each.
            first: number of the first text, for messages.

        Raises:
            DataError: a text is longer than the model reads; the message names it.
        """
        framed = [self.embedder.framed(self.tokenizer.encode(text), number) for number, text in enumerate(texts, first)]
        return in_batches(framed, self._suspicions, size=len, tokens=4096, rows=64)

    def inspect(self, text: str, *, scope: Scope | None = None) -> Record:
        """Everything the model attends to while it reads a text, and how probable it is that each piece was replaced.

        Args:
            text: may be empty.
            scope: layers, heads and details that are kept; all unless given.

        Raises:
            DataError: more tokens than the model reads.
            RecipeError: no such layer or head.
        """
        ids = self.embedder.framed(self.tokenizer.encode(text), 1)
        record, chances = encoded(
            nn.ModuleDict({"encoder": self.model.encoder}),
            self._chances,
            self.embedder.tokens([ids]),
            tokenizer=self.tokenizer,
            scope=scope or Scope(),
            title=text,
        )
        pieces, found = self.tokenizer.pieces(ids), chances[0].tolist()
        answers = [_told(pieces[place], place, found[place]) for place in range(1, len(ids) - 1)]
        return replace(record, answers=tuple(answers))

    def lines(self) -> DetectLines:
        """A text a line."""
        return DetectLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`."""
        return self.inspect(asked.to_read().alone("a detector's"), scope=asked.scope)

    def _suspicions(self, rows: list[list[int]]) -> Iterator[list[Suspicion]]:
        for ids, chances in zip(rows, self._chances(self.embedder.tokens(rows)).tolist(), strict=True):
            pieces = self.tokenizer.pieces(ids[1:-1])
            yield [Suspicion(*pair) for pair in zip(pieces, chances[1 : len(pieces) + 1], strict=True)]

    def _chances(self, tokens: Tokens) -> Tensor:
        chances: Tensor = self.model(tokens).sigmoid()
        return chances


def _told(piece: str, place: int, chance: float) -> Answer:
    """What the model says of one piece, the more probable first."""
    options = (Option("yes", chance), Option("no", 1 - chance))
    return Answer("replaced", piece, place, options if chance > 0.5 else options[::-1])
