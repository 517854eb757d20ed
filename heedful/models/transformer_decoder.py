"""The Transformer as a decoder."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.attention_trace import assign_roles
from heedful.attention.hooks import DECODER_SELF
from heedful.blocks.transformer import TransformerStack
from heedful.models.interface import Decoder, State
from heedful.tensors import Memories, MultiStepLimits, MultiStepOutput, Tokens


class TransformerDecoder(Decoder):
    """A stack whose tokens see what came before them and, across, every memory (Vaswani et al. 2017, 3.1)."""

    def __init__(self, stack: TransformerStack) -> None:
        super().__init__()
        self.stack = stack
        assign_roles(stack, DECODER_SELF)

    def init_state(self, memory: Memories | None) -> State:
        """The state before the first token: each memory, projected once for each layer that looks at it."""
        return self.stack.init_state(memory)

    def forward(self, tokens: Tokens, state: State) -> tuple[Float[Tensor, "B T d_model"], State]:
        """Hidden vectors of the tokens and the state after them."""
        result: tuple[Tensor, State] = self.stack(tokens, state)
        return result

    def decode_greedy(
        self, output: nn.Linear, tokens: Tokens, state: State, *, limits: MultiStepLimits
    ) -> tuple[MultiStepOutput, State] | None:
        """As the stack does it."""
        return self.stack.decode_greedy(output, tokens, state, limits=limits)
