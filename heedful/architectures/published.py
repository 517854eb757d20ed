"""Models whose sizes papers tell, as configs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from heedful.architectures.attention import LearnedConfig, NoPositionsConfig
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig


@dataclass(frozen=True)
class Published:
    """A model of a paper.

    Attributes:
        config: its architecture.
        vocabulary: entries.
        said: its parameters as the paper, or those who gave its weights away, count them, in millions.
        source: who says so.
    """

    config: TransformerConfig | DecoderConfig | EncoderConfig
    vocabulary: int
    said: str
    source: str


def _bert(layers: int, d_model: int, heads: int) -> EncoderConfig:
    return EncoderConfig(layers=layers, d_model=d_model, heads=heads, positions=LearnedConfig(length=512))


def _gpt(layers: int, d_model: int, heads: int, *, length: int) -> DecoderConfig:
    positions = LearnedConfig(length=length)
    return DecoderConfig(layers=layers, d_model=d_model, heads=heads, activation="gelu_tanh", positions=positions)


_ORIGINAL = DecoderConfig(
    layers=12, d_model=768, heads=12, activation="gelu_tanh", positions=LearnedConfig(length=512), residual="post_norm"
)
_GOPHER = DecoderConfig(
    layers=80, d_model=16384, heads=128, activation="gelu_tanh", positions=NoPositionsConfig(), bias=False
)
"""Its norms have gains alone (RMSNorm), and its positions are those of Transformer-XL, whose maps of 16384 x 16384 in
each layer no stack of ours has: 21,475 million."""
_BASE = TransformerConfig(d_model=512, heads=8, encoder_layers=6, decoder_layers=6)
_BIG = TransformerConfig(d_model=1024, heads=16, encoder_layers=6, decoder_layers=6)
_RAE = (
    "Rae et al. 2021, table 1; 21,475 million of them are maps of relative positions, which the count here leaves out"
)
_DEVLIN, _RADFORD = "Devlin et al. 2019, 3", "Radford et al. 2019, table 2"

PUBLISHED: Final[Mapping[str, Published]] = MappingProxyType(
    {
        "transformer-base": Published(_BASE, 37_000, "65", "Vaswani et al. 2017, table 3"),
        "transformer-big": Published(_BIG, 37_000, "213", "Vaswani et al. 2017, table 3"),
        "bert-base": Published(_bert(12, 768, 12), 30_522, "110", _DEVLIN),
        "bert-large": Published(_bert(24, 1024, 16), 30_522, "340", _DEVLIN),
        "gpt-1": Published(_ORIGINAL, 40_478, "117", "Radford et al. 2018, 4.1; counted in 2019, table 2"),
        "gpt-2": Published(_gpt(12, 768, 12, length=1024), 50_257, "117, later corrected to 124", _RADFORD),
        "gpt-2-medium": Published(_gpt(24, 1024, 16, length=1024), 50_257, "345, later corrected to 355", _RADFORD),
        "gpt-2-large": Published(_gpt(36, 1280, 20, length=1024), 50_257, "762, later corrected to 774", _RADFORD),
        "gpt-2-xl": Published(_gpt(48, 1600, 25, length=1024), 50_257, "1542, later corrected to 1558", _RADFORD),
        "gpt-3": Published(_gpt(96, 12288, 96, length=2048), 50_257, "175,000", "Brown et al. 2020, table 2.1"),
        "gopher": Published(_GOPHER, 32_000, "280,000", _RAE),
        "megatron-turing": Published(_gpt(105, 20480, 128, length=2048), 50_257, "530,000", "Smith et al. 2022"),
    }
)
"""By name; BERT's with its map of the first token, which next sentences are told by."""
