"""The stack of attention and feed-forward layers: translation's two, BERT and GPT are this one class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.choice import called
from heedful.attention.explained import declare
from heedful.attention.keys import KeyValues
from heedful.attention.multihead import MultiHeadAttention
from heedful.attention.probe import ACROSS
from heedful.attention.sight import Sight, Slots
from heedful.attention.visibility import Visibility, everything
from heedful.blocks.embedding import Embedding
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.levels import Level
from heedful.blocks.residual import Residual
from heedful.blocks.state import LayerState, StackState
from heedful.values import (
    SOURCE,
    Bounds,
    Memories,
    Memory,
    Tokens,
    Vectors,
    Written,
    by_name,
    memories_of,
)

_FAR = 1000
"""Places that are everything when a level is drawn."""


class TransformerLayer(nn.Module):
    """Self-attention, attention across to each memory there is, feed-forward; each inside a residual.

    Several memories are looked at one after the other ("serial" in Libovický et al. 2018, section 3). The attention to
    the memory `source` is called `across`, that to any other `across-NAME`.

    Args:
        attention: of the tokens to themselves.
        feed_forward: after the attentions.
        residual: makes the shortcut around each sublayer.
        across: attention to the only memory, or to several by name, in the order in which they are looked at; a decoder
            has it, an encoder or GPT does not.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: FeedForward,
        *,
        residual: Callable[[], Residual],
        across: MultiHeadAttention | Mapping[str, MultiHeadAttention] | None = None,
    ) -> None:
        super().__init__()
        attentions = by_name(across)
        self.names = tuple(attentions)
        suffixes = {name: "" if name == SOURCE else f"-{name}" for name in self.names}
        self._paths = {name: (f"across{suffix}", f"around_across{suffix}") for name, suffix in suffixes.items()}
        self.attention = attention
        self.across = attentions.get(SOURCE)
        for name in self._others():
            self.add_module(f"across-{name}", attentions[name])
        self.feed_forward = feed_forward
        self.around_attention = residual()
        self.around_across = residual() if self.across is not None else None
        for name in self._others():
            self.add_module(f"around_across-{name}", residual())
        self.around_feed_forward = residual()
        for name, attention_across in attentions.items():
            declare(attention_across, replace(ACROSS, keys=name))

    def begin(self, memories: Mapping[str, Memory]) -> LayerState:
        """The state before the first token; a layer may look at some of the memories, or at none."""
        return LayerState(None, {name: self._remembered(name, memories[name]) for name in self.names})

    def forward(
        self, x: Float[Tensor, "G Q d_model"], state: LayerState, *, sight: Sight, across: Mapping[str, Sight]
    ) -> tuple[Float[Tensor, "G Q d_model"], LayerState]:
        """One step up the stack; `sight` and `across` say what the tokens see of each other and of each memory."""
        past = state.past

        def attend(h: Tensor) -> Tensor:
            nonlocal past
            now = self.attention.remember(h, h, sight.positions)
            past = now if past is None else past.extend(now)
            result: Tensor = self.attention(h, past, sight=sight)
            return result

        x = self.around_attention(x, attend)
        for name in self.names:
            attention, around = self.across_to(name)
            x = around(x, partial(attention, memory=state.memories[name], sight=across[name]))
        x = self.around_feed_forward(x, self.feed_forward)
        return x, LayerState(past, state.memories)

    def _remembered(self, name: str, memory: Memory) -> KeyValues:
        attention, _ = self.across_to(name)
        return attention.remember(memory.keys, memory.values, memory.positions).settled()

    def across_to(self, name: str) -> tuple[MultiHeadAttention, Residual]:
        """The attention to a memory, and what is around it."""
        attention, around = self._paths[name]
        return getattr(self, attention), getattr(self, around)

    def residuals(self) -> Iterator[Residual]:
        """What is around each sublayer, in order."""
        yield self.around_attention
        yield from (self.across_to(name)[1] for name in self.names)
        yield self.around_feed_forward

    def _others(self) -> Iterable[str]:
        return (name for name in self.names if name != SOURCE)


class TransformerStack(nn.Module):
    """Embedding and layers.

    Args:
        embedding: of the tokens, or of vectors.
        layers: from the first to the last; they share no weights.
        visibility: who among the tokens sees whom.
        final_norm: after the last layer; pre-norm stacks need it.
    """

    def __init__(
        self,
        embedding: Embedding,
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

    def extra_repr(self) -> str:
        """What `print` says of it besides its parts."""
        return f"visibility={called(self.visibility)}"

    def levels(self) -> tuple[Level, ...]:
        """Each layer sees the tokens of the one below that are visible to the middle one of many."""
        places = torch.arange(2 * _FAR + 1, device="cpu")
        seen = self.visibility(places[_FAR].view(1, 1, 1), places.view(1, 1, -1))[0, 0].nonzero().flatten().tolist()
        before, after = _FAR - min(seen), max(seen) - _FAR
        reach = None if before == _FAR else before, None if after == _FAR else after
        return tuple(
            Level("self-attention", *reach, across=layer.names, width=layer.attention.query.in_features)
            for layer in self._layers()
        )

    def begin(self, memory: Memories | None) -> StackState:
        """The state before the first token."""
        names = dict.fromkeys(name for layer in self._layers() for name in layer.names)
        memories = memories_of(memory, names)
        slots = {name: Slots(each.positions) for name, each in memories.items()}
        return StackState(None, slots, tuple(layer.begin(memories) for layer in self._layers()))

    def forward(self, tokens: Tokens | Vectors, state: StackState) -> tuple[Float[Tensor, "B T d_model"], StackState]:
        """Hidden vectors of the tokens and the state after them."""
        rows, length = tokens.positions.shape
        x: Tensor = self.embedding(tokens)
        # rows of a group stand side by side, so that they share the group's keys in one product
        state, groups = state.ready(state.width * length), rows // state.width
        x = x.view(groups, state.width * length, x.size(-1))
        positions = tokens.positions.reshape(groups, state.width * length)
        past = state.read(positions)
        sight = past.sight(positions, self.visibility)
        across = {name: slots.sight(positions, everything) for name, slots in state.memories.items()}
        layers = []
        for layer, before in zip(self._layers(), state.layers, strict=True):
            x, after = layer(x, before, sight=sight, across=across)
            layers.append(after)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return x.view(rows, length, x.size(-1)), StackState(past, state.memories, tuple(layers), state.width)

    def stride(
        self, output: nn.Linear, tokens: Tokens, state: StackState, *, bounds: Bounds
    ) -> tuple[Written, StackState] | None:
        """See `heedful.models.interface.Decoder.stride`: step by step is the way."""
        return None

    def _layers(self) -> Iterable[TransformerLayer]:
        for layer in self.layers:
            assert isinstance(layer, TransformerLayer)
            yield layer
