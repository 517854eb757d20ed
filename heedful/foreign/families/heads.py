"""Heads of fine-tuned encoders in the format of transformers, and the model code of those that transformers lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError
from torch import Tensor

from heedful.architectures.classifiers import SummaryActivation
from heedful.errors import RunError
from heedful.tasks.portable_model import InferenceSettings, OutputHead, OutputType

_DEFAULT_NUM_LABELS: Final = 2
"""Number of classes that transformers assumes if config.json does not give it."""
_MAX_LABELS: Final = 1_000_000
_HEEDFUL_KEY: Final = "heedful"
"""Key in config.json for heedful's own settings, which transformers ignores."""
_OUTPUT_PREFIX: Final = "output."
_SUMMARY_PREFIX: Final = "encoder.summary."


@dataclass(frozen=True)
class HeadLocation:
    """Name and position of a classification head in a model of transformers.

    Attributes:
        architecture: name of the model class that has the head.
        output: name of the linear layer from hidden vectors to the outputs.
        reads_summary: whether the head reads the summary of the text instead of its tokens.
        reads_mean: whether the head reads the mean of the token vectors.
        summary: name of the linear layer that makes the summary from the first token, if it belongs to the head and not
            to the encoder.
    """

    architecture: str
    output: str
    reads_summary: bool = False
    summary: str | None = None
    reads_mean: bool = False


@dataclass(frozen=True)
class FamilyHeads:
    """Locations of the heads of a model family, by kind of head.

    Attributes:
        locations: of the heads that transformers has.
        mean_locations: of those that read the mean of all tokens, which are model classes of heedful.
        activation: of the layer that makes the summary of a text.
    """

    locations: Mapping[OutputType, HeadLocation] = field(default_factory=dict)
    mean_locations: Mapping[OutputType, HeadLocation] = field(default_factory=dict)
    activation: SummaryActivation = "tanh"

    @classmethod
    def from_class_name(
        cls,
        name: str,
        output: str = "classifier",
        *,
        summary: str | None = None,
        choice_summary: str | None = None,
        activation: SummaryActivation = "tanh",
    ) -> FamilyHeads:
        """Build the locations in model classes whose names begin with `name`.

        Args:
            name: first part of the names of all model classes.
            output: output layer of the head that classifies whole texts.
            summary: layer of that head which makes the summary of a text; None if the encoder has it.
            choice_summary: the same of the head that chooses between texts.
            activation: of the layer that makes the summary.
        """
        text_head = HeadLocation(f"{name}ForSequenceClassification", output, True, summary)
        mean_head = HeadLocation(f"{name}MeanForSequenceClassification", "classifier", reads_mean=True)
        return cls(
            {
                "class": text_head,
                "number": text_head,
                "candidate": HeadLocation(f"{name}ForMultipleChoice", "classifier", True, choice_summary),
                "token": HeadLocation(f"{name}ForTokenClassification", "classifier"),
                "ends": HeadLocation(f"{name}ForQuestionAnswering", "qa_outputs"),
            },
            {
                "class": mean_head,
                "number": mean_head,
                "candidate": HeadLocation(f"{name}MeanForMultipleChoice", "classifier", reads_mean=True),
            },
            activation,
        )

    def locate_head(self, head: OutputHead, tensors: Mapping[str, Tensor]) -> HeadLocation:
        """Return the location of a heedful head, by its kind and by whether it reads the mean of the tokens, which is
        so if `tensors` has no layer that makes a summary.
        """
        reads_mean = not any(name.startswith((_SUMMARY_PREFIX, "summary.", "hidden.")) for name in tensors)
        if reads_mean and head.output_type in self.mean_locations:
            return self.mean_locations[head.output_type]
        return self.locations[head.output_type]

    def find_named_head(self, head: OutputHead, architectures: Sequence[str]) -> HeadLocation:
        """Return the location of this kind of head whose model class is among `architectures`, those that a folder's
        config.json names.
        """
        candidates = (table[head.output_type] for table in self._tables if head.output_type in table)
        return next(location for location in candidates if location.architecture in architectures)

    def read_head_config(self, content: Mapping[str, Any], *, location: str) -> OutputHead | None:
        """Read the head that the content of a config.json describes; None if it names no architecture with a head.
        Errors name `location`.

        Args:
            content: of config.json.
            location: path of that file, for messages.

        Raises:
            RunError: its classes do not fit, or heedful does not support this kind of head.
        """
        architectures = content.get("architectures") or []
        matches = [
            kind
            for table in self._tables
            for kind, head_location in table.items()
            if head_location.architecture in architectures
        ]
        return _read_head(matches[0], content, location=location) if matches else None

    @property
    def _tables(self) -> tuple[Mapping[OutputType, HeadLocation], ...]:
        return self.locations, self.mean_locations


