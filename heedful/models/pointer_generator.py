"""Pointer-generator models: encoder-decoders that generate a token or copy one of the source (See et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.attention import Attention, PreparedMemory
from heedful.attention.hooks import CROSS, assign_roles
from heedful.attention.scores import GeneralScore
from heedful.blocks.feedforward import build_xavier_linear
from heedful.models.generative import SequenceToSequence
from heedful.models.interface import Decoder, Encoder, State
from heedful.models.predictions import Predictions
from heedful.tensors import (
    Memory,
    MultiStepSearch,
    RowSelection,
    StepsOutput,
    Tokens,
    count_used_columns,
    pad_and_concat,
)


@final
class CopyGate(nn.Module):
    """Switch between generating and copying, p_gen = sigmoid(w_h . context + w_s . state + b) (See et al. 2017, eq. 8).

    The paper also reads the embedding of the last token, which the state of most decoders contains.

    Args:
        d_hidden: width of the decoder's hidden vectors.
        d_memory: width of the memory, of which the context is a weighted sum.
    """

    def __init__(self, d_hidden: int, d_memory: int) -> None:
        super().__init__()
        self.linear = build_xavier_linear(d_hidden + d_memory, 1)

    def forward(
        self, hidden: Float[Tensor, "B T d_hidden"], context: Float[Tensor, "B T d_memory"]
    ) -> Float[Tensor, "B T 1"]:
        """Return the logit of generating a token."""
        logits: Tensor = self.linear(torch.cat((hidden, context), -1))
        return logits


@dataclass(frozen=True)
class CopySource:
    """The tokens that may be copied, once for all rows of a group (see `heedful.tensors.RowSelection`).

    Attributes:
        memory: the memory with the keys of the copy attention.
        ids: the token of each slot.
    """

    memory: PreparedMemory
    ids: Int[Tensor, "G S"]

    @classmethod
    def from_memory(cls, attention: Attention, memory: Memory, source: Tokens) -> CopySource:
        """Prepare the memory of a source; each slot is that of the token at the same position."""
        order = memory.positions.unsqueeze(2) == source.positions.unsqueeze(1)
        ids = source.ids.gather(1, order.byte().argmax(2))
        return cls(PreparedMemory.from_memory(attention, memory), ids)

    def reorder(self, rows: RowSelection) -> CopySource:
        """Return the source of the selected rows; it is copied only where whole groups are picked or dropped."""
        groups = rows.source_groups(self.memory.width)
        ids = self.ids if groups is None else self.ids.index_select(0, groups)
        return CopySource(self.memory.reorder(rows), ids)

    def concat(self, others: Sequence[CopySource]) -> CopySource:
        """Concatenate the groups of this source and of `others`, padding the shorter ones."""
        parts = (self, *others)
        ids = [part.ids[:, : count_used_columns(part.memory.positions)] for part in parts]
        memory = self.memory.concat([other.memory for other in others])
        return CopySource(memory, pad_and_concat(ids, axis=1, fill=0))

    def compute_weights(
        self, attention: Attention, query: Float[Tensor, "B T d"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T S"]:
        """Return the attention weights of queries at these positions: their contexts if values are one-hot vectors."""
        groups, slots = self.ids.shape
        one_hot = torch.eye(slots, dtype=query.dtype, device=query.device).expand(groups, -1, -1)
        return replace(self.memory, values=one_hot).attend(attention, query, positions=positions)

    def sum_values(self, weights: Float[Tensor, "B T S"]) -> Float[Tensor, "B T d_memory"]:
        """Return the contexts: sums of the memory's values with these weights."""
        rows, tokens, slots = weights.shape
        groups, width = len(self.ids), self.memory.width
        context = weights.reshape(groups, width * tokens, slots) @ self.memory.values
        return context.view(rows, tokens, self.memory.values.size(2))

    def expand_ids(self) -> Int[Tensor, "B S"]:
        """Return the tokens of each row."""
        return self.ids.repeat_interleave(self.memory.width, 0) if self.memory.width > 1 else self.ids


@dataclass(frozen=True)
class CopyState:
    """State of the decoder, and the source that may be copied."""

    decoder_state: State
    source: CopySource


