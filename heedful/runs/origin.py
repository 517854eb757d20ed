"""Models that others start from or that are exported: runs of heedful, or Hugging Face folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.factors import Factor
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RunError
from heedful.foreign.folders import is_hugging_face_folder
from heedful.foreign.hugging_face import open_hugging_face
from heedful.models.model_size import build_without_memory
from heedful.models.parameters import find_shared_names
from heedful.runs.adapter_runs import build_uninitialized_model, get_unmerged_adapter, load_full_weights
from heedful.runs.load import open_run
from heedful.tasks.portable_model import PortableModel, PretrainedSource
from heedful.tasks.task import Run


def open_predecessor(folder: Path) -> PretrainedSource:
    """Open the model in a folder, of any family, for another model to start from.

    Raises:
        RunError: there is no model, it is damaged, or heedful cannot represent it.
        MissingExtraError: its vocabulary needs a package that is not installed.
    """
    if is_hugging_face_folder(folder):
        origin = open_hugging_face(folder).origin
        return PretrainedSource(folder, origin.model, origin.tokenizers, origin.tensors)
    run = open_run(folder)
    if any(isinstance(vocabulary, Factor) for vocabulary in run.vocabularies.values()):
        raise RunError(
            f"{folder}: reads factors of words, and no other model can start from such a model; give another run"
        )
    run_tokenizers = tuple(run.get_tokenizer(file) for file in run.task.tokenizer_files)
    tensors = load_full_weights(folder).dequantize()
    return PretrainedSource(
        folder, run.recipe.model, run_tokenizers, tensors, get_unmerged_adapter(run.recipe), _find_shared_names(run)
    )


def open_origin(folder: Path, *, step: int | None = None) -> PortableModel:
    """Open the model in a folder for export: of a run the finished model, else the best checkpoint so far; with `step`,
    the checkpoint of that update.

    Raises:
        RunError: there is no model, it is damaged, or heedful cannot represent it.
        MissingExtraError: its vocabulary needs a package that is not installed.
    """
    if is_hugging_face_folder(folder):
        if step is not None:
            raise RunError(
                f"{folder}: is not a run of heedful and has no checkpoint of step {step}; leave the step out"
            )
        return open_hugging_face(folder).origin
    return build_origin(open_run(folder), step=step)


def build_origin(run: Run[Any, Any], *, step: int | None = None) -> PortableModel:
    """Build the portable form of a run's model, at the checkpoint of `step` if given; raise `RunError` if it is not a
    Transformer that reads or writes text. See `open_origin`.
    """
    folder, config = run.folder, run.recipe.model
    if not isinstance(config, EncoderConfig | DecoderConfig | TransformerConfig):
        raise RunError(
            f"{folder}: its model is of the kind {config.kind}; only Transformers that read or write text can be used: "
            "give a run that has one"
        )
    tokenizers = tuple(vocabulary for vocabulary in run.vocabularies.values() if isinstance(vocabulary, Tokenizer))
    if isinstance(config, TransformerConfig) and len(tokenizers) != 2:
        raise RunError(
            f"{folder}: encoder and decoder read more than two texts, which no other model does; give another run"
        )
    tokenizer = tokenizers[0] if len(tokenizers) == 1 else (tokenizers[0], tokenizers[1])
    tensors = load_full_weights(folder, step=step).dequantize()
    return PortableModel(
        folder,
        config,
        tokenizer,
        tensors,
        head=run.task.output_head(run),
        adapter=get_unmerged_adapter(run.recipe),
        factors=run.task.source_factors(run),
        aliases=_find_shared_names(run),
    )


def _find_shared_names(run: Run[Any, Any]) -> dict[str, str]:
    """Return the further names of shared parameters, which checkpoints store once."""
    with build_without_memory():
        return find_shared_names(build_uninitialized_model(run))
