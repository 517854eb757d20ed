"""Model family ViT (Dosovitskiy et al. 2021): vision transformers, with or without a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from heedful.architectures.vision import VisionTransformerConfig
from heedful.errors import RunError
from heedful.foreign.families.heads import FamilyHeads, HeadLocation
from heedful.foreign.families.model_family import (
    ACTIVATIONS,
    CLASSIC_LAYERS,
    SCALED_SOFTMAX,
    KeyMapping,
    ModelFamily,
)
from heedful.foreign.families.tensor_names import (
    ONE_ROW_LAYOUT,
    WHOLE_NAME,
    StateDictMapping,
    TensorLayout,
    TensorRename,
    rename_layers,
    rename_part,
)

_SINGLE_VECTOR_LAYOUT: Final = TensorLayout(lambda tensor: tensor.flatten(), lambda tensor: tensor.view(1, 1, -1))
"""A vector is stored as the only one of a sequence, in a batch of one."""


def _build_mapping(config: VisionTransformerConfig) -> StateDictMapping:
    """Map the tensor names of ViT to heedful's."""
    query = TensorRename(
        ("attention.query", "attention.key_value"),
        ("attention.attention.query", "attention.attention.key", "attention.attention.value"),
        ("weight", "bias") if config.query_key_value_bias else ("weight",),
        shares=(1, 2),
    )
    layer = (
        query,
        rename_part("attention.aggregation.output", "attention.output.dense"),
        rename_part("around_attention.norm", "layernorm_before"),
        rename_part("feed_forward.inner", "intermediate.dense"),
        rename_part("feed_forward.outer", "output.dense"),
        rename_part("around_feed_forward.norm", "layernorm_after"),
    )
    embeddings = "vit.embeddings"
    return StateDictMapping(
        prefix="vit.",
        renames=(
            TensorRename(
                ("encoder.patches.class_token",),
                (f"{embeddings}.cls_token",),
                WHOLE_NAME,
                layout=_SINGLE_VECTOR_LAYOUT,
            ),
            TensorRename(
                ("encoder.stack.embedding.position.table.weight",),
                (f"{embeddings}.position_embeddings",),
                WHOLE_NAME,
                layout=ONE_ROW_LAYOUT,
            ),
            rename_part("encoder.patches.projection", f"{embeddings}.patch_embeddings.projection"),
            *rename_layers(config.layers, layer, stack="encoder.stack", foreign_layers="vit.encoder.layer"),
            rename_part("encoder.stack.final_norm", "vit.layernorm"),
            rename_part("encoder.summary.dense", "vit.pooler.dense", head="summary"),
        ),
        ignored=(r"(vit\.)?embeddings\.mask_token", r"(vit\.)?classifier\.(weight|bias)"),
    )


def _complete_settings(values: dict[str, Any], content: Mapping[str, Any], _names: frozenset[str], path: str) -> None:
    """Store equal numbers of all colours in `values` once, and check what the tables cannot, in the content of
    config.json at `path`; a `ModelFamily.complete_settings`.
    """
    for key in ("mean", "deviation"):
        if isinstance(values[key], list | tuple) and len({*values[key]}) == 1:
            values[key] = values[key][:1]
    width = content.get("pooler_output_size")
    if width not in (None, values["d_model"]):
        raise RunError(
            f"{path}: pooler_output_size = {width!r}: heedful has only hidden_size = {values['d_model']}; take a model "
            "with that"
        )


def _complete_content(content: dict[str, Any], config: VisionTransformerConfig) -> dict[str, Any]:
    """Return the content of config.json with lists for the numbers of colours; a `ModelFamily.complete_content`."""
    return {**content, "image_mean": list(config.mean), "image_std": list(config.deviation)}


VIT: Final = ModelFamily(
    "vit",
    "ViT",
    "glimpses",
    VisionTransformerConfig,
    architectures={"ViTModel": ()},
    settings=(
        KeyMapping("d_model", ("hidden_size",), 768),
        KeyMapping("heads", ("num_attention_heads",), 12),
        KeyMapping("d_ff", ("intermediate_size",), 3072),
        KeyMapping("layers", ("num_hidden_layers",), 12),
        KeyMapping("patch", ("patch_size",), 16),
        KeyMapping("activation", ("hidden_act",), "gelu", ACTIVATIONS),
        KeyMapping("dropout", ("hidden_dropout_prob",), 0.0),
        KeyMapping("attention_dropout", ("attention_probs_dropout_prob",), 0.0),
        KeyMapping("norm_epsilon", ("layer_norm_eps",), 1e-12),
        KeyMapping("query_key_value_bias", ("qkv_bias",), True),
        KeyMapping("mean", ("image_mean",), (0.5,)),
        KeyMapping("deviation", ("image_std",), (0.5,)),
    ),
    foreign_supported={"pooler_act": ("tanh",)},
    heedful_supported={
        "aggregation": ("project",),
        "shared_key_value": (False,),
        "residual": ("pre_norm",),
        "positions.kind": ("learned",),
        "scale_embedding": (False,),
        "bias": (True,),
        **CLASSIC_LAYERS,
        **SCALED_SOFTMAX,
    },
    build_mapping=_build_mapping,
    special_tokens={},
    heads=FamilyHeads({"class": HeadLocation("ViTForImageClassification", "classifier")}),
    complete_settings=_complete_settings,
    complete_content=_complete_content,
    folder_class="heedful.foreign.picture_folders:PictureFolder",
)
"""ViT; a `PictureFolder` adds what its preprocessor_config.json says."""
