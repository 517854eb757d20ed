"""How large a Transformer is, without the memory to hold it: the base and the big model of Vaswani et al. 2017.

PyTorch's meta device builds modules that have shapes but no numbers.
"""

from __future__ import annotations

import torch

from heedful.architectures.build import Sizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.models.size import Size, measure

PAPER = {
    "base": TransformerConfig(d_model=512, heads=8, encoder_layers=6, decoder_layers=6),
    "big": TransformerConfig(d_model=1024, heads=16, encoder_layers=6, decoder_layers=6),
}


def size_of(config: TransformerConfig, *, vocabulary: int) -> Size:
    """Measured with sentences of 25 tokens."""
    with torch.device("meta"):
        return measure(build_sequence_to_sequence(config, Sizes(source=vocabulary, target=vocabulary, max_length=256)))


def main() -> None:
    print("model  layers  d_model   d_ff  parameters  MFLOPs/token  training, MiB")
    for name, config in PAPER.items():
        size = size_of(config, vocabulary=37_000)
        layers = f"{config.encoder_layers}+{config.decoder_layers}"
        print(
            f"{name:5}  {layers:>6}  {config.d_model:7}  {config.d_ff:5}  {size.parameters / 1e6:9.1f}M  "
            f"{size.forward_flops / 1e6:12.1f}  {size.training_bytes / 2**20:13,.0f}"
        )


if __name__ == "__main__":
    main()
