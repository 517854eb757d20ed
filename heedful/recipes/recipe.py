"""Base classes of recipes: the keys that the recipes of all tasks have, and limits on the size of a model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from heedful.errors import RecipeError
from heedful.recipes.config import (
    AnyPath,
    Config,
    FieldRole,
    InputPath,
    LengthLimit,
    config_error,
    get_key_types,
)
from heedful.recipes.generation import GenerationConfig
from heedful.recipes.text import GivenTokenizerConfig, TokenizerConfig
from heedful.recipes.training import DecoderTrainingConfig, FineTunableTrainingConfig, TrainingConfig
from heedful.registry import list_tasks, load_object

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader


FORMAT: Final = 1
_SIZE_KEYS: Final = frozenset({"d_model", "heads", "d_ff", "layers", "encoder_layers", "decoder_layers"})
PARTS: Final = ("train", "validation", "test")

EngineName: TypeAlias = Literal[
    "torch",
    "torch-bfloat16",
    "torch-graphs",
    "torch-graphs-bfloat16",
    "int8",
    "native",
    "native-float32",
    "native-bfloat16",
    "auto",
]
"""Engine that computes a trained model. `torch`: floating point, as in training; `torch-bfloat16`: the same with large
matrices and attention in bf16; `torch-graphs` and `torch-graphs-bfloat16`: these with recorded steps, for GPUs; `int8`:
large matrices in 8 bits; `native`: these, with products and whole Transformers in native code; `native-float32` and
`native-bfloat16`: native code with floating-point weights; `auto`: the fastest on this machine."""


class ArchitectureConfig(Config):
    """Config of a model family.

    Abstract: each family defines its sizes and how it is built.

    Attributes:
        kind: name of the family in recipes.
        d_model: width of the representations between layers.
        built_by: the function that builds a freshly initialized model, as "module:name"; it needs torch.
    """

    built_by: ClassVar[str]

    kind: str

    if TYPE_CHECKING:  # a key of most families; in others it is a key of a nested table

        @property
        def d_model(self) -> int:
            """Width of the representations between layers."""

    @property
    def has_size(self) -> bool:
        """Whether any size was given; keys that are not given then have their documented defaults."""
        return not _SIZE_KEYS.isdisjoint(self.model_fields_set)

    @property
    def length_limit(self) -> LengthLimit | None:
        """Limit that the positions set on the length; None if there is none."""
        return None

    @property
    def word_vectors(self) -> Mapping[str, Path]:
        """Files of the word vectors that initialize embeddings, by key."""
        return {}

    @property
    def freezes_vectors(self) -> bool:
        """Whether the words that have such a vector keep it in training."""
        return False

    def drop_initial_vectors(self) -> Self:
        """Return the architecture for already trained weights: without the files of word vectors that embeddings
        started from.
        """
        return self


class MixInConfig(Config):
    """Base of texts that are mixed into another text."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """share of the tokens of each epoch that come from this text; its examples take turns, so each epoch has others"""

    if TYPE_CHECKING:  # each form of text has its own

        def reader(self, **how: Any) -> ExampleReader[Any]:
            """Return the reader of the examples, which can be iterated repeatedly; raise `DataError` if a file is
            missing.
            """


class DataConfig(Config):
    """Data for training and evaluation.

    Abstract: each task defines the content of the files and the maximum length of an example.
    """

    if TYPE_CHECKING:  # each task has its own
        train: Config
        validation: Config
        test: Config | None

    def reader(self, part: str) -> ExampleReader[Any]:
        """Return the reader of a part (train, validation or test), which can be iterated repeatedly; raise
        `DataError` if a file is missing.
        """
        reader: ExampleReader[Any] = getattr(self, part).reader()
        return reader

    def get_tables(self, part: str) -> Mapping[str, Config]:
        """Return the tables that define a part, by key; usually there is one."""
        return {part: getattr(self, part)}

    def readers(self, part: str) -> Mapping[str, ExampleReader[Any]]:
        """Return a reader for each text of a part, by the key of its table; raise `DataError` if a file is missing."""
        return {part: self.reader(part)}

    def compute_epoch_tokens(self, part: str, tokens: Sequence[int]) -> Sequence[float]:
        """Return how many tokens of each of the `readers` an epoch has, given their sizes in tokens."""
        return tokens

    def list_settings(self, part: str) -> Sequence[str]:
        """Return the settings that decide how the texts of a part are read, apart from the content of the files."""
        return list(map(dump_text_settings, self.get_tables(part).values()))

    @property
    def evaluation_part(self) -> str:
        """The part on which a finished model is evaluated: test, or validation if there is no test part."""
        return "validation" if self.test is None else "test"


class Recipe(Config):
    """Everything that determines a run: the same recipe, data and software give the same model.

    Abstract: data, architecture and training objective belong to the task.

    Attributes:
        made_by: location of the task's implementation, as "module:NAME"; it needs torch, a recipe does not.
        shown_by: location of its `Demonstration`, likewise; empty if it has none.
        forms: location of the data forms that `heedful new` recognizes, likewise, and without torch; empty if there are
            none.
        auto_keys: keys that the task chooses from the data and the time if they are not given (`Task.choose_settings`).
    """

    made_by: ClassVar[str]
    shown_by: ClassVar[str] = ""
    forms: ClassVar[str] = ""
    auto_keys: ClassVar[tuple[str, ...]] = ()

    format: Literal[1] = FORMAT
    """version of the recipe format"""
    task: str
    """the task to learn"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """seed of all random numbers"""
    output: Annotated[AnyPath, FieldRole.FREE]
    """run folder, relative to the current folder; runs/<name of the recipe file> if not given"""
    engine: Annotated[EngineName | None, FieldRole.FREE] = None
    """engine that computes the finished model on a CPU, in evaluation and use, unless a command option says
    otherwise"""

    if TYPE_CHECKING:  # every recipe has them, each of its task, in an order in which they can be checked
        data: DataConfig
        tokenizer: TokenizerConfig | GivenTokenizerConfig
        model: ArchitectureConfig
        training: TrainingConfig

    @field_validator("training", check_fields=False)
    @classmethod
    def _check_weight_decay(cls, training: TrainingConfig, info: ValidationInfo) -> TrainingConfig:
        """Raise an error if weight decay would change word vectors that the model keeps fixed; otherwise return the
        training config.
        """
        model, decay = info.data.get("model"), training.optimizer.weight_decay
        if model is not None and model.freezes_vectors and decay:
            raise config_error(
                "training.optimizer.weight_decay",
                f"= {decay} would shrink the vectors that model.freeze_vectors keeps: set one of them to 0 or false",
            )
        return training

    @property
    def datasets(self) -> Mapping[str, DataConfig]:
        """The data configs, by task name if the run has several tasks; otherwise one with an empty name."""
        return {"": self.data}

    @property
    def needs_fitting(self) -> bool:
        """Whether the task chooses values for keys of `auto_keys` that are not given."""
        return False

    def get_sample_size(self, part: str) -> int | None:
        """Return how many examples of a part are drawn at random; None if all are used."""
        return None


class MemoryRecipe(Recipe):
    """Recipe of a run whose `model.decoder` attends to a memory.

    Abstract: the task defines what encodes the memory.
    """

    if TYPE_CHECKING:
        training: DecoderTrainingConfig

    @field_validator("training", check_fields=False)
    @classmethod
    def _fit_training(cls, training: DecoderTrainingConfig, info: ValidationInfo) -> DecoderTrainingConfig:
        """Return the training config with REINFORCE settings if the decoder samples its attention; raise an error if
        these are given without such attention.
        """
        model: Any = info.data.get("model")
        if model is None:
            return training
        is_sampled = model.decoder is not None and model.decoder.samples_attention
        return training.fit_to_attention(is_sampled=is_sampled, key="model.decoder.reading.weights")

    @field_validator("generation", check_fields=False)
    @classmethod
    def _reject_coverage(cls, generation: GenerationConfig) -> GenerationConfig:
        """Raise an error if the generation config has a coverage penalty, which only translation supports; otherwise
        return it.
        """
        if getattr(generation, "coverage", 0):
            raise config_error(
                "generation.search", "needs attention to a source text, which this task does not have; leave it out"
            )
        return generation


class FineTunableRecipe(Recipe):
    """Recipe of a run that may start from another model.

    Abstract: each task defines what its model and the other one have in common.

    Attributes:
        body: attribute of the part that both models have; empty if it is the whole model.
        heads: attributes of further parts that are copied if the other model has them.
        required_init: what the other model must be, in words.
        allows_new_vocabulary: whether a new vocabulary may be learned, whose pieces are initialized from those of the
            other model.
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
        """Raise an error if an adapter is given without `init`, the model whose weights it adapts; otherwise return the
        training config.
        """
        if training.adapter is not None and "init" in info.data and info.data["init"] is None:
            raise config_error(
                "training.adapter", "needs init, the folder of the model whose weights stay unchanged: give that too"
            )
        return training

    @classmethod
    @abstractmethod
    def accepts_init(cls, model: Config) -> bool:
        """Whether a model can start from the weights of such an architecture."""

    @classmethod
    def wrap_architecture(cls, model: ArchitectureConfig) -> ArchitectureConfig:
        """Return the architecture built from `model`, that of the model that `init` names: the same one, unless it
        becomes a part of a larger model.
        """
        return model


