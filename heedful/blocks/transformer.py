"""The stack of attention and feed-forward layers: translation's two, BERT and GPT are this one class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.explained import declare
from heedful.attention.multihead import KeyValues, MultiHeadAttention
from heedful.attention.probe import ACROSS
from heedful.attention.sight import Sight, Slots
from heedful.attention.visibility import Visibility, everything
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.residual import Residual
from heedful.values import Memory, Rows, Tokens


@dataclass(frozen=True)
class LayerState:
    """What a layer remembers: its own past, and the memory as this layer projects it."""

    past: KeyValues | None
    memory: KeyValues | None


@dataclass(frozen=True)
class StackState:
    """What a stack remembers: where keys are, once for all layers, and the keys and values of each layer.

    Rearranging rows costs an index into small tables; keys and values stay in place unless whole groups are dropped.
    """

    past: Slots | None
    memory: Slots | None
    layers: tuple[LayerState, ...]
    width: int = 1

    def rearrange(self, rows: Rows) -> StackState:
        """With other rows."""
        groups = rows.source_groups(self.width)
        return StackState(
            past=None if self.past is None else self.past.rearrange(rows),
            memory=None if self.memory is None else self.memory.rearrange(rows),
            layers=tuple(
                LayerState(
                    None if layer.past is None else layer.past.pick(groups),
                    None if layer.memory is None else layer.memory.pick(groups),
                )
                for layer in self.layers
            ),
            width=1 if rows.free else rows.width,
        )


class TransformerLayer(nn.Module):
    """Self-attention, attention across to a memory if there is one, feed-forward; each inside a residual.

    Args:
        attention: of the tokens to themselves.
        feed_forward: after the attentions.
        residual: makes the shortcut around each sublayer.
        across: attention to a memory; a decoder has it, an encoder or GPT does not.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: FeedForward,
        *,
        residual: Callable[[], Residual],
        across: MultiHeadAttention | None = None,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.across = across
        self.feed_forward = feed_forward
        self.around_attention = residual()
        self.around_across = residual() if across is not None else None
        self.around_feed_forward = residual()
        if across is not None:
            declare(across, ACROSS)

    def begin(self, memory: Memory | None) -> LayerState:
        """The state before the first token."""
        if self.across is None or memory is None:
            return LayerState(None, None)
        return LayerState(None, self.across.remember(memory.keys, memory.values, memory.positions).settled())

    def forward(
        self, x: Float[Tensor, "G Q d_model"], state: LayerState, *, sight: Sight, across: Sight | None
    ) -> tuple[Float[Tensor, "G Q d_model"], LayerState]:
        """One step up the stack; `sight` and `across` say what the tokens see of each other and of the memory."""
        past = state.past

        def attend(h: Tensor) -> Tensor:
            nonlocal past
            now = self.attention.remember(h, h, sight.positions)
            past = now if past is None else past.extend(now)
            result: Tensor = self.attention(h, past, sight=sight)
            return result

        x = self.around_attention(x, attend)
        if self.across is not None and self.around_across is not None:
            attention = self.across
            x = self.around_across(x, lambda h: attention(h, state.memory, sight=across))
        x = self.around_feed_forward(x, self.feed_forward)
        return x, LayerState(past, state.memory)


class TransformerStack(nn.Module):
    """Embedding and layers.

    Args:
        embedding: of the tokens.
        layers: from the first to the last; they share no weights.
        visibility: who among the tokens sees whom.
        final_norm: after the last layer; pre-norm stacks need it.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        layers: Iterable[TransformerLayer],
        *,
        visibility: Visibility,
        final_norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.visibility = visibility
        self.final_norm = final_norm

    def begin(self, memory: Memory | None) -> StackState:
        """The state before the first token."""
        slots = None if memory is None else Slots(memory.positions)
        return StackState(None, slots, tuple(layer.begin(memory) for layer in self._layers()))

    def forward(self, tokens: Tokens, state: StackState) -> tuple[Float[Tensor, "B T d_model"], StackState]:
        """Hidden vectors of the tokens and the state after them."""
        rows, length = tokens.ids.shape
        x: Tensor = self.embedding(tokens)
        # rows of a group stand side by side, so that they share the group's keys in one product
        groups = rows // state.width
        x = x.view(groups, state.width * length, x.size(-1))
        positions = tokens.positions.reshape(groups, state.width * length)
        past = self._past(state, groups, positions).extend(positions)
        sight = past.sight(positions, self.visibility)
        across = None if state.memory is None else state.memory.sight(positions, everything)
        layers = []
        for layer, before in zip(self._layers(), state.layers, strict=True):
            x, after = layer(x, before, sight=sight, across=across)
            layers.append(after)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return x.view(rows, length, x.size(-1)), StackState(past, state.memory, tuple(layers), state.width)

    def _layers(self) -> Iterable[TransformerLayer]:
        for layer in self.layers:
            assert isinstance(layer, TransformerLayer)
            yield layer

    @staticmethod
    def _past(state: StackState, groups: int, positions: Tensor) -> Slots:
        if state.past is not None:
            return state.past
        return Slots(torch.empty(groups, 0, dtype=positions.dtype, device=positions.device), width=state.width)
