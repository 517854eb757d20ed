"""Models as ONNX graphs of flat tensors: one is called once for a text, another for each token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention.kv_cache import KVCache
from heedful.attention.mask import CacheLayout
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.transformer import LayerState, StackState
from heedful.models.generative import LanguageModel, SequenceToSequence
from heedful.models.heads import MaskedLanguageModel, MaskedLMHead, TextClassifier, TokenClassifier
from heedful.models.transformer import TransformerDecoder, TransformerEncoder, mean_pool
from heedful.tensors import SOURCE, Memory, Tokens

_ROWS, _SOURCE, _PAST, _TOKENS = 2, 5, 4, 3
"""Sizes of the examples: no two alike and none 1, so that none is taken for another, or for one that never changes."""


@dataclass(frozen=True)
class GraphInput:
    """One input tensor of a graph.

    Attributes:
        example: a tensor with the right type and number of axes.
        axes: names of the axes of variable length, by their index; other axes are as long as in the example.
    """

    example: Tensor
    axes: Mapping[int, str]

    @property
    def shape(self) -> list[int | str]:
        """Length or name of each axis."""
        return [self.axes.get(index, size) for index, size in enumerate(self.example.shape)]


@dataclass(frozen=True)
class ExportGraph:
    """A part of a model that is computed in one call; `module` takes the inputs and returns the outputs in this
    order.
    """

    module: nn.Module
    inputs: Mapping[str, GraphInput]
    outputs: Sequence[str]


ExportGraphs: TypeAlias = Mapping[str, ExportGraph]


class EncodingGraph(nn.Module):
    """Computes the hidden vectors of an encoder and their mean over the tokens, which is the text's embedding."""

    def __init__(self, encoder: TransformerEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(
        self, ids: Int[Tensor, "B T"], positions: Int[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T d_model"], Float[Tensor, "B d_model"]]:
        """Return the hidden vector of each token, and the embedding of each text."""
        memory = self.encoder(Tokens(ids, positions, segments))
        return memory.values, mean_pool(memory.values, memory.positions)


class ClassifierGraph(nn.Module):
    """Computes the logits of a fine-tuned encoder, for each text or for each token."""

    def __init__(self, model: TextClassifier | TokenClassifier) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Int[Tensor, "B T"], positions: Int[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B *T outputs"]:
        """Compute the logits of each text, or of each token if the model classifies tokens."""
        logits: Tensor = self.model.output(self.model(Tokens(ids, positions, segments)))
        return logits


class MaskedLogitsGraph(nn.Module):
    """Computes the logits of masked tokens from selected hidden vectors."""

    def __init__(self, head: MaskedLMHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, hidden: Float[Tensor, "N d_model"]) -> Float[Tensor, "N V"]:
        """Compute logits over the vocabulary from hidden vectors."""
        logits: Tensor = self.head.output(self.head(hidden))
        return logits


class DecoderInitGraph(nn.Module):
    """Computes the cross-attention keys and values of each decoder layer, before the first token."""

    def __init__(self, decoder: TransformerDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(
        self, hidden: Float[Tensor, "B S d_model"], positions: Int[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B H S d"], ...]:
        """Return keys and values of the first layer, of the second and so on, computed from the hidden vectors of the
        source.
        """
        state = self.decoder.init_state(Memory(hidden, hidden, positions, mean_pool(hidden, positions)))
        return tuple(_flatten_keys_values(layer.memories[SOURCE] for layer in state.layers))


class DecoderStepGraph(nn.Module):
    """Computes logits for each token of a chunk (a prompt or a single token) and the cache after it.

    Args:
        decoder: reads tokens.
        output: linear layer from hidden vectors to logits.
    """

    def __init__(self, decoder: TransformerDecoder, output: nn.Linear) -> None:
        super().__init__()
        self.decoder = decoder
        self.output = output

    def forward(self, ids: Int[Tensor, "B T"], positions: Int[Tensor, "B T"], *state: Tensor) -> tuple[Tensor, ...]:
        """Return logits, then the positions of all tokens read so far, then keys and values of each layer. `state` has
        the positions, keys and values before, in the same order, and those of the source if there is one.

        Args:
            ids: of the chunk.
            positions: of the chunk.
            state: the positions, keys and values that the previous call returned; then positions, keys and values of
                the memory, if there is one.
        """
        num_own = 1 + 2 * len(self.decoder.stack.layers)
        hidden, next_state = self.decoder(Tokens(ids, positions), _unflatten_state(state[:num_own], state[num_own:]))
        return self.output(hidden), *_flatten_past(next_state)


def _unflatten_state(past: Sequence[Tensor], memory: Sequence[Tensor]) -> StackState:
    """Build the state of a decoder stack from flat tensors. `past` has the positions of the tokens read, then keys and
    values of each layer; `memory` has the same of the source, or is empty.
    """
    pasts = _pair_keys_values(past[1:])
    memories = [{SOURCE: pair} for pair in _pair_keys_values(memory[1:])] or [{} for _ in pasts]
    layers = tuple(LayerState(*pair) for pair in zip(pasts, memories, strict=True))
    return StackState(CacheLayout(past[0]), {SOURCE: CacheLayout(memory[0])} if memory else {}, layers)


def _flatten_past(state: StackState) -> Iterator[Tensor]:
    """Yield the positions, keys and values of a state, without the memory, which does not change."""
    assert state.past is not None
    yield state.past.positions
    yield from _flatten_keys_values(layer.past for layer in state.layers if layer.past is not None)


def _pair_keys_values(tensors: Sequence[Tensor]) -> list[KVCache]:
    return [KVCache(*pair) for pair in zip(tensors[::2], tensors[1::2], strict=True)]


def _flatten_keys_values(parts: Iterable[KVCache]) -> Iterator[Tensor]:
    for part in parts:
        yield part.key
        yield part.value


def build_encoder_graphs(model: nn.Module) -> ExportGraphs:
    """Build the graphs of an encoder: `classifier` if it is fine-tuned, else `encoder`, and `masked` if it has a
    masked-LM head.
    """
    encoder = model.get_submodule("encoder")
    assert isinstance(encoder, TransformerEncoder)
    if isinstance(model, TextClassifier | TokenClassifier):
        return {"classifier": ExportGraph(ClassifierGraph(model), _encoder_inputs(encoder), ("logits",))}
    graphs = {"encoder": ExportGraph(EncodingGraph(encoder), _encoder_inputs(encoder), ("hidden", "embedding"))}
    if isinstance(model, MaskedLanguageModel):
        weight = model.masked.dense.weight
        hidden = GraphInput(weight.new_zeros(_TOKENS, weight.size(1)), {0: "tokens"})
        graphs["masked"] = ExportGraph(MaskedLogitsGraph(model.masked), {"hidden": hidden}, ("logits",))
    return graphs


def build_translator_graphs(model: SequenceToSequence[Tokens]) -> ExportGraphs:
    """Build the graphs of a translator: `encoder` and `begin`, which are called once for a source, and `step`."""
    encoder, decoder = model.encoder, model.decoder
    assert isinstance(encoder, TransformerEncoder)
    assert isinstance(decoder, TransformerDecoder)
    with torch.no_grad():
        memory = encoder(_example_tokens(_SOURCE))
    memory_inputs = {
        "hidden": GraphInput(memory.values, _variable_axes("source")),
        "positions": GraphInput(memory.positions, _variable_axes("source")),
    }
    inputs, outputs = _step_inputs_and_outputs(decoder, memory)
    init_outputs = [name for name in inputs if name.startswith("memory.") and name != "memory.positions"]
    return {
        "encoder": ExportGraph(EncodingGraph(encoder), _encoder_inputs(encoder), ("hidden", "embedding")),
        "begin": ExportGraph(DecoderInitGraph(decoder), memory_inputs, init_outputs),
        "step": ExportGraph(DecoderStepGraph(decoder, model.output), inputs, outputs),
    }


def build_decoder_graphs(model: LanguageModel) -> ExportGraphs:
    """Build the graph of a language model: `step` alone, which starts with an empty cache."""
    assert isinstance(model.decoder, TransformerDecoder)
    inputs, outputs = _step_inputs_and_outputs(model.decoder, None)
    return {"step": ExportGraph(DecoderStepGraph(model.decoder, model.output), inputs, outputs)}


def _encoder_inputs(encoder: TransformerEncoder) -> dict[str, GraphInput]:
    """Return example inputs of an encoder graph: ids and positions, and segments if the encoder has several."""
    tokens, embedding = _example_tokens(_SOURCE), encoder.stack.embedding
    assert isinstance(embedding, TokenEmbedding)
    inputs = {
        "ids": GraphInput(tokens.ids, _variable_axes("source")),
        "positions": GraphInput(tokens.positions, _variable_axes("source")),
    }
    if embedding.segments is not None:
        inputs["segments"] = GraphInput(torch.zeros_like(tokens.ids), _variable_axes("source"))
    return inputs


@torch.no_grad()
def _step_inputs_and_outputs(
    decoder: TransformerDecoder, memory: Memory | None
) -> tuple[dict[str, GraphInput], list[str]]:
    """Return example inputs of a decoder step after some tokens, by name, and the names of its outputs. `memory` is the
    encoded source, if the decoder has one.
    """
    _, state = decoder(_example_tokens(_PAST), decoder.init_state(memory))
    tokens, layers = _example_tokens(_TOKENS, start=_PAST), len(state.layers)
    inputs = {
        "ids": GraphInput(tokens.ids, _variable_axes("tokens")),
        "positions": GraphInput(tokens.positions, _variable_axes("tokens")),
    }
    inputs |= _name_tensors("past", _flatten_past(state), layers)
    if memory is not None:
        memory_tensors = _flatten_keys_values(layer.memories[SOURCE] for layer in state.layers)
        inputs |= _name_tensors("memory", (memory.positions, *memory_tensors), layers, axis="source")
    return inputs, ["logits", *_state_names("next", layers)]


def _name_tensors(prefix: str, tensors: Iterable[Tensor], layers: int, *, axis: str = "past") -> dict[str, GraphInput]:
    """Return the state tensors of a stack with this number of layers as graph inputs, whose names begin with `prefix`
    and whose variable axis is named `axis`.
    """
    pairs = zip(_state_names(prefix, layers), tensors, strict=True)
    return {
        name: GraphInput(tensor.clone(), _variable_axes(axis, index=2 if tensor.dim() == 4 else 1))
        for name, tensor in pairs
    }


def _state_names(prefix: str, layers: int) -> list[str]:
    """Return the names of positions, and of keys and values of all layers; each begins with `prefix`."""
    return [
        f"{prefix}.positions",
        *(f"{prefix}.{layer}.{part}" for layer in range(layers) for part in ("key", "value")),
    ]


def _variable_axes(name: str, *, index: int = 1) -> dict[int, str]:
    """Return the names of the variable axes: batch, and `name` at an index."""
    return {0: "batch", index: name}


def _example_tokens(length: int, *, start: int = 0) -> Tokens:
    """Build example tokens of this length, with positions that begin at `start`."""
    ids = torch.zeros(_ROWS, length, dtype=torch.long)
    return Tokens(ids, torch.arange(start, start + length).repeat(_ROWS, 1))
