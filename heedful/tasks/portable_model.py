"""Where a model may come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field
from torch import Tensor

from heedful.adapters.adapter import Adapter
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.factors import Factor
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RunError
from heedful.recipes.recipe import ArchitectureConfig

OutputType: TypeAlias = Literal["class", "number", "candidate", "token", "ends"]
"""What the outputs of a fine-tuned encoder are of."""


class InferenceSettings(BaseModel, frozen=True, extra="ignore", allow_inf_nan=False):
    """How a fine-tuned encoder cuts what it reads and chooses its answers; other formats have no word for it.

    Attributes:
        max_length: tokens that are read at a time, begin and ends included.
        max_question: tokens of a question at most.
        stride: tokens between the begins of two windows of a context.
        max_answer: tokens of an answer at most.
        threshold: how much more must speak for no answer than for the best one; None where there always is one.
    """

    max_length: Annotated[int, Field(ge=5)] | None = None
    max_question: Annotated[int, Field(ge=1)] | None = None
    stride: Annotated[int, Field(ge=1)] | None = None
    max_answer: Annotated[int, Field(ge=1)] | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class OutputHead:
    """What the outputs of a fine-tuned encoder say.

    Attributes:
        output_type: a class or a number of each text, a score of each candidate, a class of each token, or where a span begins
            and ends.
        class_names: of the classes; empty where there are none.
        independent: whether each class is judged by itself, so that several or none may be right.
        settings: how texts are cut and answers chosen, where that is known.
    """

    output_type: OutputType
    class_names: tuple[str, ...] = ()
    independent: bool = False
    settings: InferenceSettings = field(default_factory=InferenceSettings)


@dataclass(frozen=True)
class PortableModel:
    """A trained Transformer by our names, whoever trained it, as other formats can hold it.

    Attributes:
        folder: where it is.
        model: its architecture.
        tokenizer: its vocabulary; those of both languages where it translates.
        tensors: its parameters by our names; of several names for one, the first.
        max_tokens: tokens that it was made for where its positions themselves have no end, if anybody said.
        head: what its outputs say, where it was fine-tuned.
        adapter: what the layers have besides, as some of the tensors are its own.
        factors: what is known of each source piece besides which it is, by its name, in the order of their tables.
        aliases: the further names of shared parameters, each with the one that `tensors` has.
    """

    folder: Path
    model: EncoderConfig | DecoderConfig | TransformerConfig
    tokenizer: Tokenizer | tuple[Tokenizer, Tokenizer]
    tensors: Mapping[str, Tensor]
    max_tokens: int | None = None
    head: OutputHead | None = None
    adapter: Adapter | None = None
    factors: Mapping[str, Factor] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_tensors(self) -> Mapping[str, Tensor]:
        """The tensors under all of their names."""
        return {**self.tensors, **{name: self.tensors[first] for name, first in self.aliases.items()}}

    @property
    def vocab_size(self) -> int | tuple[int, int]:
        """Entries of the vocabulary, or of both."""
        if isinstance(self.tokenizer, Tokenizer):
            return self.tokenizer.size
        source, target = self.tokenizer
        return source.size, target.size

    def require_no_adapter(self, format_name: str) -> None:
        """Refuses what the format `format_name` has no place for: layers with an adapter.

        Raises:
            RunError: they have one.
        """
        if self.adapter is not None:
            raise RunError(
                f"{self.folder}: computes with bottlenecks, which {format_name} has not; export a run that was adapted with "
                "LoRA, which becomes a part of the weights, or choose onnx"
            )

    def require_no_factors(self, format_name: str) -> None:
        """Refuses what the format `format_name` has no input for: factors of source words.

        Raises:
            RunError: the model reads some.
        """
        if self.factors:
            raise RunError(
                f"{self.folder}: reads factors of source words ({', '.join(self.factors)}), and {format_name} has no input "
                "for them; export to ctranslate2, or name a run without the table [factors]"
            )


@dataclass(frozen=True)
class PretrainedSource:
    """A trained model of any family, as another one can begin from it.

    Attributes:
        folder: where it is.
        model: its architecture.
        tokenizers: its vocabularies of text, in the order in which its task names them (`Task.tokenizer_files`).
        tensors: its parameters by our names; of several names for one, the first.
        adapter: what it computes with besides these, if that is no part of them.
        aliases: the further names of shared parameters, each with the one under which they are stored.
    """

    folder: Path
    model: ArchitectureConfig
    tokenizers: tuple[Tokenizer, ...]
    tensors: Mapping[str, Tensor]
    adapter: Adapter | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_tensors(self) -> Mapping[str, Tensor]:
        """The tensors under all of their names."""
        return {**self.tensors, **{name: self.tensors[first] for name, first in self.aliases.items()}}
