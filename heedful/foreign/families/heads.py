"""Heads of fine-tuned encoders, as transformers has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from heedful.errors import RunError
from heedful.tasks.origin import Head

_OUTPUT: Final = "output."
_SUMMARY: Final = "encoder.summary."


@dataclass(frozen=True)
class Placed:
    """Where a head stands.

    Attributes:
        architecture: name of the class that has it.
        output: name of the map from what the encoder says to the outputs.
        reads_whole: whether the summary of the text is read, and not its tokens.
        summary: name of the map that makes it of the first token, where it belongs to the head and not to the encoder.
    """

    architecture: str
    output: str
    reads_whole: bool = False
    summary: str | None = None


def _heads(name: str, whole: Placed) -> Mapping[str, Placed]:
    return {
        "class": whole,
        "number": whole,
        "candidate": Placed(f"{name}ForMultipleChoice", "classifier", reads_whole=True),
        "token": Placed(f"{name}ForTokenClassification", "classifier"),
        "ends": Placed(f"{name}ForQuestionAnswering", "qa_outputs"),
    }


HEADS: Final[Mapping[str, Mapping[str, Placed]]] = {
    "bert": _heads("Bert", Placed("BertForSequenceClassification", "classifier", reads_whole=True)),
    "roberta-prelayernorm": _heads(
        "RobertaPreLayerNorm",
        Placed("RobertaPreLayerNormForSequenceClassification", "classifier.out_proj", True, "classifier.dense"),
    ),
}
"""Of each family of encoders, by what a head is of."""


def without_head(placed: Placed, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Ours without the outputs, and without a summary that nothing reads.

    Raises:
        RunError: the model makes one vector of a text as the format does not.
    """
    if not placed.reads_whole:
        return {name: each for name, each in tensors.items() if not name.startswith((_OUTPUT, _SUMMARY))}
    first_token = any(name.startswith(_SUMMARY) for name in tensors)
    if not first_token or any(name.startswith(("summary.", "hidden.")) for name in tensors):
        raise RunError(
            f"model.summary, model.d_hidden: {placed.architecture} classifies what one map says of the first "
            'token; train a model with model.summary.kind = "first" and without model.d_hidden to export it'
        )
    of_head = (_OUTPUT,) if placed.summary is None else (_OUTPUT, _SUMMARY)
    return {name: each for name, each in tensors.items() if not name.startswith(of_head)}


def written_head(head: Head, placed: Placed, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What config.json says of the head, and its tensors."""
    content: dict[str, Any] = {"architectures": [placed.architecture]}
    if names := {"number": ("number",), "candidate": ("score",)}.get(head.of, head.names):
        content["id2label"] = {str(number): name for number, name in enumerate(names)}
        content["label2id"] = {name: number for number, name in enumerate(names)}
    if head.of in ("class", "number"):
        content["problem_type"] = "regression" if head.of == "number" else "single_label_classification"
    places = {_OUTPUT: placed.output, f"{_SUMMARY}dense.": placed.summary}
    theirs = {
        f"{place}.{name.removeprefix(ours)}": tensor.contiguous()
        for ours, place in places.items()
        for name, tensor in tensors.items()
        if place is not None and name.startswith(ours)
    }
    return content, theirs
