"""A pre-trained encoder as its user sees it: gaps are filled, texts become vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.inspection.record import Answer, Record
from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.tasks.embedder import Embedder
from heedful.tasks.faces import Asked, Face, in_batches
from heedful.tasks.inspecting import Scope, best_options, encoded
from heedful.tasks.pretraining.lines import FillLines
from heedful.values import Tokens

_Guessed = Iterator[tuple[list[int], list[float]]]


@dataclass(frozen=True)
class Guess:
    """A token for a gap: as a piece of text, as an id, and how probable it is."""

    piece: str
    id: int
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text with gaps, and what may stand in them.

    Attributes:
        text: with the most probable token in each gap, each chosen by itself.
        gaps: the guesses for each, best first.
    """

    text: str
    gaps: tuple[tuple[Guess, ...], ...]


@final
class Reader(Face):
    """A masked language model with its tokenizer.

    Args:
        model: in evaluation mode.
        tokenizer: that it was trained with.
        max_length: tokens that it reads, begin and end included.

    Attributes:
        embed: a vector for each text; see `Embedder.embed`.
    """

    def __init__(self, model: MaskedLanguageModel, *, tokenizer: Tokenizer, max_length: int) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.embedder = Embedder(model.encoder, tokenizer=tokenizer, max_length=max_length)
        self.embed = self.embedder.embed

    def fill(self, texts: Sequence[str], *, top: int = 5, blank: str = "[MASK]", first: int = 1) -> list[Filled]:
        """The `top` most probable tokens for each gap of each text, given everything else; gaps do not see each other.

        Args:
            texts: with `blank` where a token is hidden.
            top: guesses for each gap.
            blank: what stands for a hidden token.
            first: number of the first text, for messages.

        Raises:
            DataError: a text has no gap, or is longer than the model reads; the message names it.
        """
        cut = [self._gapped(text, number, blank=blank) for number, text in enumerate(texts, first)]

        def say(batch: list[list[int]]) -> Iterator[Filled]:
            guesses = self._guesses(batch, top=top)
            return (self._filled(ids, guesses) for ids in batch)

        return in_batches(cut, say, size=len, tokens=4096, rows=64)

    def lines(self) -> FillLines:
        """Texts with gaps."""
        return FillLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`."""
        return self.inspect(asked.to_read().source, asked.target, scope=asked.scope)

    def _gapped(self, text: str, number: int, *, blank: str) -> list[int]:
        if blank not in text:
            raise DataError(f"text {number}: has no {blank}; write it where a token is to be found")
        return self.embedder.framed(self.tokenizer.cloze(text, blank=blank), number)

    def inspect(
        self, text: str, second: str | None = None, *, scope: Scope | None = None, blank: str = "[MASK]"
    ) -> Record:
        """Everything the model attends to while it reads a text, and the candidates for each hidden token.

        Where the model was asked in training how passages belong together, a second text adds what it says of that.

        Args:
            text: with `blank` where a token is hidden, if any is.
            second: the second of two texts, likewise.
            scope: layers, heads and details that are kept; all unless given.
            blank: what stands for a hidden token.

        Raises:
            DataError: more tokens than the model reads.
            RecipeError: no such layer or head.
        """
        scope, parts = scope or Scope(), [text] if second is None else [text, second]
        cloze = [self.tokenizer.cloze(each, blank=blank) for each in parts]
        tokens = self.embedder.paired(cloze)

        def said(tokens: Tokens) -> tuple[Tensor, Tensor | None]:
            memory = self.model(tokens)
            relation = self.model.relation if second is not None else None
            related = None if relation is None else relation(memory.summary)[0].softmax(-1)
            return self._chances(tokens, memory.values), related

        record, (chances, related) = encoded(
            self.model, said, tokens, tokenizer=self.tokenizer, scope=scope, title=" / ".join(parts)
        )
        ids: list[int] = tokens.ids[0].tolist()
        gaps = [place for place, number in enumerate(ids) if number == self.tokenizer.special.mask]
        named = self.tokenizer.pieces([ids[place] for place in gaps])
        answers = [
            Answer("hidden token", name, place, best_options(row, self.tokenizer.pieces, most=scope.alternatives))
            for name, place, row in zip(named, gaps, chances, strict=True)
        ]
        if related is not None:
            names = ("no", "yes")
            options = best_options(related, lambda ids: [names[number] for number in ids], most=2)
            answers.append(Answer("the second text belongs to the first", "", None, options))
        return replace(record, answers=tuple(answers))

    def _guesses(self, rows: list[list[int]], *, top: int) -> _Guessed:
        """For each gap, row by row, the best tokens and their probabilities; what is no text has none."""
        tokens = self.embedder.tokens(rows)
        chances = self._chances(tokens, self.model(tokens).values)
        best = chances.topk(min(top, chances.size(-1) - len(self.tokenizer.special.silent)))
        return iter(list(zip(best.indices.tolist(), best.values.tolist(), strict=True)))

    def _chances(self, tokens: Tokens, hidden: Float[Tensor, "B T d_model"]) -> Float[Tensor, "N V"]:
        """The probabilities of all tokens for each gap, row by row; 0 for what is no text."""
        special = self.tokenizer.special
        # an id of a padded place may be any
        gaps = (tokens.ids == special.mask) & (tokens.positions >= 0)
        logits = self.model.masked.output(self.model.masked(hidden[gaps]))
        silent = torch.tensor(sorted(special.silent), device=logits.device)
        chances: Tensor = logits.index_fill(-1, silent, -torch.inf).softmax(-1)
        return chances

    def _filled(self, ids: list[int], guesses: _Guessed) -> Filled:
        complete, gaps = [], []
        for number in ids:
            if number != self.tokenizer.special.mask:
                complete.append(number)
                continue
            numbers, chances = next(guesses)
            gaps.append(tuple(map(Guess, self.tokenizer.pieces(numbers), numbers, chances)))
            complete.append(numbers[0])
        return Filled(self.tokenizer.decode(complete), tuple(gaps))
