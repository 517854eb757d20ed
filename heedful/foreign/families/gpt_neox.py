"""Model family GPT-NeoX (Black et al. 2022) without parallel residuals: a causal decoder with rotary positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from heedful.architectures.stack import DecoderConfig
from heedful.errors import RunError
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
    StateDictMapping,
    TensorLayout,
    TensorRename,
    rename_layers,
    rename_part,
)

_ROTARY_BASE: Final = 10_000
"""Base of the wavelengths of heedful's rotary positions."""
_CONFIG_MAPPING: Final = ConfigMapping(
    settings=(
        KeyMapping("d_model", ("hidden_size",)),
        KeyMapping("heads", ("num_attention_heads",)),
        KeyMapping("d_ff", ("intermediate_size",)),
        KeyMapping("layers", ("num_hidden_layers",)),
        KeyMapping("activation", ("hidden_act",), "gelu", ACTIVATIONS),
        KeyMapping("dropout", ("hidden_dropout",), 0.0),
        KeyMapping("attention_dropout", ("attention_dropout",), 0.0),
        KeyMapping("norm_epsilon", ("layer_norm_eps",), 1e-5),
        KeyMapping("tie", ("tie_word_embeddings",), False),
    ),
    foreign_supported={"use_parallel_residual": (False,), "attention_bias": (True,)},
    heedful_supported={
        "aggregation": ("project",),
        "shared_key_value": (False,),
        "visibility": ("causal",),
        "residual": ("pre_norm",),
        "positions": ("rotary",),
        "scale_embedding": (False,),
        "output_bias": (False,),
        **SCALED_SOFTMAX,
    },
)


def _build_head_layout(config: DecoderConfig) -> TensorLayout:
    """Build the layout that stores query, key and value of each head together and rotates halves instead of neighbours.

    Queries and keys may be permuted alike, because only their products count.
    """
    width = config.d_model // config.heads
    halves = torch.arange(width).view(-1, 2).t().flatten()
    plain = torch.arange(width)
    order = torch.cat(
        [
            part * config.d_model + head * width + (plain if part == 2 else halves)
            for head in range(config.heads)
            for part in range(3)
        ]
    )
    inverse = order.argsort()
    return TensorLayout(lambda tensor: tensor[inverse], lambda tensor: tensor[order], rows=True)


def _build_state_dict_mapping(config: DecoderConfig) -> StateDictMapping:
    """Map the tensor names of GPT-NeoX to heedful's."""
    embedding = "gpt_neox.embed_in.weight"
    layer = (
        rename_part("around_attention.norm", "input_layernorm"),
        TensorRename(
            ("attention.query", "attention.key_value"),
            ("attention.query_key_value",),
            shares=(1, 2),
            layout=_build_head_layout(config),
        ),
        rename_part("attention.aggregation.output", "attention.dense"),
        rename_part("around_feed_forward.norm", "post_attention_layernorm"),
        rename_part("feed_forward.inner", "mlp.dense_h_to_4h"),
        rename_part("feed_forward.outer", "mlp.dense_4h_to_h"),
    )
    return StateDictMapping(
        prefix="gpt_neox.",
        renames=(
            rename_part("decoder.stack.embedding.table", "gpt_neox.embed_in", TABLE_PARAMETERS),
            *rename_layers(
                config.layers,
                layer,
                heedful_prefix="decoder.stack.layers.{layer}",
                foreign_prefix="gpt_neox.layers.{layer}",
            ),
            rename_part("decoder.stack.final_norm", "gpt_neox.final_layer_norm"),
            *(() if config.tie else (rename_part("output", "embed_out", TABLE_PARAMETERS),)),
        ),
        copies={"embed_out.weight": embedding} if config.tie else {},
        ignored=(r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",),
        aliases={r"^lm_head\.": "embed_out."},
    )


def _read_config(content: Mapping[str, Any], _names: frozenset[str], location: str) -> DecoderConfig:
    """Convert a GPT-NeoX config.json to a heedful model configuration."""
    if content.get("use_parallel_residual", True):
        raise RunError(
            f"{location}: use_parallel_residual = True: in heedful's layers attention comes before the feed-forward "
            "network; take a model where that is false"
        )
    scaled = content.get("rope_parameters") or content.get("rope_scaling") or {}
    rotary = {
        "partial_rotary_factor": (scaled.get("partial_rotary_factor", content.get("rotary_pct", 0.25)), 1),
        "rope_theta": (scaled.get("rope_theta", content.get("rotary_emb_base", _ROTARY_BASE)), _ROTARY_BASE),
        "rope_type": (scaled.get("rope_type", scaled.get("type", "default")), "default"),
    }
    for key, (value, supported) in rotary.items():
        if value != supported:
            raise RunError(f"{location}: {key} = {value!r}: heedful has only {supported!r}; take a model with that")
    values = _CONFIG_MAPPING.read_config(content, location=location)
    values["positions"] = {"kind": "rotary"}
    return validate_config(DecoderConfig, values, location=location)


def _write_config(config: DecoderConfig, _tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Convert a heedful model configuration to the content of a GPT-NeoX config.json."""
    rotary = {"rope_type": "default", "rope_theta": _ROTARY_BASE, "partial_rotary_factor": 1.0}
    return {
        "architectures": ["GPTNeoXForCausalLM"],
        **_CONFIG_MAPPING.write_config(config, name="GPT-NeoX"),
        "rope_parameters": rotary,
        "rotary_pct": 1.0,
        "rotary_emb_base": _ROTARY_BASE,
    }


GPT_NEOX: Final = ModelFamily("gpt_neox", "language_modelling", _read_config, _write_config, _build_state_dict_mapping)
