"""Model families like Llama (Touvron et al. 2023): causal decoders with RMSNorm, SwiGLU, rotary positions and grouped
queries; Mistral, Qwen2 and Qwen3 differ in a few settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from heedful.architectures.attention import CausalWindowConfig, RotaryConfig
from heedful.architectures.stack import DecoderConfig
from heedful.errors import RunError
from heedful.foreign.families.gpt2 import DECODER_SUPPORTED, build_decoder_mapping
from heedful.foreign.families.model_family import ACTIVATIONS, HEEDFUL_DEFAULT, KeyMapping, ModelFamily
from heedful.foreign.families.rotary import read_rotary_settings, write_rotary_settings
from heedful.foreign.families.tensor_names import (
    LINEAR_PARAMETERS,
    SAME_LAYOUT,
    TABLE_PARAMETERS,
    StateDictMapping,
    TensorRename,
    rename_part,
    rotated_halves_layout,
)


def _build_mapping(config: DecoderConfig) -> StateDictMapping:
    """Map the tensor names of Llama and its relatives to heedful's."""
    assert isinstance(config.positions, RotaryConfig)
    width = config.positions.compute_width(config.d_key)
    parameters = LINEAR_PARAMETERS if config.query_key_value_bias else TABLE_PARAMETERS
    queries = rotated_halves_layout(config.heads, config.d_key, width)
    keys = rotated_halves_layout(config.key_value_heads or config.heads, config.d_key, width)
    one_head = rotated_halves_layout(1, config.d_key, width)
    layer = (
        rename_part("around_attention.norm", "input_layernorm", TABLE_PARAMETERS),
        TensorRename(("attention.query",), ("self_attn.q_proj",), parameters, layout=queries),
        TensorRename(
            ("attention.key_value",),
            ("self_attn.k_proj", "self_attn.v_proj"),
            parameters,
            layouts=(keys, SAME_LAYOUT),
        ),
        *(
            TensorRename((f"attention.{side}_norm",), (f"self_attn.{side[0]}_norm",), TABLE_PARAMETERS, layout=one_head)
            for side in ("query", "key")
            if config.query_key_norm
        ),
        rename_part("attention.aggregation.output", "self_attn.o_proj", TABLE_PARAMETERS),
        rename_part("around_feed_forward.norm", "post_attention_layernorm", TABLE_PARAMETERS),
        rename_part("feed_forward.inner", "mlp.gate_proj", TABLE_PARAMETERS),
        rename_part("feed_forward.gate", "mlp.up_proj", TABLE_PARAMETERS),
        rename_part("feed_forward.outer", "mlp.down_proj", TABLE_PARAMETERS),
    )
    return build_decoder_mapping(
        config,
        layer,
        prefix="model.",
        embedding="embed_tokens",
        layers="layers",
        final_norm="norm",
        output="lm_head",
        ignored=(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",),
    )


def _complete_settings(values: dict[str, Any], content: Mapping[str, Any], _names: frozenset[str], path: str) -> None:
    """Set the rotary positions in `values`, the heads of keys and values, and the window of attention, from the content
    of config.json at `path`; a `ModelFamily.complete_settings`.
    """
    values["positions"] = read_rotary_settings(content, location=path)
    if values.get("key_value_heads") == values["heads"]:
        values["key_value_heads"] = None
    window = content.get("sliding_window") if content.get("use_sliding_window", True) else None
    if window is not None and type(window) is not int:
        raise RunError(f"{path}: sliding_window = {window!r}: must be a number of tokens; mend the file")
    values["visibility"] = {"kind": "causal"} if window is None else {"kind": "window", "before": window - 1}


def _complete_content(content: dict[str, Any], config: DecoderConfig) -> dict[str, Any]:
    """Return the content of config.json with the rotary positions, heads and window of the configuration; a
    `ModelFamily.complete_content`.
    """
    assert isinstance(config.positions, RotaryConfig)
    window = config.visibility.before + 1 if isinstance(config.visibility, CausalWindowConfig) else None
    return {
        **content,
        "head_dim": config.d_key,
        "num_key_value_heads": config.key_value_heads or config.heads,
        "sliding_window": window,
        "use_sliding_window": window is not None,
        **write_rotary_settings(config.positions),
    }


_SUPPORTED: Final[Mapping[str, tuple[Any, ...]]] = {
    **DECODER_SUPPORTED,
    "parallel": (False,),
    "gated": (True,),
    "norm": ("rms",),
    "bias": (False,),
    "positions.kind": ("rotary",),
}
MISTRAL: Final = ModelFamily(
    "mistral",
    "Mistral",
    "language_modelling",
    DecoderConfig,
    architectures={"MistralForCausalLM": ()},
    settings=(
        KeyMapping("d_model", ("hidden_size",)),
        KeyMapping("heads", ("num_attention_heads",)),
        KeyMapping("head_width", ("head_dim",), HEEDFUL_DEFAULT),
        KeyMapping("key_value_heads", ("num_key_value_heads",), HEEDFUL_DEFAULT),
        KeyMapping("d_ff", ("intermediate_size",)),
        KeyMapping("layers", ("num_hidden_layers",)),
        KeyMapping("activation", ("hidden_act",), "silu", ACTIVATIONS),
        KeyMapping("attention_dropout", ("attention_dropout",), 0.0),
        KeyMapping("norm_epsilon", ("rms_norm_eps",), 1e-6),
        KeyMapping("tie", ("tie_word_embeddings",), False),
    ),
    foreign_supported={},
    heedful_supported={**_SUPPORTED, "query_key_value_bias": (False,), "query_key_norm": (False,)},
    build_mapping=_build_mapping,
    special_tokens={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    tokenizer_class="PreTrainedTokenizerFast",
    sentencepiece_class="LlamaTokenizer",
    sentencepiece_file="tokenizer.model",
    complete_settings=_complete_settings,
    complete_content=_complete_content,
)
"""Mistral (Jiang et al. 2023): a window of earlier tokens, or all of them."""
LLAMA: Final = replace(
    MISTRAL,
    model_type="llama",
    name="Llama",
    architectures={"LlamaForCausalLM": ()},
    foreign_supported={"attention_bias": (False,), "mlp_bias": (False,), "pretraining_tp": (1,)},
    heedful_supported={**MISTRAL.heedful_supported, "visibility.kind": ("causal",)},
)
"""Llama and all models of its form, such as SmolLM."""
QWEN2: Final = replace(
    MISTRAL,
    model_type="qwen2",
    name="Qwen2",
    architectures={"Qwen2ForCausalLM": ()},
    heedful_supported={**_SUPPORTED, "query_key_value_bias": (True,), "query_key_norm": (False,)},
    special_tokens={"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
)
"""Qwen2 (Yang et al. 2024): the maps to queries, keys and values have biases."""
QWEN3: Final = replace(
    QWEN2,
    model_type="qwen3",
    name="Qwen3",
    architectures={"Qwen3ForCausalLM": ()},
    foreign_supported={"attention_bias": (False,)},
    heedful_supported={**_SUPPORTED, "query_key_value_bias": (False,), "query_key_norm": (True,)},
)
"""Qwen3 (Yang et al. 2025): queries and keys of each head are normalised."""
