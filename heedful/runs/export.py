"""Trained models in the formats of other projects, Hugging Face, CTranslate2 and ONNX; adapters in that of PEFT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from heedful.architectures.model import TransformerConfig
from heedful.errors import RunError
from heedful.foreign.ctranslate2_export import Quantization, save_ctranslate2
from heedful.foreign.families.marian import MARIAN
from heedful.foreign.folders import is_hugging_face_folder
from heedful.foreign.hugging_face import build_from_origin, open_hugging_face
from heedful.foreign.hugging_face_export import save_hugging_face
from heedful.foreign.onnx_export import save_onnx
from heedful.foreign.peft import save_peft_adapter
from heedful.models.initialisation import skip_initialization
from heedful.runs.adapter_runs import (
    build_adapter,
    build_uninitialized_model,
    get_adapter,
    load_full_weights,
    read_adapter_file,
)
from heedful.runs.checkpoints import read_stored_weights
from heedful.runs.inference_copy import save_inference_copy
from heedful.runs.load import open_run, require_task
from heedful.runs.origin import open_origin
from heedful.tasks.portable_model import PortableModel
from heedful.tasks.task import Run


def export_hugging_face(run: str | Path, folder: str | Path, *, step: int | None = None) -> tuple[str, ...]:
    """Writes a model as a folder that `from_pretrained` of transformers reads, and heedful too.

    An encoder becomes BERT, with its head where it was fine-tuned (`BertForSequenceClassification`,
    `BertForMultipleChoice`, `BertForTokenClassification`, `BertForQuestionAnswering`; where the head reads the mean of
    all tokens, a class in a file beside, which needs `trust_remote_code=True`); one that finds replaced tokens
    becomes ELECTRA, with what replaced them in the folder `generator` inside; a pre-norm one becomes
    RoBERTa-PreLayerNorm likewise. A language model becomes GPT-2, or GPT-NeoX where its positions are rotary, a
    translation model Marian where they are sinusoidal and BART where they are learned. What they compute stays the
    same; the numbers are the same, up to their order. The vocabulary goes along: as transformers has it where that is
    exactly possible, and as heedful has it.

    Args:
        run: a run folder, or one of Hugging Face.
        folder: where to write; new or empty.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.

    Returns:
        What the other side cannot do with it, one sentence each.

    Raises:
        RunError: the run cannot be read, has something that the format has not, or `folder` holds something.
    """
    family = open_hugging_face(Path(run)).family if is_hugging_face_folder(Path(run)) else None
    return (
        *save_hugging_face(open_origin(Path(run), step=step), folder, family=family),
        *_describe_lost_pooling(Path(run)),
    )


def export_marian(run: str | Path, folder: str | Path, *, step: int | None = None) -> None:
    """Writes a translation run's model as a folder that `transformers.MarianMTModel.from_pretrained` reads.

    Subword models come with what `MarianTokenizer` needs; other tokenizers with vocab.json alone. What is given is as
    in `export_hugging_face`, but that there has to be a run.

    Raises:
        RunError: the run cannot be read, uses an option that Marian has not, or `folder` holds something.
    """
    _open_translation_run(Path(run), "MarianMT")
    save_hugging_face(open_origin(Path(run), step=step), folder, family=MARIAN)


def export_ctranslate2(
    run: str | Path, folder: str | Path, *, quantization: Quantization | None = None, step: int | None = None
) -> tuple[str, ...]:
    """Writes a Transformer as a folder that CTranslate2 reads; its tokens are our tokenizer's pieces.

    A translation model is for `ctranslate2.Translator`, a language model for `ctranslate2.Generator`, an encoder for
    `ctranslate2.Encoder`. The tokenizers go along: `source.spm` and `target.spm`, or `text.spm`, which sentencepiece
    reads; of other vocabularies `heedful.source` and so on, which `heedful.data.tokenizer_loading.load_tokenizer` reads.

    Positions that are computed are stored as a table, so texts may have up to 1,024 tokens. What is given and returned
    is as in `export_hugging_face`; weights are fp32 without `quantization`.

    Raises:
        RunError: the run cannot be read, uses an option that CTranslate2 has not, or `folder` holds something.
        MissingExtraError: ctranslate2 is not installed.
    """
    origin, model = _open_model(Path(run), step=step)
    return (
        *save_ctranslate2(origin, model, Path(folder), quantization=quantization),
        *_describe_lost_pooling(Path(run)),
    )


def export_onnx(run: str | Path, folder: str | Path, *, step: int | None = None) -> tuple[str, ...]:
    """Writes a Transformer as a folder of ONNX graphs, which ONNX Runtime and others compute.

    A translation model becomes `encoder.onnx`, `begin.onnx` and `step.onnx`, a language model `step.onnx`, an encoder
    `encoder.onnx` (with `masked.onnx` where it fills gaps), a fine-tuned one `classifier.onnx`. How many rows, how many
    tokens and how long the cache is may change from call to call; position -1 is no token. The tokenizers go along, and
    heedful.json says what a caller must know.

    What is given and returned is as in `export_hugging_face`; weights are fp32.

    Raises:
        RunError: the run cannot be read, uses an option that no graph can have, or `folder` holds something.
        MissingExtraError: onnx or onnxscript is not installed.
    """
    return (*save_onnx(*_open_model(Path(run), step=step), Path(folder)), *_describe_lost_pooling(Path(run)))


def export_peft(run: str | Path, folder: str | Path, *, step: int | None = None) -> tuple[str, ...]:
    """Writes the adapter of a run as a folder that PEFT reads: `PeftModel.from_pretrained(model, folder)`.

    The model is the one that was adapted, as transformers has it; a head that was learned beside the adapter goes
    along. What is given and returned is as in `export_hugging_face`.

    Raises:
        RunError: the run has no adapter with LoRA, cannot be read, or `folder` holds something.
    """
    adapter_file = None if is_hugging_face_folder(Path(run)) else read_adapter_file(Path(run))
    if adapter_file is None:
        raise RunError(f"{run}: has no adapter; leave --format away to export its model")
    origin, adapter_tensors = open_origin(Path(run), step=step), read_stored_weights(Path(run), step=step).dequantize()
    return save_peft_adapter(
        origin, build_adapter(adapter_file.adapter), adapter_tensors, Path(folder), base=str(adapter_file.base.folder)
    )


def export_merged(run: str | Path, folder: str | Path, *, step: int | None = None) -> None:
    """Writes a run with LoRA as one without: what was learned is added to the weights of the model that it adapts.

    The folder works as a run does, needs no other, and cannot be trained further, but begun from (`init`). What is
    given is as in `export_hugging_face`.

    Raises:
        RunError: the run has no adapter, or one that no weights can take in, cannot be read, or `folder` holds
            something.
    """
    opened = open_run(Path(run))
    adapter = get_adapter(opened.recipe)
    if adapter is None:
        raise RunError(f"{run}: has no adapter that could be merged, its weights are whole; leave --merge away")
    if adapter.keeps_modules:
        raise RunError(
            f"{run}: has bottlenecks, which compute what no weights of the model could; only an adapter of kind lora "
            "can be merged"
        )
    tensors = load_full_weights(opened.folder, step=step).dequantize()
    training = opened.recipe.training.model_copy(update={"adapter": None})
    recipe = opened.recipe.model_copy(update={"training": training})
    save_inference_copy(opened, tensors, Path(folder), use="export to", step=step, recipe=recipe)


def _describe_lost_pooling(folder: Path) -> tuple[str, ...]:
    """Whether a folder of sentence-transformers makes vectors of texts in a way that does not go along."""
    if not is_hugging_face_folder(folder) or open_hugging_face(folder).sentence_settings.uses_mean_pooling:
        return ()
    return ("how this folder makes one vector of a text's tokens is left out; means over them are other vectors",)


def _open_model(folder: Path, *, step: int | None) -> tuple[PortableModel, nn.Module]:
    """The model in a folder, and a module that has a parameter for each of its tensors, of any value."""
    origin = open_origin(folder, step=step)
    with skip_initialization():
        return origin, build_from_origin(origin) if is_hugging_face_folder(folder) else build_uninitialized_model(
            open_run(folder)
        )


def _open_translation_run(folder: Path, name: str) -> Run[Any, Any]:
    """A run of translation with a Transformer."""
    run = open_run(folder)
    require_task(run, "translation")
    model = run.recipe.model
    if not isinstance(model, TransformerConfig):
        raise RunError(
            f"model.kind = {model.kind}: {name} has only transformer; train a model of that kind to export it"
        )
    return run
