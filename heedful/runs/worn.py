"""An adapter on another model than the one that it finds by itself: one model, and an adapter for each purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from heedful.adapters.adapter import Adapter
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RunError
from heedful.files import require_name
from heedful.recipes.section import Section
from heedful.runs.adapted import adapter_from, base_digest, read_file, staying
from heedful.runs.checkpoints import Weights, stored_weights
from heedful.store import read_manifest
from heedful.tasks.kind import Run
from heedful.tasks.origin import Origin

_VOCABULARIES = ("tokenizer/", "tasks/")


@dataclass(frozen=True)
class Brought:
    """An adapter that was trained.

    Attributes:
        place: its folder.
        adapter: what it is.
        tensors: its parameters by our names, with those of a head that was learned beside it.
        base: sha256 of the weights that it was trained on; None where nobody says.
        vocabularies: sha256 of what its run read by, by file; empty where nobody says.
    """

    place: Path
    adapter: Adapter
    tensors: Mapping[str, Tensor]
    base: str | None
    vocabularies: Mapping[str, str]

    def on(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights of a model that has it on.

        Raises:
            RunError: it does not fit them.
        """
        for name, tensor in self.tensors.items():
            if self.adapter.is_own(name):
                continue
            if name not in weights:
                raise RunError(
                    f"{self.place}: brings {name}, for which this model has no place; use the run itself, which finds "
                    "the model that it adapts, or name a model of its task"
                )
            if weights[name].shape != tensor.shape:
                raise RunError(
                    f"{self.place}: brings {name} of shape {tuple(tensor.shape)} where this model has "
                    f"{tuple(weights[name].shape)}; name a model that it fits"
                )
        return self.adapter.complete(weights, self.tensors, place=str(self.place))


def open_adapter(folder: Path, model: Section, *, base: Path | None = None) -> Brought:
    """The adapter in a run folder, or in one of PEFT.

    Args:
        folder: where it is.
        model: the architecture that it is put on, by which names of PEFT are understood.
        base: the folder of the model, where it is one of Hugging Face, whose names these are then.

    Raises:
        RunError: there is none, or it is damaged, or nothing that could be put on such a model.
    """
    from heedful.foreign.hugging_face import open_hugging_face  # what all families need, which few runs do
    from heedful.foreign.peft import is_peft, read_peft

    require_name(folder)
    if is_peft(folder):
        if not isinstance(model, EncoderConfig | DecoderConfig | TransformerConfig):
            raise RunError(f"{folder}: adapts a Transformer, and this model is none; name another model")
        family = None if base is None else open_hugging_face(base).family
        adapter, tensors = read_peft(folder, model, family=family)
        return Brought(folder, adapter, tensors, None, {})
    about = read_file(folder)
    if about is None:
        raise RunError(
            f"{folder}: holds no adapter but a model of its own; name a run that was trained with training.adapter, or "
            "a folder of PEFT"
        )
    tensors = stored_weights(folder).floats()
    return Brought(folder, adapter_from(about.adapter), tensors, about.base.sha256, _vocabularies(folder))


def wear(
    run: Run[Any, Any],
    weights: Weights,
    brought: Brought,
    *,
    model: nn.Module,
    say: Callable[[str], None] | None,
) -> Weights:
    """A run's weights with an adapter on; `model` gets what it needs besides.

    Raises:
        RunError: it does not fit the run.
    """
    if staying(run.recipe) is not None and brought.adapter.stays:
        raise RunError(f"{run.folder}: has bottlenecks already, and {brought.place} would bring others; name its base")
    own = _vocabularies(run.folder)
    if other := sorted(
        name for name in own.keys() & brought.vocabularies.keys() if own[name] != brought.vocabularies[name]
    ):
        raise RunError(
            f"{brought.place}: was trained with another {other[0]} than that of {run.folder}; name a model that has "
            "the same"
        )
    _doubt(brought, run.folder, say)
    floats = brought.on(weights.floats())
    if brought.adapter.stays:
        brought.adapter.put_on(model)
    return replace(weights, exact=floats, rounded={})


def wear_foreign(folder: Path, origin: Origin) -> Origin:
    """A model of Hugging Face with an adapter on.

    Raises:
        RunError: it does not fit that model.
    """
    brought = open_adapter(folder, origin.model, base=origin.folder)
    for name in brought.vocabularies:
        tokenizer = _tokenizer(folder / name)
        if tokenizer is not None and _pieces(tokenizer) not in map(_pieces, _tokenizers(origin)):
            raise RunError(
                f"{folder}: was trained with another {name} than that of {origin.folder}; name a model that has the "
                "same"
            )
    adapter = brought.adapter if brought.adapter.stays else None
    return replace(origin, tensors=brought.on(origin.tensors), adapter=adapter)


def _doubt(brought: Brought, base: Path, say: Callable[[str], None] | None) -> None:
    if say is not None and brought.base is not None and base_digest(base) != brought.base:
        say(f"warning: {brought.place} was trained on other weights than those in {base}; its answers may be worse")


def _vocabularies(folder: Path) -> dict[str, str]:
    files = read_manifest(folder).files
    return {name: sha256 for name, sha256 in files.items() if name.startswith(_VOCABULARIES)}


def _tokenizer(path: Path) -> Tokenizer | None:
    from heedful.data.tokenizer_files import load_tokenizer

    return None if path.name == "labels" else load_tokenizer(path)


def _tokenizers(origin: Origin) -> tuple[Tokenizer, ...]:
    return (origin.tokenizer,) if isinstance(origin.tokenizer, Tokenizer) else origin.tokenizer


def _pieces(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.pieces(range(tokenizer.size))
