"""An encoder as its user sees it: texts become vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import nn

from heedful.data.batches import padded, paired_tokens, tokens_of
from heedful.data.sequences import joined
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.given_texts import require_text, text_list
from heedful.inspection.record import Record
from heedful.models.encoders import MeanOfTokens, Summary
from heedful.models.interface import Encoder
from heedful.tasks.faces import CUT, Asked, Face, TextLines, at_once, in_batches
from heedful.tasks.inspecting import Scope, encoded
from heedful.values import Tokens, move


@runtime_checkable
class Embeds(Protocol):
    """What makes vectors of texts."""

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int | None = None,
        first: int = 1,
        cut: Callable[[int], None] | None = None,
    ) -> Float[np.ndarray, "N d_model"]:
        """A vector for each text; see `Embedder.embed`."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Embedded:
    """The vector of a text, and whether the end of the text was `cut`, because it is longer than the model reads."""

    vector: Float[np.ndarray, " d_model"]
    cut: bool = False


@final
@dataclass(frozen=True)
class EmbedLines(TextLines[Embedded]):
    """A text a line; its vector as a list of numbers.

    Attributes:
        model: makes the vectors.
        normalise: whether each becomes one long.
    """

    model: Embeds
    normalise: bool = False

    def answers(self, inputs: Sequence[str], *, first: int) -> list[Embedded]:
        """Vectors."""
        cut: set[int] = set()
        found = self.model.embed(inputs, first=first, cut=cut.add)
        if self.normalise:
            found = found / np.linalg.norm(found, axis=1, keepdims=True).clip(1e-12)
        return [Embedded(vector, number in cut) for number, vector in enumerate(found, first)]

    def record(self, answer: Embedded) -> Any:
        """Six places."""
        return [round(float(number), 6) for number in answer.vector]

    def notes(self, answer: Embedded) -> Iterator[str]:
        """Of texts that are too long."""
        return iter([CUT] * answer.cut)


@dataclass(frozen=True, eq=False, repr=False)
class Embedder(Face):
    """An encoder with its tokenizer.

    Attributes:
        encoder: in evaluation mode.
        tokenizer: that it was trained with.
        max_length: tokens that it reads, begin and end included.
        summary: what makes one vector of the hidden vectors of a text's tokens; their mean unless given.
        lowercase: whether texts are read in lower case, whatever the tokenizer does.
    """

    encoder: Encoder[Tokens]
    _: KW_ONLY
    tokenizer: Tokenizer
    max_length: int
    summary: Summary = field(default_factory=MeanOfTokens)
    lowercase: bool = False

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int | None = None,
        first: int = 1,
        cut: Callable[[int], None] | None = None,
    ) -> Float[np.ndarray, "N d_vector"]:
        """A vector for each text: the mean over its tokens, begin and end among them (Reimers and Gurevych 2019), or
        what `summary` makes of them.

        Args:
            texts: one string each; of an empty one, begin and end are the tokens. A single text is a list of one, whose
                vector is the only row.
            batch_tokens: tokens with padding that are read at one time; see `at_once`.
            first: number of the first text, for messages.
            cut: told the number of each text that is longer than the model reads, of which then only the beginning
                counts; unless given, such a text is an error.

        Raises:
            DataError: a text is longer than the model reads; the message names it.
        """
        given = text_list(texts)
        read = [text.lower() for text in given] if self.lowercase else given
        ids = [self._fitting(self.tokenizer.encode(text), number, cut) for number, text in enumerate(read, first)]
        vectors = in_batches(ids, self._vectors, size=len, tokens=batch_tokens or at_once(self.encoder), rows=256)
        return np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)

    def _vectors(self, rows: list[list[int]]) -> Float[np.ndarray, "B d_vector"]:
        memory = self.encoder(self.tokens(rows))
        found: np.ndarray = self.summary(memory.values, memory.positions).float().cpu().numpy()
        return found

    def lines(self) -> EmbedLines:
        """A text a line."""
        return EmbedLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`."""
        return self.inspect(asked.to_read().source, asked.target, scope=asked.scope)

    def framed(self, ids: list[int], number: int) -> list[int]:
        """Ids between begin and end; `DataError` for text `number` where they are too many."""
        if len(ids) > self.room:
            raise DataError(f"text {number}: has {len(ids)} tokens, this model reads at most {self.room}; split it")
        return [self.tokenizer.special.bos, *ids, self.tokenizer.special.eos]

    def _fitting(self, ids: list[int], number: int, cut: Callable[[int], None] | None) -> list[int]:
        if cut is not None and len(ids) > self.room:
            cut(number)
            ids = ids[: self.room]
        return self.framed(ids, number)

    @property
    def room(self) -> int:
        """Tokens of a text at most."""
        return self.max_length - 2

    def inspect(self, text: str, second: str | None = None, *, scope: Scope | None = None) -> Record:
        """Everything the model attends to while it reads a text, or two behind each other.

        Args:
            text: may be empty.
            second: the second of two texts.
            scope: layers, heads and details that are kept; all unless given.

        Raises:
            DataError: more tokens than the model reads.
            RecipeError: no such layer or head.
        """
        require_text(text, name="text")
        parts = [text] if second is None else [text, second]
        tokens = self.paired([self.tokenizer.encode(part) for part in parts])
        record, _ = encoded(
            nn.ModuleDict({"encoder": self.encoder}),
            self.encoder,
            tokens,
            tokenizer=self.tokenizer,
            scope=scope or Scope(),
            title=" / ".join(parts),
        )
        return record

    def paired(self, parts: Sequence[list[int]]) -> Tokens:
        """One or two texts as one row, where the encoder is; `DataError` where they are too many tokens."""
        if len(parts) == 1:
            return self.tokens([self.framed(parts[0], 1)])
        row = joined(*parts, special=self.tokenizer.special, max_length=self.max_length)
        if row.cut:
            raise DataError(
                f"the texts have {len(row.ids) + row.cut} tokens with begin and ends, this model reads at most "
                f"{self.max_length}; shorten them"
            )
        return self._placed(paired_tokens([row.ids], [row.segments.count(0)]))

    def tokens(self, rows: Sequence[Sequence[int]]) -> Tokens:
        """Rows of ids, padded, where the encoder is."""
        return self._placed(tokens_of(padded(rows)))

    def _placed(self, tokens: Tokens) -> Tokens:
        return move(tokens, next(self.encoder.parameters()).device)
