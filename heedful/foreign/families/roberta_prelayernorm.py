"""RoBERTa with the norm before each sublayer: what a pre-norm encoder is called elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from heedful.architectures.attention import LearnedConfig
from heedful.architectures.stack import EncoderConfig
from heedful.errors import RunError
from heedful.foreign.families.bert import SETTINGS
from heedful.foreign.families.renaming import TABLE, Rename, Table, in_layers, one
from heedful.foreign.families.settings import Family, validated
from heedful.tasks.origin import Origin

_OURS_HAVE: Final = {key: value for key, value in SETTINGS.ours_have.items() if key != "positions.offset"}
_SETTINGS: Final = replace(SETTINGS, ours_have={**_OURS_HAVE, "residual": ("pre_norm",)})
_NAME: Final = "RoBERTa-PreLayerNorm"
_POSITIONS: Final = "encoder.stack.embedding.position.table.weight"

_LAYER: Final = (
    Rename(
        ("attention.query", "attention.key_value"),
        ("attention.self.query", "attention.self.key", "attention.self.value"),
        shares=(1, 2),
    ),
    one("attention.aggregation.output", "attention.output.dense"),
    one("around_attention.norm", "attention.LayerNorm"),
    one("feed_forward.inner", "intermediate.dense"),
    one("feed_forward.outer", "output.dense"),
    one("around_feed_forward.norm", "intermediate.LayerNorm"),
)


def _table(config: EncoderConfig) -> Table:
    theirs = "roberta_prelayernorm"
    return Table(
        prefix=f"{theirs}.",
        renames=(
            one("encoder.stack.embedding.table", f"{theirs}.embeddings.word_embeddings", TABLE),
            one("encoder.stack.embedding.position.table", f"{theirs}.embeddings.position_embeddings", TABLE),
            one("encoder.stack.embedding.segments", f"{theirs}.embeddings.token_type_embeddings", TABLE),
            one("encoder.stack.embedding.norm", f"{theirs}.embeddings.LayerNorm"),
            one("encoder.stack.final_norm", f"{theirs}.LayerNorm"),
            *in_layers(
                config.layers, _LAYER, ours="encoder.stack.layers.{layer}", theirs=theirs + ".encoder.layer.{layer}"
            ),
            one("encoder.summary.dense", f"{theirs}.pooler.dense", head="summary"),
            one("masked.dense", "lm_head.dense", head="masked"),
            one("masked.norm", "lm_head.layer_norm", head="masked"),
            one("masked.output", "lm_head", ("bias",), head="masked"),
        ),
        copies={
            "lm_head.decoder.weight": f"{theirs}.embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        },
        unneeded=(
            rf"{theirs}\.embeddings\.(position_ids|token_type_ids)",
            rf"({theirs}\.)?(classifier(\.dense|\.out_proj)?|qa_outputs)\.(weight|bias)",
        ),
    )


def _read(content: Mapping[str, Any], names: frozenset[str], place: str) -> EncoderConfig:
    table = _SETTINGS.read(content, place=place)
    if "lm_head.dense.weight" in names and table["activation"] != "gelu":
        raise RunError(
            f"{place}: hidden_act = {content['hidden_act']!r} and the gelu of lm_head: heedful has one activation for "
            "them; take a model where they agree"
        )
    offset = content.get("pad_token_id", 1) + 1
    table["residual"] = "pre_norm"
    table["positions"] |= {"kind": "learned", "offset": offset, "length": table["positions"]["length"] - offset}
    return validated(EncoderConfig, table, place=place)


def _write(config: EncoderConfig, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    written = _SETTINGS.write(config, name=_NAME)
    masked = "masked.dense.weight" in tensors
    if masked and config.activation != "gelu":
        raise RunError(
            f"model.activation = {config.activation}: {_NAME} has only gelu where it is asked for hidden tokens; train "
            "a model with that to export it"
        )
    assert isinstance(config.positions, LearnedConfig)
    written["max_position_embeddings"] = config.positions.length + config.positions.offset
    return {"architectures": [f"RobertaPreLayerNorm{'ForMaskedLM' if masked else 'Model'}"], **written}


def behind_padding(origin: Origin, pad: int) -> Origin:
    """The same model with `pad` + 1 rows in front of its first position, where this family counts from."""
    config, offset = origin.model, pad + 1
    if not isinstance(config.positions, LearnedConfig) or config.positions.offset == offset:
        return origin
    rows = origin.tensors[_POSITIONS][config.positions.offset :]
    positions = config.positions.model_copy(update={"offset": offset})
    return replace(
        origin,
        model=config.model_copy(update={"positions": positions}),
        tensors={**origin.tensors, _POSITIONS: torch.cat((rows.new_zeros(offset, rows.size(1)), rows))},
    )


ROBERTA_PRELAYERNORM: Final = Family("roberta-prelayernorm", "pretraining", _read, _write, _table)
