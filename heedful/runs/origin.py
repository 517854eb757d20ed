"""Where a model may come from: a run of ours, or a folder of Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RunError
from heedful.runs.checkpoints import read_weights


@dataclass(frozen=True)
class Origin:
    """A trained model as another one can begin from it.

    Attributes:
        folder: where it is.
        model: its architecture.
        tokenizer: its vocabulary; those of both languages where it translates.
        tensors: its parameters by our names; of several names for one, the first.
        longest: tokens that it was made for where its positions themselves have no end, if anybody said.
    """

    folder: Path
    model: EncoderConfig | DecoderConfig | TransformerConfig
    tokenizer: Tokenizer | tuple[Tokenizer, Tokenizer]
    tensors: Mapping[str, Tensor]
    longest: int | None = None

    @property
    def size(self) -> int | tuple[int, int]:
        """Entries of the vocabulary, or of both."""
        if isinstance(self.tokenizer, Tokenizer):
            return self.tokenizer.size
        source, target = self.tokenizer
        return source.size, target.size


def open_origin(folder: Path, *, step: int | None = None) -> Origin:
    """The model in a folder: of a run its finished one, the best so far, or a kept checkpoint.

    Raises:
        RunError: there is none, it is damaged, or heedful cannot represent it.
        MissingExtraError: its vocabulary needs a package that is not installed.
    """
    # runs may begin from origins, so that neither module can wait for the other
    from heedful.foreign.hugging_face import is_hugging_face, open_hugging_face
    from heedful.runs.load import open_run

    if is_hugging_face(folder):
        if step is not None:
            raise RunError(f"{folder}: is no run of heedful and keeps no checkpoint of step {step}")
        return open_hugging_face(folder).origin
    run = open_run(folder)
    config = run.recipe.model
    if not isinstance(config, EncoderConfig | DecoderConfig | TransformerConfig):
        raise RunError(
            f"{folder}: its model is of the kind {config.kind}; only Transformers are carried over to another run"
        )
    tokenizers = tuple(each for each in run.vocabularies.values() if isinstance(each, Tokenizer))
    tokenizer = tokenizers[0] if len(tokenizers) == 1 else (tokenizers[0], tokenizers[1])
    return Origin(folder, config, tokenizer, read_weights(folder, step=step))
