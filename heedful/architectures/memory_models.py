"""Common config of models that encode pictures or clips and generate text."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationInfo, field_validator, model_validator

from heedful.architectures.model import MemoryDecoderConfig
from heedful.architectures.stack import TransformerMemoryDecoderConfig
from heedful.recipes.config import LengthLimit, PositiveInt, config_error
from heedful.recipes.recipe import ArchitectureConfig


class MemoryModelArchitecture(ArchitectureConfig):
    """Abstract: an encoder of pictures or clips, and a decoder that reads its memory."""

    d_model: PositiveInt = 256
    """width of the memory's slots, and of the decoder unless model.decoder.d_model is given"""
    decoder: MemoryDecoderConfig = TransformerMemoryDecoderConfig()
    """the decoder that generates text"""

    @model_validator(mode="before")
    @classmethod
    def _set_decoder_width(cls, table: Any) -> Any:
        """Use the width of the memory for the decoder if none is given."""
        if not isinstance(table, dict) or not isinstance(table.get("decoder", {}), dict):
            return table
        width = table.get("d_model", cls.model_fields["d_model"].default)
        return {**table, "decoder": {"d_model": width, **table.get("decoder", {})}}

    @field_validator("decoder")
    @classmethod
    def _check_slot_width(cls, decoder: MemoryDecoderConfig, info: ValidationInfo) -> MemoryDecoderConfig:
        width = info.data.get("d_model")
        if decoder.d_slot is not None and width is not None and decoder.d_slot != width:
            raise config_error(
                "model.decoder.d_model",
                f"= {decoder.d_slot} must be model.d_model = {width}, the width of the slots that it reads",
            )
        return decoder

    @property
    def length_limit(self) -> LengthLimit | None:
        """Maximum number of positions of the decoder."""
        decoder_limit = self.decoder.length_limit
        return (
            None
            if decoder_limit is None
            else LengthLimit(decoder_limit.key.replace("model.", "model.decoder.", 1), decoder_limit.tokens)
        )
