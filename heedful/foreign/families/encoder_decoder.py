"""What Marian and BART share: an encoder and a decoder whose layers end with norms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from torch import Tensor

from heedful.architectures.model import TransformerConfig
from heedful.foreign.families.renaming import (
    ALIKE,
    ITSELF,
    ONE_ROW,
    READS_SINES_FIRST,
    TABLE,
    WRITES_SINES_FIRST,
    Rename,
    Table,
    in_layers,
    one,
)
from heedful.foreign.families.settings import ACTIVATIONS, SCALED_SOFTMAX, Setting

SETTINGS: Final = (
    Setting("d_model", ("d_model",)),
    Setting("heads", ("encoder_attention_heads", "decoder_attention_heads")),
    Setting("d_ff", ("encoder_ffn_dim", "decoder_ffn_dim")),
    Setting("encoder_layers", ("encoder_layers",)),
    Setting("decoder_layers", ("decoder_layers",)),
    Setting("activation", ("activation_function",), "gelu", ACTIVATIONS),
    Setting("dropout", ("dropout",), 0.1),
    Setting("attention_dropout", ("attention_dropout",), 0.0),
    Setting("activation_dropout", ("activation_dropout",), 0.0),
    Setting("scale_embedding", ("scale_embedding",), False),
)
OURS_HAVE: Final[Mapping[str, tuple[Any, ...]]] = {
    "aggregation": ("project",),
    "shared_key_value": (False,),
    "encoder_visibility": ("everything",),
    "decoder_visibility": ("causal",),
    "residual": ("post_norm",),
    **SCALED_SOFTMAX,
    "cross_attention.score": ("scaled_dot",),
    "cross_attention.weights": ("softmax",),
}


def _attention(ours: str, theirs: str) -> tuple[Rename, ...]:
    return (
        Rename(
            (f"{ours}.query", f"{ours}.key_value"),
            (f"{theirs}.q_proj", f"{theirs}.k_proj", f"{theirs}.v_proj"),
            shares=(1, 2),
            arrangement=READS_SINES_FIRST,
        ),
        Rename((f"{ours}.aggregation.output",), (f"{theirs}.out_proj",), arrangement=WRITES_SINES_FIRST),
        Rename((f"around_{ours}.norm",), (f"{theirs}_layer_norm",), arrangement=WRITES_SINES_FIRST),
    )


_ENCODER: Final = (
    *_attention("attention", "self_attn"),
    Rename(("feed_forward.inner",), ("fc1",), arrangement=READS_SINES_FIRST),
    Rename(("feed_forward.outer",), ("fc2",), arrangement=WRITES_SINES_FIRST),
    Rename(("around_feed_forward.norm",), ("final_layer_norm",), arrangement=WRITES_SINES_FIRST),
)
_DECODER: Final = (*_ENCODER, *_attention("across", "encoder_attn"))
_BIAS: Final = Rename(("output.bias",), ("final_logits_bias",), ITSELF, arrangement=ONE_ROW, head="output")


def encoder_decoder_table(
    config: TransformerConfig,
    *,
    sines_first: bool,
    others: tuple[Rename, ...] = (),
    unneeded: tuple[str, ...] = (),
    computed: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
) -> Table:
    """All tensors of such a model.

    Args:
        config: its architecture.
        sines_first: whether dimensions of the residual stream are in the order of Marian's positions.
        others: tensors that only this kind of model has.
        unneeded: names that say nothing in this kind of model.
        computed: tables that a formula gives.
    """
    embeddings, copies = _EMBEDDINGS[config.tie]
    renames = (
        *embeddings,
        *in_layers(
            config.encoder_layers, _ENCODER, ours="encoder.stack.layers.{layer}", theirs="model.encoder.layers.{layer}"
        ),
        *in_layers(
            config.decoder_layers, _DECODER, ours="decoder.stack.layers.{layer}", theirs="model.decoder.layers.{layer}"
        ),
        *others,
        _BIAS,
    )
    return Table(
        prefix="model.",
        renames=renames if sines_first else tuple(map(_in_one_order, renames)),
        copies=copies,
        unneeded=unneeded,
        computed=computed or {},
    )


def _in_one_order(rename: Rename) -> Rename:
    renumbered = rename.arrangement in (READS_SINES_FIRST, WRITES_SINES_FIRST)
    return replace(rename, arrangement=ALIKE) if renumbered else rename


def _table(ours: str, theirs: str) -> Rename:
    return replace(one(ours, theirs, TABLE), arrangement=READS_SINES_FIRST)


_SOURCE, _TARGET = "encoder.stack.embedding.table", "decoder.stack.embedding.table"
_THEIR_SOURCE, _THEIR_TARGET = "model.encoder.embed_tokens", "model.decoder.embed_tokens"
_SHARED, _HEAD = "model.shared", "lm_head"
_EMBEDDINGS: Final[Mapping[str, tuple[tuple[Rename, ...], Mapping[str, str]]]] = {
    "three_way": (
        (_table(_SOURCE, _SHARED),),
        {f"{copy}.weight": f"{_SHARED}.weight" for copy in (_THEIR_SOURCE, _THEIR_TARGET, _HEAD)},
    ),
    "two_way": (
        (_table(_SOURCE, _THEIR_SOURCE), _table(_TARGET, _THEIR_TARGET)),
        {f"{_HEAD}.weight": f"{_THEIR_TARGET}.weight"},
    ),
    "none": ((_table(_SOURCE, _THEIR_SOURCE), _table(_TARGET, _THEIR_TARGET), _table("output", _HEAD)), {}),
}
