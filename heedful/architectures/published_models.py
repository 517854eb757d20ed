"""Models of papers whose sizes are known, as configs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from heedful.architectures.attention import LearnedConfig, NoPositionsConfig
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig


@dataclass(frozen=True)
class PublishedModel:
    """A model of a paper.

    Attributes:
        config: its architecture.
        vocabulary: number of entries.
        reported_parameters: its parameters in millions, as the paper or the publisher of its weights counts them.
        source: reference for this count.
    """

    config: TransformerConfig | DecoderConfig | EncoderConfig
    vocabulary: int
    reported_parameters: str
    source: str


def _bert_config(layers: int, d_model: int, heads: int) -> EncoderConfig:
    return EncoderConfig(layers=layers, d_model=d_model, heads=heads, positions=LearnedConfig(length=512))


def _gpt_config(layers: int, d_model: int, heads: int, *, length: int) -> DecoderConfig:
    positions = LearnedConfig(length=length)
    return DecoderConfig(layers=layers, d_model=d_model, heads=heads, activation="gelu_tanh", positions=positions)


_GPT1 = DecoderConfig(
    layers=12, d_model=768, heads=12, activation="gelu_tanh", positions=LearnedConfig(length=512), residual="post_norm"
)
_GOPHER = DecoderConfig(
    layers=80, d_model=16384, heads=128, activation="gelu_tanh", positions=NoPositionsConfig(), bias=False
)
"""Gopher; its norms have only gains (RMSNorm), and its positions are those of Transformer-XL, whose maps of 16384 x
16384 in each layer are not modelled here: 21,475 million."""
_TRANSFORMER_BASE = TransformerConfig(d_model=512, heads=8, encoder_layers=6, decoder_layers=6)
_TRANSFORMER_BIG = TransformerConfig(d_model=1024, heads=16, encoder_layers=6, decoder_layers=6)
_GOPHER_SOURCE = (
    "Rae et al. 2021, table 1; 21,475 million of them are maps of relative positions, which the count here leaves out"
)
_BERT_SOURCE, _GPT2_SOURCE = "Devlin et al. 2019, 3", "Radford et al. 2019, table 2"

PUBLISHED_MODELS: Final[Mapping[str, PublishedModel]] = MappingProxyType(
    {
        "transformer-base": PublishedModel(_TRANSFORMER_BASE, 37_000, "65", "Vaswani et al. 2017, table 3"),
        "transformer-big": PublishedModel(_TRANSFORMER_BIG, 37_000, "213", "Vaswani et al. 2017, table 3"),
        "bert-base": PublishedModel(_bert_config(12, 768, 12), 30_522, "110", _BERT_SOURCE),
        "bert-large": PublishedModel(_bert_config(24, 1024, 16), 30_522, "340", _BERT_SOURCE),
        "gpt-1": PublishedModel(_GPT1, 40_478, "117", "Radford et al. 2018, 4.1; counted in 2019, table 2"),
        "gpt-2": PublishedModel(
            _gpt_config(12, 768, 12, length=1024), 50_257, "117, later corrected to 124", _GPT2_SOURCE
        ),
        "gpt-2-medium": PublishedModel(
            _gpt_config(24, 1024, 16, length=1024), 50_257, "345, later corrected to 355", _GPT2_SOURCE
        ),
        "gpt-2-large": PublishedModel(
            _gpt_config(36, 1280, 20, length=1024), 50_257, "762, later corrected to 774", _GPT2_SOURCE
        ),
        "gpt-2-xl": PublishedModel(
            _gpt_config(48, 1600, 25, length=1024), 50_257, "1542, later corrected to 1558", _GPT2_SOURCE
        ),
        "gpt-3": PublishedModel(
            _gpt_config(96, 12288, 96, length=2048), 50_257, "175,000", "Brown et al. 2020, table 2.1"
        ),
        "gopher": PublishedModel(_GOPHER, 32_000, "280,000", _GOPHER_SOURCE),
        "megatron-turing": PublishedModel(
            _gpt_config(105, 20480, 128, length=2048), 50_257, "530,000", "Smith et al. 2022"
        ),
    }
)
"""Published models by name; BERT's include the pooler of the first token for next-sentence prediction."""
