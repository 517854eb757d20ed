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
from heedful.foreign.families.heads import FamilyHeads
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


_PROJECTION: Final = rename_part("encoder.stack.embedding.projection", "electra.embeddings_project")
_CHOICE_SUMMARY: Final = "sequence_summary.summary"
_CHOICE_SETTINGS: Final = {"summary_type": "first", "summary_activation": "gelu"}
"""Settings of the summary that the head for multiple choice makes, as heedful has it."""


def _build_mapping(config: EncoderConfig) -> StateDictMapping:
    return build_encoder_mapping(
        config,
        _HEADS if config.d_embedding is None else (_PROJECTION, *_HEADS),
        prefix="electra",
        output="generator_lm_head",
        classifiers=r"classifier(\.dense|\.out_proj)?|qa_outputs|sequence_summary\.summary",
    )


def _complete_settings(
    values: dict[str, Any], content: Mapping[str, Any], names: frozenset[str], location: str
) -> None:
    """Set the width of the embeddings in `values` if it is not that of the hidden vectors, and raise RunError if
    config.json, which is at `location`, gives another summary than heedful's to a head for multiple choice; a
    `ModelFamily.complete_settings`.
    """
    width = content.get("embedding_size", values["d_model"])
    values["d_embedding"] = None if width == values["d_model"] else width
    for key, supported in _CHOICE_SETTINGS.items():
        if f"{_CHOICE_SUMMARY}.weight" in names and content.get(key, supported) != supported:
            raise RunError(
                f"{location}: {key} = {content[key]!r}: heedful has only {supported}; take a model with that"
            )


def _complete_content(content: dict[str, Any], config: EncoderConfig) -> dict[str, Any]:
    if config.d_embedding == config.d_model:
        raise RunError(
            f"model.d_embedding = {config.d_embedding}: ELECTRA has a map behind its embeddings only if their width is "
            "not model.d_model; train a model without model.d_embedding to export it"
        )
    return {"embedding_size": config.d_embedding or config.d_model, **content}


ELECTRA: Final = replace(
    BERT,
    model_type="electra",
    name="ELECTRA",
    architectures={"ElectraForMaskedLM": ("masked",), "ElectraForPreTraining": ("verdict",), "ElectraModel": ()},
    foreign_supported={**ENCODER_FOREIGN_SUPPORTED, "summary_use_proj": (True, False)},
    heedful_supported={key: values for key, values in BERT.heedful_supported.items() if key != "d_embedding"},
    build_mapping=_build_mapping,
    tokenizer_class="ElectraTokenizer",
    heads=FamilyHeads.from_class_name(
        "Electra",
        "classifier.out_proj",
        summary="classifier.dense",
        choice_summary=_CHOICE_SUMMARY,
        activation="gelu",
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
