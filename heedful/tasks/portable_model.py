"""Trained models in a form that other formats can hold, and that other models can start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

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
"""What a fine-tuned encoder predicts."""


class InferenceSettings(BaseModel, frozen=True, extra="ignore", allow_inf_nan=False):
    """How a fine-tuned encoder splits its input and chooses answers; other formats have no field for it.

    Attributes:
        max_length: tokens of an input at most, begin and ends included.
        max_question: tokens of a question at most.
        stride: tokens between the starts of two windows of a context.
        max_answer: maximum number of tokens of an answer.
        threshold: margin by which no answer must beat the best answer; None if there always is an answer.
    """

    max_length: Annotated[int, Field(ge=5)] | None = None
    max_question: Annotated[int, Field(ge=1)] | None = None
    stride: Annotated[int, Field(ge=1)] | None = None
    max_answer: Annotated[int, Field(ge=1)] | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class OutputHead:
    """Output head of a fine-tuned encoder.

    Attributes:
        output_type: a class or a number for each text, a score for each candidate, a class for each token, or the start
            and end of a span.
        class_names: names of the classes; empty if there are none.
        independent: whether classes are predicted independently, so that several or none may be right.
        settings: how inputs are split and answers chosen, if known.
    """

    output_type: OutputType
    class_names: tuple[str, ...] = ()
    independent: bool = False
    settings: InferenceSettings = field(default_factory=InferenceSettings)


@dataclass(frozen=True)
class PortableModel:
    """A trained Transformer with this package's parameter names, in a form that other formats can hold.

    Attributes:
        folder: folder of the model.
        model: its architecture.
        tokenizer: its tokenizer; those of both languages if it translates.
        tensors: its parameters by this package's names; shared parameters under their first name.
        max_tokens: number of tokens it was trained for, if its positions are unlimited and the number is known.
        head: its output head, if it was fine-tuned.
        adapter: adapter of its layers, whose parameters are among the tensors.
        factors: factors of each source piece, by name, in the order of their embedding tables.
        aliases: further names of shared parameters, each with its name in `tensors`.
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
    def tokenizers(self) -> tuple[Tokenizer, ...]:
        """Its tokenizer, or those of both languages."""
        return (self.tokenizer,) if isinstance(self.tokenizer, Tokenizer) else self.tokenizer

    @property
    def vocab_size(self) -> int | tuple[int, int]:
        """Size of the vocabulary, or of both."""
        if isinstance(self.tokenizer, Tokenizer):
            return self.tokenizer.size
        source, target = self.tokenizer
        return source.size, target.size

    def require_no_adapter(self, format_name: str) -> None:
        """Raise `RunError` if layers have an adapter, which the format `format_name` cannot store.

        Raises:
            RunError: they have one.
        """
        if self.adapter is not None:
            raise RunError(
                f"{self.folder}: uses bottlenecks, which {format_name} does not support; export a run that was adapted "
                "with LoRA, which becomes a part of the weights, or choose onnx"
            )

    def require_no_factors(self, format_name: str) -> None:
        """Raise `RunError` if the model reads source factors, for which the format `format_name` has no input.

        Raises:
            RunError: the model reads some.
        """
        if self.factors:
            raise RunError(
                f"{self.folder}: reads factors of source words ({', '.join(self.factors)}), and {format_name} has no "
                "input for them; export to ctranslate2, or name a run without the table [factors]"
            )


@dataclass(frozen=True)
class PretrainedSource:
    """A trained model of any architecture that another model can start from.

    Attributes:
        folder: folder of the model.
        model: its architecture.
        tokenizers: its text tokenizers, in the order of `Task.tokenizer_files`.
        tensors: its parameters by this package's names; shared parameters under their first name.
        adapter: its adapter, if that is not merged into the parameters.
        aliases: further names of shared parameters, each with the name it is stored under.
        input_settings: settings of a recipe, by dotted key, that its inputs need.
    """

    folder: Path
    model: ArchitectureConfig
    tokenizers: tuple[Tokenizer, ...]
    tensors: Mapping[str, Tensor]
    adapter: Adapter | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    input_settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def all_tensors(self) -> Mapping[str, Tensor]:
        """The tensors under all of their names."""
        return {**self.tensors, **{name: self.tensors[first] for name, first in self.aliases.items()}}
