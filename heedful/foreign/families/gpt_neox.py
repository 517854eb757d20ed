"""Model family GPT-NeoX (Black et al. 2022) without parallel residuals: a causal decoder with rotary positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from heedful.architectures.stack import DecoderConfig
from heedful.errors import RunError
from heedful.foreign.families.gpt2 import DECODER_SUPPORTED, build_decoder_mapping
from heedful.foreign.families.model_family import ACTIVATIONS, KeyMapping, ModelFamily
from heedful.foreign.families.tensor_names import StateDictMapping, TensorLayout, TensorRename, rename_part

_ROTARY_BASE: Final = 10_000
"""Base of the wavelengths of heedful's rotary positions."""


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


def _build_mapping(config: DecoderConfig) -> StateDictMapping:
    """Map the tensor names of GPT-NeoX to heedful's."""
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
    return build_decoder_mapping(
        config,
        layer,
        prefix="gpt_neox.",
        embedding="embed_in",
        layers="layers",
        final_norm="final_layer_norm",
        output="embed_out",
        ignored=(r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",),
        aliases={r"^lm_head\.": "embed_out."},
    )


def _complete_settings(
    _values: dict[str, Any], content: Mapping[str, Any], _names: frozenset[str], location: str
) -> None:
    """Raise RunError if config.json, which is at `location`, has parallel residuals, or rotary positions that heedful
    lacks: of part of the dimensions, with another base, or scaled; a `ModelFamily.complete_settings`.
    """
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


def _complete_content(content: dict[str, Any], _config: DecoderConfig) -> dict[str, Any]:
    """Return the content of config.json with heedful's kind of residuals and rotary positions; a
    `ModelFamily.complete_content`.
    """
    rotary = {"rope_type": "default", "rope_theta": _ROTARY_BASE, "partial_rotary_factor": 1.0}
    return {
        "use_parallel_residual": False,
        **content,
        "rope_parameters": rotary,
        "rotary_pct": 1.0,
        "rotary_emb_base": _ROTARY_BASE,
    }


GPT_NEOX: Final = ModelFamily(
    "gpt_neox",
    "GPT-NeoX",
    "language_modelling",
    DecoderConfig,
    architectures={"GPTNeoXForCausalLM": ()},
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
    foreign_supported={"attention_bias": (True,)},
    heedful_supported={**DECODER_SUPPORTED, "positions.kind": ("rotary",)},
    build_mapping=_build_mapping,
    special_tokens={"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    complete_settings=_complete_settings,
    complete_content=_complete_content,
)
