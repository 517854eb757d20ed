"""Encoder-decoder model with an output layer."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.conditional import ConditionalModel, Source
from heedful.models.encoders import NamedEncoders
from heedful.models.interface import Decoder, Encoder, State
from heedful.tensors import Tokens


class SequenceToSequence(ConditionalModel[Source]):
    """Encoder-decoder model of p(y | x) as a product over tokens (Sutskever et al. 2014, eq. 1).

    Args:
        encoder: makes a memory of the source, or several by name.
        decoder: reads the memory and its own past.
        output: linear map from hidden vectors to logits; its weight may be an embedding's.
    """

    def __init__(self, encoder: Encoder[Source] | NamedEncoders, decoder: Decoder, *, output: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def init_state(self, source: Source) -> State:
        """Encode the source and return the decoder's initial state."""
        return self.decoder.init_state(self.encoder(source))

    def forward_all_tokens(self, source: Source, target: Tokens) -> tuple[Float[Tensor, "B T d_model"], Tokens]:
        """Return the hidden vectors of the target, and the target: the decoder reads nothing else."""
        return self(source, target), target

    def forward(self, source: Source, target: Tokens) -> Float[Tensor, "B T d_model"]:
        """Return the hidden vectors of the target; `output` turns them into logits, or a loss without logits uses
        them.
        """
        hidden: Tensor
        hidden, _ = self.decoder(target, self.init_state(source))
        return hidden
