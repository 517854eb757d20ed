"""Model families DistilBERT (Sanh et al. 2019), a BERT without segments and pooler, and MPNet (Song et al. 2020), which
has biases of distances beside its positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from heedful.architectures.attention import BucketsConfig
from heedful.architectures.stack import EncoderConfig
from heedful.foreign.families.bert import (
    BERT,
    ENCODER_SETTINGS,
    ENCODER_SUPPORTED,
    build_encoder_mapping,
    rename_encoder_layer,
)
from heedful.foreign.families.heads import FamilyHeads
from heedful.foreign.families.model_family import ACTIVATIONS, KeyMapping
from heedful.foreign.families.roberta import LM_HEAD, ROBERTA, TEXT_CLASSIFIERS
from heedful.foreign.families.tensor_names import TABLE_PARAMETERS, StateDictMapping, rename_part

_DISTILBERT_LAYER: Final = rename_encoder_layer(
    ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    "attention.out_lin",
    norms=("sa_layer_norm", "output_layer_norm"),
    network=("ffn.lin1", "ffn.lin2"),
)
_DISTILBERT_HEAD: Final = (
    rename_part("masked.dense", "vocab_transform", head="masked"),
    rename_part("masked.norm", "vocab_layer_norm", head="masked"),
    rename_part("masked.output", "vocab_projector", ("bias",), head="masked"),
)
_MPNET_LAYER: Final = rename_encoder_layer(
    ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    "attention.attn.o",
    norms=("attention.LayerNorm", "output.LayerNorm"),
    network=("intermediate.dense", "output.dense"),
)
_MPNET_PARTS: Final = (
    rename_part(
        "encoder.stack.layers.0.attention.relative.table", "mpnet.encoder.relative_attention_bias", TABLE_PARAMETERS
    ),
    rename_part("encoder.summary.dense", "mpnet.pooler.dense", head="summary"),
    *LM_HEAD,
)


def _build_distilbert_mapping(config: EncoderConfig) -> StateDictMapping:
    return build_encoder_mapping(
        config,
        _DISTILBERT_HEAD,
        prefix="distilbert",
        output="vocab_projector",
        layer=_DISTILBERT_LAYER,
        layers="transformer.layer",
        has_segments=False,
        classifiers="pre_classifier|classifier|qa_outputs",
    )


def _build_mpnet_mapping(config: EncoderConfig) -> StateDictMapping:
    return build_encoder_mapping(
        config,
        _MPNET_PARTS,
        prefix="mpnet",
        output="lm_head.decoder",
        output_bias="lm_head.bias",
        layer=_MPNET_LAYER,
        has_segments=False,
        classifiers=TEXT_CLASSIFIERS,
    )


DISTILBERT: Final = replace(
    BERT,
    model_type="distilbert",
    name="DistilBERT",
    architectures={"DistilBertForMaskedLM": ("masked",), "DistilBertModel": ()},
    settings=(
        KeyMapping("d_model", ("dim",)),
        KeyMapping("heads", ("n_heads",)),
        KeyMapping("d_ff", ("hidden_dim",)),
        KeyMapping("layers", ("n_layers",)),
        KeyMapping("activation", ("activation",), "gelu", ACTIVATIONS),
        KeyMapping("dropout", ("dropout",), 0.1),
        KeyMapping("attention_dropout", ("attention_dropout",), 0.1),
        KeyMapping("positions.length", ("max_position_embeddings",)),
    ),
    foreign_supported={"tie_word_embeddings": (True, None), "pruned_heads": ({}, None)},
    heedful_supported={
        **ENCODER_SUPPORTED,
        "positions.offset": (0,),
        "segments": (1,),
        "norm_epsilon": (1e-12,),
    },
    build_mapping=_build_distilbert_mapping,
    tokenizer_class="DistilBertTokenizer",
    heads=FamilyHeads.from_class_name(
        "DistilBert", summary="pre_classifier", choice_summary="pre_classifier", activation="relu"
    ),
)
MPNET: Final = replace(
    ROBERTA,
    model_type="mpnet",
    name="MPNet",
    architectures={"MPNetForMaskedLM": ("masked",), "MPNetModel": ()},
    settings=tuple(setting for setting in ENCODER_SETTINGS if setting.heedful_key != "segments"),
    foreign_supported={"relative_attention_num_buckets": (32,), "tie_word_embeddings": (True, None)},
    heedful_supported={**ENCODER_SUPPORTED, "segments": (1,), "distance_bias": (BucketsConfig(),)},
    build_mapping=_build_mpnet_mapping,
    special_tokens={**ROBERTA.special_tokens, "unk_token": "[UNK]"},
    tokenizer_class="MPNetTokenizer",
    has_word_pieces=True,
    heads=FamilyHeads.from_class_name("MPNet", "classifier.out_proj", summary="classifier.dense"),
    position_offset=lambda _pad: 2,
)
