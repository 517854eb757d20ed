"""Recipe of multitask fine-tuning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.model import TaggerConfig
from heedful.architectures.stack import EncoderConfig
from heedful.recipes.config import Config, FieldRole, InputPath, add_default_kind, config_error
from heedful.recipes.recipe import FineTunableRecipe, format_data_key, is_model_known
from heedful.recipes.text import TokenizerConfig, WordsTokenizerConfig
from heedful.recipes.training import (
    FineTuningScheduleConfig,
    FineTuningTrainingConfig,
    FloatBelowOne,
    LinearConfig,
    NonNegativeFloat,
)
from heedful.tasks.classification.recipe import ClassificationDataConfig, ClassificationRecipe
from heedful.tasks.fine_tuning import FineTuningDataConfig, FineTuningRecipe, require_positions
from heedful.tasks.spans.recipe import SpansDataConfig, SpansRecipe
from heedful.tasks.tagging.recipe import TaggingDataConfig, TaggingRecipe

_TASK_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class MemberConfig(Config):
    """One of several tasks.

    Abstract: the kind defines the data and the metrics.
    """

    weight: NonNegativeFloat = 1.0
    """lambda, the factor of this task's loss; with 0 the task is measured but not learned"""


class ClassificationMemberConfig(MemberConfig):
    """A task that predicts a class or a number for a text or a pair of texts, or chooses one of several candidates."""

    kind: Literal["classification"] = "classification"
    data: ClassificationDataConfig
    """as the table [data] of that task: the texts to train and validate on"""
    label_smoothing: FloatBelowOne = 0.0
    """probability taken from the right class and spread over all"""
    monitor: Literal["accuracy", "f1", "macro_f1", "matthews", "pearson", "spearman"] | None = None
    """the metric of this task in training.monitor = "mean"; if not given the first metric of the benchmark, else
    accuracy or pearson"""


class TaggingMemberConfig(MemberConfig):
    """A task that predicts a tag for each word of a sentence."""

    kind: Literal["tagging"] = "tagging"
    data: TaggingDataConfig
    """as the table [data] of that task: the texts to train and validate on"""
    label_smoothing: FloatBelowOne = 0.0
    """probability taken from the right tag and spread over all"""
    monitor: Literal["accuracy", "f1"] | None = None
    """the metric of this task in training.monitor = "mean"; if not given f1 where tags mark entities, else accuracy"""


class SpansMemberConfig(MemberConfig):
    """A task that answers questions with a span of a text, or with no answer."""

    kind: Literal["spans"] = "spans"
    data: SpansDataConfig
    """as the table [data] of that task: the questions to train and validate on"""
    monitor: Literal["exact_match", "f1"] | None = None
    """the metric of this task in training.monitor = "mean"; f1 if not given"""


AnyMemberConfig = Annotated[
    ClassificationMemberConfig | TaggingMemberConfig | SpansMemberConfig,
    Field(discriminator="kind"),
    add_default_kind("classification"),
]
_SINGLE_TASK_RECIPES: Final[Mapping[str, type[FineTuningRecipe]]] = {
    "classification": ClassificationRecipe,
    "tagging": TaggingRecipe,
    "spans": SpansRecipe,
}


