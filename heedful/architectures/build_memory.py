"""Build memory networks from their configs."""

from __future__ import annotations

from torch import nn

from heedful.architectures.memory import MemoryNetworkConfig, MemoryNetworkDecoderConfig
from heedful.models.language_model import LanguageModel
from heedful.models.memory_network import (
    ChainedHops,
    HopUpdate,
    MemoryNetwork,
    SentenceEmbedding,
    WeightTying,
)
from heedful.models.memory_network_decoder import MemoryNetworkDecoder


def build_memory_network(config: MemoryNetworkConfig, *, vocabulary: int, answers: int, facts: int) -> MemoryNetwork:
    """Build a newly initialised memory network.

    Args:
        config: its config.
        vocabulary: number of words; the first ids are answers.
        answers: number of answers.
        facts: maximum number of facts in a story.
    """
    width, hops = config.d_model, config.hops
    tying = WeightTying.adjacent(hops) if config.tie == "adjacent" else WeightTying.layer_wise()
    model = MemoryNetwork(
        SentenceEmbedding(vocabulary, width, tying.num_tables, ordered=config.sentences == "positions"),
        tying,
        HopUpdate(hops, width, has_hop_map=tying.has_hop_map)
        if config.attention == "hops"
        else ChainedHops(hops, width, has_links=config.attention == "binary_chain"),
        answers=answers,
        hops=hops,
        ages=facts if config.temporal else 0,
    )
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=config.deviation)
    return model


def build_memory_network_language_model(
    config: MemoryNetworkDecoderConfig,
    *,
    vocabulary: int,
    longest: int = 0,  # noqa: ARG001 - it has ages, and no positions
) -> LanguageModel:
    """Build a newly initialised memory network as a language model, for texts of any length."""
    decoder = MemoryNetworkDecoder(
        vocabulary,
        config.d_model,
        hops=config.hops,
        memory=config.memory,
        rectified=config.rectified,
        dropout=config.dropout,
    )
    model = LanguageModel(decoder, output=nn.Linear(config.d_model, vocabulary, bias=False))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=config.deviation)
    return model
