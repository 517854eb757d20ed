"""Recurrent encoders: of texts and frames, and of text pairs that are read one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, final

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from heedful.attention.attention import Attention
from heedful.attention.dropout import Dropout
from heedful.attention.hooks import HYPOTHESIS_AXIS, PREMISE_AXIS, WHOLE_AXIS, AttentionRole, assign_roles
from heedful.attention.scores import ConcatScore
from heedful.blocks.embedding import InputEmbedding, TokenEmbedding
from heedful.blocks.feedforward import build_xavier_linear
from heedful.blocks.layer_info import Direction, LayerInfo
from heedful.blocks.recurrent import CellState, RecurrentStack
from heedful.models.interface import Encoder
from heedful.tensors import FeatureBatch, Memory, Tokens

StateSummary: TypeAlias = Callable[[tuple[CellState, ...]], Float[Tensor, "B d_summary"]]
"""Maps the final states of a recurrent encoder, from the lowest layer to the highest, to one vector per text: one of
the four functions below."""


def take_last_state(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d"]:
    """Return h_n of the last layer; in a bidirectional one, that of the cell from left to right."""
    return final_states[-1][0]


def take_first_backward(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d"]:
    """Return the final state of the cell from right to left, at the first token (Bahdanau et al. 2015, A.2.2)."""
    return final_states[-1][len(final_states[-1]) // 2]


def take_both_ends(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d_both"]:
    """Return the final states of both cells of a bidirectional layer, concatenated."""
    return torch.cat((take_last_state(final_states), take_first_backward(final_states)), -1)


def take_all_layers(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d_all"]:
    """Return the final states of all layers, concatenated (Sutskever et al. 2014)."""
    return torch.cat([part for state in final_states for part in state], -1)


@dataclass(frozen=True)
class SourceOrder:
    """The order in which a source is read.

    Attributes:
        to_reading_order: maps token features, [B, T, ...], to reading order, [B, R, ...].
        to_source_order: maps outputs in reading order to one output per source token, in source order.
    """

    to_reading_order: Callable[[Tensor], Tensor]
    to_source_order: Callable[[Tensor], Tensor]


AS_WRITTEN: Final = SourceOrder(lambda columns: columns, lambda outputs: outputs)
"""Reads the source from the first token to the last."""
REVERSED: Final = SourceOrder(lambda columns: columns.flip(1), lambda outputs: outputs.flip(1))
"""Reads the source from the last token to the first, which brings the first words of both languages together (Sutskever
et al. 2014, 3.3)."""
DOUBLED: Final = SourceOrder(
    lambda columns: torch.cat((columns, columns), 1), lambda outputs: outputs[:, outputs.size(1) // 2 :]
)
"""Reads the source twice, one after the other (Zaremba and Sutskever 2014, section 5); keeps the outputs of the second
reading."""


class RecurrentEncoder(Encoder[Tokens | FeatureBatch]):
    """Recurrent encoder: the outputs of the stack are the memory, its final states the summary.

    Dropout is applied to the outputs.
    """

    def __init__(
        self,
        embedding: InputEmbedding,
        stack: RecurrentStack,
        *,
        summary: StateSummary,
        order: SourceOrder = AS_WRITTEN,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.order = order
        self.summary = summary
        self.dropout = Dropout(dropout)

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Describe the layers in the order of the source; if the source is read twice, the lowest layer has read all of
        it before.
        """
        directions: dict[object, tuple[Direction, ...]] = {
            take_last_state: ("forward",),
            take_first_backward: ("backward",),
        }
        lowest, *others = (
            replace(layer, ends=directions.get(self.summary, layer.ends)) for layer in self.stack.describe_layers()
        )
        if self.order is DOUBLED:
            return (replace(lowest, before=None, after=None), *others)
        return tuple(map(_reverse_layer, (lowest, *others))) if self.order is REVERSED else (lowest, *others)

    def forward(self, source: Tokens | FeatureBatch) -> Memory:
        """Return a memory slot for each token or frame; the summary is made of the final states."""
        x = self.order.to_reading_order(self.embedding(source))
        positions = self.order.to_reading_order(source.positions)
        outputs, states = self.stack(x, self.stack.init_state(len(x), x), positions=positions)
        outputs = self.dropout(self.order.to_source_order(outputs))
        return Memory(outputs, outputs, source.positions, self.summary(states))


