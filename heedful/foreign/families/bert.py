"""Model family BERT (Devlin et al. 2019), with or without pre-training heads; and what its variants share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from heedful.architectures.attention import LearnedConfig
from heedful.architectures.stack import EncoderConfig
from heedful.foreign.families.heads import FamilyHeads
from heedful.foreign.families.model_family import (
    ACTIVATIONS,
    CLASSIC_LAYERS,
    SCALED_SOFTMAX,
    KeyMapping,
    ModelConfig,
    ModelFamily,
)
from heedful.foreign.families.tensor_names import (
    REVERSED_LAYOUT,
    TABLE_PARAMETERS,
    StateDictMapping,
    TensorRename,
    rename_layers,
    rename_part,
)
from heedful.tasks.portable_model import PortableModel

ENCODER_SETTINGS: Final = (
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
)
ENCODER_FOREIGN_SUPPORTED: Final[Mapping[str, tuple[Any, ...]]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "tie_word_embeddings": (True, None),
    "pruned_heads": ({}, None),
}
ENCODER_SUPPORTED: Final[Mapping[str, tuple[Any, ...]]] = {
    "aggregation": ("project",),
    "shared_key_value": (False,),
    "visibility.kind": ("everything",),
    "residual": ("post_norm",),
    "positions.kind": ("learned",),
    "embedding_norm": (True,),
    "scale_embedding": (False,),
    "d_embedding": (None,),
    "share_layers": (False,),
    "distance_bias": (None,),
    **CLASSIC_LAYERS,
    **SCALED_SOFTMAX,
}


def rename_encoder_layer(
    query_key_value: tuple[str, str, str], output: str, *, norms: tuple[str, str], network: tuple[str, str]
) -> tuple[TensorRename, ...]:
    """Map one layer of an encoder, whose parts have these foreign names, to heedful's.

    Args:
        query_key_value: maps of the attention to queries, keys and values.
        output: map after the heads.
        norms: of the attention and of the feed-forward network.
        network: both maps of the feed-forward network.
    """
    return (
        TensorRename(("attention.query", "attention.key_value"), query_key_value, shares=(1, 2)),
        rename_part("attention.aggregation.output", output),
        rename_part("around_attention.norm", norms[0]),
        rename_part("feed_forward.inner", network[0]),
        rename_part("feed_forward.outer", network[1]),
        rename_part("around_feed_forward.norm", norms[1]),
    )


def rename_bert_layer(norms: tuple[str, str]) -> tuple[TensorRename, ...]:
    """Map one layer of BERT or of a variant that differs in the names of the two norms."""
    return rename_encoder_layer(
        ("attention.self.query", "attention.self.key", "attention.self.value"),
        "attention.output.dense",
        norms=norms,
        network=("intermediate.dense", "output.dense"),
    )


BERT_LAYER: Final = rename_bert_layer(("attention.output.LayerNorm", "output.LayerNorm"))


def build_encoder_mapping(
    config: EncoderConfig,
    heads: tuple[TensorRename, ...],
    *,
    prefix: str,
    output: str,
    output_bias: str | None = None,
    layer: tuple[TensorRename, ...] = BERT_LAYER,
    layers: str = "encoder.layer",
    has_segments: bool = True,
    classifiers: str = "classifier|qa_outputs",
    aliases: Mapping[str, str] | None = None,
) -> StateDictMapping:
    """Map the tensor names of a variant of BERT to heedful's. `prefix` begins the foreign names of the encoder;
    `output` is the foreign name of the output layer over the vocabulary.

    Args:
        config: the architecture.
        heads: the mapping of heads, and of other parts that only this variant has.
        prefix: first part of all names of the encoder.
        output: name of the output layer over the vocabulary, whose weight is the embedding table.
        output_bias: second name of its bias; None if it is stored once.
        layer: the mapping of one layer.
        layers: name of the layers behind the prefix.
        has_segments: whether segments have vectors.
        classifiers: pattern of the names of fine-tuned heads, which are not read here.
        aliases: see `StateDictMapping`.
    """
    stack, embeddings = "encoder.stack", f"{prefix}.embeddings"
    tables = {"table": "word_embeddings", "position.table": "position_embeddings"}
    if has_segments:
        tables["segments"] = "token_type_embeddings"
    return StateDictMapping(
        prefix=f"{prefix}.",
        renames=(
            *(
                rename_part(f"{stack}.embedding.{name}", f"{embeddings}.{foreign_name}", TABLE_PARAMETERS)
                for name, foreign_name in tables.items()
            ),
            rename_part(f"{stack}.embedding.norm", f"{embeddings}.LayerNorm"),
            *rename_layers(
                1 if config.share_layers else config.layers, layer, stack=stack, foreign_layers=f"{prefix}.{layers}"
            ),
            *heads,
        ),
        copies={
            f"{output}.weight": f"{embeddings}.word_embeddings.weight",
            **({} if output_bias is None else {f"{output}.bias": output_bias}),
        },
        ignored=(
            rf"{prefix}\.embeddings\.(position_ids|token_type_ids)",
            rf"({prefix}\.)?({classifiers})\.(weight|bias)",
        ),
        aliases=aliases or {},
    )


_HEADS: Final = (
    rename_part("encoder.summary.dense", "bert.pooler.dense", head="summary"),
    rename_part("masked.dense", "cls.predictions.transform.dense", head="masked"),
    rename_part("masked.norm", "cls.predictions.transform.LayerNorm", head="masked"),
    rename_part("masked.output", "cls.predictions", ("bias",), head="masked"),
    # its output has yes before no
    TensorRename(("relation",), ("cls.seq_relationship",), layout=REVERSED_LAYOUT, head="relation"),
)


def _build_mapping(config: EncoderConfig) -> StateDictMapping:
    """Map the tensor names of BERT to heedful's."""
    return build_encoder_mapping(
        config,
        _HEADS,
        prefix="bert",
        output="cls.predictions.decoder",
        output_bias="cls.predictions.bias",
        aliases={r"\.LayerNorm\.gamma$": ".LayerNorm.weight", r"\.LayerNorm\.beta$": ".LayerNorm.bias"},
    )


