"""Interfaces of all models: encoders make a memory, decoders read it, engines predict the next token.

Laws of every decoder, and of `init_state` and `step` of every engine:

- **chunk**: however a sequence of tokens is cut into chunks, the outputs are the same; training, reading a prompt and
  generating one token at a time are the same computation.
- **row**: `select_rows(state, rows)` and a step give what the step would have given in those rows.
- **join**: `concat_rows` of states, whenever each began, steps like each alone.
- **cause**: later tokens do not change the outputs of earlier ones.
- **padding**: tokens whose position is -1, wherever they stand and even if a whole row has no other, change nothing;
  outputs at their places are finite and meaningless.
- **branch**: two continuations of one state do not affect each other.
- **batch**: the result of a row does not depend on the other rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.hooks import SOURCE_AXIS
from heedful.tensors import Memories, Memory, MultiStepSearch, StepsOutput, Tokens

State: TypeAlias = Any
"""State of a decoder: any nest of frozen dataclasses, tuples, dictionaries and batch-first tensors."""

Step: TypeAlias = Callable[[Tokens, State], tuple[Float[Tensor, "B T V"], State]]
"""Type of `Engine.step`: all that a search needs besides an initial state."""

Source = TypeVar("Source", contravariant=True)  # noqa: PLC0105 - the name users meet in signatures


class Encoder(nn.Module, ABC, Generic[Source]):
    """Base class: encodes a source (text, image, frames, facts) as a memory.

    Attributes:
        token_axis: name of the axis of the tokens that it embeds, in inspection records.
    """

    token_axis: str = SOURCE_AXIS

    @abstractmethod
    def forward(self, source: Source) -> Memory:
        """Return the memory of a batch of sources; each is independent of its neighbours and of padding."""


class Decoder(nn.Module, ABC):
    """Base class: reads tokens in chunks of any size, optionally attending to a memory; see the laws above."""

    @abstractmethod
    def init_state(self, memory: Memories | None) -> State:
        """Return the state before the first token, one row for each row of the memory or memories; None if there is no
        memory.

        Without a memory the number of rows follows from the first tokens.
        """

    @abstractmethod
    def forward(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T d_model"], State]:
        """Return the hidden vectors of a chunk of any length and the new state; the given state stays valid."""

    def decode_steps(
        self, output: nn.Linear, tokens: Tokens, state: State, *, search: MultiStepSearch[StepsOutput]
    ) -> tuple[StepsOutput, State] | None:
        """Run the next steps of a search in one call, from the newest token of each row and the state before it;
        `output` makes logits. Return None if several steps in one call are not faster.

        Args:
            output: from hidden vectors to logits.
            tokens: the first token to read of each row, [B, 1].
            state: state before these tokens.
            search: the steps.
        """
        return None


@runtime_checkable
class Engine(Protocol[Source]):
    """Protocol of everything that can compute a model for generation: a module, an ensemble, another runtime."""

    @property
    def device(self) -> torch.device:
        """Device of the tokens and logits."""
        ...

    def init_state(self, source: Source) -> State:
        """Return the state before the first token, one row for each sentence of the source."""
        ...

    def step(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T V"], State]:
        """Return unnormalised log-probabilities of the next token for each token of the chunk, and the new state;
        `state` is the one before the chunk.

        The given state stays valid. The logits are new: the caller may overwrite them.
        """
        ...


@runtime_checkable
class MultiStepDecoder(Protocol):
    """Protocol of engines that may run several steps of a search in one call."""

    def decode_steps(
        self, tokens: Tokens, state: State, *, search: MultiStepSearch[StepsOutput]
    ) -> tuple[StepsOutput, State] | None:
        """Read one token of each row, then the tokens that the search takes except the last ones; return the tokens
        that it took and the state after those that were read.

        None where this is not faster than `Engine.step`, as in most states of most engines.
        """
        ...
