"""Transformer decoder."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.attention_trace import assign_roles
from heedful.attention.hooks import DECODER_SELF
from heedful.blocks.transformer import TransformerStack
from heedful.models.interface import Decoder, State
from heedful.tensors import Memories, MultiStepLimits, MultiStepOutput, Tokens


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

    def decode_greedy(
        self, output: nn.Linear, tokens: Tokens, state: State, *, limits: MultiStepLimits
    ) -> tuple[MultiStepOutput, State] | None:
        """Run several steps of greedy search in one call, or return None if the stack cannot."""
        return self.stack.decode_greedy(output, tokens, state, limits=limits)
