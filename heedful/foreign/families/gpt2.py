"""Model family GPT-2 (Radford et al. 2019): a causal decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor

from heedful.architectures.stack import DecoderConfig
from heedful.foreign.families.config_mapping import (
    ACTIVATIONS,
    SCALED_SOFTMAX,
    ConfigMapping,
    KeyMapping,
    ModelFamily,
    validate_config,
)
from heedful.foreign.families.tensor_names import (
    TABLE_PARAMETERS,
    TRANSPOSED_LAYOUT,
    StateDictMapping,
    TensorRename,
    rename_layers,
    rename_part,
)

_GELUS: Final = {"gelu_new": "gelu_tanh", **ACTIVATIONS}
_CONFIG_MAPPING: Final = ConfigMapping(
    settings=(
        KeyMapping("d_model", ("n_embd",)),
        KeyMapping("heads", ("n_head",)),
        KeyMapping("d_ff", ("n_inner",)),
        KeyMapping("layers", ("n_layer",)),
        KeyMapping("activation", ("activation_function",), "gelu_tanh", _GELUS),
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
        "aggregation": ("project",),
        "shared_key_value": (False,),
        "visibility": ("causal",),
        "residual": ("pre_norm",),
        "positions": ("learned",),
        "positions.offset": (0,),
        "scale_embedding": (False,),
        "output_bias": (False,),
        **SCALED_SOFTMAX,
    },
)


def _transposed_rename(heedful_names: tuple[str, ...], foreign_name: str, shares: tuple[int, ...] = ()) -> TensorRename:
    """Map a linear layer whose weight GPT-2 stores transposed, with one column for each output."""
    return TensorRename(heedful_names, (foreign_name,), shares=shares, layout=TRANSPOSED_LAYOUT)


_LAYER_RENAMES: Final = (
    rename_part("around_attention.norm", "ln_1"),
    _transposed_rename(("attention.query", "attention.key_value"), "attn.c_attn", (1, 2)),
    _transposed_rename(("attention.aggregation.output",), "attn.c_proj"),
    rename_part("around_feed_forward.norm", "ln_2"),
    _transposed_rename(("feed_forward.inner",), "mlp.c_fc"),
    _transposed_rename(("feed_forward.outer",), "mlp.c_proj"),
)


def _build_state_dict_mapping(config: DecoderConfig) -> StateDictMapping:
    """Map the tensor names of GPT-2 to heedful's."""
    embedding = "transformer.wte.weight"
    return StateDictMapping(
        prefix="transformer.",
        renames=(
            rename_part("decoder.stack.embedding.table", "transformer.wte", TABLE_PARAMETERS),
            rename_part("decoder.stack.embedding.position.table", "transformer.wpe", TABLE_PARAMETERS),
            *rename_layers(
                config.layers,
                _LAYER_RENAMES,
                heedful_prefix="decoder.stack.layers.{layer}",
                foreign_prefix="transformer.h.{layer}",
            ),
            rename_part("decoder.stack.final_norm", "transformer.ln_f"),
            *(() if config.tie else (rename_part("output", "lm_head", TABLE_PARAMETERS),)),
        ),
        copies={"lm_head.weight": embedding} if config.tie else {},
        ignored=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)", r"(transformer\.)?score\.weight"),
    )


def _read_config(content: Mapping[str, Any], _names: frozenset[str], location: str) -> DecoderConfig:
    """Convert a GPT-2 config.json to a heedful model configuration."""
    if content.get("n_inner") is None and isinstance(content.get("n_embd"), int):
        content = {**content, "n_inner": 4 * content["n_embd"]}
    values = _CONFIG_MAPPING.read_config(content, location=location)
    values["positions"]["kind"] = "learned"
    return validate_config(DecoderConfig, values, location=location)


def _write_config(config: DecoderConfig, _tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Convert a heedful model configuration to the content of a GPT-2 config.json."""
    return {"architectures": ["GPT2LMHeadModel"], **_CONFIG_MAPPING.write_config(config, name="GPT-2")}


GPT2: Final = ModelFamily("gpt2", "language_modelling", _read_config, _write_config, _build_state_dict_mapping)