def _read_head(kind: OutputType, content: Mapping[str, Any], *, location: str) -> OutputHead:
    """Read the head of this kind from the content of config.json: its classes, and heedful's options. Raise RunError,
    which names `location`, for a regression of several numbers.
    """
    reading = _read_reading_options(content, location=location)
    if kind in ("candidate", "ends"):
        return OutputHead(kind, settings=reading)
    names, problem = _read_label_names(content, location=location), content.get("problem_type")
    if kind == "token":
        return OutputHead("token", names, settings=reading)
    if problem == "regression" and len(names) > 1:
        raise RunError(
            f'{location}: problem_type = "regression" with {len(names)} outputs: heedful reads models that give one '
            "number for a text; take one with num_labels = 1"
        )
    if problem == "regression" or (problem is None and len(names) == 1):
        return OutputHead("number", settings=reading)
    return OutputHead("class", names, independent=problem == "multi_label_classification", settings=reading)


def read_head_tensors(
    head: OutputHead, head_location: HeadLocation, tensors: Mapping[str, Tensor], *, location: str, width: int
) -> dict[str, Tensor]:
    """Return the tensors of a head under heedful's names, from those of a folder. `head_location` has its foreign
    names, and `width` is the size of the hidden vectors.

    Args:
        head: the head of the folder.
        head_location: its names in transformers.
        tensors: of the folder.
        location: path of the folder, for messages.
        width: size of the hidden vectors.

    Raises:
        RunError: a tensor is missing, or its size does not match the number of classes.
    """
    layers = {_OUTPUT_PREFIX: head_location.output} | (
        {} if head_location.summary is None else {f"{_SUMMARY_PREFIX}dense.": head_location.summary}
    )
    result: dict[str, Tensor] = {}
    for heedful_name, foreign_name in layers.items():
        for parameter in ("weight", "bias"):
            name = f"{foreign_name}.{parameter}"
            if name not in tensors:
                raise RunError(
                    f"{location}: does not contain tensor {name}, which {head_location.architecture} has; "
                    "take a complete copy"
                )
            result[f"{heedful_name}{parameter}"] = tensors[name]
    rows = {"ends": 2}.get(head.output_type, len(head.class_names) or 1)
    shape = tuple(result[f"{_OUTPUT_PREFIX}weight"].shape)
    if shape != (rows, width):
        raise RunError(
            f"{location}: {head_location.output}.weight is {' x '.join(map(str, shape))} but config.json gives "
            f"{rows} outputs of {width} numbers; take another copy"
        )
    return result


def _read_reading_options(content: Mapping[str, Any], *, location: str) -> InferenceSettings:
    """Read the options for cutting texts that heedful wrote into config.json; defaults if there are none. Raise
    RunError, which names `location`, if one is invalid. `content` is that of config.json.
    """
    try:
        return InferenceSettings.model_validate(content.get(_HEEDFUL_KEY, {}))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, (_HEEDFUL_KEY, *first["loc"])))
        raise RunError(f"{location}: {key}: {first['msg']}; export the model again, or remove the key") from None


def _read_label_names(content: Mapping[str, Any], *, location: str) -> tuple[str, ...]:
    """Read the class names from the content of config.json in the order of their numbers, LABEL_0 and so on if they
    have no names. Raise RunError, which names `location`, if numbers or names are invalid.
    """
    labels = content.get("id2label")
    if labels is None:
        count = content.get("num_labels", content.get("_num_labels", _DEFAULT_NUM_LABELS))
        if not isinstance(count, int) or not 1 <= count <= _MAX_LABELS:
            raise RunError(f"{location}: num_labels = {count!r} is not a number of classes; take another copy")
        return tuple(f"LABEL_{number}" for number in range(count))
    try:
        numbered = {int(number): name for number, name in labels.items()}
        names = tuple(numbered[number] for number in range(len(labels)))
    except (AttributeError, TypeError, ValueError, KeyError):
        names = ()
    if not names or not all(isinstance(name, str) and name for name in names) or len({*names}) < len(names):
        raise RunError(
            f"{location}: id2label does not give the numbers from 0 different names; correct it, or take another copy"
        )
    return names