def _reverse_layer(layer: LayerInfo) -> LayerInfo:
    """Return the description of a layer with reversed directions, as for a source that is read from its end."""
    opposite: dict[Direction, Direction] = {"forward": "backward", "backward": "forward"}
    carries, ends = (
        tuple(opposite[direction] for direction in directions) for directions in (layer.carries, layer.ends)
    )
    return replace(layer, carries=carries, ends=ends)


@dataclass(frozen=True)
class TextOutputs:
    """Outputs of the top layer for the tokens of a text, moved to the first columns; -1 marks padding."""

    values: Float[Tensor, "B T d"]
    positions: Int[Tensor, "B T"]

    @property
    def last_output(self) -> Float[Tensor, "B d"]:
        """Output of the last token of each text."""
        ends = (self.positions >= 0).sum(1) - 1
        return self.values[torch.arange(len(ends), device=ends.device), ends]


class PairComparison(nn.Module, ABC):
    """Base class: turns the outputs for both texts into one vector of the same width."""

    @abstractmethod
    def forward(self, premise: TextOutputs, hypothesis: TextOutputs) -> Float[Tensor, "B d"]:
        """Return one vector per pair; it must not depend on outputs at -1."""


@final
class LastOutputComparison(PairComparison):
    """Conditional encoding without attention: h* = tanh(W_x h_N) (section 2.2)."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.end = build_xavier_linear(d, d, bias=False)

    def forward(self, premise: TextOutputs, hypothesis: TextOutputs) -> Float[Tensor, "B d"]:
        """Transform the last output of the hypothesis, which was read with the memory of the premise."""
        result: Tensor = self.end(hypothesis.last_output).tanh()
        return result


@final
class LastOutputAttention(PairComparison):
    """Attention of the last output to the premise: h* = tanh(W_p r + W_x h_N) (section 2.3, eq. 7 to 10).

    With M = tanh(W_y Y + W_h h_N) and alpha = softmax(w^T M), r = Y alpha^T.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.of_last = Attention(ConcatScore(d, d, d))
        assign_roles(self.of_last, AttentionRole("summary", WHOLE_AXIS, PREMISE_AXIS))
        self.context = build_xavier_linear(d, d, bias=False)
        self.end = build_xavier_linear(d, d, bias=False)

    def forward(self, premise: TextOutputs, hypothesis: TextOutputs) -> Float[Tensor, "B d"]:
        """Return a vector for each pair of texts: attend from the last output of the hypothesis to the premise once."""
        last = hypothesis.last_output
        context = self.of_last(
            last.unsqueeze(1),
            self.of_last.score.project(premise.values),
            value=premise.values,
            visible=(premise.positions >= 0).unsqueeze(1),
        )
        result: Tensor = (self.context(context.squeeze(1)) + self.end(last)).tanh()
        return result


