"""What every recipe has, whatever is learned."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from heedful.recipes.config import (
    AnyPath,
    Config,
    FieldRole,
    InputPath,
    LengthLimit,
    RecipeRelative,
    config_error,
    get_key_annotations,
    iter_annotation_parts,
)
from heedful.recipes.generation import GenerationConfig
from heedful.recipes.text import GivenTokenizerConfig, TokenizerConfig
from heedful.recipes.training import DecoderTrainingConfig, FineTunableTrainingConfig, TrainingConfig

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader

FORMAT: Final = 1
_SIZE_KEYS: Final = frozenset({"d_model", "heads", "d_ff", "layers", "encoder_layers", "decoder_layers"})
PARTS: Final = ("train", "validation", "test")

EngineName: TypeAlias = Literal["torch", "int8", "native", "auto"]
"""What computes a trained model. `torch`: in floating point, as it was trained; `int8`: large matrices are bytes;
`native`: these, with products and whole Transformers in native code; `auto`: what is faster here."""


class ArchitectureConfig(Config):
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
    def has_size(self) -> bool:
        """Whether somebody has said how large it is; all else that is not given is then as documented."""
        return not _SIZE_KEYS.isdisjoint(self.model_fields_set)

    @property
    def length_limit(self) -> LengthLimit | None:
        """How many places its positions have; None where they have no end."""
        return None

    @property
    def word_vectors(self) -> Mapping[str, Path]:
        """The files of word vectors that embeddings start from, by their keys."""
        return {}

    @property
    def freezes_vectors(self) -> bool:
        """Whether words that have such a vector keep it."""
        return False

    def drop_initial_vectors(self) -> Self:
        """As weights have it that were trained: word vectors that they began with have learned on."""
        return self


class MixInConfig(Config):
    """Abstract: a text that is mixed into another one."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """share of the tokens of each epoch that are of this text; its examples take turns, so each epoch has others"""

    if TYPE_CHECKING:  # each form of text has its own

        def reader(self, **how: Any) -> ExampleReader[Any]:
            """Its examples, to be read as often as one likes; `DataError` where a file is missing."""


class DataConfig(Config):
    """What is learned from, and what is measured on.

    Abstract: each task says what files hold, and how long an example may be.
    """

    if TYPE_CHECKING:  # each task has its own
        train: Config
        validation: Config
        test: Config | None

    def reader(self, part: str) -> ExampleReader[Any]:
        """The examples of a part, to be read as often as one likes; `DataError` where a file is missing."""
        reader: ExampleReader[Any] = getattr(self, part).reader()
        return reader

    def get_tables(self, part: str) -> Mapping[str, Config]:
        """The tables that say what a part is, by their keys; most parts have their own alone."""
        return {part: getattr(self, part)}

    def readers(self, part: str) -> Mapping[str, ExampleReader[Any]]:
        """Every text of a part, by the key of its table; `DataError` where a file is missing."""
        return {part: self.reader(part)}

    def compute_epoch_tokens(self, part: str, tokens: Sequence[int]) -> Sequence[float]:
        """How many tokens of each of the `readers` an epoch has, given how many there are."""
        return tokens

    def list_settings(self, part: str) -> Sequence[str]:
        """What decides how the texts of a part are read, besides what is in their files."""
        return list(map(dump_text_settings, self.get_tables(part).values()))

    @property
    def evaluation_part(self) -> str:
        """The part that a finished model is measured on."""
        return "validation" if self.test is None else "test"


class Recipe(Config):
    """Everything that decides a run: the same recipe, data and software give the same model.

    Abstract: what is learned from, the architecture and what is minimised belong to the task.

    Attributes:
        made_by: where the task's `Task` is, as "module:NAME"; it needs torch, a recipe does not.
        shown_by: where its `Demonstration` is, likewise; empty where it has none.
        forms: where the forms of data are that `heedful new` knows it by, likewise, and without torch; empty where
            there are none.
        auto_keys: keys that the task chooses by the data and the time where nobody gives them (`Task.choose_settings`).
    """

    made_by: ClassVar[str]
    shown_by: ClassVar[str] = ""
    forms: ClassVar[str] = ""
    auto_keys: ClassVar[tuple[str, ...]] = ()

    format: Literal[1] = FORMAT
    """version of the recipe format"""
    task: str
    """what is learned"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """where all randomness starts"""
    output: Annotated[AnyPath, FieldRole.FREE]
    """the run folder, counted from the current folder; runs/<name of the recipe file> if not given"""
    engine: Annotated[EngineName | None, FieldRole.FREE] = None
    """what computes the finished model on a CPU, when it is measured and used, unless a command is told otherwise"""

    if TYPE_CHECKING:  # every recipe has them, each of its task, in an order in which they can be checked
        data: DataConfig
        tokenizer: TokenizerConfig | GivenTokenizerConfig
        model: ArchitectureConfig
        training: TrainingConfig

    @field_validator("training", check_fields=False)
    @classmethod
    def _check_weight_decay(cls, training: TrainingConfig, info: ValidationInfo) -> TrainingConfig:
        model, decay = info.data.get("model"), training.optimizer.weight_decay
        if model is not None and model.freezes_vectors and decay:
            raise config_error(
                "training.optimizer.weight_decay",
                f"= {decay} would shrink the vectors that model.freeze_vectors keeps: set one of them to 0 or false",
            )
        return training

    @property
    def datasets(self) -> Mapping[str, DataConfig]:
        """What is learned from, by the name of the task where there are several; without a name where there is one."""
        return {"": self.data}

    @property
    def needs_fitting(self) -> bool:
        """Whether the task chooses what is not given among the keys of `auto_keys`."""
        return False

    def get_sample_size(self, part: str) -> int | None:
        """How many of the examples of a part are taken, by chance; None where all are."""
        return None


class MemoryRecipe(Recipe):
    """A run whose `model.decoder` writes of a memory.

    Abstract: who makes the memory belongs to the task.
    """

    if TYPE_CHECKING:
        training: DecoderTrainingConfig

    @field_validator("training", check_fields=False)
    @classmethod
    def _fit_training(cls, training: DecoderTrainingConfig, info: ValidationInfo) -> DecoderTrainingConfig:
        model: Any = info.data.get("model")
        if model is None:
            return training
        is_sampled = model.decoder is not None and model.decoder.samples_attention
        return training.fit_to_attention(is_sampled=is_sampled, key="model.decoder.reading.weights")

    @field_validator("generation", check_fields=False)
    @classmethod
    def _reject_coverage(cls, generation: GenerationConfig) -> GenerationConfig:
        if getattr(generation, "coverage", 0):
            raise config_error(
                "generation.coverage", "asks what was attended to in a sentence; leave it out of this task"
            )
        return generation


class FineTunableRecipe(Recipe):
    """A run that may begin with another model.

    Abstract: each task says what its model and that one have in common.

    Attributes:
        body: attribute of the part that both have; empty where it is all of them.
        heads: attributes of further parts that are taken over where the other one has them.
        required_init: what the other one must be, in words.
        allows_new_vocabulary: whether a vocabulary may be learned anew, in which pieces begin with what the other one knows of them.
    """

    body: ClassVar[str]
    heads: ClassVar[tuple[str, ...]] = ()
    required_init: ClassVar[str]
    allows_new_vocabulary: ClassVar[bool] = False

    if TYPE_CHECKING:
        init: InputPath | None
        training: FineTunableTrainingConfig

    @field_validator("training", check_fields=False)
    @classmethod
    def _check_adapter(cls, training: FineTunableTrainingConfig, info: ValidationInfo) -> FineTunableTrainingConfig:
        if training.adapter is not None and "init" in info.data and info.data["init"] is None:
            raise config_error(
                "training.adapter", "needs init, the folder of the model whose weights stay as they are: give that too"
            )
        return training

    @classmethod
    @abstractmethod
    def accepts_init(cls, model: Config) -> bool:
        """Whether weights of such a model may be begun with."""

    @classmethod
    def wrap_architecture(cls, model: ArchitectureConfig) -> ArchitectureConfig:
        """The architecture that is made of that of the other model; itself, unless it becomes a part of another one."""
        return model


def dump_text_settings(config: Config) -> str:
    """What a table says of a text besides where it lies."""
    annotations, old_defaults = get_key_annotations(type(config)), type(config).migrate({})
    path_keys = {
        key
        for key, annotation in annotations.items()
        if any(isinstance(part, RecipeRelative) for part in iter_annotation_parts(annotation))
    }
    new_keys = {
        key for key, value in old_defaults.items() if getattr(config, key) == value
    }  # older runs knew nothing of them
    return config.model_dump_json(exclude=path_keys | new_keys)


def format_data_key(name: str) -> str:
    """The table that one of a recipe's `datasets` stands in."""
    return f"tasks.{name}.data" if name else "data"


def is_model_known(info: ValidationInfo) -> bool:
    """Whether the table [model] is complete, or waits for the model that `init` names."""
    return info.data.get("init") is None or isinstance(info.data.get("tokenizer"), GivenTokenizerConfig)
