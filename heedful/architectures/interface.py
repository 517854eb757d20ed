"""What families of models promise to the tasks that use them, as data.

Installed packages add families by entry points of the group `heedful.architectures`, as in
`averaging = "own.model:AveragingConfig"`; which tasks may use one is told by the class that it is a child of. All of
these classes are abstract.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, Union

from pydantic import Field

from heedful.recipes.config import Config, FreezeVectors, InputPath, LayeredConfig, add_default_kind
from heedful.recipes.recipe import ArchitectureConfig
from heedful.registry import load_installed_architectures


@dataclass(frozen=True)
class DataSizes:
    """What a model must know of its data: entries of both vocabularies, the longest sentence in tokens, and entries of
    each factor of source tokens.
    """

    source: int
    target: int
    max_length: int
    factors: tuple[int, ...] = ()


class ConditionalArchitecture(ArchitectureConfig):
    """What writes given a source; `built_by(config, sizes)` gives a `ConditionalModel`."""

    @property
    def samples_attention(self) -> bool:
        """Whether attention is left to chance, so that it must learn by REINFORCE."""
        return False

    is_single_text: ClassVar[bool] = False
    """Whether source and target are read as one text."""

    def count_positions(self, source_length: int, target_length: int) -> int:
        """How many places positions must have for a source and a target of so many tokens."""
        return source_length + target_length if self.is_single_text else max(source_length, target_length)


class TranslationArchitecture(LayeredConfig, ConditionalArchitecture):
    """An encoder and a decoder; `built_by(config, sizes)` gives a `SequenceToSequence`."""

    has_heads: ClassVar[bool] = False
    """Whether attention has several heads that may look alike."""
    supports_factors: ClassVar[bool] = False
    """Whether source tokens may have factors (`DataSizes.factors`)."""

    @property
    def shares_embeddings(self) -> bool:
        """Whether both languages share a table of embeddings, and so need one vocabulary."""
        return False


class TiedArchitecture(TranslationArchitecture):
    """A table of embeddings for each language, which may be one, and may start from word vectors."""

    supports_factors: ClassVar[bool] = True

    tie: Literal["three_way", "two_way", "none"] = "three_way"
    """which tables are one: decoder input and output (two_way), the encoder's as well (three_way), or none"""
    source_vectors: InputPath | None = None
    """pre-trained word vectors (word2vec or GloVe text) that the source embeddings start from"""
    target_vectors: InputPath | None = None
    """pre-trained word vectors that the target embeddings start from"""
    freeze_vectors: FreezeVectors = False
    """keep words that have a pre-trained vector as they are, while all other pieces learn"""

    @property
    def shares_embeddings(self) -> bool:
        """Whether both languages share a table of embeddings."""
        return self.tie == "three_way"

    @property
    def word_vectors(self) -> Mapping[str, Path]:
        """Those of both languages."""
        paths = {"source_vectors": self.source_vectors, "target_vectors": self.target_vectors}
        return {key: path for key, path in paths.items() if path is not None}

    @property
    def freezes_vectors(self) -> bool:
        """Whether words that have such a vector keep it."""
        return self.freeze_vectors

    def drop_initial_vectors(self) -> Self:
        """Without the files of word vectors."""
        return self.model_copy(update={"source_vectors": None, "target_vectors": None, "freeze_vectors": False})


class EmbeddedConfig(Config):
    """Abstract: one table of embeddings, which may start from word vectors."""

    vectors: InputPath | None = None
    """pre-trained word vectors (word2vec or GloVe text) that the embeddings start from"""
    freeze_vectors: FreezeVectors = False
    """keep words that have a pre-trained vector as they are, while all other pieces learn"""

    @property
    def word_vectors(self) -> Mapping[str, Path]:
        """The one file."""
        return {} if self.vectors is None else {"vectors": self.vectors}

    @property
    def freezes_vectors(self) -> bool:
        """Whether words that have such a vector keep it."""
        return self.freeze_vectors

    def drop_initial_vectors(self) -> Self:
        """Without the file of word vectors."""
        return self.model_copy(update={"vectors": None, "freeze_vectors": False})


class MemoryDecoderArchitecture(ArchitectureConfig):
    """A decoder that looks at memories, whoever makes them: of pictures, clips, sounds.

    `built_by(config, vocabulary=, slots=, length_limit=)` gives a `Decoder` and the map from its outputs to logits; `slots`
    are the widths of each memory's slots, by its name, and its summary is as wide.
    """

    @property
    def d_slot(self) -> int | None:
        """How wide slots must be; None where any width will do."""
        return None

    @property
    def samples_attention(self) -> bool:
        """Whether attention is left to chance, and to REINFORCE."""
        return False


class LanguageArchitecture(ArchitectureConfig):
    """A decoder alone; `built_by(config, vocabulary=, length_limit=)` gives a `LanguageModel`."""

    is_unbounded: ClassVar[bool] = False
    """Whether it reads on for ever, however short the pieces were that it learned from."""


class EncoderArchitecture(ArchitectureConfig):
    """An encoder alone; `built_by(config, vocabulary=, length_limit=)` gives an `Encoder` of outputs `d_output` wide."""

    adds_special_tokens: ClassVar[bool] = False
    """Whether texts are read between a begin and an end."""

    @property
    def d_output(self) -> int:
        """Width of what is said of each token."""
        return self.d_model


class ClassifierArchitecture(ArchitectureConfig):
    """A reader of whole texts; `built_by(config, vocabulary=, outputs=, length_limit=)` gives a `TextClassifier`."""

    requires_pairs: ClassVar[bool] = False
    """Whether only two texts together can be read."""

    @property
    def has_hops(self) -> bool:
        """Whether the summary has hops that may look alike."""
        return False

    @property
    def ngram_inverse_penalty(self) -> float | None:
        """C of the logistic regression that votes for classes beside; None where none does."""
        return None


def union_of_families(interface: type[ArchitectureConfig], *built_in: type[ArchitectureConfig]) -> Any:
    """Any family that keeps a promise, the first one unless a table says otherwise: ours, and installed ones."""
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