@final
class WordByWordAttention(PairComparison):
    """Attention of each hypothesis word to the premise: h* = tanh(W_p r_N + W_x h_N) (section 2.4, eq. 11 to 14).

    r_t = Y alpha_t^T + tanh(W_t r_{t-1}) with alpha_t = softmax(w^T M_t) and M_t = tanh(W_y Y + W_h h_t + W_r r_{t-1}).
    W_t is initialised orthogonal, so that early contexts persist to the end.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.of_words = Attention(ConcatScore(2 * d, d, d))
        assign_roles(self.of_words, AttentionRole("summary", HYPOTHESIS_AXIS, PREMISE_AXIS))
        self.recurrent = nn.Linear(d, d, bias=False)
        nn.init.orthogonal_(self.recurrent.weight)
        self.context = build_xavier_linear(d, d, bias=False)
        self.end = build_xavier_linear(d, d, bias=False)

    def forward(self, premise: TextOutputs, hypothesis: TextOutputs) -> Float[Tensor, "B d"]:
        """Return a vector for each pair of texts: attend to the premise once per hypothesis word, with the previous
        contexts as input.
        """
        keys = self.of_words.score.project(premise.values)
        visible = (premise.positions >= 0).unsqueeze(1)
        attended = torch.zeros_like(hypothesis.values[:, 0])
        for output, token_mask in zip(hypothesis.values.unbind(1), (hypothesis.positions >= 0).unbind(1), strict=True):
            query = torch.cat((output, attended), -1).unsqueeze(1)
            context = self.of_words(query, keys, value=premise.values, visible=visible).squeeze(1)
            attended = torch.where(token_mask.unsqueeze(1), context + self.recurrent(attended).tanh(), attended)
        result: Tensor = (self.context(attended) + self.end(hypothesis.last_output)).tanh()
        return result


@final
class ConditionalEncoder(Encoder[Tokens]):
    """Two recurrent stacks: the hypothesis stack starts from the cell memories of the premise stack (2.2).

    Only the memory of the cells is passed on, c of (h, c); the first output before the hypothesis is zero. Premise and
    hypothesis are segments 0 and 1 of the tokens. The end of the premise takes the role of the paper's delimiter. Both
    stacks have the same number of cells, from left to right, and the same widths; dropout is applied to the outputs of
    both.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        *,
        premise: RecurrentStack,
        hypothesis: RecurrentStack,
        comparison: PairComparison,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.premise = premise
        self.hypothesis = hypothesis
        self.comparison = comparison
        self.dropout = Dropout(dropout)

    def forward(self, source: Tokens) -> Memory:
        """Return a slot for each premise token, then one for each hypothesis token; the summary compares both texts."""
        assert source.segments is not None, "segments separate premise and hypothesis"
        token_mask = source.positions >= 0
        is_hypothesis = token_mask & (source.segments > 0)
        assert bool(is_hypothesis.any(1).all()), "a row has no second text"
        x = self.embedding(source)
        premise, states = self._run_stack(
            self.premise, x, source.positions, token_mask & ~is_hypothesis, self.premise.init_state(len(x), x)
        )
        initial_states = tuple(_drop_output(state) for state in states)
        hypothesis, _ = self._run_stack(self.hypothesis, x, source.positions, is_hypothesis, initial_states)
        values = torch.cat((premise.values, hypothesis.values), 1)
        positions = torch.cat((premise.positions, hypothesis.positions), 1)
        return Memory(values, values, positions, self.comparison(premise, hypothesis))

    def _run_stack(
        self, stack: RecurrentStack, x: Tensor, positions: Tensor, token_mask: Tensor, state: tuple[CellState, ...]
    ) -> tuple[TextOutputs, tuple[CellState, ...]]:
        """Run a stack over the tokens that `token_mask` chooses, moved to the first columns, starting from `state`;
        return its outputs with their positions, and its new state.
        """
        x, positions = (
            _compact_columns(x, token_mask),
            torch.where(_compact_columns(token_mask, token_mask), _compact_columns(positions, token_mask), -1),
        )
        outputs, states = stack(x, state, positions=positions)
        return TextOutputs(self.dropout(outputs), positions), states


def _drop_output(state: CellState) -> CellState:
    """Return a cell state with its output set to zeros."""
    output, *memory = state
    assert memory, "a cell whose whole state is output has no memory to pass on"
    return (torch.zeros_like(output), *memory)


def _compact_columns(
    columns: Shaped[Tensor, "B T *more"], column_mask: Bool[Tensor, "B T"]
) -> Shaped[Tensor, "B C *more"]:
    """Move the columns that `column_mask` chooses in each row to the front, in order; drop columns that no row
    needs.
    """
    order = (~column_mask).byte().argsort(dim=1, stable=True)[:, : int(column_mask.sum(1).max())]
    rows = torch.arange(len(order), device=order.device).unsqueeze(1)
    return columns[rows, order]
