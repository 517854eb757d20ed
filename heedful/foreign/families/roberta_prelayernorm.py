"""Model family RoBERTa-PreLayerNorm: an encoder with a norm before each sublayer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch

from heedful.architectures.attention import LearnedConfig
from heedful.architectures.stack import EncoderConfig
from heedful.foreign.families.bert import BERT, ENCODER_SUPPORTED, build_encoder_mapping
from heedful.foreign.families.heads import FamilyHeads, HeadLocation
from heedful.foreign.families.tensor_names import StateDictMapping, rename_part
from heedful.tasks.portable_model import PortableModel

_POSITIONS: Final = "encoder.stack.embedding.position.table.weight"
_HEADS: Final = (
    rename_part("encoder.stack.final_norm", "roberta_prelayernorm.LayerNorm"),
    rename_part("encoder.summary.dense", "roberta_prelayernorm.pooler.dense", head="summary"),
    rename_part("masked.dense", "lm_head.dense", head="masked"),
    rename_part("masked.norm", "lm_head.layer_norm", head="masked"),
    rename_part("masked.output", "lm_head", ("bias",), head="masked"),
)


def _build_mapping(config: EncoderConfig) -> StateDictMapping:
    """Map the tensor names of RoBERTa-PreLayerNorm to heedful's."""
    return build_encoder_mapping(
        config,
        _HEADS,
        prefix="roberta_prelayernorm",
        output="lm_head.decoder",
        output_bias="lm_head.bias",
        norms=("attention.LayerNorm", "intermediate.LayerNorm"),
        classifiers=r"classifier(\.dense|\.out_proj)?|qa_outputs",
    )


def _complete_settings(
    values: dict[str, Any], content: Mapping[str, Any], _names: frozenset[str], _location: str
) -> None:
    """Set offset and length of the positions in `values`, because positions count from the id after that of padding,
    which `content` of config.json gives; a `ModelFamily.complete_settings`.
    """
    positions, offset = values["positions"], content.get("pad_token_id", 1) + 1
    positions |= {"offset": offset, "length": positions["length"] - offset}


def _complete_content(content: dict[str, Any], config: EncoderConfig) -> dict[str, Any]:
    assert isinstance(config.positions, LearnedConfig)
    return {**content, "max_position_embeddings": config.positions.length + config.positions.offset}


ROBERTA_PRELAYERNORM: Final = replace(
    BERT,
    model_type="roberta-prelayernorm",
    name="RoBERTa-PreLayerNorm",
    architectures={"RobertaPreLayerNormForMaskedLM": ("masked",), "RobertaPreLayerNormModel": ()},
    heedful_supported={**ENCODER_SUPPORTED, "residual": ("pre_norm",)},
    build_mapping=_build_mapping,
    special_tokens={
        "cls_token": "<s>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "pad_token": "<pad>",
    },
    tokenizer_class=None,
    has_word_pieces=False,
    heads=FamilyHeads.from_class_name(
        "RobertaPreLayerNorm",
        HeadLocation("RobertaPreLayerNormForSequenceClassification", "classifier.out_proj", True, "classifier.dense"),
    ),
    gelu_head="lm_head",
    complete_settings=_complete_settings,
    complete_content=_complete_content,
)


def add_position_offset(origin: PortableModel, pad: int) -> PortableModel:
    """Prepend rows to the position table of a model until it has `pad` + 1 of them before the first position, because
    this family counts positions from there. `pad` is the id of padding.
    """
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
