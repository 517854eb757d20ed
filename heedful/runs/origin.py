"""Where a model may come from: a run of ours, or a folder of Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.factors import Factor
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RunError
from heedful.foreign.folders import is_hugging_face
from heedful.foreign.hugging_face import open_hugging_face
from heedful.models.shared_parameters import other_names
from heedful.models.size import imagined
from heedful.runs.adapted import model_of, staying, whole_weights
from heedful.runs.load import open_run
from heedful.tasks.kind import Run
from heedful.tasks.origin import Origin, Predecessor


def open_predecessor(folder: Path) -> Predecessor:
    """The model in a folder, whatever its family, for another one to begin with.

    Raises:
        RunError: there is none, it is damaged, or heedful cannot represent it.
        MissingExtraError: its vocabulary needs a package that is not installed.
    """
    if is_hugging_face(folder):
        origin = open_hugging_face(folder).origin
        theirs = (origin.tokenizer,) if isinstance(origin.tokenizer, Tokenizer) else origin.tokenizer
        return Predecessor(folder, origin.model, theirs, origin.tensors)
    run = open_run(folder)
    if any(isinstance(each, Factor) for each in run.vocabularies.values()):
        raise RunError(f"{folder}: reads factors of words, and no other model begins with such a one; name another")
    ours = tuple(run.text(file) for file in run.kind.words)
    tensors = whole_weights(folder).floats()
    return Predecessor(folder, run.recipe.model, ours, tensors, staying(run.recipe), _shared(run))


def open_origin(folder: Path, *, step: int | None = None) -> Origin:
    """The model in a folder: of a run its finished one, the best so far, or a kept checkpoint.

    Raises:
        RunError: there is none, it is damaged, or heedful cannot represent it.
        MissingExtraError: its vocabulary needs a package that is not installed.
    """
    if is_hugging_face(folder):
        if step is not None:
            raise RunError(f"{folder}: is no run of heedful and keeps no checkpoint of step {step}")
        return open_hugging_face(folder).origin
    run = open_run(folder)
    config = run.recipe.model
    if not isinstance(config, EncoderConfig | DecoderConfig | TransformerConfig):
        raise RunError(
            f"{folder}: its model is of the kind {config.kind}; only Transformers are carried over, those "
            "that read or write text: name a run that has one"
        )
    tokenizers = tuple(each for each in run.vocabularies.values() if isinstance(each, Tokenizer))
    if isinstance(config, TransformerConfig) and len(tokenizers) != 2:
        raise RunError(
            f"{folder}: encoder and decoder read more than two texts, as no other model does; name another run"
        )
    tokenizer = tokenizers[0] if len(tokenizers) == 1 else (tokenizers[0], tokenizers[1])
    tensors = whole_weights(folder, step=step).floats()
    return Origin(
        folder,
        config,
        tokenizer,
        tensors,
        head=run.kind.head(run),
        adapter=staying(run.recipe),
        factors=run.kind.factors(run),
        shared=_shared(run),
    )


def _shared(run: Run[Any, Any]) -> dict[str, str]:
    """The further names of what a run's model shares, which checkpoints store once."""
    with imagined():
        return other_names(model_of(run))
