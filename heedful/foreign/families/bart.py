"""Model family BART (Lewis et al. 2020): learned positions, and a norm after the embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor

from heedful.architectures.model import TransformerConfig
from heedful.foreign.families.config_mapping import ConfigMapping, KeyMapping, ModelFamily, validate_config
from heedful.foreign.families.encoder_decoder import SEQ2SEQ_KEY_MAPPINGS, SEQ2SEQ_SUPPORTED, build_seq2seq_mapping
from heedful.foreign.families.tensor_names import TABLE_PARAMETERS, StateDictMapping, rename_part

_OFFSET: Final = 2
"""Rows of the position table before the first position."""
_CONFIG_MAPPING: Final = ConfigMapping(
    settings=(*SEQ2SEQ_KEY_MAPPINGS, KeyMapping("positions.length", ("max_position_embeddings",))),
    foreign_supported={
        "normalize_before": (False,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (False,),
        "static_position_embeddings": (False,),
        "extra_pos_embeddings": (_OFFSET,),
        "tie_word_embeddings": (True,),
    },
    heedful_supported={
        **SEQ2SEQ_SUPPORTED,
        "positions": ("learned",),
        "positions.offset": (_OFFSET,),
        "embedding_norm": (True,),
        "tie": ("three_way",),
    },
)


def _read_config(content: Mapping[str, Any], names: frozenset[str], location: str) -> TransformerConfig:
    """Convert a BART config.json to a heedful model configuration."""
    values = _CONFIG_MAPPING.read_config(content, location=location)
    values["positions"] |= {"kind": "learned", "offset": _OFFSET}
    values |= {"embedding_norm": True, "tie": "three_way", "output_bias": "final_logits_bias" in names}
    return validate_config(TransformerConfig, values, location=location)


def _write_config(config: TransformerConfig, _tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Convert a heedful model configuration to the content of a BART config.json."""
    return {
        "architectures": ["BartForConditionalGeneration"],
        "is_encoder_decoder": True,
        **_CONFIG_MAPPING.write_config(config, name="BART"),
    }


def _build_state_dict_mapping(config: TransformerConfig) -> StateDictMapping:
    """Map the tensor names of BART to heedful's."""
    return build_seq2seq_mapping(
        config,
        sines_first=False,
        extra_renames=tuple(
            rename
            for side in ("encoder", "decoder")
            for rename in (
                rename_part(
                    f"{side}.stack.embedding.position.table", f"model.{side}.embed_positions", TABLE_PARAMETERS
                ),
                rename_part(f"{side}.stack.embedding.norm", f"model.{side}.layernorm_embedding"),
            )
        ),
        ignored=(r"(model\.)?(encoder|decoder)\.version", r"(model\.)?(classification_head|qa_outputs)\..*"),
    )


BART: Final = ModelFamily("bart", "translation", _read_config, _write_config, _build_state_dict_mapping)
