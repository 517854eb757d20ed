"""Export of a trained run to other formats, and quantization of its weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from heedful.architectures.frames import FrameTransformerConfig
from heedful.architectures.model import TransformerConfig
from heedful.architectures.vision import VisionTransformerConfig
from heedful.argument_checks import require_path
from heedful.atomic_io import load_parameters
from heedful.data.pretrained_tokenizers import HuggingFaceTokenizer, PretrainedTokenizer
from heedful.data.sound import PaddedLogMel
from heedful.data.vocabulary_trimming import find_needed_ids, trim_tokenizer
from heedful.data.word_vectors import is_same_vocabulary
from heedful.engines.int8_weights import quantize_weights
from heedful.errors import DataError, RunError
from heedful.foreign.ctranslate2_export import Quantization, save_ctranslate2
from heedful.foreign.families.marian import MARIAN
from heedful.foreign.folders import is_hugging_face_folder
from heedful.foreign.hugging_face import build_from_origin, open_hugging_face
from heedful.foreign.hugging_face_export import save_hugging_face
from heedful.foreign.onnx_export import save_onnx
from heedful.foreign.peft import save_peft_adapter
from heedful.foreign.picture_folders import PictureFolder, PictureModel, save_picture_model
from heedful.foreign.speech_folders import SpeechFolder, SpeechModel, save_speech_model
from heedful.models.model_size import build_without_memory
from heedful.models.parameters import skip_initialization
from heedful.runs.adapter_runs import (
    build_adapter,
    build_uninitialized_model,
    get_adapter,
    load_full_weights,
    read_adapter_file,
)
from heedful.runs.checkpoints import read_stored_weights
from heedful.runs.load import open_run, require_task, save_inference_copy
from heedful.runs.resolve import build_origin, open_origin
from heedful.tasks.portable_model import PortableModel


def export_hugging_face(run: str | Path, folder: str | Path, *, step: int | None = None) -> tuple[str, ...]:
    """Write a model as a folder that `from_pretrained` of transformers can load, and heedful too; return its
    limitations. `step` selects a kept checkpoint of the run instead of the finished model.

    An encoder becomes BERT, with its head if it was fine-tuned (`BertForSequenceClassification`,
    `BertForMultipleChoice`, `BertForTokenClassification`, `BertForQuestionAnswering`; if the head reads the mean of all
    tokens, a class in a file next to the weights, which needs `trust_remote_code=True`). An encoder that detects
    replaced tokens becomes ELECTRA, with its generator in the subfolder `generator`; a pre-norm encoder becomes
    RoBERTa-PreLayerNorm in the same way. Any other model becomes the first family of
    `heedful.foreign.families.registry` that supports it: an encoder RoBERTa, ELECTRA, ALBERT, DistilBERT or MPNet, a
    language model GPT-2, OPT, GPT-NeoX, Llama, Mistral or Qwen, a translation model Marian, BART, mBART, M2M100,
    Pegasus or T5, a vision transformer of the task glimpses ViT with its classifier (`ViTForImageClassification`). A
    folder of Whisper is written again. The exported model computes the same numbers, up to the order of additions. The
    vocabulary is written in the format of transformers where an exact conversion is possible, and in heedful's own
    format.

    Args:
        run: a run folder, or a Hugging Face folder.
        folder: the folder to write; new or empty.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.

    Returns:
        Limitations of the exported model, one sentence each.

    Raises:
        RunError: the run cannot be read, uses a feature that the format does not support, or `folder` is not empty.
    """
    path = Path(run)
    if (picture_model := _open_picture_model(path, step=step)) is not None:
        save_picture_model(picture_model, folder)
        return ()
    if (speech_model := _open_speech_model(path, step=step)) is not None:
        save_speech_model(speech_model, folder)
        return ()
    opened = open_hugging_face(path) if is_hugging_face_folder(path) else None
    family = None if opened is None else opened.family
    exact = family is not None and step is None
    origin = open_hugging_face(path).exact_origin if exact else open_origin(path, step=step)
    return (*save_hugging_face(origin, folder, family=family), *_describe_lost_pooling(path))


def export_marian(run: str | Path, folder: str | Path, *, step: int | None = None) -> None:
    """Write the model of a translation run as a folder that `transformers.MarianMTModel.from_pretrained` can load;
    `step` selects a kept checkpoint instead of the finished model.

    Subword models come with the files that `MarianTokenizer` needs; other tokenizers only with vocab.json. The
    arguments are those of `export_hugging_face`, but `run` must be a run of heedful.

    Raises:
        RunError: the run cannot be read, uses an option that Marian does not support, or `folder` is not empty.
    """
    opened = open_run(Path(run))
    require_task(opened, "translation")
    if not isinstance(opened.recipe.model, TransformerConfig):
        raise RunError(
            f"model.kind = {opened.recipe.model.kind}: MarianMT supports only transformer; train a model of that kind "
            "to export it"
        )
    save_hugging_face(build_origin(opened, step=step), folder, family=MARIAN)


def export_ctranslate2(
    run: str | Path, folder: str | Path, *, quantization: Quantization | None = None, step: int | None = None
) -> tuple[str, ...]:
    """Write a Transformer as a folder that CTranslate2 can load, with quantized weights if `quantization` is given, and
    return its limitations. `step` selects a kept checkpoint instead of the finished model.

    A translation model is for `ctranslate2.Translator`, a language model for `ctranslate2.Generator`, an encoder for
    `ctranslate2.Encoder`; its tokens are the pieces of our tokenizer. The tokenizers are written too: `source.spm` and
    `target.spm`, or `text.spm`, which sentencepiece reads; other vocabularies as `heedful.source` and so on, which
    `heedful.data.tokenizer_files.load_tokenizer` reads.

    Computed positions are stored as a table, so texts may have up to 1,024 tokens. Arguments and return value are
    those of `export_hugging_face`; weights are fp32 without `quantization`.

    Raises:
        RunError: the run cannot be read, uses an option that CTranslate2 does not support, or `folder` is not empty.
        MissingExtraError: ctranslate2 is not installed.
    """
    origin, model = _open_model(Path(run), step=step)
    return (
        *save_ctranslate2(origin, model, Path(folder), quantization=quantization),
        *_describe_lost_pooling(Path(run)),
    )


def export_onnx(run: str | Path, folder: str | Path, *, step: int | None = None) -> tuple[str, ...]:
    """Write a Transformer as a folder of ONNX graphs for ONNX Runtime and other runtimes, and return its limitations.
    `step` selects a kept checkpoint instead of the finished model.

    A translation model becomes `encoder.onnx`, `begin.onnx` and `step.onnx`, a language model `step.onnx`, an encoder
    `encoder.onnx` (with `masked.onnx` if it fills gaps), a fine-tuned encoder `classifier.onnx`. The numbers of rows
    and tokens and the length of the cache may change from call to call; position -1 marks padding. The tokenizers are
    written too, and heedful.json describes what a caller must know.

    Arguments and return value are those of `export_hugging_face`; weights are fp32.

    Raises:
        RunError: the run cannot be read, uses an option that a graph cannot have, or `folder` is not empty.
        MissingExtraError: onnx or onnxscript is not installed.
    """
    return (*save_onnx(*_open_model(Path(run), step=step), Path(folder)), *_describe_lost_pooling(Path(run)))


def export_peft(run: str | Path, folder: str | Path, *, step: int | None = None) -> tuple[str, ...]:
    """Write the adapter of a run as a folder that PEFT can load: `PeftModel.from_pretrained(model, folder)`; return its
    limitations. `step` selects a kept checkpoint instead of the finished adapter.

    The model is the adapted one, as transformers has it; a head that was trained together with the adapter is written
    too. Arguments and return value are those of `export_hugging_face`.

    Raises:
        RunError: the run has no LoRA adapter, cannot be read, or `folder` is not empty.
    """
    adapter_file = None if is_hugging_face_folder(Path(run)) else read_adapter_file(Path(run))
    if adapter_file is None:
        raise RunError(f"{run}: has no adapter; leave out --format to export its model")
    origin, adapter_tensors = open_origin(Path(run), step=step), read_stored_weights(Path(run), step=step).dequantize()
    return save_peft_adapter(
        origin, build_adapter(adapter_file.adapter), adapter_tensors, Path(folder), base=str(adapter_file.base.folder)
    )


def export_merged(run: str | Path, folder: str | Path, *, step: int | None = None) -> None:
    """Write a run with LoRA as a run without an adapter: the LoRA matrices are added to the weights of the base model.
    `step` selects a kept checkpoint instead of the finished adapter.

    The new folder works like a run and needs no other folder; it cannot be trained further, but other runs can start
    from it (`init`). The arguments are those of `export_hugging_face`.

    Raises:
        RunError: the run has no adapter or one that cannot be merged, cannot be read, or `folder` is not empty.
    """
    opened = open_run(Path(run))
    adapter = get_adapter(opened.recipe)
    if adapter is None:
        raise RunError(f"{run}: has no adapter that could be merged; leave out --merge")
    if adapter.keeps_modules:
        raise RunError(
            f"{run}: has bottlenecks, whose function cannot be expressed by weights of the model; only an adapter of "
            "kind lora can be merged"
        )
    tensors = load_full_weights(opened.folder, step=step).dequantize()
    training = opened.recipe.training.model_copy(update={"adapter": None})
    recipe = opened.recipe.model_copy(update={"training": training})
    save_inference_copy(opened, tensors, Path(folder), use="export to", step=step, recipe=recipe)


def _describe_lost_pooling(folder: Path) -> tuple[str, ...]:
    """Describe that the pooling of a sentence-transformers folder is not exported, in one sentence; empty if nothing is
    lost.
    """
    if not is_hugging_face_folder(folder) or open_hugging_face(folder).sentence_settings.uses_mean_pooling:
        return ()
    return (
        "the pooling of this folder, which makes one vector of a text's tokens, is not exported; means over the tokens "
        "give other vectors",
    )


def _open_picture_model(folder: Path, *, step: int | None) -> PictureModel | None:
    """Open the vision transformer in a run folder, of a kept checkpoint if `step` is given, or in a Hugging Face
    folder; None if there is another model.
    """
    if is_hugging_face_folder(folder):
        opened = open_hugging_face(folder)
        opened.require_no_step(step)
        return opened.picture_model if isinstance(opened, PictureFolder) else None
    run = open_run(folder)
    if not isinstance(config := run.recipe.model, VisionTransformerConfig):
        return None
    tensors, head = load_full_weights(folder, step=step).dequantize(), run.task.output_head(run)
    return PictureModel(folder, config, run.recipe.data.scene_shape, tensors, head)


def _open_speech_model(folder: Path, *, step: int | None) -> SpeechModel | None:
    """Open the Transformer that reads frames of sound in a run folder, of a kept checkpoint if `step` is given, or in a
    Hugging Face folder; None if there is another model.
    """
    if is_hugging_face_folder(folder):
        opened = open_hugging_face(folder)
        opened.require_no_step(step)
        return opened.speech_model if isinstance(opened, SpeechFolder) else None
    run = open_run(folder)
    if not isinstance(config := run.recipe.model, FrameTransformerConfig):
        return None
    frontend, tokenizer = run.recipe.data.frames.build_frontend(), run.tokenizer
    if not isinstance(frontend, PaddedLogMel) or not isinstance(tokenizer, HuggingFaceTokenizer):
        raise RunError(
            f"{folder}: its frames and its vocabulary are not those of Whisper, the only format of speech recognisers "
            "here; train a model that starts from a Whisper (init)"
        )
    tensors = load_full_weights(folder, step=step).dequantize()
    return SpeechModel(folder, config, frontend, tensors, tokenizer, run.recipe.max_written_tokens)


def _open_model(folder: Path, *, step: int | None) -> tuple[PortableModel, nn.Module]:
    """Open the model in a run folder or Hugging Face folder, of a run at a kept checkpoint if `step` is given. Return
    its portable form and a module with a parameter for each tensor, of arbitrary values.
    """
    with skip_initialization():
        if is_hugging_face_folder(folder):
            origin = open_origin(folder, step=step)
            return origin, build_from_origin(origin)
        run = open_run(folder)
        return build_origin(run, step=step), build_uninitialized_model(run)


def trim(run: str | Path, folder: str | Path, *, texts: Iterable[str]) -> tuple[int, int]:
    """Write a published model with a smaller vocabulary: the pieces that some texts need, in the format that it has.

    A text that uses only kept pieces is read as before, and gives the same numbers up to those of the softmax over the
    vocabulary, which has fewer entries. Models of many languages become much smaller: their tables are half of them.

    Args:
        run: a Hugging Face folder, or a run that started from one and kept its vocabulary.
        folder: the folder to write; new or empty.
        texts: texts in all languages that the model should read or write, the more the better.

    Returns:
        Number of pieces before and after.

    Raises:
        RunError: the vocabulary was learned by heedful or consists of bytes, the model cannot be read, or `folder` is
            not empty.
    """
    require_path(run, name="run")
    require_path(folder, name="folder")
    origin = open_origin(Path(run))
    trimmed = trim_vocabulary(origin, texts)
    family = open_hugging_face(Path(run)).family if is_hugging_face_folder(Path(run)) else None
    save_hugging_face(trimmed, folder, family=family)
    return origin.tokenizers[0].size, trimmed.tokenizers[0].size


def trim_vocabulary(origin: PortableModel, texts: Iterable[str]) -> PortableModel:
    """Return a model with the pieces of its vocabulary that some texts need; see `trim`."""
    tokenizers = [tokenizer for tokenizer in origin.tokenizers if isinstance(tokenizer, PretrainedTokenizer)]
    if len(tokenizers) < len(origin.tokenizers):
        raise RunError(
            f"{origin.folder}: its vocabulary was learned by heedful from its own texts; trim a published model"
        )
    text_list = list(texts)
    if not text_list:
        raise DataError("--texts: contain no text, so no piece would be kept; give texts of your languages")
    needed = [find_needed_ids(tokenizer, text_list) for tokenizer in tokenizers]
    if len(needed) == 2 and is_same_vocabulary(*tokenizers):
        needed = [needed[0] | needed[1]] * 2
    kept_ids = [torch.from_numpy(np.flatnonzero(mask)) for mask in needed]
    trimmed = [trim_tokenizer(tokenizer, ids.tolist()) for tokenizer, ids in zip(tokenizers, kept_ids, strict=True)]
    smaller = replace(origin, tokenizer=trimmed[0] if len(trimmed) == 1 else (trimmed[0], trimmed[1]))
    with build_without_memory():
        old_shapes, new_shapes = (
            {name: parameter.shape for name, parameter in build_from_origin(model).named_parameters()}
            for model in (origin, smaller)
        )
    tensors = dict(origin.tensors)
    for name, shape in new_shapes.items():
        for dimension, (old, new) in enumerate(zip(old_shapes[name], shape, strict=True)):
            if old != new:  # an entry for each piece
                rows = kept_ids[0 if name.startswith("encoder.") else -1]
                tensors[name] = tensors[name].index_select(dimension, rows)
    return replace(smaller, tensors=tensors)


def quantize(run: str | Path, folder: str | Path, *, step: int | None = None) -> tuple[int, int]:
    """Write a trained model with int8 weights: matrices of 4,096 numbers or more are stored as bytes with a scale for
    each row. Return the bytes of all weights before and after. `step` selects a kept checkpoint of a run.

    The new folder works like a run, with the engine "int8" by default (or "native", if its recipe says so), and cannot
    be trained further. Its answers are those of the model with that engine. A Hugging Face folder becomes one that only
    heedful reads.

    Args:
        run: folder of a trained run, or a Hugging Face folder.
        folder: the folder to write; new or empty.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.

    Returns:
        Bytes of the weights in floating point, and as written.

    Raises:
        RunError: nothing was trained there, it is damaged, or `folder` is not empty.

    >>> import heedful
    >>> heedful.quantize("runs/multi30k-en-de", "runs/multi30k-en-de-int8")  # doctest: +SKIP
    (30310400, 7750912)
    """
    require_path(run, name="run")
    require_path(folder, name="folder")
    if is_hugging_face_folder(Path(run)):
        opened_folder = open_hugging_face(Path(run))
        opened_folder.require_no_step(step)
        return opened_folder.quantize(Path(folder))
    opened = open_run(Path(run))
    weights = load_full_weights(opened.folder, step=step).dequantize()
    with skip_initialization():
        model = build_uninitialized_model(opened)
    load_parameters(model, weights, location=str(opened.folder))
    tensors = quantize_weights(model, weights)
    engine = None if opened.recipe.engine == "torch" else opened.recipe.engine
    recipe = opened.recipe.model_copy(update={"engine": engine})
    save_inference_copy(opened, tensors, Path(folder), use="quantize to", step=step, recipe=recipe)
    return tuple(sum(tensor.nbytes for tensor in group.values()) for group in (weights, tensors))  # type: ignore[return-value]  # two
