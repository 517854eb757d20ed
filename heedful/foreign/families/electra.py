"""ELECTRA (Clark et al. 2020): an encoder that finds replaced tokens, or the smaller one that replaces them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from torch import Tensor

from heedful.architectures.stack import EncoderConfig
from heedful.errors import RunError
from heedful.foreign.families.bert import LAYER, SETTINGS
from heedful.foreign.families.renaming import TABLE, Table, in_layers, one
from heedful.foreign.families.settings import Family, validated
from heedful.tasks.origin import Origin

_SETTINGS: Final = replace(SETTINGS, theirs_have={**SETTINGS.theirs_have, "summary_use_proj": (True, False)})
_GENERATOR: Final = "generator."


def _table(config: EncoderConfig) -> Table:
    embeddings = "electra.embeddings"
    return Table(
        prefix="electra.",
        renames=(
            one("encoder.stack.embedding.table", f"{embeddings}.word_embeddings", TABLE),
            one("encoder.stack.embedding.position.table", f"{embeddings}.position_embeddings", TABLE),
            one("encoder.stack.embedding.segments", f"{embeddings}.token_type_embeddings", TABLE),
            one("encoder.stack.embedding.norm", f"{embeddings}.LayerNorm"),
            *in_layers(
                config.layers, LAYER, ours="encoder.stack.layers.{layer}", theirs="electra.encoder.layer.{layer}"
            ),
            one("dense", "discriminator_predictions.dense", head="verdict"),
            one("verdict", "discriminator_predictions.dense_prediction", head="verdict"),
            one("masked.dense", "generator_predictions.dense", head="masked"),
            one("masked.norm", "generator_predictions.LayerNorm", head="masked"),
            one("masked.output", "generator_lm_head", ("bias",), head="masked"),
        ),
        copies={"generator_lm_head.weight": f"{embeddings}.word_embeddings.weight"},
        unneeded=(
            r"electra\.embeddings\.(position_ids|token_type_ids)",
            r"(electra\.)?(classifier|qa_outputs)\.(weight|bias)",
        ),
    )


def _read(content: Mapping[str, Any], names: frozenset[str], place: str) -> EncoderConfig:
    width, inner = content.get("hidden_size"), content.get("embedding_size", content.get("hidden_size"))
    if width != inner:
        raise RunError(
            f"{place}: embedding_size = {inner!r} and hidden_size = {width!r}: heedful has one width for embeddings "
            "and layers; take a model where they agree, as in electra-base-discriminator"
        )
    table = _SETTINGS.read(content, place=place)
    if "generator_predictions.dense.weight" in names and table["activation"] != "gelu":
        raise RunError(
            f"{place}: hidden_act = {content['hidden_act']!r} and the gelu of generator_predictions: heedful has one "
            "activation for them; take a model where they agree"
        )
    table["positions"]["kind"] = "learned"
    return validated(EncoderConfig, table, place=place)


def _write(config: EncoderConfig, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    masked = "masked.dense.weight" in tensors
    if masked and config.activation != "gelu":
        raise RunError(
            f"model.activation = {config.activation}: ELECTRA's generator has only gelu where it is asked for hidden "
            "tokens; train a model with that to export it"
        )
    kind = "ForMaskedLM" if masked else "ForPreTraining" if "verdict.weight" in tensors else "Model"
    written = _SETTINGS.write(config, name="ELECTRA")
    return {"architectures": [f"Electra{kind}"], "embedding_size": config.d_model, **written}


def detector_and_generator(origin: Origin) -> tuple[Origin, Origin]:
    """The two models of a run that finds replaced tokens, each with a table of embeddings of its own."""
    named = origin.named
    detector = {name: each for name, each in named.items() if not name.startswith(_GENERATOR)}
    generator = {name.removeprefix(_GENERATOR): each for name, each in named.items() if name not in detector}
    generator.pop("masked.output.weight", None)  # that of the embeddings
    layers = len({name.split(".")[3] for name in generator if name.startswith("encoder.stack.layers.")})
    smaller = origin.model.model_copy(update={"layers": layers})
    return (
        replace(origin, tensors=detector, shared={}),
        replace(origin, model=smaller, tensors=generator, shared={}),
    )


ELECTRA: Final = Family("electra", "pretraining", _read, _write, _table)
