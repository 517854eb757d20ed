"""Runs that hold nothing but an adapter: what they belong to, and the weights of both together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, assert_never

from pydantic import BaseModel, Field
from torch import Tensor, nn

from heedful.adapters.adapter import Adapter
from heedful.adapters.bottleneck import Bottlenecks
from heedful.adapters.lora import Lora
from heedful.errors import RunError
from heedful.foreign.folders import is_hugging_face
from heedful.models.size import imagined
from heedful.recipes.adapters import AdapterConfig, BottleneckConfig, LoraConfig
from heedful.recipes.recipe import Recipe
from heedful.recipes.training import TunedTrainingConfig
from heedful.runs.checkpoints import Weights, stored_weights, weights_file
from heedful.store import digest, read_manifest, stored, verify
from heedful.tasks.kind import Run

FILE: Final = "adapter.json"
"""Of a run folder: which adapter its weights are, and of what."""


class Base(BaseModel, frozen=True):
    """The model that was adapted.

    Attributes:
        folder: where it is.
        beside: the way there from the run folder, for both may be moved together.
        sha256: of its weights.
    """

    folder: Path
    beside: Path
    sha256: str


class AdapterFile(BaseModel, frozen=True):
    """What `adapter.json` says.

    Attributes:
        format: of the file.
        adapter: its kind and sizes.
        base: what it belongs to.
        taken: names of the parameters that the base gives.
        stored: names under which the base stores some of these, where they are others.
    """

    format: Literal[1] = 1
    adapter: AdapterConfig
    base: Base
    taken: tuple[str, ...]
    stored: Mapping[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class Numbers:
    """How many numbers an adapted model has.

    Attributes:
        learned: those that an update may change.
        adapter: those of them that are the adapter's.
        whole: all.
    """

    learned: int
    adapter: int
    whole: int


def adapter_of(recipe: Recipe) -> Adapter | None:
    """What learns in the place of the weights, if it is not these."""
    training = recipe.training
    config = training.adapter if isinstance(training, TunedTrainingConfig) else None
    return None if config is None else adapter_from(config)


def adapter_from(config: LoraConfig | BottleneckConfig) -> Adapter:
    """The adapter that a table describes."""
    match config:
        case LoraConfig(rank=rank, alpha=alpha, dropout=dropout, on=on):
            return Lora(rank, alpha, dropout=dropout, on=on)
        case BottleneckConfig(width=width):
            return Bottlenecks(width)
    assert_never(config)


def staying(recipe: Recipe) -> Adapter | None:
    """The adapter that trained models of a recipe compute with, if there is one."""
    adapter = adapter_of(recipe)
    return adapter if adapter is not None and adapter.stays else None


def model_of(run: Run[Any, Any]) -> nn.Module:
    """A model with a parameter for each of a trained run's weights, of any value."""
    model: nn.Module = run.model()
    if (adapter := staying(run.recipe)) is not None:
        adapter.put_on(model)
    return model


def described(
    run: Run[Any, Any], base: Path, *, given: Mapping[str, Tensor], body: str, shared: Mapping[str, str]
) -> AdapterFile:
    """What a new run is to keep of the model that it adapts.

    Args:
        run: whose recipe has an adapter.
        base: folder of that model.
        given: its tensors.
        body: attribute of the part that both have in common; empty where it is all of them.
        shared: the further names of parameters that the base has under several, each with that which it stores.
    """
    training = run.recipe.training
    assert isinstance(training, TunedTrainingConfig)
    assert training.adapter is not None
    with imagined():
        model: nn.Module = run.build()
    prefix = f"{body}." if body else ""
    taken = tuple(
        name
        for name, parameter in model.named_parameters()
        if name.startswith(prefix) and name in given and given[name].shape == parameter.shape
    )
    beside = Path(os.path.relpath(base.resolve(), run.folder.resolve()))
    where = Base(folder=base.resolve(), beside=beside, sha256=base_digest(base))
    stored = {name: shared[name] for name in taken if name in shared}
    return AdapterFile(adapter=training.adapter, base=where, taken=taken, stored=stored)


def read_file(folder: Path) -> AdapterFile | None:
    """What a run keeps of the model that it adapts; None where it adapts none.

    Raises:
        RunError: the file is damaged.
    """
    manifest = read_manifest(folder)
    if FILE not in manifest.files:
        return None
    verify(folder, FILE, manifest=manifest)
    return stored(folder / FILE, AdapterFile)


def whole_weights(folder: Path, *, step: int | None = None) -> Weights:
    """All weights of a trained run; see `heedful.runs.checkpoints.stored_weights`.

    Raises:
        RunError: there are none yet, a file is damaged, or the model that was adapted is gone or has other weights.
    """
    own = stored_weights(folder, step=step)
    if (about := read_file(folder)) is None:
        return own
    given = base_tensors(_base(about.base, folder))
    given = {**given, **{name: given[other] for name, other in about.stored.items() if other in given}}
    if lost := [name for name in about.taken if name not in given]:
        raise RunError(f"{folder / FILE}: speaks of {lost[0]}, which {about.base.folder} has not; restore both")
    adapter = adapter_from(about.adapter)
    taken = {name: given[name] for name in about.taken}
    return replace(own, exact=adapter.complete(taken, own.exact, place=str(own.place)))


def base_tensors(folder: Path) -> Mapping[str, Tensor]:
    """The weights of a run, or of a model of Hugging Face, by our names."""
    if is_hugging_face(folder):
        from heedful.foreign.hugging_face import open_hugging_face  # what all families need, which few runs do

        return open_hugging_face(folder).origin.tensors
    return whole_weights(folder).floats()


def base_digest(folder: Path) -> str:
    """The sha256 of a model's weights; of several files, that of theirs."""
    if is_hugging_face(folder):
        digests = [digest(path) for path in sorted(folder.glob("*.safetensors"))]
    else:
        digests = [read_manifest(folder).files[weights_file(folder)]]
        if (about := read_file(folder)) is not None:
            digests.append(about.base.sha256)
    return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()


def require_same_base(folder: Path, init: Path) -> None:
    """`RunError` where the model that a run began to adapt has other weights now."""
    about = read_file(folder)
    if about is not None and base_digest(init) != about.base.sha256:
        raise RunError(
            f"init = {init}: has other weights than when the run in {folder} began to adapt it; put those back, or "
            "choose another folder with --output"
        )


def _base(base: Base, folder: Path) -> Path:
    """Where the model that was adapted is now."""
    places = [place for place in (base.folder, folder / base.beside) if place.is_dir()]
    if not places:
        raise RunError(
            f"{folder}: holds an adapter alone, and the model that it belongs to is not in {base.folder} any more; put "
            "it back, or name it and give this folder with --adapter"
        )
    found = [place for place in places if base_digest(place) == base.sha256]
    if not found:
        raise RunError(
            f"{folder}: holds an adapter alone, and {places[0]} has other weights than those that it was trained on; "
            "put these back"
        )
    return found[0]


def sizes(run: Run[Any, Any]) -> Numbers | None:
    """How many numbers of an adapted run learn; None where its model itself does."""
    about, adapter = read_file(run.folder), adapter_of(run.recipe)
    if about is None or adapter is None:
        return None
    with imagined():
        model: nn.Module = run.build()
        adapter.put_on(model)
    numbers = {name: parameter.numel() for name, parameter in model.named_parameters()}
    own = sum(number for name, number in numbers.items() if adapter.is_own(name))
    learned = sum(number for name, number in numbers.items() if name not in about.taken)
    return Numbers(learned, own, sum(numbers.values()))
