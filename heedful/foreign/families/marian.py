"""Marian (Junczys-Dowmunt et al. 2018): the Transformer of Vaswani et al. with all sines before all cosines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from heedful.architectures.model import TransformerConfig
from heedful.attention.positions import Sinusoidal
from heedful.errors import RunError
from heedful.foreign.families.encoder_decoder import OURS_HAVE, SETTINGS, encoder_decoder_table
from heedful.foreign.families.renaming import READS_SINES_FIRST, Table
from heedful.foreign.families.settings import Family, Settings, validated

_SETTINGS: Final = Settings(
    settings=SETTINGS,
    theirs_have={
        "normalize_before": (False,),
        "normalize_embedding": (False,),
        "add_final_layer_norm": (False,),
        "static_position_embeddings": (True,),
    },
    ours_have={**OURS_HAVE, "positions": ("sinusoidal",), "embedding_norm": (False,)},
)
_TIES: Final = {(True, True): "three_way", (False, True): "two_way", (False, False): "none"}
"""By whether both languages share a table, and whether the output is the table of the target."""


def _read(content: Mapping[str, Any], names: frozenset[str], place: str) -> TransformerConfig:
    shared, tied = content.get("share_encoder_decoder_embeddings", True), content.get("tie_word_embeddings", True)
    if (shared, tied) not in _TIES:
        raise RunError(
            f"{place}: share_encoder_decoder_embeddings = {shared} and tie_word_embeddings = {tied}: heedful has no "
            "such model; take one that shares all tables, or those of the target alone, or none"
        )
    table = _SETTINGS.read(content, place=place)
    table |= {"tie": _TIES[shared, tied], "output_bias": "final_logits_bias" in names}
    return validated(TransformerConfig, table, place=place)


def _write(config: TransformerConfig, _tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    written = _SETTINGS.write(config, name="MarianMT")
    shared, tied = next(both for both, name in _TIES.items() if name == config.tie)
    return {
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        **written,
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": tied,
    }


def _sines_first(table: Tensor) -> Tensor:
    """Positions as Marian computes them, in the shape of `table`."""
    length, d_model = table.shape
    return READS_SINES_FIRST.theirs(Sinusoidal(d_model)(torch.arange(length).unsqueeze(0))[0])


def _table(config: TransformerConfig) -> Table:
    # some versions save what is computed
    return encoder_decoder_table(
        config, sines_first=True, computed={r"model\.(encoder|decoder)\.embed_positions\.weight": _sines_first}
    )


MARIAN: Final = Family("marian", "translation", _read, _write, _table)
