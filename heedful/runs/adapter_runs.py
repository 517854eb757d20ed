"""Adapters of runs: what they were trained on, weights of both together, and adapters on a given base (`--adapter`)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, assert_never

from pydantic import BaseModel, Field
from torch import Tensor, nn

from heedful.adapters.adapter import Adapter, BottleneckAdapter, LoraAdapter
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.atomic_io import RunManifest, compute_digest, read_checked_json, read_manifest, verify_file
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.word_vectors import is_same_vocabulary
from heedful.errors import RunError
from heedful.files import check_path_name
from heedful.foreign.folders import is_hugging_face_folder
from heedful.models.model_size import build_without_memory
from heedful.recipes.config import Config
from heedful.recipes.recipe import Recipe
from heedful.recipes.training import AdapterConfig, BottleneckConfig, FineTunableTrainingConfig, LoraConfig
from heedful.runs.checkpoints import StoredWeights, find_weights_file, read_stored_weights
from heedful.tasks.portable_model import PortableModel
from heedful.tasks.task import Run

ADAPTER_FILE: Final = "adapter.json"
"""Name of the file in a run folder that describes its adapter and the model it belongs to."""


class AdapterBase(BaseModel, frozen=True):
    """The model that an adapter was trained on.

    Attributes:
        folder: absolute path of its folder.
        beside: path of that folder relative to the run folder, because both may be moved together.
        sha256: digest of its weights.
    """

    folder: Path
    beside: Path
    sha256: str


class AdapterFile(BaseModel, frozen=True):
    """Content of `adapter.json`.

    Attributes:
        format: version of the file format.
        adapter: kind and sizes of the adapter.
        base: the model that the adapter belongs to.
        taken: names of the parameters whose values come from the base.
        stored: for those parameters that the base stores under another name: that name.
    """

    format: Literal[1] = 1
    adapter: AdapterConfig
    base: AdapterBase
    taken: tuple[str, ...]
    stored: Mapping[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class ParameterCounts:
    """Numbers of parameters of a model with an adapter.

    Attributes:
        trainable: parameters that training may change.
        adapter: those of them that belong to the adapter.
        total: all parameters.
    """

    trainable: int
    adapter: int
    total: int


def get_adapter(recipe: Recipe) -> Adapter | None:
    """Return the adapter that a recipe trains instead of the weights; None if it trains the weights."""
    training = recipe.training
    config = training.adapter if isinstance(training, FineTunableTrainingConfig) else None
    return None if config is None else build_adapter(config)


def build_adapter(config: LoraConfig | BottleneckConfig) -> Adapter:
    """Build the adapter that a config describes."""
    match config:
        case LoraConfig(rank=rank, alpha=alpha, dropout=dropout, on=on):
            return LoraAdapter(rank, alpha, dropout=dropout, targets=on)
        case BottleneckConfig(width=width):
            return BottleneckAdapter(width)
    assert_never(config)


def get_unmerged_adapter(recipe: Recipe) -> Adapter | None:
    """Return the recipe's adapter if a trained model still computes with it (bottlenecks); None if it is merged
    into the weights (LoRA) or there is none.
    """
    adapter = get_adapter(recipe)
    return adapter if adapter is not None and adapter.keeps_modules else None


def build_uninitialized_model(run: Run[Any, Any]) -> nn.Module:
    """Build a model with a parameter for each trained weight of a run; the values are arbitrary."""
    model: nn.Module = run.init_model()
    if (adapter := get_unmerged_adapter(run.recipe)) is not None:
        adapter.attach(model)
    return model


def build_adapter_file(
    run: Run[Any, Any], base: Path, *, base_tensors: Mapping[str, Tensor], body: str, shared_names: Mapping[str, str]
) -> AdapterFile:
    """Describe the adapter of a new run and the model that it adapts, whose folder is `base`, as the content of
    `adapter.json`.

    Args:
        run: a run whose recipe has an adapter.
        base: folder of the adapted model.
        base_tensors: tensors of that model.
        body: attribute of the part that both models have in common; empty if it is the whole model.
        shared_names: for parameters that the base has under several names: each further name and the stored one.
    """
    training = run.recipe.training
    assert isinstance(training, FineTunableTrainingConfig)
    assert training.adapter is not None
    with build_without_memory():
        model: nn.Module = run.build_model()
    prefix = f"{body}." if body else ""
    taken = tuple(
        name
        for name, parameter in model.named_parameters()
        if name.startswith(prefix) and name in base_tensors and base_tensors[name].shape == parameter.shape
    )
    beside = Path(os.path.relpath(base.resolve(), run.folder.resolve()))
    adapter_base = AdapterBase(folder=base.resolve(), beside=beside, sha256=compute_base_digest(base))
    stored = {name: shared_names[name] for name in taken if name in shared_names}
    return AdapterFile(adapter=training.adapter, base=adapter_base, taken=taken, stored=stored)


def read_adapter_file(folder: Path, manifest: RunManifest | None = None) -> AdapterFile | None:
    """Read the description of the adapter in a run folder, whose manifest may be given; None if the run has no adapter.

    Args:
        folder: the run folder.
        manifest: its manifest, if it has been read already.

    Raises:
        RunError: the file is damaged.
    """
    manifest = manifest or read_manifest(folder)
    if ADAPTER_FILE not in manifest.files:
        return None
    verify_file(folder, ADAPTER_FILE, manifest=manifest)
    return read_checked_json(folder / ADAPTER_FILE, AdapterFile)


def load_full_weights(folder: Path, *, step: int | None = None) -> StoredWeights:
    """Load all weights of a trained run, those of an adapted base included; `step` selects a kept checkpoint, as in
    `read_weights`.

    Raises:
        RunError: there are no weights yet, a file is damaged, or the adapted model is missing or has other weights.
    """
    manifest = read_manifest(folder)
    own = read_stored_weights(folder, step=step, manifest=manifest)
    if (adapter_file := read_adapter_file(folder, manifest)) is None:
        return own
    base_weights = load_base_tensors(_find_base(adapter_file.base, folder))
    base_weights = {
        **base_weights,
        **{name: base_weights[other] for name, other in adapter_file.stored.items() if other in base_weights},
    }
    if missing := [name for name in adapter_file.taken if name not in base_weights]:
        raise RunError(
            f"{folder / ADAPTER_FILE}: names {missing[0]}, which {adapter_file.base.folder} does not have; restore both"
        )
    adapter = build_adapter(adapter_file.adapter)
    taken = {name: base_weights[name] for name in adapter_file.taken}
    return replace(own, exact=adapter.merge_weights(taken, own.exact, origin=str(own.path)))


def load_base_tensors(folder: Path) -> Mapping[str, Tensor]:
    """Load the weights of a run or of a Hugging Face model, with heedful's parameter names."""
    if is_hugging_face_folder(folder):
        from heedful.foreign.hugging_face import open_hugging_face  # what all families need, which few runs do

        return open_hugging_face(folder).predecessor.tensors
    return load_full_weights(folder).dequantize()


