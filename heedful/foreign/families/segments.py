"""Conversion of segment embeddings of encoders with one segment: one vector for all tokens there, none in heedful."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from heedful.architectures.stack import EncoderConfig
from heedful.foreign.families.config_mapping import ModelConfig

_SEGMENTS = "encoder.stack.embedding.segments.weight"
_POSITIONS = "encoder.stack.embedding.position.table.weight"


def fold_single_segment(config: ModelConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add the only segment vector to all position vectors, because heedful has no segment embedding for one segment."""
    if not _has_single_segment(config) or _SEGMENTS not in tensors:
        return dict(tensors)
    remaining = {name: tensor for name, tensor in tensors.items() if name != _SEGMENTS}
    return remaining | {_POSITIONS: tensors[_POSITIONS] + tensors[_SEGMENTS]}


def add_single_segment(config: ModelConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add a zero vector for the only segment, which BERT and its variants have."""
    if not _has_single_segment(config) or _POSITIONS not in tensors:
        return dict(tensors)
    return {**tensors, _SEGMENTS: tensors[_POSITIONS].new_zeros(1, config.d_model)}


def _has_single_segment(config: ModelConfig) -> bool:
    """Return whether the configuration is an encoder with exactly one segment."""
    return isinstance(config, EncoderConfig) and config.segments == 1
