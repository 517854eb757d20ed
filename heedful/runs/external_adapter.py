"""Adapters attached to an explicitly given base model (`--adapter`): one model with an adapter for each purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from heedful.adapters.adapter import Adapter
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.atomic_io import read_manifest
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RunError
from heedful.files import check_path_name
from heedful.recipes.config import Config
from heedful.runs.adapter_runs import build_adapter, compute_base_digest, get_unmerged_adapter, read_adapter_file
from heedful.runs.checkpoints import StoredWeights, read_stored_weights
from heedful.tasks.portable_model import PortableModel
from heedful.tasks.task import Run

_VOCABULARY_PREFIXES = ("tokenizer/", "tasks/")


@dataclass(frozen=True)
class TrainedAdapter:
    """A trained adapter, loaded from its folder.

    Attributes:
        folder: folder of the adapter.
        adapter: kind and sizes of the adapter.
        tensors: its parameters by heedful's names, with those of a head that was trained together with it.
        base: sha256 of the weights that it was trained on; None if unknown.
        vocabularies: sha256 of each vocabulary file of its run; empty if unknown.
    """

    folder: Path
    adapter: Adapter
    tensors: Mapping[str, Tensor]
    base: str | None
    vocabularies: Mapping[str, str]

    def apply_to(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return a model's weights with the adapter applied.

        Raises:
            RunError: the adapter does not fit the weights.
        """
        for name, tensor in self.tensors.items():
            if self.adapter.is_adapter_parameter(name):
                continue
            if name not in weights:
                raise RunError(
                    f"{self.folder}: contains {name}, for which this model has no place; use the run itself, which "
                    "finds the model that it adapts, or give a model of its task"
                )
            if weights[name].shape != tensor.shape:
                raise RunError(
                    f"{self.folder}: contains {name} of shape {tuple(tensor.shape)}, but this model has "
                    f"{tuple(weights[name].shape)}; give a model that it fits"
                )
        return self.adapter.merge_weights(weights, self.tensors, origin=str(self.folder))


def open_adapter(folder: Path, model: Config, *, base: Path | None = None) -> TrainedAdapter:
    """Open the adapter in a run folder or a PEFT folder.

    Args:
        folder: folder of the adapter.
        model: the architecture that the adapter is attached to; it determines the meaning of PEFT's names.
        base: folder of that model if it is a Hugging Face folder, whose parameter names PEFT then uses.

    Raises:
        RunError: there is no adapter, it is damaged, or it cannot be attached to such a model.
    """
    from heedful.foreign.hugging_face import open_hugging_face  # what all families need, which few runs do
    from heedful.foreign.peft import is_peft_folder, read_peft_adapter

    check_path_name(folder)
    if is_peft_folder(folder):
        if not isinstance(model, EncoderConfig | DecoderConfig | TransformerConfig):
            raise RunError(f"{folder}: adapts a Transformer, but this model is not a Transformer; give another model")
        family = None if base is None else open_hugging_face(base).family
        adapter, tensors = read_peft_adapter(folder, model, family=family)
        return TrainedAdapter(folder, adapter, tensors, None, {})
    adapter_file = read_adapter_file(folder)
    if adapter_file is None:
        raise RunError(
            f"{folder}: contains a model and not an adapter; give a run that was trained with training.adapter, or "
            "a folder of PEFT"
        )
    tensors = read_stored_weights(folder).dequantize()
    return TrainedAdapter(
        folder, build_adapter(adapter_file.adapter), tensors, adapter_file.base.sha256, _read_vocabulary_digests(folder)
    )


def apply_adapter(
    run: Run[Any, Any],
    weights: StoredWeights,
    trained_adapter: TrainedAdapter,
    *,
    model: nn.Module,
    log: Callable[[str], None] | None,
) -> StoredWeights:
    """Return a run's weights with an adapter applied; layers that the adapter adds are put into `model`.

    Raises:
        RunError: the adapter does not fit the run.
    """
    if get_unmerged_adapter(run.recipe) is not None and trained_adapter.adapter.keeps_modules:
        raise RunError(
            f"{run.folder}: already has bottlenecks, and {trained_adapter.folder} would add others; give its base model"
        )
    own_digests = _read_vocabulary_digests(run.folder)
    if other := sorted(
        name
        for name in own_digests.keys() & trained_adapter.vocabularies.keys()
        if own_digests[name] != trained_adapter.vocabularies[name]
    ):
        raise RunError(
            f"{trained_adapter.folder}: was trained with another {other[0]} than that of {run.folder}; give a model "
            "that has the same"
        )
    _warn_other_base(trained_adapter, run.folder, log)
    tensors = trained_adapter.apply_to(weights.dequantize())
    if trained_adapter.adapter.keeps_modules:
        trained_adapter.adapter.attach(model)
    return replace(weights, tensors=tensors, quantized={})


def apply_adapter_to_hf(folder: Path, origin: PortableModel) -> PortableModel:
    """Return a Hugging Face model with an adapter applied.

    Raises:
        RunError: the adapter does not fit the model.
    """
    trained_adapter = open_adapter(folder, origin.model, base=origin.folder)
    for name in trained_adapter.vocabularies:
        tokenizer = _load_tokenizer(folder / name)
        if tokenizer is not None and _list_pieces(tokenizer) not in map(_list_pieces, _list_tokenizers(origin)):
            raise RunError(
                f"{folder}: was trained with another {name} than that of {origin.folder}; give a model that has the "
                "same"
            )
    adapter = trained_adapter.adapter if trained_adapter.adapter.keeps_modules else None
    return replace(origin, tensors=trained_adapter.apply_to(origin.tensors), adapter=adapter)


def _warn_other_base(trained_adapter: TrainedAdapter, base: Path, log: Callable[[str], None] | None) -> None:
    """Log a warning if an adapter was trained on other weights than those of the given base."""
    if log is not None and trained_adapter.base is not None and compute_base_digest(base) != trained_adapter.base:
        log(
            f"warning: {trained_adapter.folder} was trained on other weights than those in {base}; its answers may be "
            "worse"
        )


def _read_vocabulary_digests(folder: Path) -> dict[str, str]:
    """Return the sha256 of each vocabulary file of a run."""
    files = read_manifest(folder).files
    return {name: sha256 for name, sha256 in files.items() if name.startswith(_VOCABULARY_PREFIXES)}


def _load_tokenizer(path: Path) -> Tokenizer | None:
    """Load a tokenizer; None for a file of labels."""
    from heedful.data.tokenizer_loading import load_tokenizer

    return None if path.name == "labels" else load_tokenizer(path)


def _list_tokenizers(origin: PortableModel) -> tuple[Tokenizer, ...]:
    """Return the tokenizers of a model as a tuple."""
    return (origin.tokenizer,) if isinstance(origin.tokenizer, Tokenizer) else origin.tokenizer


def _list_pieces(tokenizer: Tokenizer) -> list[str]:
    """List all pieces of a tokenizer."""
    return tokenizer.to_pieces(range(tokenizer.size))
