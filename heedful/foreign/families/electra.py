"""Model family ELECTRA (Clark et al. 2020): the discriminator that detects replaced tokens, or the smaller
generator that replaces them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from heedful.architectures.stack import EncoderConfig
from heedful.errors import RunError
from heedful.foreign.families.bert import BERT, ENCODER_FOREIGN_SUPPORTED, build_encoder_mapping
from heedful.foreign.families.heads import FamilyHeads, HeadLocation
from heedful.foreign.families.tensor_names import StateDictMapping, rename_part
from heedful.tasks.portable_model import PortableModel

_GENERATOR_PREFIX: Final = "generator."
_HEADS: Final = (
    rename_part("dense", "discriminator_predictions.dense", head="verdict"),
    rename_part("verdict", "discriminator_predictions.dense_prediction", head="verdict"),
    rename_part("masked.dense", "generator_predictions.dense", head="masked"),
    rename_part("masked.norm", "generator_predictions.LayerNorm", head="masked"),
    rename_part("masked.output", "generator_lm_head", ("bias",), head="masked"),
)


def _build_mapping(config: EncoderConfig) -> StateDictMapping:
    return build_encoder_mapping(config, _HEADS, prefix="electra", output="generator_lm_head")


def _complete_settings(
    _values: dict[str, Any], content: Mapping[str, Any], _names: frozenset[str], location: str
) -> None:
    """Raise RunError if config.json, which is at `location`, gives embeddings and hidden vectors of different size; a
    `ModelFamily.complete_settings`.
    """
    width, embedding_width = content.get("hidden_size"), content.get("embedding_size", content.get("hidden_size"))
    if width != embedding_width:
        raise RunError(
            f"{location}: embedding_size = {embedding_width!r} and hidden_size = {width!r}: heedful has one width for "
            "embeddings and layers; take a model where they are equal, as in electra-base-discriminator"
        )


def _complete_content(content: dict[str, Any], config: EncoderConfig) -> dict[str, Any]:
    return {"embedding_size": config.d_model, **content}


ELECTRA: Final = replace(
    BERT,
    model_type="electra",
    name="ELECTRA",
    architectures={"ElectraForMaskedLM": ("masked",), "ElectraForPreTraining": ("verdict",), "ElectraModel": ()},
    foreign_supported={**ENCODER_FOREIGN_SUPPORTED, "summary_use_proj": (True, False)},
    build_mapping=_build_mapping,
    tokenizer_class="ElectraTokenizer",
    heads=FamilyHeads(
        {
            "token": HeadLocation("ElectraForTokenClassification", "classifier"),
            "ends": HeadLocation("ElectraForQuestionAnswering", "qa_outputs"),
        }
    ),
    gelu_head="generator_predictions",
    complete_settings=_complete_settings,
    complete_content=_complete_content,
)


def split_detector_and_generator(origin: PortableModel) -> tuple[PortableModel, PortableModel]:
    """Split a model of replaced token detection into its discriminator and its generator, each with its own embedding
    table.
    """
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
