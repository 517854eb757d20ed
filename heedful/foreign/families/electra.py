"""Model family ELECTRA (Clark et al. 2020): the discriminator that detects replaced tokens, or the smaller
generator that replaces them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from torch import Tensor

from heedful.architectures.stack import EncoderConfig
from heedful.errors import RunError
from heedful.foreign.families.bert import BERT_CONFIG_MAPPING, BERT_LAYER_RENAMES
from heedful.foreign.families.config_mapping import ModelFamily, validate_config
from heedful.foreign.families.tensor_names import TABLE_PARAMETERS, StateDictMapping, rename_layers, rename_part
from heedful.tasks.portable_model import PortableModel

_CONFIG_MAPPING: Final = replace(
    BERT_CONFIG_MAPPING, foreign_supported={**BERT_CONFIG_MAPPING.foreign_supported, "summary_use_proj": (True, False)}
)
_GENERATOR_PREFIX: Final = "generator."


def _build_state_dict_mapping(config: EncoderConfig) -> StateDictMapping:
    """Map the tensor names of ELECTRA to heedful's."""
    embeddings = "electra.embeddings"
    return StateDictMapping(
        prefix="electra.",
        renames=(
            rename_part("encoder.stack.embedding.table", f"{embeddings}.word_embeddings", TABLE_PARAMETERS),
            rename_part(
                "encoder.stack.embedding.position.table", f"{embeddings}.position_embeddings", TABLE_PARAMETERS
            ),
            rename_part("encoder.stack.embedding.segments", f"{embeddings}.token_type_embeddings", TABLE_PARAMETERS),
            rename_part("encoder.stack.embedding.norm", f"{embeddings}.LayerNorm"),
            *rename_layers(
                config.layers,
                BERT_LAYER_RENAMES,
                heedful_prefix="encoder.stack.layers.{layer}",
                foreign_prefix="electra.encoder.layer.{layer}",
            ),
            rename_part("dense", "discriminator_predictions.dense", head="verdict"),
            rename_part("verdict", "discriminator_predictions.dense_prediction", head="verdict"),
            rename_part("masked.dense", "generator_predictions.dense", head="masked"),
            rename_part("masked.norm", "generator_predictions.LayerNorm", head="masked"),
            rename_part("masked.output", "generator_lm_head", ("bias",), head="masked"),
        ),
        copies={"generator_lm_head.weight": f"{embeddings}.word_embeddings.weight"},
        ignored=(
            r"electra\.embeddings\.(position_ids|token_type_ids)",
            r"(electra\.)?(classifier|qa_outputs)\.(weight|bias)",
        ),
    )


def _read_config(content: Mapping[str, Any], names: frozenset[str], location: str) -> EncoderConfig:
    """Convert an ELECTRA config.json to a heedful model configuration."""
    width, embedding_width = content.get("hidden_size"), content.get("embedding_size", content.get("hidden_size"))
    if width != embedding_width:
        raise RunError(
            f"{location}: embedding_size = {embedding_width!r} and hidden_size = {width!r}: heedful has one width for "
            "embeddings and layers; take a model where they are equal, as in electra-base-discriminator"
        )
    values = _CONFIG_MAPPING.read_config(content, location=location)
    if "generator_predictions.dense.weight" in names and values["activation"] != "gelu":
        raise RunError(
            f"{location}: hidden_act = {content['hidden_act']!r} and the gelu of generator_predictions: heedful has "
            "one activation for both; take a model where they are equal"
        )
    values["positions"]["kind"] = "learned"
    return validate_config(EncoderConfig, values, location=location)


def _write_config(config: EncoderConfig, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Convert a heedful model configuration to the content of an ELECTRA config.json."""
    masked = "masked.dense.weight" in tensors
    if masked and config.activation != "gelu":
        raise RunError(
            f"model.activation = {config.activation}: ELECTRA's generator predicts hidden tokens with gelu only; train "
            "a model with gelu to export it"
        )
    kind = "ForMaskedLM" if masked else "ForPreTraining" if "verdict.weight" in tensors else "Model"
    content = _CONFIG_MAPPING.write_config(config, name="ELECTRA")
    return {"architectures": [f"Electra{kind}"], "embedding_size": config.d_model, **content}


def split_detector_and_generator(origin: PortableModel) -> tuple[PortableModel, PortableModel]:
    """Split a replaced-token-detection run into its two models, each with its own embedding table."""
    named = origin.all_tensors
    detector = {name: tensor for name, tensor in named.items() if not name.startswith(_GENERATOR_PREFIX)}
    generator = {name.removeprefix(_GENERATOR_PREFIX): tensor for name, tensor in named.items() if name not in detector}
    generator.pop("masked.output.weight", None)  # that of the embeddings
    layers = len({name.split(".")[3] for name in generator if name.startswith("encoder.stack.layers.")})
    generator_config = origin.model.model_copy(update={"layers": layers})
    return (
        replace(origin, tensors=detector, aliases={}),
        replace(origin, model=generator_config, tensors=generator, aliases={}),
    )


ELECTRA: Final = ModelFamily("electra", "pretraining", _read_config, _write_config, _build_state_dict_mapping)
