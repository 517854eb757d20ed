"""Models that look at something and write, as data: what their tables have in common."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationInfo, field_validator, model_validator

from heedful.architectures.model import MemoryDecoderConfig
from heedful.architectures.stack import TransformerMemoryDecoderConfig
from heedful.recipes.recipe import Architecture
from heedful.recipes.section import Count, Longest, misfit


class LookingArchitecture(Architecture):
    """A memory of what is seen, and a decoder that reads it; abstract."""

    d_model: Count = 256
    """width of the memory's slots, and of the decoder unless model.decoder.d_model is given"""
    decoder: MemoryDecoderConfig = TransformerMemoryDecoderConfig()
    """what writes"""

    @model_validator(mode="before")
    @classmethod
    def _one_width(cls, table: Any) -> Any:
        if not isinstance(table, dict) or not isinstance(table.get("decoder", {}), dict):
            return table
        width = table.get("d_model", cls.model_fields["d_model"].default)
        return {**table, "decoder": {"d_model": width, **table.get("decoder", {})}}

    @field_validator("decoder")
    @classmethod
    def _reads(cls, decoder: MemoryDecoderConfig, info: ValidationInfo) -> MemoryDecoderConfig:
        width = info.data.get("d_model")
        if decoder.d_slot is not None and width is not None and decoder.d_slot != width:
            raise misfit(
                "model.decoder.d_model",
                f"= {decoder.d_slot} must be model.d_model = {width}, the width of the slots that it reads",
            )
        return decoder

    @property
    def longest(self) -> Longest | None:
        """The decoder's."""
        found = self.decoder.longest
        return None if found is None else Longest(found.key.replace("model.", "model.decoder.", 1), found.tokens)
