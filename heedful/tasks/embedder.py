"""An encoder as its user sees it: texts become vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import nn

from heedful.argument_checks import require_text, to_text_list
from heedful.data.batches import pad_rows, to_segmented_tokens, to_tokens
from heedful.data.encoder_inputs import build_encoder_input
from heedful.data.tokenizers import Tokenizer
from heedful.deprecation import keep_old_names
from heedful.errors import DataError
from heedful.inspection.record import InspectionRecord
from heedful.models.encoders import MeanPooler, Pooler
from heedful.models.interface import Encoder
from heedful.tasks.inspection_records import InspectionSelection, record_encoder
from heedful.tasks.predictor import (
    READ_TRUNCATED,
    InspectRequest,
    Predictor,
    TextLineFormat,
    default_batch_tokens,
    run_batched,
)
from heedful.tensors import Tokens, move_to_device


@runtime_checkable
class TextEmbedder(Protocol):
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
class TextEmbedding:
    """The vector of a text, and whether the end of the text was `cut`, because it is longer than the model reads."""

    vector: Float[np.ndarray, " d_model"]
    cut: bool = False


@final
@dataclass(frozen=True)
class EmbeddingLineFormat(TextLineFormat[TextEmbedding]):
    """A text a line; its vector as a list of numbers.

    Attributes:
        model: makes the vectors.
        normalise: whether each becomes one long.
    """

    model: TextEmbedder
    normalise: bool = False

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[TextEmbedding]:
        """Vectors."""
        truncated: set[int] = set()
        vectors = self.model.embed(inputs, first=start, cut=truncated.add)
        if self.normalise:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
        return [TextEmbedding(vector, number in truncated) for number, vector in enumerate(vectors, start)]

    def to_json(self, answer: TextEmbedding) -> Any:
        """Six places."""
        return [round(float(number), 6) for number in answer.vector]

    def input_notes(self, answer: TextEmbedding) -> Iterator[str]:
        """Of texts that are too long."""
        return iter([READ_TRUNCATED] * answer.cut)


@keep_old_names(framed="add_special_tokens", room="max_text_tokens", paired="build_single_row", tokens="pad_rows")
@dataclass(frozen=True, eq=False, repr=False)
class Embedder(Predictor):
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
    summary: Pooler = field(default_factory=MeanPooler)
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
            batch_tokens: tokens with padding that are read at one time; see `default_batch_tokens`.
            first: number of the first text, for messages.
            cut: told the number of each text that is longer than the model reads, of which then only the beginning
                counts; unless given, such a text is an error.

        Raises:
            DataError: a text is longer than the model reads; the message names it.
        """
        inputs = to_text_list(texts)
        cased_texts = [text.lower() for text in inputs] if self.lowercase else inputs
        ids = [
            self._fit_length(self.tokenizer.encode(text), number, cut) for number, text in enumerate(cased_texts, first)
        ]
        vectors = run_batched(
            ids,
            self._embed_batch,
            size=len,
            batch_tokens=batch_tokens or default_batch_tokens(self.encoder),
            max_rows=256,
        )
        return np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)

    def _embed_batch(self, rows: list[list[int]]) -> Float[np.ndarray, "B d_vector"]:
        memory = self.encoder(self.pad_rows(rows))
        vectors: np.ndarray = self.summary(memory.values, memory.positions).float().cpu().numpy()
        return vectors

    def line_format(self) -> EmbeddingLineFormat:
        """A text a line."""
        return EmbeddingLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """See `inspect`."""
        return self.inspect(request.require_no_generation().source, request.target, scope=request.selection)

    def add_special_tokens(self, ids: list[int], number: int) -> list[int]:
        """Ids between begin and end; `DataError` for text `number` where they are too many."""
        if len(ids) > self.max_text_tokens:
            raise DataError(
                f"text {number}: has {len(ids)} tokens, this model reads at most {self.max_text_tokens}; split it"
            )
        return [self.tokenizer.special.bos, *ids, self.tokenizer.special.eos]

    def _fit_length(self, ids: list[int], number: int, on_truncated: Callable[[int], None] | None) -> list[int]:
        if on_truncated is not None and len(ids) > self.max_text_tokens:
            on_truncated(number)
            ids = ids[: self.max_text_tokens]
        return self.add_special_tokens(ids, number)

    @property
    def max_text_tokens(self) -> int:
        """Tokens of a text at most."""
        return self.max_length - 2

    def inspect(
        self, text: str, second: str | None = None, *, scope: InspectionSelection | None = None
    ) -> InspectionRecord:
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
        tokens = self.build_single_row([self.tokenizer.encode(part) for part in parts])
        record, _ = record_encoder(
            nn.ModuleDict({"encoder": self.encoder}),
            self.encoder,
            tokens,
            tokenizer=self.tokenizer,
            selection=scope or InspectionSelection(),
            title=" / ".join(parts),
        )
        return record

    def build_single_row(self, parts: Sequence[list[int]]) -> Tokens:
        """One or two texts as one row, where the encoder is; `DataError` where they are too many tokens."""
        if len(parts) == 1:
            return self.pad_rows([self.add_special_tokens(parts[0], 1)])
        row = build_encoder_input(*parts, special=self.tokenizer.special, max_length=self.max_length)
        if row.num_truncated:
            raise DataError(
                f"the texts have {len(row.ids) + row.num_truncated} tokens with begin and ends, this model reads at most "
                f"{self.max_length}; shorten them"
            )
        return self._move_to_encoder(to_segmented_tokens([row.ids], [row.segments.count(0)]))

    def pad_rows(self, rows: Sequence[Sequence[int]]) -> Tokens:
        """Rows of ids, padded, where the encoder is."""
        return self._move_to_encoder(to_tokens(pad_rows(rows)))

    def _move_to_encoder(self, tokens: Tokens) -> Tokens:
        return move_to_device(tokens, next(self.encoder.parameters()).device)
