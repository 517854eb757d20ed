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
    """

    architecture: str
    output: str
    reads_whole: bool


HEADS: Final[Mapping[str, Placed]] = {
    "class": Placed("BertForSequenceClassification", "classifier", True),
    "number": Placed("BertForSequenceClassification", "classifier", True),
    "candidate": Placed("BertForMultipleChoice", "classifier", True),
    "token": Placed("BertForTokenClassification", "classifier", False),
    "ends": Placed("BertForQuestionAnswering", "qa_outputs", False),
}
"""Of BERT, by what a head is of."""


def without_head(head: Head, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Ours without the outputs, and without a summary that nothing reads.

    Raises:
        RunError: the model makes one vector of a text as the format does not.
    """
    if not HEADS[head.of].reads_whole:
        return {name: each for name, each in tensors.items() if not name.startswith((_OUTPUT, _SUMMARY))}
    first_token = any(name.startswith(_SUMMARY) for name in tensors)
    if not first_token or any(name.startswith(("summary.", "hidden.")) for name in tensors):
        raise RunError(
            f"model.summary, model.d_hidden: {HEADS[head.of].architecture} classifies what one map says of the first "
            'token; train a model with model.summary.kind = "first" and without model.d_hidden to export it'
        )
    return {name: each for name, each in tensors.items() if not name.startswith(_OUTPUT)}


def written_head(head: Head, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What config.json says of the head, and its tensors."""
    placed = HEADS[head.of]
    content: dict[str, Any] = {"architectures": [placed.architecture]}
    if names := {"number": ("number",), "candidate": ("score",)}.get(head.of, head.names):
        content["id2label"] = {str(number): name for number, name in enumerate(names)}
        content["label2id"] = {name: number for number, name in enumerate(names)}
    if head.of in ("class", "number"):
        content["problem_type"] = "regression" if head.of == "number" else "single_label_classification"
    theirs = {
        f"{placed.output}.{name.removeprefix(_OUTPUT)}": tensor.contiguous()
        for name, tensor in tensors.items()
        if name.startswith(_OUTPUT)
    }
    return content, theirs