class MultitaskRecipe(FineTunableRecipe):
    """One encoder is trained on several tasks, each with its own head (Liu et al. 2019, MT-DNN)."""

    made_by: ClassVar = "heedful.tasks.multitask.task:TASK"
    body: ClassVar = "encoder"
    required_init: ClassVar = "an encoder"

    task: Literal["multitask"] = "multitask"
    """the task to learn"""
    tasks: dict[str, AnyMemberConfig]
    """a table for each task, such as [tasks.sst-2]; the names are free, the kind is classification if not given"""
    init: InputPath | None = None
    """folder of a pre-trained model whose vocabulary, architecture and weights training begins with"""
    tokenizer: WordsTokenizerConfig = TokenizerConfig()
    """how the text of all tasks is cut into tokens; with `init` in the same way as that model"""
    model: TaggerConfig = EncoderConfig()
    """the architecture; with `init` that of the given model, where only dropout can be changed"""
    training: Annotated[MultitaskTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""

    @classmethod
    def accepts_init(cls, model: Config) -> bool:
        """Return whether the model is an encoder."""
        return isinstance(model, EncoderConfig)

    @property
    def datasets(self) -> Mapping[str, FineTuningDataConfig]:
        """Data config of each task."""
        return {name: task.data for name, task in self.tasks.items()}

    def build_single_recipe(self, name: str) -> FineTuningRecipe:
        """Build the recipe for training the task `name` alone and from scratch; the model must be known."""
        task = self.tasks[name]
        shared = FineTuningTrainingConfig.model_fields.keys() - {"schedule", "adapter"}  # the encoder is that of all
        training: dict[str, Any] = {key: getattr(self.training, key) for key in shared}
        training |= {key: getattr(task, key) for key in ("label_smoothing",) if key in type(task).model_fields}
        table: dict[str, Any] = {
            "seed": self.seed,
            "output": self.output / "tasks" / name,
            "data": task.data,
            "tokenizer": self.tokenizer,
            "model": self.model.model_dump(mode="json", exclude_none=True),
            "training": training | {"schedule": self.training.schedule},
        }
        return _SINGLE_TASK_RECIPES[task.kind].model_validate(table)

    @field_validator("tasks")
    @classmethod
    def _check_names(cls, tasks: dict[str, AnyMemberConfig]) -> dict[str, AnyMemberConfig]:
        """Reject task names with other characters than letters, digits, - and _, names that are too similar, and
        recipes in which all weights are 0.
        """
        names: dict[str, str] = {}
        for name in tasks:
            if not _TASK_NAME.fullmatch(name):
                raise config_error(f"tasks.{name}", "is not a valid task name: use only letters, digits, - and _")
            similar_name = names.setdefault(name.casefold().replace("-", "_"), name)
            if similar_name != name:
                raise config_error(
                    f"tasks.{name}", f"and tasks.{similar_name} can be mistaken for each other; rename one of them"
                )
        if all(task.weight == 0 for task in tasks.values()):
            raise ValueError("must hold at least one task with a weight above 0, as in [tasks.sst-2]")
        return tasks

    @field_validator("model")
    @classmethod
    def _check_positions(cls, model: TaggerConfig, info: ValidationInfo) -> TaggerConfig:
        """Reject models that have fewer positions than the `max_length` of a task, and models other than Transformers
        for tasks that find answers.
        """
        tasks: Mapping[str, AnyMemberConfig] = info.data.get("tasks", {})
        for name, task in tasks.items():
            if is_model_known(info):
                require_positions(model, task.data, table=format_data_key(name))
            if isinstance(task, SpansMemberConfig) and not isinstance(model, EncoderConfig):
                raise config_error(
                    "model.kind", f'= "{model.kind}" cannot find answers, as tasks.{name} requires: set "transformer"'
                )
        return model

    @field_validator("training")
    @classmethod
    def _check_monitor(cls, training: MultitaskTrainingConfig, info: ValidationInfo) -> MultitaskTrainingConfig:
        """Reject a `monitor` that is not "mean", "loss" or TASK/METRIC with the name of a task."""
        tasks = info.data.get("tasks", {})
        name, slash, _ = training.monitor.rpartition("/")
        if tasks and ((slash and name not in tasks) or (not slash and training.monitor not in ("mean", "loss"))):
            raise config_error(
                "training.monitor",
                f'= "{training.monitor}" must be "mean", "loss", or one metric of one task, as in '
                f'"{next(iter(tasks))}/accuracy"',
            )
        return training


class MultitaskTrainingConfig(FineTuningTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    schedule: FineTuningScheduleConfig = LinearConfig(rate=1e-4, warmup_share=0.1)
    """the learning rate of each step"""
    temperature: Annotated[float, Field(ge=1), FieldRole.FIXED] = 1.0
    """T: of all batches a task with n batches gets the share n^(1/T) / sum n^(1/T); 1 is proportional to the tasks'
    sizes, a large number gives all tasks the same"""
    monitor: Annotated[str, Field(min_length=1), FieldRole.FIXED] = "mean"
    """metric that selects the best checkpoint: the mean of what the tasks monitor, loss (the sum of weight times loss),
    or a metric of one task, such as sst-2/accuracy"""
