"""GPT-NeoX (Black et al. 2022) whose sublayers come one after the other: a decoder with rotary positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from heedful.architectures.stack import DecoderConfig
from heedful.errors import RunError
from heedful.foreign.families.renaming import TABLE, Arrangement, Rename, Table, in_layers, one
from heedful.foreign.families.settings import ACTIVATIONS, SCALED_SOFTMAX, Family, Setting, Settings, validated

_BASE: Final = 10_000
"""Of the wavelengths that heedful's rotary positions have."""
_SETTINGS: Final = Settings(
    settings=(
        Setting("d_model", ("hidden_size",)),
        Setting("heads", ("num_attention_heads",)),
        Setting("d_ff", ("intermediate_size",)),
        Setting("layers", ("num_hidden_layers",)),
        Setting("activation", ("hidden_act",), "gelu", ACTIVATIONS),
        Setting("dropout", ("hidden_dropout",), 0.0),
        Setting("attention_dropout", ("attention_dropout",), 0.0),
        Setting("norm_epsilon", ("layer_norm_eps",), 1e-5),
        Setting("tie", ("tie_word_embeddings",), False),
    ),
    theirs_have={"use_parallel_residual": (False,), "attention_bias": (True,)},
    ours_have={
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


def _heads(config: DecoderConfig) -> Arrangement:
    """Query, key and value of each head stand below each other, and rotations pair its halves instead of neighbours.

    Queries and keys may be renumbered alike, for nothing but their products counts.
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
    back = order.argsort()
    return Arrangement(lambda tensor: tensor[back], lambda tensor: tensor[order], rows=True)


def _table(config: DecoderConfig) -> Table:
    embedding = "gpt_neox.embed_in.weight"
    layer = (
        one("around_attention.norm", "input_layernorm"),
        Rename(
            ("attention.query", "attention.key_value"),
            ("attention.query_key_value",),
            shares=(1, 2),
            arrangement=_heads(config),
        ),
        one("attention.aggregation.output", "attention.dense"),
        one("around_feed_forward.norm", "post_attention_layernorm"),
        one("feed_forward.inner", "mlp.dense_h_to_4h"),
        one("feed_forward.outer", "mlp.dense_4h_to_h"),
    )
    return Table(
        prefix="gpt_neox.",
        renames=(
            one("decoder.stack.embedding.table", "gpt_neox.embed_in", TABLE),
            *in_layers(config.layers, layer, ours="decoder.stack.layers.{layer}", theirs="gpt_neox.layers.{layer}"),
            one("decoder.stack.final_norm", "gpt_neox.final_layer_norm"),
            *(() if config.tie else (one("output", "embed_out", TABLE),)),
        ),
        copies={"embed_out.weight": embedding} if config.tie else {},
        unneeded=(r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",),
        aliases={r"^lm_head\.": "embed_out."},
    )


def _read(content: Mapping[str, Any], _names: frozenset[str], place: str) -> DecoderConfig:
    if content.get("use_parallel_residual", True):
        raise RunError(
            f"{place}: use_parallel_residual = True: in heedful's layers attention comes before the feed-forward "
            "network; take a model where that is false"
        )
    scaled = content.get("rope_parameters") or content.get("rope_scaling") or {}
    rotary = {
        "partial_rotary_factor": (scaled.get("partial_rotary_factor", content.get("rotary_pct", 0.25)), 1),
        "rope_theta": (scaled.get("rope_theta", content.get("rotary_emb_base", _BASE)), _BASE),
        "rope_type": (scaled.get("rope_type", scaled.get("type", "default")), "default"),
    }
    for key, (value, ours) in rotary.items():
        if value != ours:
            raise RunError(f"{place}: {key} = {value!r}: heedful has only {ours!r}; take a model with that")
    table = _SETTINGS.read(content, place=place)
    table["positions"] = {"kind": "rotary"}
    return validated(DecoderConfig, table, place=place)


def _write(config: DecoderConfig, _tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    rotary = {"rope_type": "default", "rope_theta": _BASE, "partial_rotary_factor": 1.0}
    return {
        "architectures": ["GPTNeoXForCausalLM"],
        **_SETTINGS.write(config, name="GPT-NeoX"),
        "rope_parameters": rotary,
        "rotary_pct": 1.0,
        "rotary_emb_base": _BASE,
    }


GPT_NEOX: Final = Family("gpt_neox", "language_modelling", _read, _write, _table)
