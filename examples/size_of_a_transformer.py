"""Size of a Transformer, measured without allocating it: the base and the big model of Vaswani et al. 2017.

PyTorch's meta device builds modules with shapes but without data.
"""

from __future__ import annotations

import torch

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.models.model_size import ModelSize, measure_model

PAPER = {
    "base": TransformerConfig(d_model=512, heads=8, encoder_layers=6, decoder_layers=6),
    "big": TransformerConfig(d_model=1024, heads=16, encoder_layers=6, decoder_layers=6),
}


def measure_config(config: TransformerConfig, *, vocabulary: int) -> ModelSize:
    """Measure the size of a model and its cost for sentences of 25 tokens."""
    with torch.device("meta"):
        return measure_model(
            build_sequence_to_sequence(config, DataSizes(source=vocabulary, target=vocabulary, max_length=256))
        )


def main() -> None:
    """Print a table of both models."""
    print("model  layers  d_model   d_ff  parameters  MFLOPs/token  training, MiB")
    for name, config in PAPER.items():
        size = measure_config(config, vocabulary=37_000)
        layers = f"{config.encoder_layers}+{config.decoder_layers}"
        print(
            f"{name:5}  {layers:>6}  {config.d_model:7}  {config.d_ff:5}  {size.num_parameters / 1e6:9.1f}M  "
            f"{size.forward_flops / 1e6:12.1f}  {size.training_bytes / 2**20:13,.0f}"
        )


if __name__ == "__main__":
    main()
