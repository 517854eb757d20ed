"""Build a decoder-only conditional model from its config."""

from __future__ import annotations

from heedful.architectures.build import build_language_model
from heedful.architectures.interface import DataSizes
from heedful.architectures.model import DecoderOnlyConfig
from heedful.models.decoder_only import DecoderOnly


def build_decoder_only(config: DecoderOnlyConfig, sizes: DataSizes) -> DecoderOnly:
    """Build a newly initialised decoder-only model; source and target share the vocabulary of the target."""
    longest = config.count_positions(sizes.max_length, sizes.max_length)
    model = build_language_model(config.decoder, vocabulary=sizes.target, longest=longest)
    return DecoderOnly(model.decoder, output=model.output)
