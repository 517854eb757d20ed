"""Heads of fine-tuned encoders, as transformers has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from torch import Tensor

from heedful.errors import RunError
from heedful.tasks.origin import Head, HeadOf, Reading

_UNNAMED: Final = 2
"""Classes that transformers takes a model to have whose config.json says nothing of them."""
_MOST: Final = 1_000_000
_OWN_KEY: Final = "heedful"
"""Of config.json: what heedful itself wants to know, and transformers passes over."""
_OUTPUT: Final = "output."
_SUMMARY: Final = "encoder.summary."


@dataclass(frozen=True)
class Placed:
    """Where a head stands.

    Attributes:
        architecture: name of the class that has it.
        output: name of the map from what the encoder says to the outputs.
        reads_whole: whether the summary of the text is read, and not its tokens.
        reads_mean: whether the mean of its tokens is read.
        summary: name of the map that makes it of the first token, where it belongs to the head and not to the encoder.
    """

    architecture: str
    output: str
    reads_whole: bool = False
    summary: str | None = None
    reads_mean: bool = False


def _heads(name: str, whole: Placed) -> Mapping[HeadOf, Placed]:
    return {
        "class": whole,
        "number": whole,
        "candidate": Placed(f"{name}ForMultipleChoice", "classifier", reads_whole=True),
        "token": Placed(f"{name}ForTokenClassification", "classifier"),
        "ends": Placed(f"{name}ForQuestionAnswering", "qa_outputs"),
    }


HEADS: Final[Mapping[str, Mapping[HeadOf, Placed]]] = {
    "bert": _heads("Bert", Placed("BertForSequenceClassification", "classifier", reads_whole=True)),
    "roberta-prelayernorm": _heads(
        "RobertaPreLayerNorm",
        Placed("RobertaPreLayerNormForSequenceClassification", "classifier.out_proj", True, "classifier.dense"),
    ),
    "electra": {
        "token": Placed("ElectraForTokenClassification", "classifier"),
        "ends": Placed("ElectraForQuestionAnswering", "qa_outputs"),
    },
}
"""Of each family of encoders, by what a head is of."""


def _of_means(name: str) -> Mapping[HeadOf, Placed]:
    whole = Placed(f"{name}MeanForSequenceClassification", "classifier", reads_mean=True)
    return {
        "class": whole,
        "number": whole,
        "candidate": Placed(f"{name}MeanForMultipleChoice", "classifier", reads_mean=True),
    }


MEAN_HEADS: Final[Mapping[str, Mapping[HeadOf, Placed]]] = {
    "bert": _of_means("Bert"),
    "roberta-prelayernorm": _of_means("RobertaPreLayerNorm"),
}
"""The same of heads that read the mean of all tokens, classes of heedful's own."""


def place_of(kind: str, head: Head, tensors: Mapping[str, Tensor]) -> Placed:
    """Where a head of ours stands in a family, by what makes one vector of the text."""
    reads_mean = not any(name.startswith((_SUMMARY, "summary.", "hidden.")) for name in tensors)
    return (MEAN_HEADS if reads_mean and head.of in MEAN_HEADS.get(kind, {}) else HEADS)[kind][head.of]


def named_place(kind: str, head: Head, named: Sequence[str]) -> Placed:
    """Where the head of a folder stands that names these architectures."""
    both = (table[kind][head.of] for table in (HEADS, MEAN_HEADS) if head.of in table.get(kind, {}))
    return next(placed for placed in both if placed.architecture in named)


def head_of(kind: str, content: Mapping[str, Any], *, place: str) -> Head | None:
    """The head that a config.json speaks of; None where it names no architecture that has one.

    Args:
        kind: `model_type` of the family.
        content: of config.json.
        place: of that file, for messages.

    Raises:
        RunError: what it says of its classes does not fit, or is of a kind that heedful has not.
    """
    named = content.get("architectures") or []
    tables = (HEADS.get(kind, {}), MEAN_HEADS.get(kind, {}))
    found = [of for table in tables for of, placed in table.items() if placed.architecture in named]
    if not found:
        return None
    of, reading = found[0], _reading(content, place=place)
    if of in ("candidate", "ends"):
        return Head(of, reading=reading)
    names, problem = _names(content, place=place), content.get("problem_type")
    if of == "token":
        return Head("token", names, reading=reading)
    if problem == "regression" and len(names) > 1:
        raise RunError(
            f'{place}: problem_type = "regression" with {len(names)} outputs: heedful reads models that say one number '
            "of a text; take one with num_labels = 1"
        )
    if problem == "regression" or (problem is None and len(names) == 1):
        return Head("number", reading=reading)
    return Head("class", names, independent=problem == "multi_label_classification", reading=reading)