def drop_head_tensors(head_location: HeadLocation, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return heedful's tensors without the output layer of a head, and without the summary layer if the head does not
    read it or has its own.

    Raises:
        RunError: the model summarises a text in a way that the format does not support.
    """
    if not head_location.reads_summary:
        return {
            name: tensor for name, tensor in tensors.items() if not name.startswith((_OUTPUT_PREFIX, _SUMMARY_PREFIX))
        }
    first_token = any(name.startswith(_SUMMARY_PREFIX) for name in tensors)
    if not first_token or any(name.startswith(("summary.", "hidden.")) for name in tensors):
        raise RunError(
            f"model.summary, model.d_hidden: {head_location.architecture} applies one map to the first "
            'token; train a model with model.summary.kind = "first" or "mean" and without model.d_hidden to export it'
        )
    prefixes = (_OUTPUT_PREFIX,) if head_location.summary is None else (_OUTPUT_PREFIX, _SUMMARY_PREFIX)
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(prefixes)}


def export_head(
    head: OutputHead, head_location: HeadLocation, tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the entries of config.json for a head, and its tensors by the names of transformers."""
    content: dict[str, Any] = {"architectures": [head_location.architecture]}
    if reading := head.settings.model_dump(exclude_none=True):
        content[_HEEDFUL_KEY] = reading
    if names := {"number": ("number",), "candidate": ("score",)}.get(head.output_type, head.class_names):
        content["id2label"] = {str(number): name for number, name in enumerate(names)}
        content["label2id"] = {name: number for number, name in enumerate(names)}
    if head.output_type in ("class", "number"):
        several = "multi_label_classification" if head.independent else "single_label_classification"
        content["problem_type"] = "regression" if head.output_type == "number" else several
    prefixes = {_OUTPUT_PREFIX: head_location.output, f"{_SUMMARY_PREFIX}dense.": head_location.summary}
    exported = {
        f"{foreign_name}.{name.removeprefix(heedful_name)}": tensor.contiguous()
        for heedful_name, foreign_name in prefixes.items()
        for name, tensor in tensors.items()
        if foreign_name is not None and name.startswith(heedful_name)
    }
    return content, exported


MODELING_FILE: Final = "modeling_heedful.py"
"""Name of the file with the model classes, in the folder of a model."""
_AUTO: Final = {
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForMultipleChoice": "AutoModelForMultipleChoice",
}
_CODE_TEMPLATE: Final = '''"""An encoder whose head reads the mean of the vectors of all tokens; written by heedful."""

import torch
from torch.nn import functional
from transformers import {name}Model, {name}PreTrainedModel
from transformers.modeling_outputs import MultipleChoiceModelOutput, SequenceClassifierOutput


class _Mean({name}PreTrainedModel):
    def __init__(self, config, outputs):
        super().__init__(config)
        self.{prefix} = {name}Model(config)
        self.{prefix}.pooler = None
        self.classifier = torch.nn.Linear(config.hidden_size, outputs)
        self.post_init()

    def compute_logits(self, input_ids, attention_mask, token_type_ids, position_ids):
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        hidden = self.{prefix}(
            input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids, position_ids=position_ids
        ).last_hidden_state
        real = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return self.classifier((hidden * real).sum(1) / real.sum(1).clamp(min=1))


class {name}MeanForSequenceClassification(_Mean):
    def __init__(self, config):
        super().__init__(config, config.num_labels)

    def forward(
        self, input_ids, attention_mask=None, token_type_ids=None, position_ids=None, labels=None, **_
    ):
        logits = self.compute_logits(input_ids, attention_mask, token_type_ids, position_ids)
        if labels is None:
            return SequenceClassifierOutput(logits=logits)
        if self.config.problem_type == "regression":
            loss = functional.mse_loss(logits.squeeze(-1), labels.to(logits.dtype).view(-1))
        elif self.config.problem_type == "multi_label_classification":
            loss = functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        else:
            loss = functional.cross_entropy(logits, labels.view(-1))
        return SequenceClassifierOutput(loss=loss, logits=logits)


class {name}MeanForMultipleChoice(_Mean):
    def __init__(self, config):
        super().__init__(config, 1)

    def forward(
        self, input_ids, attention_mask=None, token_type_ids=None, position_ids=None, labels=None, **_
    ):
        rows, choices = input_ids.shape[:2]
        given = (input_ids, attention_mask, token_type_ids, position_ids)
        flat = (None if each is None else each.flatten(0, 1) for each in given)
        logits = self.compute_logits(*flat).view(rows, choices)
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return MultipleChoiceModelOutput(loss=loss, logits=logits)
'''


def build_modeling_code(prefix: str, head_location: HeadLocation) -> str | None:
    """Return the content of `MODELING_FILE` for a head that reads the mean; None if transformers has the class itself.
    `prefix` is the attribute of the encoder.
    """
    if not head_location.reads_mean:
        return None
    return _CODE_TEMPLATE.format(name=head_location.architecture.partition("MeanFor")[0], prefix=prefix)


def build_auto_map(head_location: HeadLocation) -> dict[str, str]:
    """Return the `auto_map` entry of config.json, by which transformers finds the class of this head in
    `MODELING_FILE`.
    """
    suffix = "For" + head_location.architecture.partition("MeanFor")[2]
    return {_AUTO[suffix]: f"{MODELING_FILE.removesuffix('.py')}.{head_location.architecture}"}
