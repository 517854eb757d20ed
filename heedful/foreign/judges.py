"""Loading of learned translation metrics (BLEURT-like regression models), with messages for folders that cannot be
opened.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final, final

import torch
from torch import Tensor, nn

from heedful.atomic_io import MANIFEST, compute_digest
from heedful.data.batches import to_segmented_tokens
from heedful.data.encoder_inputs import EncoderInput, encode_texts
from heedful.data.tokenizers import Tokenizer
from heedful.engines.select_engine import prepare_for_inference
from heedful.errors import RecipeError, RunError
from heedful.foreign.families.bert import BERT
from heedful.foreign.folders import CONFIG_FILE, is_hugging_face_folder
from heedful.foreign.hugging_face import (
    build_from_origin,
    open_hugging_face,
)
from heedful.foreign.safetensors_files import list_weight_files, read_folder_tensors
from heedful.metrics.judge import JudgeScores, TranslationJudge
from heedful.models.heads import TextClassifier
from heedful.models.parameters import skip_initialization
from heedful.models.transformer import TransformerEncoder
from heedful.tasks.portable_model import PortableModel
from heedful.tasks.predictor import default_batch_tokens, run_batched
from heedful.tensors import move_to_device

_DIGEST_LENGTH: Final = 12
"""Number of hexadecimal digits of a SHA-256 in a signature."""
_EXPECTED_FOLDER: Final = (
    "a BertForSequenceClassification with one output, as config.json, model.safetensors and vocabulary"
)


_UNSUPPORTED_FOLDERS: Final[Mapping[tuple[str, ...], str]] = {
    ("hparams.yaml", "checkpoints/model.ckpt", "model.ckpt"): (
        "is a COMET model with pickled weights, and opening them may run a program; save the translations with "
        "heedful evaluate --output and score them with comet-score of the package unbabel-comet"
    ),
    (
        "bleurt_config.json",
        "saved_model.pb",
    ): f"is a TensorFlow model; take one that was converted to {_EXPECTED_FOLDER}",
    (MANIFEST,): "is a run of heedful; write it with heedful export, and name that folder",
}
"""Folders that are recognised but cannot be opened, by files of which one is there: what they are, and what to do."""


def open_judge(folder: Path, *, device: torch.device) -> TranslationJudge:
    """Open the learned translation metric in a folder.

    Raises:
        RecipeError: there is no such folder.
        RunError: it does not hold a judge that heedful can open, or the judge is damaged.
        MissingExtraError: its vocabulary needs a package that is not installed.
    """
    if not folder.is_dir():
        raise RecipeError(f"{folder}: there is no such folder; name one that contains a judge, {_EXPECTED_FOLDER}")
    if is_hugging_face_folder(folder):
        return _open_regression_judge(folder, device=device)
    for files, explanation in _UNSUPPORTED_FOLDERS.items():
        if any((folder / file).exists() for file in files):
            raise RunError(f"{folder}: {explanation}")
    raise RunError(f"{folder}: does not contain a judge; take a folder with {_EXPECTED_FOLDER}")


def _open_regression_judge(folder: Path, *, device: torch.device) -> RegressionJudge:
    """Open a `BertForSequenceClassification` with one output, in single precision."""
    opened, config, head_location = open_hugging_face(folder), folder / CONFIG_FILE, BERT.heads.locations["number"]
    if opened.family is not BERT:
        raise RunError(
            f"{config}: model_type = {opened.family.model_type!r}: judges have {BERT.model_type!r}; take "
            + _EXPECTED_FOLDER
        )
    architectures = opened.content.get("architectures") or [head_location.architecture]
    if head_location.architecture not in architectures:
        raise RunError(f"{config}: architectures = {architectures!r}: this is not a judge; take {_EXPECTED_FOLDER}")
    tensors = read_folder_tensors(folder, auto_class="AutoModelForSequenceClassification")
    output = {parameter: f"{head_location.output}.{parameter}" for parameter in ("weight", "bias")}
    if missing := [name for name in output.values() if name not in tensors]:
        raise RunError(
            f"{folder}: does not contain tensor {missing[0]}, which turns a text into a number; take {_EXPECTED_FOLDER}"
        )
    origin = opened.build_origin(tensors)
    head = {f"output.{parameter}": tensors[name] for parameter, name in output.items()}
    model = _load_regression_model(origin, head, device=device)
    tokenizer, max_tokens = origin.tokenizer, opened.read_max_text_length(reader="a judge reads")
    assert isinstance(tokenizer, Tokenizer), "an encoder reads one language"
    name = folder.resolve().name
    fields = {
        "kind": "bert-regression",
        "model": name,
        "weights": _hash_files(list_weight_files(folder))[:_DIGEST_LENGTH],
        "vocabulary": tokenizer.sha256[:_DIGEST_LENGTH],
        "reads": "reference+candidate",
        "tokens": max_tokens,
    }
    return RegressionJudge(
        model,
        tokenizer=tokenizer,
        max_tokens=max_tokens,
        path=folder,
        name=name,
        signature="|".join(f"{key}:{value}" for key, value in fields.items()),
    )


@final
@dataclass(frozen=True, eq=False)
class RegressionJudge(TranslationJudge):
    """A BLEURT-style metric (Sellam, Das and Parikh 2020, section 3): an encoder reads a reference and a candidate,
    and a linear layer gives the score.

    Attributes:
        model: in evaluation mode.
        tokenizer: of the model.
        max_tokens: maximum number of tokens of both texts, begin and ends included.
        path: of the folder, for messages.
        name: of the folder.
        signature: contains a SHA-256 of the weights and one of the vocabulary.
    """

    model: TextClassifier
    _: KW_ONLY
    tokenizer: Tokenizer
    max_tokens: int
    path: Path
    name: str
    signature: str

    def score_translations(
        self, *, sources: Sequence[str], candidates: Sequence[str], references: Sequence[str]
    ) -> JudgeScores:
        """Score each candidate against its reference; the longer text of a pair that is too long is truncated. The
        sources are not read.
        """
        assert len(sources) == len(candidates), "each source has its translation"
        pairs = zip(references, candidates, strict=True)
        rows = [encode_texts(self.tokenizer, pair, max_length=self.max_tokens) for pair in pairs]
        scores = run_batched(
            rows, self._compute_scores, size=lambda row: len(row.ids), batch_tokens=default_batch_tokens(self.model)
        )
        for number, score in enumerate(scores, 1):
            if not math.isfinite(score):
                raise RunError(
                    f"{self.path}: gives {score} for sentence {number}, which is not a score; take another copy"
                )
        return JudgeScores(tuple(scores), sum(row.num_truncated > 0 for row in rows))

    def _compute_scores(self, rows: list[EncoderInput]) -> list[float]:
        """Score one batch of rows, each a reference and a candidate joined into one input."""
        tokens = to_segmented_tokens([row.ids for row in rows], [row.segments.count(0) for row in rows])
        hidden = self.model(move_to_device(tokens, self.model.output.weight.device))
        scores: list[float] = self.model.output(hidden).squeeze(1).float().tolist()
        return scores


def _load_regression_model(origin: PortableModel, head: dict[str, Tensor], *, device: torch.device) -> TextClassifier:
    """Build the encoder that `origin` describes with an output layer and load the weights; `head` has those of the
    output layer. Raise RunError if there are several outputs, or no summary layer.
    """
    location, weight = str(origin.folder), head["output.weight"]
    size = origin.model.d_model
    if (outputs := weight.numel() // size) != 1:
        raise RunError(
            f"{location}: its classifier has {outputs} outputs, and a judge has one; take {_EXPECTED_FOLDER}"
        )
    if "encoder.summary.dense.weight" not in origin.tensors:
        raise RunError(
            f"{location}: does not contain tensor bert.pooler.dense.weight; take a complete copy of this model"
        )
    with skip_initialization():
        encoder = build_from_origin(origin).get_submodule("encoder")
        assert isinstance(encoder, TransformerEncoder)
        model = TextClassifier(encoder, output=nn.Linear(size, 1))
    tensors = {name: tensor for name, tensor in origin.tensors.items() if name.startswith("encoder.")}
    prepare_for_inference(model, {**tensors, **head}, engine=None, device=device, origin=location)
    return model


def _hash_files(files: Sequence[Path]) -> str:
    """Return the SHA-256 of one file; for several, that of the list of digests and names that `sha256sum` prints."""
    if len(files) == 1:
        return compute_digest(files[0])
    lines = "".join(f"{compute_digest(file)}  {file.name}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()
