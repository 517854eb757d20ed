"""Predictor that embeds texts as vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from heedful.models.interface import Encoder
from heedful.models.transformer import MeanPooler, Pooler
from heedful.tasks.inspection_records import InspectionSelection, record_encoder
from heedful.tasks.predictor import (
    InspectRequest,
    Predictor,
    TextLineFormat,
    default_batch_tokens,
    run_batched,
)
from heedful.tensors import Tokens, move_to_device


@runtime_checkable
class TextEmbedder(Protocol):
    """Protocol of predictors that embed texts."""

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int | None = None,
        first: int = 1,
        cut: Callable[[int], None] | None = None,
    ) -> Float[np.ndarray, "N d_model"]:
        """Return a vector for each text; the arguments are those of `Embedder.embed`."""
        ...


@final
@dataclass(frozen=True, eq=False)
class TextEmbedding:
    """Embedding of a text, and whether the end of the text was `cut` because it is too long for the model."""

    vector: Float[np.ndarray, " d_model"]
    cut: bool = False


@final
@dataclass(frozen=True)
class EmbeddingLineFormat(TextLineFormat[TextEmbedding]):
    """Line format of one text per line, and its vector as a list of numbers.

    Attributes:
        model: computes the vectors.
        normalise: whether to scale each vector to length 1.
    """

    model: TextEmbedder
    normalise: bool = False

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[TextEmbedding]:
        """Embed the texts and note which are truncated; `start` is the number of the first one."""
        truncated: set[int] = set()
        vectors = self.model.embed(inputs, first=start, cut=truncated.add)
        if self.normalise:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
        return [TextEmbedding(vector, number in truncated) for number, vector in enumerate(vectors, start)]

    def to_json(self, answer: TextEmbedding) -> Any:
        """Return the vector, rounded to six decimals."""
        return [round(float(number), 6) for number in answer.vector]


@keep_old_names(framed="add_special_tokens", room="max_text_tokens", paired="build_single_row", tokens="pad_rows")
@dataclass(frozen=True, eq=False, repr=False)
class Embedder(Predictor):
    """An encoder with its tokenizer that embeds texts as vectors.

    Attributes:
        encoder: the encoder in evaluation mode.
        tokenizer: tokenizer it was trained with.
        max_length: tokens of an input at most, begin and end included.
        summary: pools the hidden vectors of a text's tokens into one vector; their mean by default.
        lowercase: whether to lower-case texts before tokenisation.
    """

    command = "embed"

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
        """Embed each text as one vector: the mean over its tokens, begin and end included (Reimers and Gurevych 2019),
        or the result of `summary`.

        Args:
            texts: one string each; of an empty one, begin and end are the tokens. A single text is a list of one, whose
                vector is the only row.
            batch_tokens: padded tokens in a batch; see `default_batch_tokens`.
            first: number of the first text, for messages.
            cut: called with the number of each text that is too long for the model, which is then truncated; by
                default, such a text is an error.

        Raises:
            DataError: a text is too long for the model; the message names it.
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
        """Embed a batch of encoded texts."""
        memory = self.encoder(self.pad_rows(rows))
        vectors: np.ndarray = self.summary(memory.values, memory.positions).float().cpu().numpy()
        return vectors

    def line_format(self) -> EmbeddingLineFormat:
        """Return the line format with one text per line."""
        return EmbeddingLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect the request's text or pair of texts."""
        return self.inspect(request.require_no_generation().source, request.target, scope=request.selection)

    def add_special_tokens(self, ids: list[int], number: int) -> list[int]:
        """Add begin and end to the ids of a text; raise `DataError` if they are too many, with `number` as the number
        of the text.
        """
        if len(ids) > self.max_text_tokens:
            raise DataError(
                f"text {number}: has {len(ids)} tokens, this model reads at most {self.max_text_tokens}; split it"
            )
        return [self.tokenizer.special.bos, *ids, self.tokenizer.special.eos]

    def _fit_length(self, ids: list[int], number: int, on_truncated: Callable[[int], None] | None) -> list[int]:
        """Add begin and end to the ids of text `number`. If they are too many, truncate them and call `on_truncated`
        with the number, or raise `DataError` if it is None.
        """
        if on_truncated is not None and len(ids) > self.max_text_tokens:
            on_truncated(number)
            ids = ids[: self.max_text_tokens]
        return self.add_special_tokens(ids, number)

    @property
    def max_text_tokens(self) -> int:
        """Maximum number of tokens of a text, without begin and end."""
        return self.max_length - 2

    def inspect(
        self, text: str, second: str | None = None, *, scope: InspectionSelection | None = None
    ) -> InspectionRecord:
        """Record everything the model attends to while it reads a text, or two concatenated texts.

        Args:
            text: the text; may be empty.
            second: the second of two texts.
            scope: layers, heads and details to record; all by default.

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
        """Build a batch of one row from the ids of one or two texts, on the encoder's device; raise `DataError` if they
        are too long.
        """
        if len(parts) == 1:
            return self.pad_rows([self.add_special_tokens(parts[0], 1)])
        row = build_encoder_input(*parts, special=self.tokenizer.special, max_length=self.max_length)
        if row.num_truncated:
            raise DataError(
                f"the texts have {len(row.ids) + row.num_truncated} tokens with begin and ends, this model reads at "
                f"most {self.max_length}; shorten them"
            )
        return self._move_to_encoder(to_segmented_tokens([row.ids], [row.segments.count(0)]))

    def pad_rows(self, rows: Sequence[Sequence[int]]) -> Tokens:
        """Pad rows of ids to a batch on the encoder's device."""
        return self._move_to_encoder(to_tokens(pad_rows(rows)))

    def _move_to_encoder(self, tokens: Tokens) -> Tokens:
        """Move tokens to the encoder's device."""
        return move_to_device(tokens, next(self.encoder.parameters()).device)
