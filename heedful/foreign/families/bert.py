"""Model family BERT (Devlin et al. 2019), with or without pre-training heads; and what its variants share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor

from heedful.architectures.stack import EncoderConfig
from heedful.foreign.families.heads import FamilyHeads, HeadLocation
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
    **CLASSIC_LAYERS,
    **SCALED_SOFTMAX,
}


def build_encoder_mapping(
    config: EncoderConfig,
    heads: tuple[TensorRename, ...],
    *,
    prefix: str,
    output: str,
    output_bias: str | None = None,
    norms: tuple[str, str] = ("attention.output.LayerNorm", "output.LayerNorm"),
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
        norms: names of a layer's norms, of the attention and of the feed-forward network.
        classifiers: pattern of the names of fine-tuned heads, which are not read here.
        aliases: see `StateDictMapping`.
    """
    embeddings = f"{prefix}.embeddings"
    layer = (
        TensorRename(
            ("attention.query", "attention.key_value"),
            ("attention.self.query", "attention.self.key", "attention.self.value"),
            shares=(1, 2),
        ),
        rename_part("attention.aggregation.output", "attention.output.dense"),
        rename_part("around_attention.norm", norms[0]),
        rename_part("feed_forward.inner", "intermediate.dense"),
        rename_part("feed_forward.outer", "output.dense"),
        rename_part("around_feed_forward.norm", norms[1]),
    )
    return StateDictMapping(
        prefix=f"{prefix}.",
        renames=(
            rename_part("encoder.stack.embedding.table", f"{embeddings}.word_embeddings", TABLE_PARAMETERS),
            rename_part(
                "encoder.stack.embedding.position.table", f"{embeddings}.position_embeddings", TABLE_PARAMETERS
            ),
            rename_part("encoder.stack.embedding.segments", f"{embeddings}.token_type_embeddings", TABLE_PARAMETERS),
            rename_part("encoder.stack.embedding.norm", f"{embeddings}.LayerNorm"),
            *rename_layers(config.layers, layer, stack="encoder.stack", foreign_layers=prefix + ".encoder.layer"),
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
    heads=FamilyHeads.from_class_name(
        "Bert", HeadLocation("BertForSequenceClassification", "classifier", reads_summary=True)
    ),
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
    """Add a zero vector for the only segment, which BERT and its variants have. Return the tensors unchanged if there
    are several segments, or none.
    """
    if not _has_single_segment(config) or _POSITIONS not in tensors:
        return dict(tensors)
    return {**tensors, _SEGMENTS: tensors[_POSITIONS].new_zeros(1, config.d_model)}


def _has_single_segment(config: ModelConfig) -> bool:
    """Return whether the configuration is an encoder with exactly one segment."""
    return isinstance(config, EncoderConfig) and config.segments == 1
