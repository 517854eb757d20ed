"""Interfaces between architecture families and tasks, as configs.

Installed packages add families by entry points of the group `heedful.architectures`, as in
`averaging = "own.model:AveragingConfig"`; the base class of a family decides which tasks may use it. All of these
classes are abstract.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union

from pydantic import Field

from heedful.recipes.config import Config, FreezeVectors, InputPath, LayeredConfig, add_default_kind
from heedful.recipes.recipe import ArchitectureConfig
from heedful.registry import load_installed_architectures


@dataclass(frozen=True)
class DataSizes:
    """Sizes that a model takes from its data: entries of both vocabularies, the longest sentence in tokens, and
    entries of each factor of source tokens.
    """

    source: int
    target: int
    max_length: int
    factors: tuple[int, ...] = ()


class ConditionalArchitecture(ArchitectureConfig):
    """Abstract: generates text given a source; `built_by(config, sizes)` returns a `ConditionalModel`."""

    @property
    def samples_attention(self) -> bool:
        """Whether attention is sampled, so that it must be trained by REINFORCE."""
        return False

    is_single_text: ClassVar[bool] = False
    """Whether source and target are read as one text."""

    def count_positions(self, source_length: int, target_length: int) -> int:
        """Return the number of positions needed for a source and a target of these lengths."""
        return source_length + target_length if self.is_single_text else max(source_length, target_length)


class TranslationArchitecture(LayeredConfig, ConditionalArchitecture):
    """Abstract: an encoder and a decoder; `built_by(config, sizes)` returns a `SequenceToSequence`."""

    has_heads: ClassVar[bool] = False
    """Whether attention has several heads, which may need decorrelation."""
    supports_factors: ClassVar[bool] = False
    """Whether source tokens may have factors (`DataSizes.factors`)."""

    @property
    def shares_embeddings(self) -> bool:
        """Whether both languages share an embedding table, and so need one vocabulary."""
        return False

    @property
    def copies_source(self) -> bool:
        """Whether the decoder may copy tokens of the source, so that both languages need one vocabulary."""
        return False


class _VectorsConfig(Config):
    """Abstract: embedding tables that may start from word vectors, and then may stay fixed."""

    _vector_keys: ClassVar[tuple[str, ...]]

    if TYPE_CHECKING:  # subclasses declare it after the keys of the files
        freeze_vectors: bool

    @property
    def word_vectors(self) -> Mapping[str, Path]:
        """Files of word vectors by their keys."""
        return {key: path for key in self._vector_keys if (path := getattr(self, key)) is not None}

    @property
    def freezes_vectors(self) -> bool:
        """Whether pre-trained word vectors stay fixed."""
        return self.freeze_vectors

    def drop_initial_vectors(self) -> Self:
        """Return a copy without the files of word vectors."""
        return self.model_copy(update={**dict.fromkeys(self._vector_keys), "freeze_vectors": False})


with warnings.catch_warnings():
    warnings.filterwarnings("ignore", 'Field name "copy"')  # pydantic keeps a deprecated method of this name

    class _CopyConfig(Config):
        """Abstract: whether tokens of the source can be copied."""

        copy: bool = False  # type: ignore[assignment]  # see above
        """generate each token or copy one of the source, as a pointer-generator does (See et al. 2017)"""


class TiedArchitecture(_CopyConfig, _VectorsConfig, TranslationArchitecture):
    """Abstract: an embedding table for each language, which may be shared, and may start from word vectors; the decoder
    may copy tokens of the source.
    """

    supports_factors: ClassVar[bool] = True
    _vector_keys: ClassVar = ("source_vectors", "target_vectors")

    tie: Literal["three_way", "two_way", "inputs", "none"] = "three_way"
    """which tables are shared: decoder input and output (two_way), the encoder's input as well (three_way), both
    inputs, but not the output (inputs), or none"""
    source_vectors: InputPath | None = None
    """pre-trained word vectors (word2vec or GloVe text) that the source embeddings start from"""
    target_vectors: InputPath | None = None
    """pre-trained word vectors that the target embeddings start from"""
    freeze_vectors: FreezeVectors = False
    """keep pre-trained word vectors fixed, while all other pieces are trained"""

    @property
    def shares_embeddings(self) -> bool:
        """Whether both languages share an embedding table."""
        return self.tie in ("three_way", "inputs")

    @property
    def copies_source(self) -> bool:
        """Whether the decoder may copy tokens of the source, so that both languages need one vocabulary."""
        return self.copy

    @property
    def d_memory(self) -> int:
        """Width of what the encoder returns for each token."""
        return self.d_model

    @property
    def ties_output(self) -> bool:
        """Whether the decoder's input and its output share a table."""
        return self.tie in ("three_way", "two_way")


class EmbeddedConfig(_VectorsConfig):
    """Abstract: one embedding table, which may start from word vectors."""

    _vector_keys: ClassVar = ("vectors",)

    vectors: InputPath | None = None
    """pre-trained word vectors (word2vec or GloVe text) that the embeddings start from"""
    freeze_vectors: FreezeVectors = False
    """keep pre-trained word vectors fixed, while all other pieces are trained"""


class MemoryDecoderArchitecture(ArchitectureConfig):
    """Abstract: a decoder that attends to memories of pictures, clips or sounds.

    `built_by(config, vocabulary=, slots=, longest=)` returns a `Decoder` and its output layer; `slots` are the slot
    widths of each memory, by its name, and its summary has the same width.
    """

    @property
    def d_slot(self) -> int | None:
        """Required width of the slots; None if any width is possible."""
        return None

    @property
    def samples_attention(self) -> bool:
        """Whether attention is sampled, so that it must be trained by REINFORCE."""
        return False


class LanguageArchitecture(ArchitectureConfig):
    """Abstract: a decoder without a memory; `built_by(config, vocabulary=, longest=)` returns a `LanguageModel`."""

    is_unbounded: ClassVar[bool] = False
    """Whether it can read texts of any length, regardless of the training length."""


class EncoderArchitecture(ArchitectureConfig):
    """Abstract: an encoder; `built_by(config, vocabulary=, longest=)` returns an `Encoder` with outputs `d_output`
    wide.
    """

    adds_special_tokens: ClassVar[bool] = False
    """Whether texts are wrapped in begin and end tokens."""

    @property
    def d_output(self) -> int:
        """Width of the output for each token."""
        return self.d_model


class ClassifierArchitecture(ArchitectureConfig):
    """Abstract: a classifier of texts; `built_by(config, vocabulary=, outputs=, longest=)` returns a
    `TextClassifier`.
    """

    requires_pairs: ClassVar[bool] = False
    """Whether it reads only pairs of texts."""

    @property
    def has_hops(self) -> bool:
        """Whether the pooler has several hops, which may need decorrelation."""
        return False

    @property
    def ngram_inverse_penalty(self) -> float | None:
        """C of the additional n-gram classifier, or None without one."""
        return None


def union_of_families(interface: type[ArchitectureConfig], *built_in: type[ArchitectureConfig]) -> Any:
    """Return the union type of all config classes of an interface, the `built_in` ones and those of installed packages;
    the first one is the default.
    """
    families = (
        *built_in,
        *(
            family
            for family in load_installed_architectures()
            if issubclass(family, interface) and family not in built_in
        ),
    )
    if len(families) == 1:
        return families[0]
    kind = built_in[0].model_fields["kind"].default
    return Annotated[Union[families], Field(discriminator="kind"), add_default_kind(kind)]  # noqa: UP007 - not known before
