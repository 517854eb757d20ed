"""Trained models in the formats of other projects: those of Hugging Face, and CTranslate2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heedful.architectures.model import TransformerConfig
from heedful.errors import RunError
from heedful.foreign.ctranslate2_export import Quantization, save_ctranslate2
from heedful.foreign.families.marian import MARIAN
from heedful.foreign.folders import is_hugging_face
from heedful.foreign.hugging_face import build
from heedful.foreign.hugging_face_export import save_hugging_face
from heedful.models.initialisation import unfilled
from heedful.runs.load import open_run, require_task
from heedful.runs.origin import open_origin
from heedful.tasks.kind import Run


def export_hugging_face(run: str | Path, folder: str | Path, *, step: int | None = None) -> tuple[str, ...]:
    """Writes a model as a folder that `from_pretrained` of transformers reads, and heedful too.

    An encoder becomes BERT, with its head where it was fine-tuned (`BertForSequenceClassification`,
    `BertForMultipleChoice`, `BertForTokenClassification`, `BertForQuestionAnswering`); a pre-norm one becomes
    RoBERTa-PreLayerNorm likewise, a language model GPT-2, a translation model Marian where its positions are sinusoidal
    and BART where they are learned. What they compute stays the same; the numbers are the same, up to their order. The
    vocabulary goes along: as transformers has it where that is exactly possible, and as heedful has it.

    Args:
        run: a run folder, or one of Hugging Face.
        folder: where to write; new or empty.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.

    Returns:
        What the other side cannot do with it, one sentence each.

    Raises:
        RunError: the run cannot be read, has something that the format has not, or `folder` holds something.
    """
    return save_hugging_face(open_origin(Path(run), step=step), folder)


def export_marian(run: str | Path, folder: str | Path, *, step: int | None = None) -> None:
    """Writes a translation run's model as a folder that `transformers.MarianMTModel.from_pretrained` reads.

    Subword models come with what `MarianTokenizer` needs; other tokenizers with vocab.json alone. What is given is as
    in `export_hugging_face`, but that there has to be a run.

    Raises:
        RunError: the run cannot be read, uses an option that Marian has not, or `folder` holds something.
    """
    _translating(Path(run), "MarianMT")
    save_hugging_face(open_origin(Path(run), step=step), folder, family=MARIAN)


def export_ctranslate2(
    run: str | Path, folder: str | Path, *, quantization: Quantization | None = None, step: int | None = None
) -> tuple[str, ...]:
    """Writes a Transformer as a folder that CTranslate2 reads; its tokens are our tokenizer's pieces.

    A translation model is for `ctranslate2.Translator`, a language model for `ctranslate2.Generator`, an encoder for
    `ctranslate2.Encoder`. The tokenizers go along: `source.spm` and `target.spm`, or `text.spm`, which sentencepiece
    reads; of other vocabularies `heedful.source` and so on, which `heedful.data.tokenizer_files.load_tokenizer` reads.

    Positions that are computed are stored as a table, so texts may have up to 1,024 tokens. What is given and returned
    is as in `export_hugging_face`; weights are fp32 without `quantization`.

    Raises:
        RunError: the run cannot be read, uses an option that CTranslate2 has not, or `folder` holds something.
        MissingExtraError: ctranslate2 is not installed.
    """
    origin = open_origin(Path(run), step=step)
    with unfilled():
        model = build(origin) if is_hugging_face(Path(run)) else open_run(Path(run)).model()
    return save_ctranslate2(origin, model, Path(folder), quantization=quantization)


def _translating(folder: Path, name: str) -> Run[Any, Any]:
    """A run of translation with a Transformer."""
    run = open_run(folder)
    require_task(run, "translation")
    model = run.recipe.model
    if not isinstance(model, TransformerConfig):
        raise RunError(
            f"model.kind = {model.kind}: {name} has only transformer; train a model of that kind to export it"
        )
    return run