def get_recipe_class(task: str) -> type[Recipe]:
    """Return the recipe class of a task."""
    recipe_class: type[Recipe] = load_object(list_tasks()[task], context=f"task = {task!r}")
    return recipe_class


def dump_text_settings(config: Config) -> str:
    """Dump the settings of a text as JSON, without the paths of its files and without newer keys at the values that
    older runs imply.
    """
    old_defaults = type(config).migrate({})
    path_keys = {name for name, key_type in get_key_types(type(config)).items() if key_type.is_recipe_relative}
    new_keys = {
        key for key, value in old_defaults.items() if getattr(config, key) == value
    }  # older runs did not have these keys
    return config.model_dump_json(exclude=path_keys | new_keys)


def format_data_key(name: str) -> str:
    """Return the full key of the table of one of a recipe's `datasets`."""
    return f"tasks.{name}.data" if name else "data"


def is_model_known(info: ValidationInfo) -> bool:
    """Whether the table [model] is complete; it is not while it waits for the model that `init` names."""
    return info.data.get("init") is None or isinstance(info.data.get("tokenizer"), GivenTokenizerConfig)


MAX_LAYERS: Final = 10_000
"""Largest number of layers of one part of a model; the deepest published models have a thousand."""
_TYPICAL_VALUE: Final = 512
"""Typical value of a number without a default."""
_TYPICAL_VOCABULARY_SIZE: Final = 32_000