def read_head(
    head: Head, placed: Placed, tensors: Mapping[str, Tensor], *, place: str, width: int
) -> dict[str, Tensor]:
    """Our tensors of a head.

    Args:
        head: that the folder has.
        placed: where it stands.
        tensors: theirs.
        place: of the folder, for messages.
        width: of the hidden vectors.

    Raises:
        RunError: one is missing or has another size than there are classes.
    """
    wanted = {_OUTPUT: placed.output} | ({} if placed.summary is None else {f"{_SUMMARY}dense.": placed.summary})
    found: dict[str, Tensor] = {}
    for ours, theirs in wanted.items():
        for parameter in ("weight", "bias"):
            name = f"{theirs}.{parameter}"
            if name not in tensors:
                raise RunError(
                    f"{place}: holds no tensor {name}, which {placed.architecture} has; take a complete copy"
                )
            found[f"{ours}{parameter}"] = tensors[name]
    rows = {"ends": 2}.get(head.of, len(head.names) or 1)
    shape = tuple(found[f"{_OUTPUT}weight"].shape)
    if shape != (rows, width):
        raise RunError(
            f"{place}: {placed.output}.weight is {' x '.join(map(str, shape))} where config.json speaks of {rows} "
            f"outputs of {width} numbers; take another copy"
        )
    return found


def _reading(content: Mapping[str, Any], *, place: str) -> Reading:
    """What heedful has written of how texts are read; nothing in the folders of others."""
    try:
        return Reading.model_validate(content.get(_OWN_KEY, {}))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, (_OWN_KEY, *first["loc"])))
        raise RunError(f"{place}: {key}: {first['msg']}; export the model again, or take the key out") from None


def _names(content: Mapping[str, Any], *, place: str) -> tuple[str, ...]:
    """The classes in the order of their numbers, as transformers names those that nobody named."""
    given = content.get("id2label")
    if given is None:
        count = content.get("num_labels", content.get("_num_labels", _UNNAMED))
        if not isinstance(count, int) or not 1 <= count <= _MOST:
            raise RunError(f"{place}: num_labels = {count!r} is no number of classes; take another copy")
        return tuple(f"LABEL_{number}" for number in range(count))
    try:
        numbered = {int(number): name for number, name in given.items()}
        names = tuple(numbered[number] for number in range(len(given)))
    except (AttributeError, TypeError, ValueError, KeyError):
        names = ()
    if not names or not all(isinstance(name, str) and name for name in names) or len({*names}) < len(names):
        raise RunError(
            f"{place}: id2label does not give the numbers from 0 different names; mend it, or take another copy"
        )
    return names


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
            'token; train a model with model.summary.kind = "first" or "mean" and without model.d_hidden to export it'
        )
    of_head = (_OUTPUT,) if placed.summary is None else (_OUTPUT, _SUMMARY)
    return {name: each for name, each in tensors.items() if not name.startswith(of_head)}


def written_head(head: Head, placed: Placed, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What config.json says of the head, and its tensors."""
    content: dict[str, Any] = {"architectures": [placed.architecture]}
    if reading := head.reading.model_dump(exclude_none=True):
        content[_OWN_KEY] = reading
    if names := {"number": ("number",), "candidate": ("score",)}.get(head.of, head.names):
        content["id2label"] = {str(number): name for number, name in enumerate(names)}
        content["label2id"] = {name: number for number, name in enumerate(names)}
    if head.of in ("class", "number"):
        several = "multi_label_classification" if head.independent else "single_label_classification"
        content["problem_type"] = "regression" if head.of == "number" else several
    places = {_OUTPUT: placed.output, f"{_SUMMARY}dense.": placed.summary}
    theirs = {
        f"{place}.{name.removeprefix(ours)}": tensor.contiguous()
        for ours, place in places.items()
        for name, tensor in tensors.items()
        if place is not None and name.startswith(ours)
    }
    return content, theirs
