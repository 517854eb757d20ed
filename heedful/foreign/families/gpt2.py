"""GPT-2 (Radford et al. 2019): a decoder that looks at its own past."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor

from heedful.architectures.stack import DecoderConfig
from heedful.foreign.families.renaming import TABLE, TRANSPOSED, Rename, Table, in_layers, one
from heedful.foreign.families.settings import ACTIVATIONS, SCALED_SOFTMAX, Family, Setting, Settings, validated

_GELUS: Final = {"gelu_new": "gelu_tanh", **ACTIVATIONS}
_SETTINGS: Final = Settings(
    settings=(
        Setting("d_model", ("n_embd",)),
        Setting("heads", ("n_head",)),
        Setting("d_ff", ("n_inner",)),
        Setting("layers", ("n_layer",)),
        Setting("activation", ("activation_function",), "gelu_tanh", _GELUS),
        Setting("dropout", ("resid_pdrop",), 0.1),
        Setting("embedding_dropout", ("embd_pdrop",), 0.1),
        Setting("attention_dropout", ("attn_pdrop",), 0.1),
        Setting("positions.length", ("n_positions",)),
        Setting("norm_epsilon", ("layer_norm_epsilon",), 1e-5),
        Setting("tie", ("tie_word_embeddings",), True),
    ),
    theirs_have={
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
    ours_have={
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


def _columns(ours: tuple[str, ...], theirs: str, shares: tuple[int, ...] = ()) -> Rename:
    """Their maps have a column for each output."""
    return Rename(ours, (theirs,), shares=shares, arrangement=TRANSPOSED)


_LAYER: Final = (
    one("around_attention.norm", "ln_1"),
    _columns(("attention.query", "attention.key_value"), "attn.c_attn", (1, 2)),
    _columns(("attention.aggregation.output",), "attn.c_proj"),
    one("around_feed_forward.norm", "ln_2"),
    _columns(("feed_forward.inner",), "mlp.c_fc"),
    _columns(("feed_forward.outer",), "mlp.c_proj"),
)


def _table(config: DecoderConfig) -> Table:
    embedding = "transformer.wte.weight"
    return Table(
        prefix="transformer.",
        renames=(
            one("decoder.stack.embedding.table", "transformer.wte", TABLE),
            one("decoder.stack.embedding.position.table", "transformer.wpe", TABLE),
            *in_layers(config.layers, _LAYER, ours="decoder.stack.layers.{layer}", theirs="transformer.h.{layer}"),
            one("decoder.stack.final_norm", "transformer.ln_f"),
            *(() if config.tie else (one("output", "lm_head", TABLE),)),
        ),
        copies={"lm_head.weight": embedding} if config.tie else {},
        unneeded=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)", r"(transformer\.)?score\.weight"),
    )


def _read(content: Mapping[str, Any], _names: frozenset[str], place: str) -> DecoderConfig:
    if content.get("n_inner") is None and isinstance(content.get("n_embd"), int):
        content = {**content, "n_inner": 4 * content["n_embd"]}
    table = _SETTINGS.read(content, place=place)
    table["positions"]["kind"] = "learned"
    return validated(DecoderConfig, table, place=place)


def _write(config: DecoderConfig, _tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {"architectures": ["GPT2LMHeadModel"], **_SETTINGS.write(config, name="GPT-2")}


GPT2: Final = Family("gpt2", "language_modelling", _read, _write, _table)
