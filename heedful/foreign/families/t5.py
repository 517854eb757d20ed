"""Model families T5 (Raffel et al. 2020) and mT5 (Xue et al. 2021), which ByT5 has too: an encoder and a decoder with
RMSNorm before each sublayer and learned biases of distances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from heedful.architectures.model import TransformerConfig
from heedful.errors import RunError
from heedful.foreign.families.encoder_decoder import SEQ2SEQ_SUPPORTED, mark_encoder_decoder
from heedful.foreign.families.model_family import HEEDFUL_DEFAULT, KeyMapping, ModelFamily, PieceNumbering
from heedful.foreign.families.tensor_names import (
    TABLE_PARAMETERS,
    StateDictMapping,
    TensorLayout,
    TensorRename,
    rename_part,
)

_TRAINED_POSITIONS: Final = 512
"""Tokens of a text in the paper's training; there is no limit, because only distances count."""
_ACTIVATIONS: Final[Mapping[str, tuple[str, bool]]] = {
    "relu": ("relu", False),
    "gated-gelu": ("gelu_tanh", True),
    "gated-silu": ("silu", True),
    "gated-relu": ("relu", True),
    "silu": ("silu", False),
    "gelu_new": ("gelu_tanh", False),
}
"""Feed-forward networks by name: the activation, and whether they are gated."""


def _attention_renames(heedful_name: str, foreign_name: str) -> tuple[TensorRename, ...]:
    """Map the tensors of an attention, which have no biases."""
    return (
        rename_part(f"{heedful_name}.query", f"{foreign_name}.q", TABLE_PARAMETERS),
        TensorRename((f"{heedful_name}.key_value",), (f"{foreign_name}.k", f"{foreign_name}.v"), TABLE_PARAMETERS),
        rename_part(f"{heedful_name}.aggregation.output", f"{foreign_name}.o", TABLE_PARAMETERS),
    )


def _layer_renames(config: TransformerConfig, *, has_memory: bool) -> tuple[TensorRename, ...]:
    """Map the tensors of one layer of the encoder, or of the decoder, which attends to a memory."""
    last = 2 if has_memory else 1
    network = f"layer.{last}.DenseReluDense"
    inner = (("inner", "wi_0"), ("gate", "wi_1")) if config.gated else (("inner", "wi"),)
    memory = (
        *_attention_renames("across", "layer.1.EncDecAttention"),
        rename_part("around_across.norm", "layer.1.layer_norm", TABLE_PARAMETERS),
    )
    return (
        *_attention_renames("attention", "layer.0.SelfAttention"),
        rename_part("around_attention.norm", "layer.0.layer_norm", TABLE_PARAMETERS),
        *(memory if has_memory else ()),
        *(rename_part(f"feed_forward.{name}", f"{network}.{foreign}", TABLE_PARAMETERS) for name, foreign in inner),
        rename_part("feed_forward.outer", f"{network}.wo", TABLE_PARAMETERS),
        rename_part("around_feed_forward.norm", f"layer.{last}.layer_norm", TABLE_PARAMETERS),
    )


def _stack_renames(config: TransformerConfig, side: str, *, layers: int, scaled: bool) -> tuple[TensorRename, ...]:
    """Map the tensors of the encoder or the decoder (`side`) with this number of layers. `scaled` says that T5 makes
    the hidden vectors smaller behind it, which the norm does here.
    """
    stack, norm = f"{side}.stack", rename_part(f"{side}.stack.final_norm", f"{side}.final_layer_norm", TABLE_PARAMETERS)
    if scaled:
        factor = config.d_model**-0.5
        norm = replace(norm, layout=TensorLayout(lambda gain: gain * factor, lambda gain: gain / factor))
    renames = _layer_renames(config, has_memory=side == "decoder")
    return (
        *(
            rename.with_prefixes(f"{stack}.layers.{layer}", f"{side}.block.{layer}")
            for layer in range(layers)
            for rename in renames
        ),
        rename_part(
            f"{stack}.layers.0.attention.relative.table",
            f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias",
            TABLE_PARAMETERS,
        ),
        norm,
    )


def _build_mapping(config: TransformerConfig, *, scaled: bool = True) -> StateDictMapping:
    """Map the tensor names of T5 to heedful's; `scaled` says whether hidden vectors are made smaller where the output
    is the table of the embeddings.
    """
    is_tied = config.tie == "three_way"
    copies = ("encoder.embed_tokens", "decoder.embed_tokens", *(("lm_head",) if is_tied else ()))
    return StateDictMapping(
        prefix="",
        renames=(
            rename_part("encoder.stack.embedding.table", "shared", TABLE_PARAMETERS),
            *_stack_renames(config, "encoder", layers=config.encoder_layers, scaled=False),
            *_stack_renames(config, "decoder", layers=config.decoder_layers, scaled=scaled and is_tied),
            *(() if is_tied else (rename_part("output", "lm_head", TABLE_PARAMETERS),)),
        ),
        copies={f"{copy}.weight": "shared.weight" for copy in copies},
        substitutes={} if is_tied else {"lm_head.weight": "shared.weight"},
        ignored=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
    )