@final
@dataclass(frozen=True)
class CopyPredictions(Predictions):
    """The distributions p(w) = p_gen softmax(output(h))(w) + (1 - p_gen) (sum of a_i over all i with x_i = w), one for
    each hidden vector h (See et al. 2017, eq. 9).

    Attributes:
        hidden: the hidden vectors.
        output: maps them to logits.
        gate_logits: logit of p_gen for each vector.
        copy_weights: a, the distribution of the source slot that would be copied.
        sources: number of the source of each vector, an index of `source_ids`.
        source_ids: x, the tokens of each source.
        weights: weight of each vector in a loss; None if all count the same.
    """

    hidden: Float[Tensor, "N d_model"]
    output: nn.Linear
    gate_logits: Float[Tensor, " N"]
    copy_weights: Float[Tensor, "N S"]
    sources: Int[Tensor, " N"]
    source_ids: Int[Tensor, "B S"]
    weights: Float[Tensor, " N"] | None = None

    def select(self, rows: Int[Tensor, " n"]) -> CopyPredictions:
        """Return the predictions of some rows."""
        parts = [part.index_select(0, rows) for part in self._row_parts]
        weights = None if self.weights is None else self.weights.index_select(0, rows)
        return self._replace_rows(parts, weights)

    def split(self, size: int) -> Sequence[CopyPredictions]:
        """Split the rows into chunks of at most `size` rows; the chunks have no weights."""
        chunks = zip(*(torch.split(part, size) for part in self._row_parts), strict=True)
        return [self._replace_rows(parts, None) for parts in chunks]

    def compute_log_probabilities(self) -> Float[Tensor, "N V"]:
        """Return the logarithms of all distributions, in single precision at least."""
        dtype = torch.promote_types(self.hidden.dtype, torch.float32)
        gate = self.gate_logits.to(dtype).unsqueeze(1)
        generated = self.output(self.hidden).to(dtype).log_softmax(1) + functional.logsigmoid(gate)
        copy_weights = self.copy_weights.to(dtype) * torch.sigmoid(-gate)
        copied = torch.zeros_like(generated).scatter_add(1, self.source_ids[self.sources], copy_weights)
        # a token that is not in the source has the smallest number instead of 0, whose logarithm has no gradient
        return torch.logaddexp(generated, copied.clamp_min(torch.finfo(dtype).tiny).log())

    @property
    def _row_parts(self) -> tuple[Tensor, ...]:
        """The tensors with an entry for each row."""
        return self.hidden, self.gate_logits, self.copy_weights, self.sources

    def _replace_rows(self, parts: Sequence[Tensor], weights: Tensor | None) -> CopyPredictions:
        """Return predictions with other rows, given as `_row_parts` returns them."""
        hidden, gate_logits, copy_weights, sources = parts
        return CopyPredictions(hidden, self.output, gate_logits, copy_weights, sources, self.source_ids, weights)


@final
class PointerGenerator(SequenceToSequence[Tokens]):
    """Encoder-decoder model that generates each token or copies one of the source (See et al. 2017, 2.2).

    Source and target have one vocabulary, so a piece of the source is a piece of the target, and words that no training
    text has can be copied piece by piece. The paper copies whole words from an extended vocabulary instead, by the
    attention of its only decoder layer; here the pointer is an attention of its own with Luong's general score, because
    other decoders have several layers, or no attention.

    Args:
        encoder: makes a memory with a slot for each source token.
        decoder: reads the memory and its own past.
        output: linear map from hidden vectors to logits.
        d_memory: width of the memory's keys and values.
    """

    encoder: Encoder[Tokens]

    def __init__(self, encoder: Encoder[Tokens], decoder: Decoder, *, output: nn.Linear, d_memory: int) -> None:
        super().__init__(encoder, decoder, output=output)
        self.pointer = Attention(GeneralScore(output.in_features, d_memory))
        assign_roles(self.pointer, CROSS)
        self.gate = CopyGate(output.in_features, d_memory)

    def init_state(self, source: Tokens) -> CopyState:
        """Encode the source and return the decoder's initial state, with the source to copy from."""
        memory = self.encoder(source)
        return CopyState(self.decoder.init_state(memory), CopySource.from_memory(self.pointer, memory, source))

    def step(self, tokens: Tokens, state: CopyState) -> tuple[Float[Tensor, "B T V"], CopyState]:
        """Return the log-probabilities of the next token for each token, and the new state."""
        predictions, new_state = self._read_tokens(tokens, state)
        log_probabilities = predictions.compute_log_probabilities()
        return log_probabilities.view(*tokens.ids.shape, predictions.vocabulary_size), new_state

    def decode_steps(
        self, tokens: Tokens, state: CopyState, *, search: MultiStepSearch[StepsOutput]
    ) -> tuple[StepsOutput, CopyState] | None:
        """Return None: several steps in one call cannot copy."""
        return None

    def forward(self, source: Tokens, target: Tokens) -> Float[Tensor, "B T d_model"]:
        """Return the hidden vectors of the target, which alone do not give its distributions; see `predict`."""
        hidden: Tensor
        hidden, _ = self.decoder(target, self.init_state(source).decoder_state)
        return hidden

    def predict(self, source: Tokens, target: Tokens) -> CopyPredictions:
        """Return the distributions of the token after each token of the target, row by row."""
        predictions, _ = self._read_tokens(target, self.init_state(source))
        return predictions

    def _read_tokens(self, tokens: Tokens, state: CopyState) -> tuple[CopyPredictions, CopyState]:
        """Read tokens and return the distributions of those after them, row by row, and the new state."""
        hidden, decoder_state = self.decoder(tokens, state.decoder_state)
        copy_weights = state.source.compute_weights(self.pointer, hidden, tokens.positions)
        gate_logits = self.gate(hidden, state.source.sum_values(copy_weights))
        sources = torch.arange(len(hidden), device=hidden.device).repeat_interleave(hidden.size(1))
        predictions = CopyPredictions(
            hidden.flatten(0, 1),
            self.output,
            gate_logits.flatten(),
            copy_weights.flatten(0, 1),
            sources,
            state.source.expand_ids(),
        )
        return predictions, replace(state, decoder_state=decoder_state)
