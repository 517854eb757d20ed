"""Model family BERT (Devlin et al. 2019): an encoder, with or without its pre-training heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor

from heedful.architectures.stack import EncoderConfig
from heedful.foreign.families.config_mapping import (
    ACTIVATIONS,
    SCALED_SOFTMAX,
    ConfigMapping,
    KeyMapping,
    ModelFamily,
    validate_config,
)
from heedful.foreign.families.tensor_names import (
    REVERSED_LAYOUT,
    TABLE_PARAMETERS,
    StateDictMapping,
    TensorRename,
    rename_layers,
    rename_part,
)

BERT_CONFIG_MAPPING: Final = ConfigMapping(
    settings=(
        KeyMapping("d_model", ("hidden_size",)),
        KeyMapping("heads", ("num_attention_heads",)),
        KeyMapping("d_ff", ("intermediate_size",)),
        KeyMapping("layers", ("num_hidden_layers",)),
        KeyMapping("activation", ("hidden_act",), "gelu", ACTIVATIONS),
        KeyMapping("dropout", ("hidden_dropout_prob",), 0.1),
        KeyMapping("attention_dropout", ("attention_probs_dropout_prob",), 0.1),
        KeyMapping("positions.length", ("max_position_embeddings",)),
        KeyMapping("segments", ("type_vocab_size",), 2),
        KeyMapping("norm_epsilon", ("layer_norm_eps",), 1e-12),
    ),
    foreign_supported={
        "position_embedding_type": ("absolute", None),
        "is_decoder": (False, None),
        "add_cross_attention": (False, None),
        "tie_word_embeddings": (True, None),
        "pruned_heads": ({}, None),
    },
    heedful_supported={
        "aggregation": ("project",),
        "shared_key_value": (False,),
        "visibility": ("everything",),
        "residual": ("post_norm",),
        "positions": ("learned",),
        "positions.offset": (0,),
        "embedding_norm": (True,),
        "scale_embedding": (False,),
        **SCALED_SOFTMAX,
    },
)

_ARCHITECTURES: Final = {
    (True, True): "BertForPreTraining",
    (True, False): "BertForMaskedLM",
    (False, True): "BertForNextSentencePrediction",
    (False, False): "BertModel",
}

BERT_LAYER_RENAMES: Final = (
    TensorRename(
        ("attention.query", "attention.key_value"),
        ("attention.self.query", "attention.self.key", "attention.self.value"),
        shares=(1, 2),
    ),
    rename_part("attention.aggregation.output", "attention.output.dense"),
    rename_part("around_attention.norm", "attention.output.LayerNorm"),
    rename_part("feed_forward.inner", "intermediate.dense"),
    rename_part("feed_forward.outer", "output.dense"),
    rename_part("around_feed_forward.norm", "output.LayerNorm"),
)


def _build_state_dict_mapping(config: EncoderConfig) -> StateDictMapping:
    """Map the tensor names of BERT to heedful's."""
    return StateDictMapping(
        prefix="bert.",
        renames=(
            rename_part("encoder.stack.embedding.table", "bert.embeddings.word_embeddings", TABLE_PARAMETERS),
            rename_part(
                "encoder.stack.embedding.position.table", "bert.embeddings.position_embeddings", TABLE_PARAMETERS
            ),
            rename_part("encoder.stack.embedding.segments", "bert.embeddings.token_type_embeddings", TABLE_PARAMETERS),
            rename_part("encoder.stack.embedding.norm", "bert.embeddings.LayerNorm"),
            *rename_layers(
                config.layers,
                BERT_LAYER_RENAMES,
                heedful_prefix="encoder.stack.layers.{layer}",
                foreign_prefix="bert.encoder.layer.{layer}",
            ),
            rename_part("encoder.summary.dense", "bert.pooler.dense", head="summary"),
            rename_part("masked.dense", "cls.predictions.transform.dense", head="masked"),
            rename_part("masked.norm", "cls.predictions.transform.LayerNorm", head="masked"),
            rename_part("masked.output", "cls.predictions", ("bias",), head="masked"),
            # its output has yes before no
            TensorRename(("relation",), ("cls.seq_relationship",), layout=REVERSED_LAYOUT, head="relation"),
        ),
        copies={
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        ignored=(
            r"bert\.embeddings\.(position_ids|token_type_ids)",
            r"(bert\.)?(classifier|qa_outputs)\.(weight|bias)",
        ),
        aliases={r"\.LayerNorm\.gamma$": ".LayerNorm.weight", r"\.LayerNorm\.beta$": ".LayerNorm.bias"},
    )


def _read_config(content: Mapping[str, Any], _names: frozenset[str], location: str) -> EncoderConfig:
    """Convert a BERT config.json to a heedful model configuration."""
    values = BERT_CONFIG_MAPPING.read_config(content, location=location)
    values["positions"]["kind"] = "learned"
    return validate_config(EncoderConfig, values, location=location)


def _write_config(config: EncoderConfig, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Convert a heedful model configuration to the content of a BERT config.json."""
    name = _ARCHITECTURES["masked.dense.weight" in tensors, "relation.weight" in tensors]
    return {"architectures": [name], **BERT_CONFIG_MAPPING.write_config(config, name="BERT")}


BERT: Final = ModelFamily("bert", "pretraining", _read_config, _write_config, _build_state_dict_mapping)
