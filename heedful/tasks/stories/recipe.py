"""The recipe of a run that answers questions about stories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.model import MemoryNetworkConfig
from heedful.compression import strip_compression_suffix
from heedful.recipes.config import FieldRole, PositiveInt, Probability, add_inferred_kind, config_error
from heedful.recipes.recipe import DataConfig, Recipe
from heedful.recipes.text import FileConfig, NonEmptyName, TokenizerConfig
from heedful.recipes.training import FineTuningScheduleConfig, LinearConfig, TrainingConfig


class BabiConfig(FileConfig):
    """bAbI's files of one part, of versions 1.0 to 1.2, in a folder or a .tar.gz."""

    read_by: ClassVar = "heedful.tasks.stories.data:BabiReader"

    kind: Literal["babi"] = "babi"
    part: Literal["train", "valid", "test"]
    """which of the files: those that end in _train.txt, _valid.txt or _test.txt"""
    tasks: Annotated[tuple[PositiveInt, ...], Field(strict=False)] = ()
    """numbers of the tasks, as in [1, 2, 15]; all of them if none is given"""
    folder: NonEmptyName | None = None
    """name of the folder that holds the files, where an archive has several, such as en and en-10k"""


class StoriesJsonlConfig(FileConfig):
    """A JSON object on each line: `facts`, `question`, `answer`; perhaps `supporting`, numbers from 0, and `task`."""

    read_by: ClassVar = "heedful.tasks.stories.data:read_stories_jsonl"

    kind: Literal["jsonl"] = "jsonl"


def _guess_stories_kind(table: Mapping[str, Any]) -> str:
    return "jsonl" if strip_compression_suffix(str(table.get("path", ""))).endswith(".jsonl") else "babi"


StoriesConfig = Annotated[
    BabiConfig | StoriesJsonlConfig, Field(discriminator="kind"), add_inferred_kind(_guess_stories_kind)
]


class StoriesDataConfig(DataConfig):
    """Stories, questions about them and their answers."""

    train: StoriesConfig
    """the questions to learn from"""
    validation: StoriesConfig
    """the questions that checkpoints are compared on"""
    test: Annotated[StoriesConfig | None, FieldRole.FREE] = None
    """the questions that `heedful evaluate` takes, instead of those of validation"""
    memory: Annotated[PositiveInt, FieldRole.ENCODING] = 50
    """facts that are read, the last ones of a story"""
    max_length: Annotated[PositiveInt, FieldRole.ENCODING] = 64
    """longest sentence, in words; stories with longer ones are left out"""


class StoryWordsConfig(TokenizerConfig):
    """Words between spaces and punctuation; punctuation is dropped."""

    kind: Literal["words"] = "words"
    """words"""
    lowercase: bool = True
    """whether all text is lowercased first"""


class StoriesTrainingConfig(TrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    batch_tokens: Annotated[PositiveInt, FieldRole.FIXED] = 32
    """stories in a batch, however long they are"""
    schedule: FineTuningScheduleConfig = LinearConfig(rate=5e-3, warmup=0)
    """the learning rate of each step"""
    linear_start: Annotated[Annotated[int, Field(ge=0)], FieldRole.FIXED] = 0
    """epochs at first in which scores themselves are weights, without a softmax (linear start); metrics are those of
    the model with its softmax, so they are poor until then"""
    noise: Annotated[Probability, FieldRole.FIXED] = 0.0
    """how probable an empty memory is before each fact, in training (random noise), so that a model does not learn ages
    by heart; 0.1 in the paper"""
    monitor: Annotated[Literal["loss", "accuracy"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation questions: the likelihood, or the share of right
    answers"""


class StoriesRecipe(Recipe):
    """Questions about stories are answered by attending to their sentences."""

    made_by: ClassVar = "heedful.tasks.stories.task:TASK"
    shown_by: ClassVar = "heedful.tasks.stories.demonstration:StoriesDemonstration"
    forms: ClassVar = "heedful.tasks.data_formats:STORIES"

    task: Literal["stories"] = "stories"
    """the task to learn"""
    data: StoriesDataConfig
    """the table [data] names the stories to train and validate on"""
    tokenizer: StoryWordsConfig = StoryWordsConfig()
    """how sentences are cut into words"""
    model: MemoryNetworkConfig = MemoryNetworkConfig()
    """the architecture"""
    training: Annotated[StoriesTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in epochs = 60"""

    @field_validator("training")
    @classmethod
    def _check_linear_start(cls, training: StoriesTrainingConfig, info: ValidationInfo) -> StoriesTrainingConfig:
        """Reject a linear start for models whose attention has no softmax to leave out."""
        model = info.data.get("model")
        if model is not None and model.attention != "hops" and training.linear_start:
            raise config_error(
                "training.linear_start",
                f'leaves out the softmax of each hop, but model.attention = "{model.attention}" has no softmax; set '
                "it to 0",
            )
        return training
