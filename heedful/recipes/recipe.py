"""What every recipe has, whatever is learned."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from heedful.recipes.generation import GenerationConfig
from heedful.recipes.section import Anchor, AnyPath, InputPath, Longest, Mark, Section, keys, misfit, parts
from heedful.recipes.text import GivenTokenizerConfig, TokenizerConfig
from heedful.recipes.training import TrainingConfig, TunedTrainingConfig, WritingTrainingConfig

if TYPE_CHECKING:
    from heedful.data.readers import Reader

FORMAT: Final = 1
_SIZES: Final = frozenset({"d_model", "heads", "d_ff", "layers", "encoder_layers", "decoder_layers"})
PARTS: Final = ("train", "validation", "test")

EngineName: TypeAlias = Literal["torch", "int8", "native", "auto"]
"""What computes a trained model. `torch`: in floating point, as it was trained; `int8`: large matrices are bytes;
`native`: these, with products and whole Transformers in native code; `auto`: what is faster here."""


class Architecture(Section):
    """A family of models.

    Abstract: each family says what it is made of, and builds it.

    Attributes:
        kind: its name in recipes.
        d_model: width of what stands between the layers.
        built_by: the function that makes a freshly initialised model of it, as "module:name"; it needs torch.
    """

    built_by: ClassVar[str]

    kind: str

    if TYPE_CHECKING:  # a key of most families; others know it of a table inside

        @property
        def d_model(self) -> int:
            """See above."""

    @property
    def sized(self) -> bool:
        """Whether somebody has said how large it is; all else that is not given is then as documented."""
        return not _SIZES.isdisjoint(self.model_fields_set)

    @property
    def longest(self) -> Longest | None:
        """How many places its positions have; None where they have no end."""
        return None

    @property
    def word_vectors(self) -> Mapping[str, Path]:
        """The files of word vectors that embeddings start from, by their keys."""
        return {}

    @property
    def frozen_vectors(self) -> bool:
        """Whether words that have such a vector keep it."""
        return False

    def learned(self) -> Self:
        """As weights have it that were trained: word vectors that they began with have learned on."""
        return self


class Mixed(Section):
    """Abstract: a text that is mixed into another one."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """share of the tokens of each epoch that are of this text; its examples take turns, so each epoch has others"""

    if TYPE_CHECKING:  # each form of text has its own

        def reader(self, **how: Any) -> Reader[Any]:
            """Its examples, to be read as often as one likes; `DataError` where a file is missing."""


class DataConfig(Section):
    """What is learned from, and what is measured on.

    Abstract: each task says what files hold, and how long an example may be.
    """

    if TYPE_CHECKING:  # each task has its own
        train: Section
        validation: Section
        test: Section | None

    def reader(self, part: str) -> Reader[Any]:
        """The examples of a part, to be read as often as one likes; `DataError` where a file is missing."""
        reader: Reader[Any] = getattr(self, part).reader()
        return reader

    def tables(self, part: str) -> Mapping[str, Section]:
        """The tables that say what a part is, by their keys; most parts have their own alone."""
        return {part: getattr(self, part)}

    def readers(self, part: str) -> Mapping[str, Reader[Any]]:
        """Every text of a part, by the key of its table; `DataError` where a file is missing."""
        return {part: self.reader(part)}

    def amounts(self, part: str, tokens: Sequence[int]) -> Sequence[float]:
        """How many tokens of each of the `readers` an epoch has, given how many there are."""
        return tokens

    def settings(self, part: str) -> Sequence[str]:
        """What decides how the texts of a part are read, besides what is in their files."""
        return list(map(settings_of, self.tables(part).values()))

    @property
    def measured(self) -> str:
        """The part that a finished model is measured on."""
        return "validation" if self.test is None else "test"


class Recipe(Section):
    """Everything that decides a run: the same recipe, data and software give the same model.

    Abstract: what is learned from, the architecture and what is minimised belong to the task.

    Attributes:
        made_by: where the task's `Kind` is, as "module:NAME"; it needs torch, a recipe does not.
        shown_by: where its `Demonstration` is, likewise; empty where it has none.
        forms: where the forms of data are that `heedful new` knows it by, likewise, and without torch; empty where
            there are none.
        fitted: keys that the task chooses by the data and the time where nobody gives them (`Kind.fit`).
    """

    made_by: ClassVar[str]
    shown_by: ClassVar[str] = ""
    forms: ClassVar[str] = ""
    fitted: ClassVar[tuple[str, ...]] = ()

    format: Literal[1] = FORMAT
    """version of the recipe format"""
    task: str
    """what is learned"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """where all randomness starts"""
    output: Annotated[AnyPath, Mark.FREE]
    """the run folder, counted from the current folder; runs/<name of the recipe file> if not given"""
    engine: Annotated[EngineName | None, Mark.FREE] = None
    """what computes the finished model on a CPU, when it is measured and used, unless a command is told otherwise"""

    if TYPE_CHECKING:  # every recipe has them, each of its task, in an order in which they can be checked
        data: DataConfig
        tokenizer: TokenizerConfig | GivenTokenizerConfig
        model: Architecture
        training: TrainingConfig

    @field_validator("training", check_fields=False)
    @classmethod
    def _keeps_vectors(cls, training: TrainingConfig, info: ValidationInfo) -> TrainingConfig:
        model, decay = info.data.get("model"), training.optimizer.weight_decay
        if model is not None and model.frozen_vectors and decay:
            raise misfit(
                "training.optimizer.weight_decay",
                f"= {decay} would shrink the vectors that model.freeze_vectors keeps: set one of them to 0 or false",
            )
        return training

    @property
    def datasets(self) -> Mapping[str, DataConfig]:
        """What is learned from, by the name of the task where there are several; without a name where there is one."""
        return {"": self.data}

    @property
    def is_open(self) -> bool:
        """Whether the task chooses what is not given among the keys of `fitted`."""
        return False

    def drawn(self, part: str) -> int | None:
        """How many of the examples of a part are taken, by chance; None where all are."""
        return None


class MemoryRecipe(Recipe):
    """A run whose `model.decoder` writes of a memory.

    Abstract: who makes the memory belongs to the task.
    """

    if TYPE_CHECKING:
        training: WritingTrainingConfig

    @field_validator("training", check_fields=False)
    @classmethod
    def _suits(cls, training: WritingTrainingConfig, info: ValidationInfo) -> WritingTrainingConfig:
        model: Any = info.data.get("model")
        if model is None:
            return training
        draws = model.decoder is not None and model.decoder.draws
        return training.suited(draws=draws, key="model.decoder.reading.weights")

    @field_validator("generation", check_fields=False)
    @classmethod
    def _tells_no_coverage(cls, generation: GenerationConfig) -> GenerationConfig:
        if getattr(generation, "coverage", 0):
            raise misfit("generation.coverage", "asks what was attended to in a sentence; leave it out of this task")
        return generation


class TunedRecipe(Recipe):
    """A run that may begin with another model.

    Abstract: each task says what its model and that one have in common.

    Attributes:
        body: attribute of the part that both have; empty where it is all of them.
        heads: attributes of further parts that are taken over where the other one has them.
        origin: what the other one must be, in words.
        relearns: whether a vocabulary may be learned anew, in which pieces begin with what the other one knows of them.
    """

    body: ClassVar[str]
    heads: ClassVar[tuple[str, ...]] = ()
    origin: ClassVar[str]
    relearns: ClassVar[bool] = False

    if TYPE_CHECKING:
        init: InputPath | None
        training: TunedTrainingConfig

    @field_validator("training", check_fields=False)
    @classmethod
    def _adapts_something(cls, training: TunedTrainingConfig, info: ValidationInfo) -> TunedTrainingConfig:
        if training.adapter is not None and "init" in info.data and info.data["init"] is None:
            raise misfit(
                "training.adapter", "needs init, the folder of the model whose weights stay as they are: give that too"
            )
        return training

    @classmethod
    @abstractmethod
    def begins_with(cls, model: Section) -> bool:
        """Whether weights of such a model may be begun with."""

    @classmethod
    def around(cls, model: Architecture) -> Architecture:
        """The architecture that is made of that of the other model; itself, unless it becomes a part of another one."""
        return model


def settings_of(text: Section) -> str:
    """What a table says of a text besides where it lies."""
    annotations, before = keys(type(text)), type(text).formerly({})
    paths = {key for key, annotation in annotations.items() if any(isinstance(p, Anchor) for p in parts(annotation))}
    young = {key for key, value in before.items() if getattr(text, key) == value}  # older runs knew nothing of them
    return text.model_dump_json(exclude=paths | young)


def data_table(name: str) -> str:
    """The table that one of a recipe's `datasets` stands in."""
    return f"tasks.{name}.data" if name else "data"


def known(info: ValidationInfo) -> bool:
    """Whether the table [model] is complete, or waits for the model that `init` names."""
    return info.data.get("init") is None or isinstance(info.data.get("tokenizer"), GivenTokenizerConfig)
