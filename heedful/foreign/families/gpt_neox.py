"""Model family GPT-NeoX (Black et al. 2022), which Pythia has too: parallel sublayers and rotary positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from heedful.architectures.attention import RotaryConfig
from heedful.architectures.stack import DecoderConfig
from heedful.foreign.families.gpt2 import CLASSIC_SUPPORTED, build_decoder_mapping
from heedful.foreign.families.model_family import ACTIVATIONS, KeyMapping, ModelFamily
from heedful.foreign.families.rotary import read_rotary_settings, write_rotary_settings
from heedful.foreign.families.tensor_names import StateDictMapping, TensorLayout, TensorRename, rename_part

_ROTATED_SHARE: Final = 0.25
"""Share of each head's numbers that are rotated, where config.json does not give it."""


def _build_head_layout(config: DecoderConfig) -> TensorLayout:
    """Build the layout that stores query, key and value of each head together and rotates halves instead of neighbours.

    Queries and keys may be permuted alike, because only their products count.
    """
    assert isinstance(config.positions, RotaryConfig)
    width = config.d_model // config.heads
    turned = config.positions.compute_width(width)
    plain = torch.arange(width)
    halves = torch.cat((torch.arange(turned).view(-1, 2).t().flatten(), plain[turned:]))
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
    values: dict[str, Any], content: Mapping[str, Any], _names: frozenset[str], location: str
) -> None:
    """Set the rotary positions in `values` from the content of config.json at `location`; a
    `ModelFamily.complete_settings`.
    """
    values["positions"] = read_rotary_settings(content, location=location, share=_ROTATED_SHARE)


def _complete_content(content: dict[str, Any], config: DecoderConfig) -> dict[str, Any]:
    """Return the content of config.json with the rotary positions of the configuration; a
    `ModelFamily.complete_content`.
    """
    assert isinstance(config.positions, RotaryConfig)
    older = {"rotary_pct": config.positions.share, "rotary_emb_base": config.positions.base}
    return {**content, **write_rotary_settings(config.positions), **older}


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
        KeyMapping("parallel", ("use_parallel_residual",), True),
    ),
    foreign_supported={"attention_bias": (True,)},
    heedful_supported={**CLASSIC_SUPPORTED, "positions.kind": ("rotary",)},
    build_mapping=_build_mapping,
    special_tokens={"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    tokenizer_class="PreTrainedTokenizerFast",
    complete_settings=_complete_settings,
    complete_content=_complete_content,
)
