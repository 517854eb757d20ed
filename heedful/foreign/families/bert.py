"""BERT (Devlin et al. 2019): an encoder, with or without the heads of its pre-training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor

from heedful.architectures.stack import EncoderConfig
from heedful.foreign.families.renaming import BACKWARDS, TABLE, Rename, Table, in_layers, one
from heedful.foreign.families.settings import ACTIVATIONS, SCALED_SOFTMAX, Family, Setting, Settings, validated

SETTINGS: Final = Settings(
    settings=(
        Setting("d_model", ("hidden_size",)),
        Setting("heads", ("num_attention_heads",)),
        Setting("d_ff", ("intermediate_size",)),
        Setting("layers", ("num_hidden_layers",)),
        Setting("activation", ("hidden_act",), "gelu", ACTIVATIONS),
        Setting("dropout", ("hidden_dropout_prob",), 0.1),
        Setting("attention_dropout", ("attention_probs_dropout_prob",), 0.1),
        Setting("positions.length", ("max_position_embeddings",)),
        Setting("segments", ("type_vocab_size",), 2),
        Setting("norm_epsilon", ("layer_norm_eps",), 1e-12),
    ),
    theirs_have={
        "position_embedding_type": ("absolute", None),
        "is_decoder": (False, None),
        "add_cross_attention": (False, None),
        "tie_word_embeddings": (True, None),
        "pruned_heads": ({}, None),
    },
    ours_have={
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

LAYER: Final = (
    Rename(
        ("attention.query", "attention.key_value"),
        ("attention.self.query", "attention.self.key", "attention.self.value"),
        shares=(1, 2),
    ),
    one("attention.aggregation.output", "attention.output.dense"),
    one("around_attention.norm", "attention.output.LayerNorm"),
    one("feed_forward.inner", "intermediate.dense"),
    one("feed_forward.outer", "output.dense"),
    one("around_feed_forward.norm", "output.LayerNorm"),
)


def _table(config: EncoderConfig) -> Table:
    return Table(
        prefix="bert.",
        renames=(
            one("encoder.stack.embedding.table", "bert.embeddings.word_embeddings", TABLE),
            one("encoder.stack.embedding.position.table", "bert.embeddings.position_embeddings", TABLE),
            one("encoder.stack.embedding.segments", "bert.embeddings.token_type_embeddings", TABLE),
            one("encoder.stack.embedding.norm", "bert.embeddings.LayerNorm"),
            *in_layers(config.layers, LAYER, ours="encoder.stack.layers.{layer}", theirs="bert.encoder.layer.{layer}"),
            one("encoder.summary.dense", "bert.pooler.dense", head="summary"),
            one("masked.dense", "cls.predictions.transform.dense", head="masked"),
            one("masked.norm", "cls.predictions.transform.LayerNorm", head="masked"),
            one("masked.output", "cls.predictions", ("bias",), head="masked"),
            # theirs says yes before no
            Rename(("relation",), ("cls.seq_relationship",), arrangement=BACKWARDS, head="relation"),
        ),
        copies={
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        unneeded=(
            r"bert\.embeddings\.(position_ids|token_type_ids)",
            r"(bert\.)?(classifier|qa_outputs)\.(weight|bias)",
        ),
        aliases={r"\.LayerNorm\.gamma$": ".LayerNorm.weight", r"\.LayerNorm\.beta$": ".LayerNorm.bias"},
    )


def _read(content: Mapping[str, Any], _names: frozenset[str], place: str) -> EncoderConfig:
    table = SETTINGS.read(content, place=place)
    table["positions"]["kind"] = "learned"
    return validated(EncoderConfig, table, place=place)


def _write(config: EncoderConfig, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    name = _ARCHITECTURES["masked.dense.weight" in tensors, "relation.weight" in tensors]
    return {"architectures": [name], **SETTINGS.write(config, name="BERT")}


BERT: Final = Family("bert", "pretraining", _read, _write, _table)
