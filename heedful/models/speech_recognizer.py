"""Speech recognition models: CTC, attention, or both."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.models.interface import Decoder, Encoder
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.tensors import FeatureBatch, Memory


class CTCHead(nn.Module):
    """CTC head: log-probabilities of a token or blank for each memory slot.

    Args:
        output: from a slot to logits over the vocabulary; the caller decides which token is the blank.
    """

    def __init__(self, output: nn.Linear) -> None:
        super().__init__()
        self.output = output

    def forward(self, memory: Memory) -> tuple[Float[Tensor, "B S V"], Int[Tensor, " B"]]:
        """Return log-probabilities, in single precision at least, and the number of slots of each row."""
        logits = self.output(memory.values)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        return logits.to(dtype).log_softmax(-1), (memory.positions >= 0).sum(1)


class CTCModel(nn.Module):
    """Models p(tokens | sound) by connectionist temporal classification (Graves 2006), without a decoder.

    Args:
        encoder: makes a memory whose slots are in temporal order, with padding behind them.
        labels: the CTC head.
    """

    def __init__(self, encoder: Encoder[FeatureBatch], labels: CTCHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.labels = labels

    def forward(self, source: FeatureBatch) -> tuple[Float[Tensor, "B S V"], Int[Tensor, " B"]]:
        """Return log-probabilities and lengths; see `CTCHead`."""
        result: tuple[Tensor, Tensor] = self.labels(self.encoder(source))
        return result


class HybridCTCAttention(SequenceToSequence[FeatureBatch]):
    """Hybrid CTC/attention model: an attention decoder and a CTC head on one memory (Watanabe et al. 2017).

    Args:
        encoder: as for `CTCModel`.
        decoder: reads the memory and its own past.
        output: linear map from hidden vectors to logits.
        labels: the CTC head.
    """

    def __init__(self, encoder: Encoder[FeatureBatch], decoder: Decoder, *, output: nn.Linear, labels: CTCHead) -> None:
        super().__init__(encoder, decoder, output=output)
        self.labels = labels
