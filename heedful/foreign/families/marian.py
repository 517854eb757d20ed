"""Model family Marian (Junczys-Dowmunt et al. 2018): the Transformer of Vaswani et al. with all sines before all
cosines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from heedful.architectures.model import TransformerConfig
from heedful.attention.positions import SinusoidalPosition
from heedful.errors import RunError
from heedful.foreign.families.encoder_decoder import (
    SEQ2SEQ_KEY_MAPPINGS,
    SEQ2SEQ_SUPPORTED,
    build_seq2seq_mapping,
    mark_encoder_decoder,
    read_output_bias,
)
from heedful.foreign.families.model_family import ModelFamily
from heedful.foreign.families.tensor_names import READS_SINES_FIRST, StateDictMapping

_TIES: Final = {(True, True): "three_way", (False, True): "two_way", (False, False): "none"}
"""Kind of weight tying, by whether both languages share a table and whether the output layer is the target table."""


def _complete_settings(
    values: dict[str, Any], content: Mapping[str, Any], names: frozenset[str], location: str
) -> None:
    """Set the kind of weight tying and `output_bias` in `values` by config.json and the names of the stored tensors.
    Raise RunError, which names `location`, if heedful lacks the kind; a `ModelFamily.complete_settings`.
    """
    shared, tied = content.get("share_encoder_decoder_embeddings", True), content.get("tie_word_embeddings", True)
    if (shared, tied) not in _TIES:
        raise RunError(
            f"{location}: share_encoder_decoder_embeddings = {shared} and tie_word_embeddings = {tied}: heedful has no "
            "such model; take one that shares all tables, or only those of the target, or none"
        )
    values["tie"] = _TIES[shared, tied]
    read_output_bias(values, content, names, location)


def _complete_content(content: dict[str, Any], config: TransformerConfig) -> dict[str, Any]:
    """Return the content of config.json with weight tying and the mark of encoder-decoder models; a
    `ModelFamily.complete_content`.
    """
    shared, tied = next(pair for pair, name in _TIES.items() if name == config.tie)
    ties = {"share_encoder_decoder_embeddings": shared, "tie_word_embeddings": tied}
    return mark_encoder_decoder(content, config) | ties


def _compute_positions(table: Tensor) -> Tensor:
    """Compute Marian's sinusoidal positions in the shape of `table`."""
    length, d_model = table.shape
    return READS_SINES_FIRST.to_foreign(SinusoidalPosition(d_model)(torch.arange(length).unsqueeze(0))[0])


def _build_mapping(config: TransformerConfig) -> StateDictMapping:
    """Map the tensor names of Marian to heedful's."""
    # some versions save what is computed
    return build_seq2seq_mapping(
        config, sines_first=True, computed={r"model\.(encoder|decoder)\.embed_positions\.weight": _compute_positions}
    )


MARIAN: Final = ModelFamily(
    "marian",
    "MarianMT",
    "translation",
    TransformerConfig,
    architectures={"MarianMTModel": ()},
    settings=SEQ2SEQ_KEY_MAPPINGS,
    foreign_supported={
        "normalize_before": (False,),
        "normalize_embedding": (False,),
        "add_final_layer_norm": (False,),
        "static_position_embeddings": (True,),
    },
    heedful_supported={**SEQ2SEQ_SUPPORTED, "positions.kind": ("sinusoidal",), "embedding_norm": (False,)},
    build_mapping=_build_mapping,
    has_side_vocabularies=True,
    start_key="pad_token_id",
    special_tokens={"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
    complete_settings=_complete_settings,
    complete_content=_complete_content,
)
