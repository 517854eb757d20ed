"""BART (Lewis et al. 2020): learned positions, and a norm behind the embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor

from heedful.architectures.model import TransformerConfig
from heedful.foreign.families.encoder_decoder import OURS_HAVE, SETTINGS, encoder_decoder_table
from heedful.foreign.families.renaming import TABLE, Table, one
from heedful.foreign.families.settings import Family, Setting, Settings, validated

_OFFSET: Final = 2
"""Rows in front of the first position."""
_SETTINGS: Final = Settings(
    settings=(*SETTINGS, Setting("positions.length", ("max_position_embeddings",))),
    theirs_have={
        "normalize_before": (False,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (False,),
        "static_position_embeddings": (False,),
        "extra_pos_embeddings": (_OFFSET,),
        "tie_word_embeddings": (True,),
    },
    ours_have={
        **OURS_HAVE,
        "positions": ("learned",),
        "positions.offset": (_OFFSET,),
        "embedding_norm": (True,),
        "tie": ("three_way",),
    },
)


def _read(content: Mapping[str, Any], names: frozenset[str], place: str) -> TransformerConfig:
    table = _SETTINGS.read(content, place=place)
    table["positions"] |= {"kind": "learned", "offset": _OFFSET}
    table |= {"embedding_norm": True, "tie": "three_way", "output_bias": "final_logits_bias" in names}
    return validated(TransformerConfig, table, place=place)


def _write(config: TransformerConfig, _tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {
        "architectures": ["BartForConditionalGeneration"],
        "is_encoder_decoder": True,
        **_SETTINGS.write(config, name="BART"),
    }


def _table(config: TransformerConfig) -> Table:
    return encoder_decoder_table(
        config,
        sines_first=False,
        others=tuple(
            each
            for side in ("encoder", "decoder")
            for each in (
                one(f"{side}.stack.embedding.position.table", f"model.{side}.embed_positions", TABLE),
                one(f"{side}.stack.embedding.norm", f"model.{side}.layernorm_embedding"),
            )
        ),
        unneeded=(r"(model\.)?(encoder|decoder)\.version", r"(model\.)?(classification_head|qa_outputs)\..*"),
    )


BART: Final = Family("bart", "translation", _read, _write, _table)
