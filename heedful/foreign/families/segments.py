"""Vectors of the parts of a text, where a model knows one part only: a vector of all tokens there, none here."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from heedful.architectures.stack import EncoderConfig
from heedful.foreign.families.config_mapping import ModelConfig

_SEGMENTS = "encoder.stack.embedding.segments.weight"
_POSITIONS = "encoder.stack.embedding.position.table.weight"


def fold_single_segment(config: ModelConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Ours as heedful computes it: what is added to all tokens is added to all positions."""
    if not _has_single_segment(config) or _SEGMENTS not in tensors:
        return dict(tensors)
    remaining = {name: tensor for name, tensor in tensors.items() if name != _SEGMENTS}
    return remaining | {_POSITIONS: tensors[_POSITIONS] + tensors[_SEGMENTS]}


def add_single_segment(config: ModelConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Ours as BERT and its kin have it: with a vector of zeros for the only part."""
    if not _has_single_segment(config) or _POSITIONS not in tensors:
        return dict(tensors)
    return {**tensors, _SEGMENTS: tensors[_POSITIONS].new_zeros(1, config.d_model)}


def _has_single_segment(config: ModelConfig) -> bool:
    return isinstance(config, EncoderConfig) and config.segments == 1
