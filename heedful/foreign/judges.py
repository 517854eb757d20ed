"""Folders that hold a judge of translations, and what lies in folders that hold none which heedful opens."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final, final

import torch
from torch import Tensor, nn

from heedful.data.batches import paired_tokens
from heedful.data.sequences import Joined, frame
from heedful.data.tokenizers import Tokenizer
from heedful.engines.arrange import arranged
from heedful.errors import RecipeError, RunError
from heedful.foreign.families.bert import BERT
from heedful.foreign.families.heads import HEADS
from heedful.foreign.folders import CONFIG, is_hugging_face
from heedful.foreign.hugging_face import HuggingFaceFolder, build, open_hugging_face, read_tensors, weight_files
from heedful.foreign.vocabularies import read_json_if_there
from heedful.metrics.judge import Judge, Judgement
from heedful.models.encoders import TransformerEncoder
from heedful.models.initialisation import unfilled
from heedful.models.text_classifier import TextClassifier
from heedful.store import MANIFEST, digest
from heedful.tasks.faces import at_once, in_batches
from heedful.tasks.origin import Origin
from heedful.values import move

_SIGNED: Final = 12
"""Letters of a sha256 in a signature."""
_LEAST: Final = 5
"""Tokens that a judge must read: one of each text, begin and ends."""
_WANTED: Final = "a BertForSequenceClassification with one output, as config.json, model.safetensors and vocabulary"


def open_judge(folder: Path, *, device: torch.device) -> Judge:
    """The judge in a folder.

    Raises:
        RecipeError: there is no such folder.
        RunError: it holds no judge that heedful opens, or a damaged one.
        MissingExtraError: its vocabulary needs a package that is not installed.
    """
    if not folder.is_dir():
        raise RecipeError(f"{folder}: there is no such folder; name one that holds a judge, {_WANTED}")
    for kind in KINDS:
        if kind.holds(folder):
            return kind.open(folder, device=device)
    raise RunError(f"{folder}: holds no judge; take a folder with {_WANTED}")


class JudgeFolder(ABC):
    """A kind of folder that somebody may take for one with a judge."""

    @abstractmethod
    def holds(self, folder: Path) -> bool:
        """Whether a folder is of this kind."""

    @abstractmethod
    def open(self, folder: Path, *, device: torch.device) -> Judge:
        """The judge in such a folder; `RunError` where it cannot be opened."""


@final
@dataclass(frozen=True)
class Unopened(JudgeFolder):
    """What heedful does not open.

    Attributes:
        marks: files of which such a folder has one.
        told: what it is, and what to do instead.
    """

    marks: tuple[str, ...]
    told: str

    def holds(self, folder: Path) -> bool:
        """By the names of its files."""
        return any((folder / mark).exists() for mark in self.marks)

    def open(self, folder: Path, *, device: torch.device) -> Judge:
        """Nothing; tells why."""
        raise RunError(f"{folder}: {self.told}")


@final
class Regression(JudgeFolder):
    """A `BertForSequenceClassification` with one output, as transformers keeps it."""

    def holds(self, folder: Path) -> bool:
        """As its config.json says."""
        return is_hugging_face(folder)

    def open(self, folder: Path, *, device: torch.device) -> RegressionJudge:
        """With the weights as they are, in single precision."""
        opened, config, placed = open_hugging_face(folder), folder / CONFIG, HEADS[BERT.model_type]["number"]
        if opened.family is not BERT:
            raise RunError(
                f"{config}: model_type = {opened.family.model_type!r}: judges are of {BERT.model_type!r}; take "
                + _WANTED
            )
        named = opened.content.get("architectures") or [placed.architecture]
        if placed.architecture not in named:
            raise RunError(f"{config}: architectures = {named!r}: that is no judge; take {_WANTED}")
        tensors = read_tensors(folder, auto="AutoModelForSequenceClassification")
        output = {parameter: f"{placed.output}.{parameter}" for parameter in ("weight", "bias")}
        if missing := [name for name in output.values() if name not in tensors]:
            raise RunError(f"{folder}: holds no tensor {missing[0]}, which makes a number of a text; take {_WANTED}")
        origin = opened.made_of(tensors)
        head = {f"output.{parameter}": tensors[name] for parameter, name in output.items()}
        model, tokenizer, longest = _ready(origin, head, device=device), origin.tokenizer, _longest(opened)
        assert isinstance(tokenizer, Tokenizer), "an encoder reads one language"
        name = folder.resolve().name
        signs = {
            "kind": "bert-regression",
            "model": name,
            "weights": _sha256(weight_files(folder))[:_SIGNED],
            "vocabulary": tokenizer.sha256[:_SIGNED],
            "reads": "reference+candidate",
            "tokens": longest,
        }
        return RegressionJudge(
            model,
            tokenizer=tokenizer,
            longest=longest,
            place=folder,
            name=name,
            signature="|".join(f"{key}:{value}" for key, value in signs.items()),
        )


KINDS: Final[tuple[JudgeFolder, ...]] = (
    Regression(),
    Unopened(
        ("hparams.yaml", "checkpoints/model.ckpt", "model.ckpt"),
        "is a model of COMET, whose weights are pickled, and opening them may run a program; keep the translations "
        "with heedful evaluate --output and score them with comet-score, which the package unbabel-comet has",
    ),
    Unopened(
        ("bleurt_config.json", "saved_model.pb"),
        f"is a model of TensorFlow; take one that was converted to {_WANTED}",
    ),
    Unopened((MANIFEST,), "is a run of heedful; write it with heedful export, and name that folder"),
)
"""The first that holds a folder opens it, or says why not."""


@final
@dataclass(frozen=True, eq=False)
class RegressionJudge(Judge):
    """An encoder reads a reference and a candidate behind it; a map of what it says of both is the score.

    That is BLEURT's way (Sellam, Das and Parikh 2020, section 3).

    Attributes:
        model: in evaluation mode.
        tokenizer: that it was trained with.
        longest: tokens of both that it reads, begin and ends included.
        place: where it is from, for messages.
        name: of the folder.
        signature: with a sha256 of the weights and one of the vocabulary.
    """

    model: TextClassifier
    _: KW_ONLY
    tokenizer: Tokenizer
    longest: int
    place: Path
    name: str
    signature: str

    def judge(self, *, sources: Sequence[str], candidates: Sequence[str], references: Sequence[str]) -> Judgement:
        """Of what is too long, the longer of both loses its end."""
        assert len(sources) == len(candidates), "each source has its translation"
        sides = zip(references, candidates, strict=True)
        rows = [frame(self.tokenizer, pair, max_length=self.longest) for pair in sides]
        said = in_batches(rows, self._scores, size=lambda row: len(row.ids), tokens=at_once(self.model))
        for number, score in enumerate(said, 1):
            if not math.isfinite(score):
                raise RunError(f"{self.place}: says {score} of sentence {number}, which is no score; take another copy")
        return Judgement(tuple(said), sum(row.cut > 0 for row in rows))

    def _scores(self, rows: list[Joined]) -> list[float]:
        tokens = paired_tokens([row.ids for row in rows], [row.segments.count(0) for row in rows])
        hidden = self.model(move(tokens, self.model.output.weight.device))
        scores: list[float] = self.model.output(hidden).squeeze(1).float().tolist()
        return scores


def _ready(origin: Origin, head: dict[str, Tensor], *, device: torch.device) -> TextClassifier:
    """Encoder and output; without heads of pre-training that may be there too."""
    place, weight = str(origin.folder), head["output.weight"]
    size = origin.model.d_model
    if (outputs := weight.numel() // size) != 1:
        raise RunError(f"{place}: its classifier has {outputs} outputs, and a judge has one; take {_WANTED}")
    if "encoder.summary.dense.weight" not in origin.tensors:
        raise RunError(f"{place}: holds no tensor bert.pooler.dense.weight; take a complete copy of this model")
    with unfilled():
        encoder = build(origin).get_submodule("encoder")
        assert isinstance(encoder, TransformerEncoder)
        model = TextClassifier(encoder, output=nn.Linear(size, 1))
    tensors = {name: tensor for name, tensor in origin.tensors.items() if name.startswith("encoder.")}
    arranged(model, {**tensors, **head}, engine=None, device=device, place=place)
    return model


def _longest(opened: HuggingFaceFolder) -> int:
    """What its positions are enough for, or fewer where its tokenizer stops before; `RunError` where that is none."""
    path = opened.folder / "tokenizer_config.json"
    told = read_json_if_there(path).get("model_max_length", opened.longest)
    if not isinstance(told, int | float) or not told >= _LEAST:
        raise RunError(f"{path}: model_max_length = {told!r}: a judge reads at least {_LEAST} tokens; mend the file")
    return int(min(told, opened.longest))


def _sha256(files: Sequence[Path]) -> str:
    """Of the one file, or of what `sha256sum` says of several."""
    if len(files) == 1:
        return digest(files[0])
    lines = "".join(f"{digest(file)}  {file.name}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()
