"""Model family OPT (Zhang et al. 2022): a causal decoder with learned positions after two unused rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from heedful.architectures.stack import DecoderConfig
from heedful.errors import RunError
from heedful.foreign.families.gpt2 import CLASSIC_SUPPORTED, build_decoder_mapping
from heedful.foreign.families.model_family import ACTIVATIONS, KeyMapping, ModelFamily
from heedful.foreign.families.tensor_names import StateDictMapping, TensorRename, rename_part

_LAYER: Final = (
    rename_part("around_attention.norm", "self_attn_layer_norm"),
    TensorRename(
        ("attention.query", "attention.key_value"),
        ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        shares=(1, 2),
    ),
    rename_part("attention.aggregation.output", "self_attn.out_proj"),
    rename_part("around_feed_forward.norm", "final_layer_norm"),
    rename_part("feed_forward.inner", "fc1"),
    rename_part("feed_forward.outer", "fc2"),
)


def _build_mapping(config: DecoderConfig) -> StateDictMapping:
    return build_decoder_mapping(
        config,
        _LAYER,
        prefix="model.",
        embedding="decoder.embed_tokens",
        positions="decoder.embed_positions",
        layers="decoder.layers",
        final_norm="decoder.final_layer_norm",
        output="lm_head",
        ignored=(r"(model\.)?(score|qa_outputs)\.(weight|bias)", r"model\.decoder\.version"),
    )


def _complete_settings(
    values: dict[str, Any], content: Mapping[str, Any], _names: frozenset[str], location: str
) -> None:
    """Set the dropout of the embeddings in `values`, which have none, and raise RunError if config.json, which is at
    `location`, gives embeddings and hidden vectors of different size; a `ModelFamily.complete_settings`.
    """
    values["embedding_dropout"] = 0.0
    width, embedding_width = content.get("hidden_size"), content.get("word_embed_proj_dim")
    if embedding_width not in (None, width):
        raise RunError(
            f"{location}: word_embed_proj_dim = {embedding_width!r} and hidden_size = {width!r}: heedful has one width "
            "for the embeddings and layers of a decoder; take a model where they are equal, as all but opt-350m"
        )


def _complete_content(content: dict[str, Any], config: DecoderConfig) -> dict[str, Any]:
    return {**content, "word_embed_proj_dim": config.d_model}


OPT: Final = ModelFamily(
    "opt",
    "OPT",
    "language_modelling",
    DecoderConfig,
    architectures={"OPTForCausalLM": ()},
    settings=(
        KeyMapping("d_model", ("hidden_size",)),
        KeyMapping("heads", ("num_attention_heads",)),
        KeyMapping("d_ff", ("ffn_dim",)),
        KeyMapping("layers", ("num_hidden_layers",)),
        KeyMapping("activation", ("activation_function",), "relu", ACTIVATIONS),
        KeyMapping("dropout", ("dropout",), 0.1),
        KeyMapping("attention_dropout", ("attention_dropout",), 0.0),
        KeyMapping("positions.length", ("max_position_embeddings",)),
        KeyMapping("tie", ("tie_word_embeddings",), True),
    ),
    foreign_supported={
        "do_layer_norm_before": (True,),
        "_remove_final_layer_norm": (False,),
        "enable_bias": (True,),
        "layer_norm_elementwise_affine": (True,),
    },
    heedful_supported={
        **CLASSIC_SUPPORTED,
        "parallel": (False,),
        "norm_epsilon": (1e-5,),
        "positions.kind": ("learned",),
        "positions.offset": (2,),
    },
    build_mapping=_build_mapping,
    special_tokens={"bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"},
    tokenizer_class="GPT2Tokenizer",
    complete_settings=_complete_settings,
    complete_content=_complete_content,
)
