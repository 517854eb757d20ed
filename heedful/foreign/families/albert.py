"""Model family ALBERT (Lan et al. 2020): narrow embeddings behind which a map stands, and layers with the same
weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from heedful.architectures.stack import EncoderConfig
from heedful.errors import RunError
from heedful.foreign.families.bert import (
    BERT,
    ENCODER_FOREIGN_SUPPORTED,
    ENCODER_SETTINGS,
    ENCODER_SUPPORTED,
    build_encoder_mapping,
    rename_encoder_layer,
)
from heedful.foreign.families.heads import FamilyHeads
from heedful.foreign.families.model_family import ACTIVATIONS, KeyMapping
from heedful.foreign.families.tensor_names import REVERSED_LAYOUT, StateDictMapping, TensorRename, rename_part

_LAYER: Final = rename_encoder_layer(
    ("attention.query", "attention.key", "attention.value"),
    "attention.dense",
    norms=("attention.LayerNorm", "full_layer_layer_norm"),
    network=("ffn", "ffn_output"),
)
_PARTS: Final = (
    rename_part("encoder.stack.embedding.projection", "albert.encoder.embedding_hidden_mapping_in"),
    rename_part("encoder.summary.dense", "albert.pooler", head="summary"),
    rename_part("masked.dense", "predictions.dense", head="masked"),
    rename_part("masked.norm", "predictions.LayerNorm", head="masked"),
    rename_part("masked.output", "predictions", ("bias",), head="masked"),
    # its output has the right order before the wrong one
    TensorRename(("relation",), ("sop_classifier.classifier",), layout=REVERSED_LAYOUT, head="relation"),
)
_CHANGED_SETTINGS: Final = {
    setting.heedful_key: setting
    for setting in (
        KeyMapping("activation", ("hidden_act",), "gelu_tanh", ACTIVATIONS),
        KeyMapping("dropout", ("hidden_dropout_prob",), 0.0),
        KeyMapping("attention_dropout", ("attention_probs_dropout_prob",), 0.0),
    )
}


def _build_mapping(config: EncoderConfig) -> StateDictMapping:
    return build_encoder_mapping(
        config,
        _PARTS,
        prefix="albert",
        output="predictions.decoder",
        output_bias="predictions.bias",
        layer=_LAYER,
        layers="encoder.albert_layer_groups.0.albert_layers",
    )


def _complete_content(content: dict[str, Any], config: EncoderConfig) -> dict[str, Any]:
    if config.d_embedding is None:
        raise RunError(
            "model.d_embedding: is not given, and ALBERT has a map behind its embeddings; train a model with "
            "model.d_embedding to export it"
        )
    return content


ALBERT: Final = replace(
    BERT,
    model_type="albert",
    name="ALBERT",
    architectures={
        "AlbertForPreTraining": ("masked", "relation"),
        "AlbertForMaskedLM": ("masked",),
        "AlbertModel": (),
    },
    settings=(
        *(_CHANGED_SETTINGS.get(setting.heedful_key, setting) for setting in ENCODER_SETTINGS),
        KeyMapping("d_embedding", ("embedding_size",), 128),
    ),
    foreign_supported={**ENCODER_FOREIGN_SUPPORTED, "num_hidden_groups": (1,), "inner_group_num": (1,)},
    heedful_supported={
        **{key: values for key, values in ENCODER_SUPPORTED.items() if key != "d_embedding"},
        "share_layers": (True,),
        "positions.offset": (0,),
    },
    build_mapping=_build_mapping,
    special_tokens={
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "unk_token": "<unk>",
        "mask_token": "[MASK]",
        "pad_token": "<pad>",
    },
    tokenizer_class="AlbertTokenizer",
    has_word_pieces=False,
    heads=FamilyHeads.from_class_name("Albert"),
    complete_content=_complete_content,
)
