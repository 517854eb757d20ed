"""Shared mapping of Marian, BART and their descendants, whose layers have a norm after or before each sublayer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from torch import Tensor

from heedful.architectures.model import TransformerConfig
from heedful.foreign.families.model_family import ACTIVATIONS, CLASSIC_LAYERS, SCALED_SOFTMAX, KeyMapping
from heedful.foreign.families.tensor_names import (
    ONE_ROW_LAYOUT,
    READS_SINES_FIRST,
    SAME_LAYOUT,
    TABLE_PARAMETERS,
    WHOLE_NAME,
    WRITES_SINES_FIRST,
    StateDictMapping,
    TensorRename,
    rename_layers,
    rename_part,
)

SEQ2SEQ_KEY_MAPPINGS: Final = (
    KeyMapping("d_model", ("d_model",)),
    KeyMapping("heads", ("encoder_attention_heads", "decoder_attention_heads")),
    KeyMapping("d_ff", ("encoder_ffn_dim", "decoder_ffn_dim")),
    KeyMapping("encoder_layers", ("encoder_layers",)),
    KeyMapping("decoder_layers", ("decoder_layers",)),
    KeyMapping("activation", ("activation_function",), "gelu", ACTIVATIONS),
    KeyMapping("dropout", ("dropout",), 0.1),
    KeyMapping("attention_dropout", ("attention_dropout",), 0.0),
    KeyMapping("activation_dropout", ("activation_dropout",), 0.0),
    KeyMapping("scale_embedding", ("scale_embedding",), False),
)
SEQ2SEQ_SUPPORTED: Final[Mapping[str, tuple[Any, ...]]] = {
    "aggregation": ("project",),
    "shared_key_value": (False,),
    "encoder_visibility.kind": ("everything",),
    "decoder_visibility.kind": ("causal",),
    "residual": ("post_norm",),
    "norm_epsilon": (1e-5,),
    **CLASSIC_LAYERS,
    **SCALED_SOFTMAX,
    "cross_attention.score": ("scaled_dot",),
    "cross_attention.weights": ("softmax",),
    "copy": (False,),
}


PRE_NORM_SEQ2SEQ_SUPPORTED: Final = {**SEQ2SEQ_SUPPORTED, "residual": ("pre_norm",), "tie": ("three_way",)}
"""The settings of descendants of BART with a norm before each sublayer and one table for everything."""


def learned_position_renames() -> tuple[TensorRename, ...]:
    """Map the learned positions and the norm of the embeddings of encoder and decoder."""
    return tuple(
        rename
        for side in ("encoder", "decoder")
        for rename in (
            rename_part(f"{side}.stack.embedding.position.table", f"model.{side}.embed_positions", TABLE_PARAMETERS),
            rename_part(f"{side}.stack.embedding.norm", f"model.{side}.layernorm_embedding"),
        )
    )


def read_output_bias(
    values: dict[str, Any], _content: Mapping[str, Any], names: frozenset[str], _location: str
) -> None:
    """Set `output_bias` in `values` by whether the stored tensors `names` contain one; a
    `ModelFamily.complete_settings`.
    """
    values["output_bias"] = "final_logits_bias" in names


def mark_encoder_decoder(content: dict[str, Any], _config: TransformerConfig) -> dict[str, Any]:
    """Return the content of config.json with the mark of encoder-decoder models; a `ModelFamily.complete_content`."""
    return {"is_encoder_decoder": True, **content}


def _attention_renames(heedful_name: str, foreign_name: str) -> tuple[TensorRename, ...]:
    """Map the tensors of one attention sublayer and its norm, which have these names in heedful and in the other
    project.
    """
    return (
        TensorRename(
            (f"{heedful_name}.query", f"{heedful_name}.key_value"),
            (f"{foreign_name}.q_proj", f"{foreign_name}.k_proj", f"{foreign_name}.v_proj"),
            shares=(1, 2),
            layout=READS_SINES_FIRST,
        ),
        TensorRename((f"{heedful_name}.aggregation.output",), (f"{foreign_name}.out_proj",), layout=WRITES_SINES_FIRST),
        TensorRename((f"around_{heedful_name}.norm",), (f"{foreign_name}_layer_norm",), layout=WRITES_SINES_FIRST),
    )


ENCODER_LAYER: Final = (
    *_attention_renames("attention", "self_attn"),
    TensorRename(("feed_forward.inner",), ("fc1",), layout=READS_SINES_FIRST),
    TensorRename(("feed_forward.outer",), ("fc2",), layout=WRITES_SINES_FIRST),
    TensorRename(("around_feed_forward.norm",), ("final_layer_norm",), layout=WRITES_SINES_FIRST),
)
DECODER_LAYER: Final = (*ENCODER_LAYER, *_attention_renames("across", "encoder_attn"))
_FINAL_NORMS: Final = tuple(
    TensorRename((f"{side}.stack.final_norm",), (f"model.{side}.layer_norm",), layout=WRITES_SINES_FIRST)
    for side in ("encoder", "decoder")
)
_BIAS: Final = TensorRename(("output.bias",), ("final_logits_bias",), WHOLE_NAME, layout=ONE_ROW_LAYOUT, head="output")


def build_seq2seq_mapping(
    config: TransformerConfig,
    *,
    sines_first: bool,
    extra_renames: tuple[TensorRename, ...] = (),
    ignored: tuple[str, ...] = (),
    computed: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
) -> StateDictMapping:
    """Map all tensor names of an encoder-decoder model to heedful's. `sines_first` says whether all sines come before
    all cosines in its vectors, as in Marian; else no dimension is reordered.

    Args:
        config: the architecture.
        sines_first: whether the dimensions of the residual stream are ordered as Marian's positions, all sines first.
        extra_renames: tensors that only this family has.
        ignored: patterns of tensor names that this family does not need.
        computed: patterns of tensors that a formula computes, with the formula.
    """
    embeddings, copies = _EMBEDDINGS[config.tie]
    renames = (
        *embeddings,
        *rename_layers(
            config.encoder_layers, ENCODER_LAYER, stack="encoder.stack", foreign_layers="model.encoder.layers"
        ),
        *rename_layers(
            config.decoder_layers, DECODER_LAYER, stack="decoder.stack", foreign_layers="model.decoder.layers"
        ),
        *(_FINAL_NORMS if config.residual == "pre_norm" else ()),
        *extra_renames,
        _BIAS,
    )
    return StateDictMapping(
        prefix="model.",
        renames=renames if sines_first else without_sines_first(renames),
        copies=copies,
        ignored=ignored,
        computed=computed or {},
    )


def without_sines_first(renames: Sequence[TensorRename]) -> tuple[TensorRename, ...]:
    """Return the renames with the identity layout in place of those that reorder sines and cosines."""
    return tuple(
        replace(rename, layout=SAME_LAYOUT) if rename.layout in (READS_SINES_FIRST, WRITES_SINES_FIRST) else rename
        for rename in renames
    )


def _embedding_rename(heedful_name: str, foreign_name: str) -> TensorRename:
    """Map one embedding table, whose columns are dimensions of the residual stream."""
    return replace(rename_part(heedful_name, foreign_name, TABLE_PARAMETERS), layout=READS_SINES_FIRST)


_SOURCE, _TARGET = "encoder.stack.embedding.table", "decoder.stack.embedding.table"
_FOREIGN_SOURCE, _FOREIGN_TARGET = "model.encoder.embed_tokens", "model.decoder.embed_tokens"
_SHARED, _HEAD = "model.shared", "lm_head"
_EMBEDDINGS: Final[Mapping[str, tuple[tuple[TensorRename, ...], Mapping[str, str]]]] = {
    "three_way": (
        (_embedding_rename(_SOURCE, _SHARED),),
        {f"{copy}.weight": f"{_SHARED}.weight" for copy in (_FOREIGN_SOURCE, _FOREIGN_TARGET, _HEAD)},
    ),
    "two_way": (
        (_embedding_rename(_SOURCE, _FOREIGN_SOURCE), _embedding_rename(_TARGET, _FOREIGN_TARGET)),
        {f"{_HEAD}.weight": f"{_FOREIGN_TARGET}.weight"},
    ),
    "inputs": (
        (_embedding_rename(_SOURCE, _SHARED), _embedding_rename("output", _HEAD)),
        {f"{copy}.weight": f"{_SHARED}.weight" for copy in (_FOREIGN_SOURCE, _FOREIGN_TARGET)},
    ),
    "none": (
        (
            _embedding_rename(_SOURCE, _FOREIGN_SOURCE),
            _embedding_rename(_TARGET, _FOREIGN_TARGET),
            _embedding_rename("output", _HEAD),
        ),
        {},
    ),
}
