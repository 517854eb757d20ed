"""Model family GPT-2 (Radford et al. 2019): a causal decoder; and what all causal decoders share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from heedful.architectures.stack import DecoderConfig, StackConfig
from heedful.foreign.families.model_family import (
    ACTIVATIONS,
    CLASSIC_LAYERS,
    HEEDFUL_DEFAULT,
    SCALED_SOFTMAX,
    KeyMapping,
    ModelFamily,
)
from heedful.foreign.families.tensor_names import (
    LINEAR_PARAMETERS,
    TABLE_PARAMETERS,
    TRANSPOSED_LAYOUT,
    StateDictMapping,
    TensorRename,
    rename_layers,
    rename_part,
)

DECODER_SUPPORTED: Final[Mapping[str, tuple[Any, ...]]] = {
    "aggregation": ("project",),
    "shared_key_value": (False,),
    "residual": ("pre_norm",),
    "scale_embedding": (False,),
    "output_bias": (False,),
    **SCALED_SOFTMAX,
}
"""The settings of all causal decoders that transformers has."""
CLASSIC_SUPPORTED: Final[Mapping[str, tuple[Any, ...]]] = {
    **DECODER_SUPPORTED,
    **CLASSIC_LAYERS,
    "visibility.kind": ("causal",),
}
"""The settings of causal decoders with plain layers, as GPT-2's, that see all earlier tokens."""


def get_norm_parameters(config: StackConfig) -> tuple[str, ...]:
    """Return the parameters of each norm of a model: RMSNorm has no bias."""
    return TABLE_PARAMETERS if config.norm == "rms" else LINEAR_PARAMETERS


def build_decoder_mapping(
    config: DecoderConfig,
    layer: tuple[TensorRename, ...],
    *,
    prefix: str,
    embedding: str,
    layers: str,
    final_norm: str,
    output: str,
    positions: str | None = None,
    ignored: tuple[str, ...] = (),
    aliases: Mapping[str, str] | None = None,
) -> StateDictMapping:
    """Map the tensor names of a causal decoder to heedful's. `layer` maps one layer; `embedding`, `layers`,
    `final_norm` and `positions` are foreign names that follow `prefix`, and `output` is a whole one.

    Args:
        config: the architecture.
        layer: the mapping of one layer.
        prefix: prefix of all foreign names but the output's, with a full stop.
        embedding, layers, final_norm, positions: foreign names behind the prefix; `positions` if they are learned.
        output: foreign name of the output layer.
        ignored, aliases: see `StateDictMapping`.
    """
    return StateDictMapping(
        prefix=prefix,
        renames=(
            rename_part("decoder.stack.embedding.table", f"{prefix}{embedding}", TABLE_PARAMETERS),
            *(
                ()
                if positions is None
                else (rename_part("decoder.stack.embedding.position.table", f"{prefix}{positions}", TABLE_PARAMETERS),)
            ),
            *rename_layers(config.layers, layer, stack="decoder.stack", foreign_layers=f"{prefix}{layers}"),
            rename_part("decoder.stack.final_norm", f"{prefix}{final_norm}", get_norm_parameters(config)),
            *(() if config.tie else (rename_part("output", output, TABLE_PARAMETERS),)),
        ),
        copies={f"{output}.weight": f"{prefix}{embedding}.weight"} if config.tie else {},
        ignored=ignored,
        aliases=aliases or {},
    )


def _transposed_rename(heedful_names: tuple[str, ...], foreign_name: str, shares: tuple[int, ...] = ()) -> TensorRename:
    """Map a linear layer whose weight GPT-2 stores transposed, with one column for each output. `shares` says how its
    outputs are divided among several heedful layers.
    """
    return TensorRename(heedful_names, (foreign_name,), shares=shares, layout=TRANSPOSED_LAYOUT)


_LAYER_RENAMES: Final = (
    rename_part("around_attention.norm", "ln_1"),
    _transposed_rename(("attention.query", "attention.key_value"), "attn.c_attn", (1, 2)),
    _transposed_rename(("attention.aggregation.output",), "attn.c_proj"),
    rename_part("around_feed_forward.norm", "ln_2"),
    _transposed_rename(("feed_forward.inner",), "mlp.c_fc"),
    _transposed_rename(("feed_forward.outer",), "mlp.c_proj"),
)


def _build_mapping(config: DecoderConfig) -> StateDictMapping:
    """Map the tensor names of GPT-2 to heedful's."""
    return build_decoder_mapping(
        config,
        _LAYER_RENAMES,
        prefix="transformer.",
        embedding="wte",
        positions="wpe",
        layers="h",
        final_norm="ln_f",
        output="lm_head",
        ignored=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)", r"(transformer\.)?score\.weight"),
    )


GPT2: Final = ModelFamily(
    "gpt2",
    "GPT-2",
    "language_modelling",
    DecoderConfig,
    architectures={"GPT2LMHeadModel": ()},
    settings=(
        KeyMapping("d_model", ("n_embd",)),
        KeyMapping("heads", ("n_head",)),
        KeyMapping("d_ff", ("n_inner",), HEEDFUL_DEFAULT),
        KeyMapping("layers", ("n_layer",)),
        KeyMapping("activation", ("activation_function",), "gelu_tanh", {"gelu_new": "gelu_tanh", **ACTIVATIONS}),
        KeyMapping("dropout", ("resid_pdrop",), 0.1),
        KeyMapping("embedding_dropout", ("embd_pdrop",), 0.1),
        KeyMapping("attention_dropout", ("attn_pdrop",), 0.1),
        KeyMapping("positions.length", ("n_positions",)),
        KeyMapping("norm_epsilon", ("layer_norm_epsilon",), 1e-5),
        KeyMapping("tie", ("tie_word_embeddings",), True),
    ),
    foreign_supported={
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
    heedful_supported={
        **CLASSIC_SUPPORTED,
        "parallel": (False,),
        "positions.kind": ("learned",),
        "positions.offset": (0,),
    },
    build_mapping=_build_mapping,
    special_tokens={"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    tokenizer_class="GPT2Tokenizer",
)
