"""Models as graphs of flat tensors: what is called once for a text, and what is called again for each token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention.keys import KeyValues
from heedful.attention.sight import Slots
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.state import LayerState, StackState
from heedful.models.encoders import TransformerEncoder, mean_of_tokens
from heedful.models.language_model import LanguageModel
from heedful.models.masked_language_model import MaskedHead, MaskedLanguageModel
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.models.text_classifier import TextClassifier
from heedful.models.token_classifier import TokenClassifier
from heedful.models.transformer_decoder import TransformerDecoder
from heedful.values import SOURCE, Memory, Tokens

_ROWS, _SOURCE, _PAST, _TOKENS = 2, 5, 4, 3
"""Sizes of the examples: no two alike and none 1, so that none is taken for another, or for one that never changes."""


@dataclass(frozen=True)
class Input:
    """One tensor that a graph reads.

    Attributes:
        example: of its type and its number of axes.
        axes: names of those of any length, by their places; the others are as long as in the example.
    """

    example: Tensor
    axes: Mapping[int, str]

    @property
    def shape(self) -> list[int | str]:
        """The length of each axis, or its name."""
        return [self.axes.get(place, size) for place, size in enumerate(self.example.shape)]


@dataclass(frozen=True)
class Graph:
    """A part of a model that is computed in one call; `module` takes the inputs and gives the outputs in this order."""

    module: nn.Module
    inputs: Mapping[str, Input]
    outputs: Sequence[str]


Graphs: TypeAlias = Mapping[str, Graph]


class Encoding(nn.Module):
    """What an encoder says of each token, and the mean over the tokens, which is the text's embedding."""

    def __init__(self, encoder: TransformerEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(
        self, ids: Int[Tensor, "B T"], positions: Int[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T d_model"], Float[Tensor, "B d_model"]]:
        """Hidden vectors and embeddings."""
        memory = self.encoder(Tokens(ids, positions, segments))
        return memory.values, mean_of_tokens(memory.values, memory.positions)


class Judging(nn.Module):
    """The logits of a fine-tuned encoder: of each text, or of each token."""

    def __init__(self, model: TextClassifier | TokenClassifier) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Int[Tensor, "B T"], positions: Int[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B *T outputs"]:
        """From tokens to logits."""
        logits: Tensor = self.model.output(self.model(Tokens(ids, positions, segments)))
        return logits


class Filling(nn.Module):
    """The logits of what may be hidden, of hidden vectors that somebody has picked."""

    def __init__(self, head: MaskedHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, hidden: Float[Tensor, "N d_model"]) -> Float[Tensor, "N V"]:
        """From vectors to logits over the vocabulary."""
        logits: Tensor = self.head.output(self.head(hidden))
        return logits


class Beginning(nn.Module):
    """What each layer of a decoder makes of its memory, before the first token."""

    def __init__(self, decoder: TransformerDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(
        self, hidden: Float[Tensor, "B S d_model"], positions: Int[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B H S d"], ...]:
        """Keys and values of the first layer, of the second and so on."""
        state = self.decoder.begin(Memory(hidden, hidden, positions, mean_of_tokens(hidden, positions)))
        return tuple(_flat(layer.memories[SOURCE] for layer in state.layers))


class Stepping(nn.Module):
    """Logits of what follows each token of a chunk, and the cache behind it: a prompt, one token, or anything between.

    Args:
        decoder: reads tokens.
        output: from hidden vectors to logits.
    """

    def __init__(self, decoder: TransformerDecoder, output: nn.Linear) -> None:
        super().__init__()
        self.decoder = decoder
        self.output = output

    def forward(self, ids: Int[Tensor, "B T"], positions: Int[Tensor, "B T"], *state: Tensor) -> tuple[Tensor, ...]:
        """Logits, then the positions of all that is read now, then keys and values of each layer.

        Args:
            ids: of the chunk.
            positions: likewise.
            state: the same as comes out, before the chunk; then positions, keys and values of the memory, if there is
                one.
        """
        own = 1 + 2 * len(self.decoder.stack.layers)
        hidden, after = self.decoder(Tokens(ids, positions), _state(state[:own], state[own:]))
        return self.output(hidden), *_past(after)


def _state(past: Sequence[Tensor], memory: Sequence[Tensor]) -> StackState:
    """What a stack remembers, of positions, keys and values."""
    pasts = _pairs(past[1:])
    memories = [{SOURCE: each} for each in _pairs(memory[1:])] or [{} for _ in pasts]
    layers = tuple(LayerState(*each) for each in zip(pasts, memories, strict=True))
    return StackState(Slots(past[0]), {SOURCE: Slots(memory[0])} if memory else {}, layers)


def _past(state: StackState) -> Iterator[Tensor]:
    """The same as flat tensors, without the memory, which does not change."""
    assert state.past is not None
    yield state.past.positions
    yield from _flat(layer.past for layer in state.layers if layer.past is not None)


def _pairs(tensors: Sequence[Tensor]) -> list[KeyValues]:
    return [KeyValues(*pair) for pair in zip(tensors[::2], tensors[1::2], strict=True)]


def _flat(parts: Iterable[KeyValues]) -> Iterator[Tensor]:
    for part in parts:
        yield part.key
        yield part.value


def encoder_graphs(model: nn.Module) -> Graphs:
    """Those of a fine-tuned encoder: its logits; of any other: `encoder`, and `masked` where it fills gaps."""
    encoder = model.get_submodule("encoder")
    assert isinstance(encoder, TransformerEncoder)
    if isinstance(model, TextClassifier | TokenClassifier):
        return {"classifier": Graph(Judging(model), _read(encoder), ("logits",))}
    graphs = {"encoder": Graph(Encoding(encoder), _read(encoder), ("hidden", "embedding"))}
    if isinstance(model, MaskedLanguageModel):
        weight = model.masked.dense.weight
        picked = Input(weight.new_zeros(_TOKENS, weight.size(1)), {0: "tokens"})
        graphs["masked"] = Graph(Filling(model.masked), {"hidden": picked}, ("logits",))
    return graphs


def translator_graphs(model: SequenceToSequence[Tokens]) -> Graphs:
    """`encoder` and `begin`, which are called once for a source, and `step`."""
    encoder, decoder = model.encoder, model.decoder
    assert isinstance(encoder, TransformerEncoder)
    assert isinstance(decoder, TransformerDecoder)
    with torch.no_grad():
        memory = encoder(_tokens(_SOURCE))
    kept = {"hidden": Input(memory.values, _axes("source")), "positions": Input(memory.positions, _axes("source"))}
    inputs, outputs = _stepped(decoder, memory)
    begun = [name for name in inputs if name.startswith("memory.") and name != "memory.positions"]
    return {
        "encoder": Graph(Encoding(encoder), _read(encoder), ("hidden", "embedding")),
        "begin": Graph(Beginning(decoder), kept, begun),
        "step": Graph(Stepping(decoder, model.output), inputs, outputs),
    }


def writer_graphs(model: LanguageModel) -> Graphs:
    """`step` alone, which begins with a cache of length 0."""
    assert isinstance(model.decoder, TransformerDecoder)
    inputs, outputs = _stepped(model.decoder, None)
    return {"step": Graph(Stepping(model.decoder, model.output), inputs, outputs)}


def _read(encoder: TransformerEncoder) -> dict[str, Input]:
    """Tokens, and of which part of a text they are where the encoder knows several."""
    tokens, embedding = _tokens(_SOURCE), encoder.stack.embedding
    assert isinstance(embedding, TokenEmbedding)
    inputs = {"ids": Input(tokens.ids, _axes("source")), "positions": Input(tokens.positions, _axes("source"))}
    if embedding.segments is not None:
        inputs["segments"] = Input(torch.zeros_like(tokens.ids), _axes("source"))
    return inputs


@torch.no_grad()
def _stepped(decoder: TransformerDecoder, memory: Memory | None) -> tuple[dict[str, Input], list[str]]:
    """What a step reads, as it is after some tokens, and the names of what it gives."""
    _, state = decoder(_tokens(_PAST), decoder.begin(memory))
    tokens, layers = _tokens(_TOKENS, first=_PAST), len(state.layers)
    inputs = {"ids": Input(tokens.ids, _axes("tokens")), "positions": Input(tokens.positions, _axes("tokens"))}
    inputs |= _named("past", _past(state), layers)
    if memory is not None:
        projected = _flat(layer.memories[SOURCE] for layer in state.layers)
        inputs |= _named("memory", (memory.positions, *projected), layers, axis="source")
    return inputs, ["logits", *_names("next", layers)]


def _named(prefix: str, tensors: Iterable[Tensor], layers: int, *, axis: str = "past") -> dict[str, Input]:
    named = zip(_names(prefix, layers), tensors, strict=True)
    return {name: Input(each.clone(), _axes(axis, place=2 if each.dim() == 4 else 1)) for name, each in named}


def _names(prefix: str, layers: int) -> list[str]:
    return [f"{prefix}.positions", *(f"{prefix}.{n}.{part}" for n in range(layers) for part in ("key", "value"))]


def _axes(name: str, *, place: int = 1) -> dict[int, str]:
    return {0: "batch", place: name}


def _tokens(length: int, *, first: int = 0) -> Tokens:
    ids = torch.zeros(_ROWS, length, dtype=torch.long)
    return Tokens(ids, torch.arange(first, first + length).repeat(_ROWS, 1))
