"""Transformer encoders and decoders, and the poolers that turn hidden vectors into one vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.attention import MultiHopAttention
from heedful.attention.hooks import DECODER_SELF, ENCODER_SELF, SUMMARY, assign_roles
from heedful.blocks.convolution import SpecAugment
from heedful.blocks.feedforward import build_xavier_linear
from heedful.blocks.transformer import TransformerStack
from heedful.models.interface import Decoder, Encoder, State
from heedful.tensors import FeatureBatch, FrameLayout, Memories, Memory, MultiStepSearch, StepsOutput, Tokens


class Pooler(nn.Module, ABC):
    """Base class: turns the hidden vectors of a text into one vector."""

    @abstractmethod
    def forward(
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_summary"]:
        """Return one vector per text, made of the hidden vectors of its tokens; those at position -1 are padding and
        must not matter.

        Args:
            hidden: hidden vectors of the tokens.
            positions: positions of the tokens.
        """


def mean_pool(hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B d_model"]:
    """Average the hidden vectors over all tokens, including special ones, but not over padding (position -1); zeros for
    a text without tokens.
    """
    token_mask = (positions >= 0).unsqueeze(-1)
    mean: Tensor = (hidden * token_mask).sum(1) / token_mask.sum(1).clamp(min=1)
    return mean


@final
class MeanPooler(Pooler):
    """Mean over all tokens (see `mean_pool`)."""

    def forward(
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_model"]:
        """Average the hidden vectors over all tokens, including special ones."""
        return mean_pool(hidden, positions)


@final
class FirstTokenPooler(Pooler):
    """BERT's pooler tanh(W_s z_0 + b_s), where z_0 is the token at position 0, [CLS] (Devlin et al. 2019).

    Args:
        d_model: width of the hidden vectors and of the result.
        activation: replaces tanh, as in other encoders.
    """

    def __init__(self, d_model: int, *, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.activation = activation or nn.Tanh()

    def forward(
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_model"]:
        """Return the pooled vector of the token at position 0 of each text, wherever padding is."""
        first = (positions == 0).byte().argmax(1)
        rows = torch.arange(hidden.size(0), device=hidden.device)
        pooled: Tensor = self.activation(self.dense(hidden[rows, first]))
        return pooled


@final
class SelfAttentivePooler(Pooler):
    """Structured self-attentive embedding M = A H as one vector, with A = softmax(W_s2 tanh(W_s1 H^T)) (Lin et al.
    2017, eq. 6 and 7).

    Row j of A holds the weights of hop j. The paper's penalty on hops with similar weights is
    `heedful.tasks.generation_objective.decorrelation_penalty` of A.

    Args:
        d_model: 2u, width of the hidden vectors.
        hops: r, rows of A.
        d_alignment: d_a, rows of W_s1.
    """

    def __init__(self, d_model: int, *, hops: int, d_alignment: int) -> None:
        super().__init__()
        self.keys = build_xavier_linear(d_model, d_alignment, bias=False)
        self.queries = build_xavier_linear(d_alignment, hops, bias=False)
        self.hops = MultiHopAttention(hops)
        assign_roles(self.hops, SUMMARY)
        self.d_output = hops * d_model

    def forward(
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_output"]:
        """Return the rows of M, one for each hop, as one vector for each text."""
        query = self.queries.weight.flatten().expand(hidden.size(0), 1, -1)
        visible = (positions >= 0).unsqueeze(1)
        matrix: Tensor = self.hops(query, self.keys(hidden).tanh(), value=hidden, visible=visible)
        return matrix.squeeze(1)


class TransformerEncoder(Encoder[Tokens | FeatureBatch]):
    """Transformer encoder: a stack with bidirectional attention (Vaswani et al. 2017, 3.1).

    Args:
        stack: embedding and layers.
        summary: pooler of the tokens; their mean if not given.
    """

    def __init__(self, stack: TransformerStack, *, summary: Pooler | None = None) -> None:
        super().__init__()
        self.stack = stack
        assign_roles(stack, ENCODER_SELF)
        self.summary = summary or MeanPooler()

    def forward(self, source: Tokens | FeatureBatch) -> Memory:
        """Return a memory slot for each token or frame; the summary is the pooled text."""
        hidden: Tensor
        hidden, _ = self.stack(source, self.stack.init_state(None))
        return Memory(hidden, hidden, source.positions, self.summary(hidden, source.positions))


@final
class SubsampledEncoder(Encoder[FeatureBatch]):
    """An encoder behind convolutions that make a vector of several frames; its memory has the layout of frames.

    Args:
        front: maps a `FeatureBatch` of frames to a shorter one.
        encoder: reads the subsampled vectors.
        hidden: masks parts of the frames while training; nothing if not given.
    """

    def __init__(self, front: nn.Module, encoder: Encoder[FeatureBatch], *, hidden: SpecAugment | None = None) -> None:
        super().__init__()
        self.front = front
        self.encoder = encoder
        self.hidden = hidden

    def forward(self, source: FeatureBatch) -> Memory:
        """Return a memory slot for each vector of the convolutions."""
        memory: Memory = self.encoder(self.front(source if self.hidden is None else self.hidden(source)))
        return replace(memory, layout=FrameLayout(memory.positions.size(1)))


@final
class NamedEncoders(nn.Module):
    """Several encoders by name; each makes one memory from the source of the same name.

    The parameters of each are called `NAME.*`.
    """

    def __init__(self, encoders: Mapping[str, Encoder[Any]]) -> None:
        super().__init__()
        self._names = tuple(encoders)
        for name, encoder in encoders.items():
            self.add_module(name, encoder)

    def forward(self, source: Mapping[str, Any]) -> dict[str, Memory]:
        """Return a memory for each source; sources and memories have the same names."""
        assert source.keys() == set(self._names), f"sources {[*source]}, but encoders of {[*self._names]}"
        return {name: self.get_submodule(name)(source[name]) for name in self._names}


PoolingMode: TypeAlias = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
"""Ways of pooling: the first token; the maximum of each dimension; the mean; the sum divided by the root of the number
of tokens; the mean in which token t of 1, 2 ... has weight t (Muennighoff 2022); the last token."""
POOLING_MODES: Final[Sequence[PoolingMode]] = (
    "cls",
    "max",
    "mean",
    "mean_sqrt_len_tokens",
    "weightedmean",
    "lasttoken",
)
"""All pooling modes, in the order in which their results are concatenated."""


@final
class MultiModePooler(Pooler):
    """Pools the hidden vectors of all tokens, including special ones, by one or several modes.

    Args:
        modes: at least one; the results are concatenated in the order of `POOLING_MODES`.
    """

    def __init__(self, modes: Iterable[PoolingMode]) -> None:
        super().__init__()
        chosen = {*modes}
        assert chosen, "a text becomes a vector in some way"
        self.modes = tuple(mode for mode in POOLING_MODES if mode in chosen)

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"modes={', '.join(self.modes)}"

    def forward(
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_pooled"]:
        """Return the pooled vectors of all modes, concatenated; zeros for a text without tokens."""
        return torch.cat([_pool(mode, hidden, positions) for mode in self.modes], 1)


def _pool(
    mode: PoolingMode, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
) -> Float[Tensor, "B d_model"]:
    """Return one vector per text by a single mode, such as the mean, the maximum or the first token; zeros for a text
    without tokens.
    """
    is_token = (positions >= 0).unsqueeze(-1)
    rows = torch.arange(len(hidden), device=hidden.device)
    pooled: Tensor
    match mode:
        case "cls":
            pooled = hidden[rows, (positions == 0).byte().argmax(1)] * is_token.any(1)
        case "lasttoken":
            pooled = hidden[rows, positions.argmax(1)] * is_token.any(1)
        case "max":
            pooled = hidden.masked_fill(~is_token, -torch.inf).amax(1).nan_to_num(neginf=0.0)
        case "mean":
            pooled = mean_pool(hidden, positions)
        case "mean_sqrt_len_tokens":
            pooled = (hidden * is_token).sum(1) / is_token.sum(1).clamp(min=1).sqrt()
        case "weightedmean":
            weights = (positions + 1).unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)
    return pooled


@final
class UnitNorm(nn.Module):
    """Normalisation to length 1, x / |x|; a zero vector stays zero."""

    def forward(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """Return vectors of length 1."""
        return functional.normalize(x, dim=-1)


@final
class SentencePooler(Pooler):
    """Pooling followed by further maps.

    Args:
        pooling: pools the hidden vectors.
        steps: maps of the pooled vector, applied in order.
    """

    def __init__(self, pooling: MultiModePooler, steps: Sequence[nn.Module]) -> None:
        super().__init__()
        self.pooling = pooling
        self.steps = nn.Sequential(*steps)

    def forward(
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_vector"]:
        """Return the vector of each text."""
        vectors: Tensor = self.steps(self.pooling(hidden, positions))
        return vectors


class TransformerDecoder(Decoder):
    """Transformer decoder: a causal stack with cross-attention to every memory (Vaswani et al. 2017, 3.1)."""

    def __init__(self, stack: TransformerStack) -> None:
        super().__init__()
        self.stack = stack
        assign_roles(stack, DECODER_SELF)

    def init_state(self, memory: Memories | None) -> State:
        """Return the state before the first token, with each memory projected for each layer."""
        return self.stack.init_state(memory)

    def forward(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T d_model"], State]:
        """Return the hidden vectors of the tokens and the state after them."""
        result: tuple[Tensor, State] = self.stack(tokens, state)
        return result

    def decode_steps(
        self, output: nn.Linear, tokens: Tokens, state: State, *, search: MultiStepSearch[StepsOutput]
    ) -> tuple[StepsOutput, State] | None:
        """Run the next steps of a search in one call, from the newest token of each row and the state before it;
        `output` makes logits. Return None if the stack cannot.
        """
        return self.stack.decode_steps(output, tokens, state, search=search)