def _complete_settings(
    values: dict[str, Any], content: Mapping[str, Any], _names: frozenset[str], location: str
) -> None:
    """Set the feed-forward network, the decoder's layers and the tying in `values` from the content of config.json at
    `location`; a `ModelFamily.complete_settings`.
    """
    name = content.get("feed_forward_proj", "relu")
    if name not in _ACTIVATIONS:
        choices = ", ".join(_ACTIVATIONS)
        raise RunError(f"{location}: feed_forward_proj = {name!r}: heedful has only {choices}")
    values["activation"], values["gated"] = _ACTIVATIONS[name]
    if values.get("decoder_layers") is None:
        values["decoder_layers"] = values["encoder_layers"]
    is_scaled = content.get("scale_decoder_outputs", content.get("tie_word_embeddings", True))
    values["tie"] = "three_way" if is_scaled else "inputs"


def _complete_mt5_settings(
    values: dict[str, Any], content: Mapping[str, Any], names: frozenset[str], location: str
) -> None:
    """Do as `_complete_settings`, but judge the tying by whether the output is among the stored tensors `names`,
    because config.json does not say it.
    """
    _complete_settings(values, content, names, location)
    values["tie"] = "inputs" if "lm_head.weight" in names else "three_way"


def _complete_content(content: dict[str, Any], config: TransformerConfig) -> dict[str, Any]:
    """Return the content of config.json with the feed-forward network and the tying; a
    `ModelFamily.complete_content`.
    """
    network = (config.activation, config.gated)
    if network not in _ACTIVATIONS.values():
        raise RunError(
            f"model.activation = {config.activation}: T5 has only {', '.join(_ACTIVATIONS)}; train a model with one of "
            "these to export it"
        )
    name = next(name for name, described in _ACTIVATIONS.items() if described == network)
    is_tied = config.tie == "three_way"
    ties = {"tie_word_embeddings": is_tied, "scale_decoder_outputs": is_tied}
    return {**mark_encoder_decoder(content, config), "feed_forward_proj": name, **ties}


T5: Final = ModelFamily(
    "t5",
    "T5",
    "translation",
    TransformerConfig,
    architectures={"T5ForConditionalGeneration": ()},
    settings=(
        KeyMapping("d_model", ("d_model",)),
        KeyMapping("head_width", ("d_kv",)),
        KeyMapping("heads", ("num_heads",)),
        KeyMapping("d_ff", ("d_ff",)),
        KeyMapping("encoder_layers", ("num_layers",)),
        KeyMapping("decoder_layers", ("num_decoder_layers",), HEEDFUL_DEFAULT),
        KeyMapping("dropout", ("dropout_rate",), 0.1),
        KeyMapping("attention_dropout", ("dropout_rate",), 0.1),
        KeyMapping("activation_dropout", ("dropout_rate",), 0.1),
        KeyMapping("positions.count", ("relative_attention_num_buckets",), 32),
        KeyMapping("positions.max_distance", ("relative_attention_max_distance",), 128),
        KeyMapping("norm_epsilon", ("layer_norm_epsilon",), 1e-6),
    ),
    foreign_supported={},
    heedful_supported={
        **{key: values for key, values in SEQ2SEQ_SUPPORTED.items() if key not in ("norm_epsilon", "head_width")},
        "residual": ("pre_norm",),
        "norm": ("rms",),
        "bias": (False,),
        "query_key_value_bias": (False,),
        "gated": (False, True),
        "scale_embedding": (False,),
        "embedding_norm": (False,),
        "output_bias": (False,),
        "positions.kind": ("buckets",),
        "self_attention.score": ("dot",),
        "cross_attention.score": ("dot",),
        "tie": ("three_way", "inputs"),
    },
    build_mapping=_build_mapping,
    special_tokens={"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
    tokenizer_class="T5Tokenizer",
    piece_numbering=PieceNumbering(last=tuple(f"<extra_id_{number}>" for number in reversed(range(100)))),
    start_key="pad_token_id",
    complete_settings=_complete_settings,
    complete_content=_complete_content,
    default_positions=_TRAINED_POSITIONS,
)
MT5: Final = replace(
    T5,
    model_type="mt5",
    name="mT5",
    piece_numbering=PieceNumbering(),
    architectures={"MT5ForConditionalGeneration": ()},
    build_mapping=partial(_build_mapping, scaled=False),
    complete_settings=_complete_mt5_settings,
)
"""mT5, whose output is never scaled."""
