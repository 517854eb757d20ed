"""Models that write what is said: by connectionist temporal classification, by attention, or by both."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.models.interface import Decoder, Encoder
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.tensors import FeatureBatch, Memory


class CTCHead(nn.Module):
    """What each slot of a memory says, a token or nothing.

    Args:
        output: from a slot to logits over the vocabulary, whose token for nothing is up to the user.
    """

    def __init__(self, output: nn.Linear) -> None:
        super().__init__()
        self.output = output

    def forward(self, memory: Memory) -> tuple[Float[Tensor, "B S V"], Int[Tensor, " B"]]:
        """Log-probabilities, in single precision at least, and how many slots of each row there are."""
        logits = self.output(memory.values)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        return logits.to(dtype).log_softmax(-1), (memory.positions >= 0).sum(1)


class CTCModel(nn.Module):
    """p(tokens | sound) by connectionist temporal classification (Graves 2006), without a decoder.

    Args:
        encoder: makes a memory whose slots stand in the order of time, with padding behind them.
        labels: reads them.
    """

    def __init__(self, encoder: Encoder[FeatureBatch], labels: CTCHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.labels = labels

    def forward(self, source: FeatureBatch) -> tuple[Float[Tensor, "B S V"], Int[Tensor, " B"]]:
        """See `CTCHead`."""
        result: tuple[Tensor, Tensor] = self.labels(self.encoder(source))
        return result


class HybridCTCAttention(SequenceToSequence[FeatureBatch]):
    """A decoder that attends, and labels of the slots that it attends to (Watanabe et al. 2017).

    Args:
        encoder: as of `CTCModel`.
        decoder: reads the memory and its own past.
        output: from hidden vectors to logits over the vocabulary.
        labels: reads the memory as well.
    """

    def __init__(self, encoder: Encoder[FeatureBatch], decoder: Decoder, *, output: nn.Linear, labels: CTCHead) -> None:
        super().__init__(encoder, decoder, output=output)
        self.labels = labels