def compute_base_digest(folder: Path) -> str:
    """Return the sha256 of a model's weights; for several files, the sha256 of their digests."""
    if is_hugging_face_folder(folder):
        digests = [compute_digest(path) for path in sorted(folder.glob("*.safetensors"))]
    else:
        manifest = read_manifest(folder)
        digests = [manifest.files[find_weights_file(folder, manifest)]]
        if (adapter_file := read_adapter_file(folder, manifest)) is not None:
            digests.append(adapter_file.base.sha256)
    return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()


def require_same_base(folder: Path, init: Path) -> None:
    """Raise `RunError` if the model in the folder `init` has other weights than when the run in `folder` began to adapt
    it.
    """
    adapter_file = read_adapter_file(folder)
    if adapter_file is not None and compute_base_digest(init) != adapter_file.base.sha256:
        raise RunError(
            f"init = {init}: its weights have changed since the run in {folder} began to adapt it; restore them, or "
            "choose another folder with --output"
        )


def _find_base(base: AdapterBase, folder: Path) -> Path:
    """Return the folder in which the adapted model is now: the recorded one, or the one at the same place relative to
    `folder`, the run folder. Raise `RunError` if there is none or its weights differ.
    """
    candidates = [candidate for candidate in (base.folder, folder / base.beside) if candidate.is_dir()]
    if not candidates:
        raise RunError(
            f"{folder}: contains only an adapter, and its model is no longer in {base.folder}; restore it, or give the "
            "model and this folder with --adapter"
        )
    matches = [candidate for candidate in candidates if compute_base_digest(candidate) == base.sha256]
    if not matches:
        raise RunError(
            f"{folder}: contains only an adapter, and {candidates[0]} has other weights than those that it was trained "
            "on; restore these"
        )
    return matches[0]


def count_parameters(run: Run[Any, Any]) -> ParameterCounts | None:
    """Count the parameters of an adapted run: the trained ones, those of the adapter, and all; None if the run has no
    adapter.
    """
    adapter_file, adapter = read_adapter_file(run.folder), get_adapter(run.recipe)
    if adapter_file is None or adapter is None:
        return None
    with build_without_memory():
        model: nn.Module = run.build_model()
        adapter.attach(model)
    counts = {name: parameter.numel() for name, parameter in model.named_parameters()}
    in_adapter = sum(count for name, count in counts.items() if adapter.is_adapter_parameter(name))
    trainable = sum(count for name, count in counts.items() if name not in adapter_file.taken)
    return ParameterCounts(trainable, in_adapter, sum(counts.values()))


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
        """Return a model's weights, by parameter name, with the adapter applied.

        Raises:
            RunError: the adapter does not fit the weights.
        """
        for name, tensor in self.tensors.items():
            if self.adapter.is_adapter_parameter(name):
                continue
            if name not in weights:
                raise RunError(
                    f"{self.folder}: contains {name}, which this model does not have; use the run itself, which "
                    "finds the model that it adapts, or give a model of its task"
                )
            if weights[name].shape != tensor.shape:
                raise RunError(
                    f"{self.folder}: contains {name} of shape {tuple(tensor.shape)}, but this model has "
                    f"{tuple(weights[name].shape)}; give a model that it fits"
                )
        return self.adapter.merge_weights(weights, self.tensors, origin=str(self.folder))


def open_adapter(folder: Path, model: Config, *, base: Path | None = None) -> TrainedAdapter:
    """Open the adapter in a run folder or a PEFT folder for a model of the architecture `model`, whose Hugging Face
    folder is `base` if it has one.

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
    """Return a run's weights with an adapter applied; layers that the adapter adds are put into `model`. `log` receives
    a warning if the adapter was trained on other weights.

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
    return replace(weights, exact=tensors, quantized={})


def apply_adapter_to_hf(folder: Path, origin: PortableModel) -> PortableModel:
    """Return the Hugging Face model `origin` with the adapter of a folder applied.

    Raises:
        RunError: the adapter does not fit the model.
    """
    trained_adapter = open_adapter(folder, origin.model, base=origin.folder)
    for name in trained_adapter.vocabularies:
        if name.endswith("/labels"):
            continue
        tokenizer = load_tokenizer(folder / name)
        if not any(is_same_vocabulary(tokenizer, own_tokenizer) for own_tokenizer in origin.tokenizers):
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
