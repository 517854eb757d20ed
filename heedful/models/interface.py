"""What every model promises: encoders make a memory, decoders read it, engines say what may follow.

The laws of every decoder, and of `begin` and `step` of every engine:

- **chunk**: however a sequence of tokens is cut into chunks, the outputs are the same; training, reading a
  prompt and generating one token at a time are the same computation.
- **row**: `select(state, rows)` and a step give what the step would have given in those rows.
- **join**: `join` of states, whenever each began, steps like each alone.
- **cause**: later tokens do not change the outputs of earlier ones.
- **padding**: tokens whose position is -1, wherever they stand and even if a whole row has no other, change
  nothing; outputs at their places are finite and mean nothing.
- **branch**: two continuations of one state do not disturb each other.
- **batch**: what comes out of a row does not depend on its neighbours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.tensors import Memories, Memory, MultiStepLimits, MultiStepOutput, Tokens

State: TypeAlias = Any
"""What a decoder remembers: any nest of frozen dataclasses, tuples, dictionaries and batch-first tensors."""

Step: TypeAlias = Callable[[Tokens, State], tuple[Float[Tensor, "B T V"], State]]
"""`Engine.step`: all that a search needs besides a first state."""

Source = TypeVar("Source", contravariant=True)  # noqa: PLC0105 - the name users meet in signatures


class Encoder(nn.Module, ABC, Generic[Source]):
    """Makes the memory of a source: text, an image, frames, facts."""

    @abstractmethod
    def forward(self, source: Source) -> Memory:
        """The memory of a batch of sources; one depends neither on its neighbours nor on its padding."""


class Decoder(nn.Module, ABC):
    """Reads tokens in chunks of any size, looking at a memory or at nothing; see the laws above."""

    @abstractmethod
    def init_state(self, memory: Memories | None) -> State:
        """The state before the first token, one row for each row of the memory, or of each of several by name.

        Without a memory the number of rows follows from the first tokens.
        """

    @abstractmethod
    def forward(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T d_model"], State]:
        """Hidden vectors of a chunk of any length, and the state after it; the given state stays valid."""

    def decode_greedy(
        self, output: nn.Linear, tokens: Tokens, state: State, *, limits: MultiStepLimits
    ) -> tuple[MultiStepOutput, State] | None:
        """Several steps of greedy search at once, as `MultiStepDecoder.decode_greedy`; None, unless a child knows a faster way.

        Args:
            output: from hidden vectors to logits.
            tokens: what each row reads first, [B, 1].
            state: before it.
            limits: of the search.
        """
        return None


@runtime_checkable
class Engine(Protocol[Source]):
    """All that generation knows of whatever computes a model: a module, several that vote, another runtime."""

    @property
    def device(self) -> torch.device:
        """Where tokens are wanted and logits come from."""
        ...

    def init_state(self, source: Source) -> State:
        """The state before the first token; a row for each sentence of the source."""
        ...

    def step(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T V"], State]:
        """Unnormalised log-probabilities of what follows each token of the chunk, and the state after it.

        The given state stays valid. The logits are fresh: the caller may overwrite them.
        """
        ...


@runtime_checkable
class MultiStepDecoder(Protocol):
    """An engine that may know how to take several steps of greedy search in one call."""

    def decode_greedy(
        self, tokens: Tokens, state: State, *, limits: MultiStepLimits
    ) -> tuple[MultiStepOutput, State] | None:
        """Reads one token of each row, then those that it picks but for the last, and gives the state behind these.

        None where that is not faster than `Engine.step`, as it is in most states of most engines.
        """
        ...