def check_num_layers(model: Config, *, key_prefix: str = "model") -> None:
    """Raise `RecipeError` if a model has so many layers that building them would take hours; it names a key below
    `key_prefix`.
    """
    for key, value, _ in _iter_numbers(model, key_prefix):
        name = key.rpartition(".")[2]
        if (name == "hops" or name.endswith("layers")) and value > MAX_LAYERS:
            raise RecipeError(f"{key} = {value:,}: a model has at most {MAX_LAYERS:,} of them; make it smaller")


def find_largest_key(recipe: Recipe, sizes: Mapping[str, int]) -> str:
    """Return the key of a recipe's model, or the vocabulary, whose value is largest relative to its typical value, as
    in `model.d_model = 1,048,576`; `sizes` are the sizes of the vocabularies by file.

    Args:
        recipe: recipe of the model.
        sizes: numbers of entries of its vocabularies, by file.
    """
    candidates = [
        (value / max(1, typical), f"{key} = {value:,}") for key, value, typical in _iter_numbers(recipe.model, "model")
    ]
    candidates += [(size / _TYPICAL_VOCABULARY_SIZE, f"{file} with {size:,} entries") for file, size in sizes.items()]
    length = getattr(getattr(recipe, "data", None), "max_length", None)
    if isinstance(length, int):
        candidates.append((length / _TYPICAL_VALUE, f"data.max_length = {length:,}"))
    return max(candidates, default=(0, "model"))[1]


def _iter_numbers(config: Config, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Yield the whole numbers in a table and its nested tables: dotted key, value, and typical value. `prefix` is the
    dotted key of the table.
    """
    for name, field in type(config).model_fields.items():
        value: Any = getattr(config, name)
        if isinstance(value, Config):
            yield from _iter_numbers(value, f"{prefix}.{name}")
        for number in value if isinstance(value, tuple | list) else (value,):
            if type(number) is int:
                typical = field.default if type(field.default) is int else _TYPICAL_VALUE
                yield f"{prefix}.{name}", number, typical
