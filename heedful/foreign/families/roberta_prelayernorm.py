"""Model family RoBERTa-PreLayerNorm: an encoder with a norm before each sublayer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from heedful.architectures.attention import LearnedConfig
from heedful.architectures.stack import EncoderConfig
from heedful.errors import RunError
from heedful.foreign.families.bert import BERT_CONFIG_MAPPING
from heedful.foreign.families.config_mapping import ModelFamily, validate_config
from heedful.foreign.families.tensor_names import (
    TABLE_PARAMETERS,
    StateDictMapping,
    TensorRename,
    rename_layers,
    rename_part,
)
from heedful.tasks.portable_model import PortableModel

_SUPPORTED: Final = {
    key: value for key, value in BERT_CONFIG_MAPPING.heedful_supported.items() if key != "positions.offset"
}
_CONFIG_MAPPING: Final = replace(BERT_CONFIG_MAPPING, heedful_supported={**_SUPPORTED, "residual": ("pre_norm",)})
_NAME: Final = "RoBERTa-PreLayerNorm"
_POSITIONS: Final = "encoder.stack.embedding.position.table.weight"

_LAYER_RENAMES: Final = (
    TensorRename(
        ("attention.query", "attention.key_value"),
        ("attention.self.query", "attention.self.key", "attention.self.value"),
        shares=(1, 2),
    ),
    rename_part("attention.aggregation.output", "attention.output.dense"),
    rename_part("around_attention.norm", "attention.LayerNorm"),
    rename_part("feed_forward.inner", "intermediate.dense"),
    rename_part("feed_forward.outer", "output.dense"),
    rename_part("around_feed_forward.norm", "intermediate.LayerNorm"),
)


def _build_state_dict_mapping(config: EncoderConfig) -> StateDictMapping:
    """Map the tensor names of RoBERTa-PreLayerNorm to heedful's."""
    prefix = "roberta_prelayernorm"
    return StateDictMapping(
        prefix=f"{prefix}.",
        renames=(
            rename_part("encoder.stack.embedding.table", f"{prefix}.embeddings.word_embeddings", TABLE_PARAMETERS),
            rename_part(
                "encoder.stack.embedding.position.table", f"{prefix}.embeddings.position_embeddings", TABLE_PARAMETERS
            ),
            rename_part(
                "encoder.stack.embedding.segments", f"{prefix}.embeddings.token_type_embeddings", TABLE_PARAMETERS
            ),
            rename_part("encoder.stack.embedding.norm", f"{prefix}.embeddings.LayerNorm"),
            rename_part("encoder.stack.final_norm", f"{prefix}.LayerNorm"),
            *rename_layers(
                config.layers,
                _LAYER_RENAMES,
                heedful_prefix="encoder.stack.layers.{layer}",
                foreign_prefix=prefix + ".encoder.layer.{layer}",
            ),
            rename_part("encoder.summary.dense", f"{prefix}.pooler.dense", head="summary"),
            rename_part("masked.dense", "lm_head.dense", head="masked"),
            rename_part("masked.norm", "lm_head.layer_norm", head="masked"),
            rename_part("masked.output", "lm_head", ("bias",), head="masked"),
        ),
        copies={
            "lm_head.decoder.weight": f"{prefix}.embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        },
        ignored=(
            rf"{prefix}\.embeddings\.(position_ids|token_type_ids)",
            rf"({prefix}\.)?(classifier(\.dense|\.out_proj)?|qa_outputs)\.(weight|bias)",
        ),
    )


def _read_config(content: Mapping[str, Any], names: frozenset[str], location: str) -> EncoderConfig:
    """Convert a RoBERTa-PreLayerNorm config.json to a heedful model configuration."""
    values = _CONFIG_MAPPING.read_config(content, location=location)
    if "lm_head.dense.weight" in names and values["activation"] != "gelu":
        raise RunError(
            f"{location}: hidden_act = {content['hidden_act']!r} and the gelu of lm_head: heedful has one activation "
            "for both; take a model where they are equal"
        )
    offset = content.get("pad_token_id", 1) + 1
    values["residual"] = "pre_norm"
    values["positions"] |= {"kind": "learned", "offset": offset, "length": values["positions"]["length"] - offset}
    return validate_config(EncoderConfig, values, location=location)


def _write_config(config: EncoderConfig, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Convert a heedful model configuration to the content of a RoBERTa-PreLayerNorm config.json."""
    content = _CONFIG_MAPPING.write_config(config, name=_NAME)
    masked = "masked.dense.weight" in tensors
    if masked and config.activation != "gelu":
        raise RunError(
            f"model.activation = {config.activation}: {_NAME} predicts hidden tokens with gelu only; train a model "
            "with gelu to export it"
        )
    assert isinstance(config.positions, LearnedConfig)
    content["max_position_embeddings"] = config.positions.length + config.positions.offset
    return {"architectures": [f"RobertaPreLayerNorm{'ForMaskedLM' if masked else 'Model'}"], **content}


def add_position_offset(origin: PortableModel, pad: int) -> PortableModel:
    """Prepend `pad` + 1 rows to the position table, because this family counts positions from there."""
    config, offset = origin.model, pad + 1
    if not isinstance(config.positions, LearnedConfig) or config.positions.offset == offset:
        return origin
    rows = origin.tensors[_POSITIONS][config.positions.offset :]
    positions = config.positions.model_copy(update={"offset": offset})
    return replace(
        origin,
        model=config.model_copy(update={"positions": positions}),
        tensors={**origin.tensors, _POSITIONS: torch.cat((rows.new_zeros(offset, rows.size(1)), rows))},
    )


ROBERTA_PRELAYERNORM: Final = ModelFamily(
    "roberta-prelayernorm", "pretraining", _read_config, _write_config, _build_state_dict_mapping
)