BERT: Final = ModelFamily(
    "bert",
    "BERT",
    "pretraining",
    EncoderConfig,
    architectures={
        "BertForPreTraining": ("masked", "relation"),
        "BertForMaskedLM": ("masked",),
        "BertForNextSentencePrediction": ("relation",),
        "BertModel": (),
    },
    settings=ENCODER_SETTINGS,
    foreign_supported=ENCODER_FOREIGN_SUPPORTED,
    heedful_supported={**ENCODER_SUPPORTED, "positions.offset": (0,)},
    build_mapping=_build_mapping,
    special_tokens={
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
        "pad_token": "[PAD]",
    },
    tokenizer_class="BertTokenizer",
    has_word_pieces=True,
    heads=FamilyHeads.from_class_name("Bert"),
)


_SEGMENTS = "encoder.stack.embedding.segments.weight"
_POSITIONS = "encoder.stack.embedding.position.table.weight"


def fold_single_segment(config: ModelConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add the only segment vector to all position vectors, because heedful has no segment embedding for one segment.
    Return the tensors unchanged if there are several segments, or none.
    """
    if not _has_single_segment(config) or _SEGMENTS not in tensors:
        return dict(tensors)
    remaining = {name: tensor for name, tensor in tensors.items() if name != _SEGMENTS}
    return remaining | {_POSITIONS: tensors[_POSITIONS] + tensors[_SEGMENTS]}


def add_single_segment(config: ModelConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add a zero vector for the only segment, which BERT and its variants have. Return the tensors unchanged if they
    have it, and if there are several segments, or none.
    """
    if not _has_single_segment(config) or _POSITIONS not in tensors or _SEGMENTS in tensors:
        return dict(tensors)
    return {**tensors, _SEGMENTS: torch.zeros_like(tensors[_POSITIONS][:1])}


def _has_single_segment(config: ModelConfig) -> bool:
    """Return whether the configuration is an encoder with exactly one segment."""
    return isinstance(config, EncoderConfig) and config.segments == 1


def add_position_offset(origin: PortableModel, offset: int) -> PortableModel:
    """Prepend rows to the position table of a model until it has `offset` of them before the first position."""
    config = origin.model
    if not isinstance(config.positions, LearnedConfig) or config.positions.offset == offset:
        return origin
    rows = origin.tensors[_POSITIONS][config.positions.offset :]
    positions = config.positions.model_copy(update={"offset": offset})
    return replace(
        origin,
        model=config.model_copy(update={"positions": positions}),
        tensors={**origin.tensors, _POSITIONS: torch.cat((rows.new_zeros(offset, rows.size(1)), rows))},
    )
