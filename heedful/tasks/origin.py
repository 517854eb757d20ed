"""Where a model may come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.tokenizers import Tokenizer
from heedful.recipes.recipe import Architecture


@dataclass(frozen=True)
class Head:
    """What the outputs of a fine-tuned encoder say.

    Attributes:
        of: a class or a number of each text, a score of each candidate, a class of each token, or where a span begins
            and ends.
        names: of the classes; empty where there are none.
    """

    of: Literal["class", "number", "candidate", "token", "ends"]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Origin:
    """A trained Transformer by our names, whoever trained it, as other formats can hold it.

    Attributes:
        folder: where it is.
        model: its architecture.
        tokenizer: its vocabulary; those of both languages where it translates.
        tensors: its parameters by our names; of several names for one, the first.
        longest: tokens that it was made for where its positions themselves have no end, if anybody said.
        head: what its outputs say, where it was fine-tuned.
    """

    folder: Path
    model: EncoderConfig | DecoderConfig | TransformerConfig
    tokenizer: Tokenizer | tuple[Tokenizer, Tokenizer]
    tensors: Mapping[str, Tensor]
    longest: int | None = None
    head: Head | None = None

    @property
    def size(self) -> int | tuple[int, int]:
        """Entries of the vocabulary, or of both."""
        if isinstance(self.tokenizer, Tokenizer):
            return self.tokenizer.size
        source, target = self.tokenizer
        return source.size, target.size


@dataclass(frozen=True)
class Predecessor:
    """A trained model of any family, as another one can begin from it.

    Attributes:
        folder: where it is.
        model: its architecture.
        tokenizers: its vocabularies of text, in the order in which its task names them (`Kind.words`).
        tensors: its parameters by our names; of several names for one, the first.
    """

    folder: Path
    model: Architecture
    tokenizers: tuple[Tokenizer, ...]
    tensors: Mapping[str, Tensor]
