"""Configs of training: duration, optimizer, schedule, checkpoints and adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from heedful.recipes.config import Config, FieldRole, PositiveInt, Probability, add_default_kind, config_error

TrackerName = Literal["tensorboard", "wandb", "mlflow", "aim"]
AdapterTarget = Literal["query", "key", "value", "output", "feed_forward"]
_DEFAULT_TARGETS: Final[tuple[AdapterTarget, ...]] = ("query", "value")
"""Default of Hu et al. 2021, section 7.1: for a given number of weights, better than adapting one kind of projection
alone."""


def _require_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """Raise `ValueError` if a list names something twice; otherwise return it."""
    if duplicates := [name for number, name in enumerate(names) if name in names[:number]]:
        raise ValueError(f'names "{duplicates[0]}" twice: leave one of them out')
    return names


class LoraConfig(Config):
    """Low-rank updates of linear maps: W x + (alpha / rank) B A x, where A and B are trained (Hu et al. 2021)."""

    kind: Literal["lora"] = "lora"
    rank: PositiveInt = 8
    """rank of an update: rows of A, columns of B"""
    alpha: Annotated[float, Field(gt=0)] = 16.0
    """scale of an update, divided by `rank`"""
    dropout: Probability = 0.0
    """dropout on the input of A, in training"""
    on: Annotated[tuple[AdapterTarget, ...], Field(strict=False, min_length=1), AfterValidator(_require_unique)] = (
        _DEFAULT_TARGETS
    )
    """which projections of each attention are adapted, and "feed_forward" for both layers of that network; all five are
    worth their memory if a model has much to learn (Dettmers et al. 2023, section 4)"""


class BottleneckConfig(Config):
    """A small network after each attention and feed-forward network, with a residual connection (Houlsby et al.
    2019).
    """

    kind: Literal["bottleneck"] = "bottleneck"
    width: PositiveInt = 64
    """dimension of its hidden layer"""


AdapterConfig = Annotated[LoraConfig | BottleneckConfig, Field(discriminator="kind"), add_default_kind("lora")]


NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
FloatBelowOne = Annotated[float, Field(ge=0, lt=1)]


class AdamConfig(Config):
    """Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019)."""

    kind: Literal["adam"] = "adam"
    beta1: FloatBelowOne = 0.9
    """decay of the mean of the gradients"""
    beta2: FloatBelowOne = 0.98
    """decay of the mean of the squared gradients"""
    epsilon: PositiveFloat = 1e-9
    """number added to the root of the mean square"""
    weight_decay: NonNegativeFloat = 0.0
    """share of each matrix, times the learning rate, that a step subtracts; vectors have no decay"""


class SgdConfig(Config):
    """Stochastic gradient descent (Robbins and Monro 1951), with momentum (Polyak 1964) if wanted."""

    kind: Literal["sgd"] = "sgd"
    momentum: FloatBelowOne = 0.0
    """decay of the sum of gradients that a step follows; 0 follows the last gradient alone"""
    nesterov: bool = False
    """whether a step looks ahead along the momentum (Nesterov 1983; Sutskever et al. 2013, section 2)"""
    weight_decay: NonNegativeFloat = 0.0
    """share of each matrix, times the learning rate, that a step subtracts; vectors have no decay"""

    @field_validator("nesterov")
    @classmethod
    def _check_nesterov(cls, nesterov: bool, info: ValidationInfo) -> bool:
        if nesterov and info.data.get("momentum") == 0:
            raise ValueError("needs training.optimizer.momentum above 0, such as 0.9")
        return nesterov


class AdaDeltaConfig(Config):
    """AdaDelta (Zeiler 2012), whose steps need no learning rate: 1 in the paper and in Bahdanau et al. 2015."""

    kind: Literal["adadelta"] = "adadelta"
    rho: FloatBelowOne = 0.95
    """decay of the mean squares of gradients and of changes"""
    epsilon: PositiveFloat = 1e-6
    """number added to both mean squares"""
    weight_decay: NonNegativeFloat = 0.0
    """share of each matrix, times the learning rate, that a step subtracts; vectors have no decay"""


class AdafactorConfig(Config):
    """Adafactor without momentum (Shazeer and Stern 2018), which stores means of rows and columns instead of a moment
    for each weight.
    """

    kind: Literal["adafactor"] = "adafactor"
    decay_exponent: Annotated[float, Field(gt=0, le=1)] = 0.8
    """c in the decay 1 - t^-c of the mean squares at step t"""
    clip_threshold: PositiveFloat = 1.0
    """largest root mean square of the change of a weight matrix, in units of the learning rate"""
    scale_parameter: bool = True
    """whether the learning rate of a matrix is multiplied by the root mean square of its weights, as in T5"""
    weight_decay: NonNegativeFloat = 0.0
    """share of each matrix, times the learning rate, that a step subtracts; vectors have no decay"""


OptimizerConfig = Annotated[
    AdamConfig | SgdConfig | AdaDeltaConfig | AdafactorConfig,
    Field(discriminator="kind"),
    add_default_kind("adam"),
]


class NoamConfig(Config):
    """Learning rate factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5) (Vaswani et al. 2017, 5.3)."""

    kind: Literal["noam"] = "noam"
    factor: PositiveFloat = 1.0
    """factor of the learning rate"""
    warmup: PositiveInt = 4000
    """steps until the rate is highest"""


class InverseSqrtConfig(Config):
    """Learning rate that rises linearly, is constant for a while, and falls with the inverse square root of the step.

    T5's (Raffel et al. 2020, 3.1.2) is { rate = 1e-2, warmup = 0, hold = 10_000 }.
    """

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    rate: PositiveFloat = 5e-4
    """the highest rate, reached after `warmup` steps"""
    warmup: NonNegativeInt = 4000
    """steps until the rate is highest"""
    hold: NonNegativeInt = 0
    """steps after the warm-up in which the rate stays highest"""


class CosineConfig(Config):
    """Learning rate that rises linearly, then falls along half a cosine until training ends, by updates or by the
    clock.
    """

    kind: Literal["cosine"] = "cosine"
    rate: PositiveFloat = 5e-4
    """the highest rate, reached after `warmup` steps"""
    warmup: NonNegativeInt = 4000
    """steps until the rate is highest"""
    floor: NonNegativeFloat = 0.0
    """the rate at the end; not above `rate`"""

    @field_validator("floor")
    @classmethod
    def _check_floor(cls, floor: float, info: ValidationInfo) -> float:
        """Raise `ValueError` if the floor is above the highest learning rate; otherwise return it."""
        rate = info.data.get("rate")
        if rate is not None and floor > rate:
            raise ValueError(f"must not exceed training.schedule.rate = {rate:g}")
        return floor


class LinearConfig(Config):
    """Learning rate that rises linearly, then falls linearly to 0 when training ends, by updates or by the clock."""

    kind: Literal["linear"] = "linear"
    rate: PositiveFloat = 5e-4
    """the highest rate, reached after `warmup` steps"""
    warmup_share: Annotated[float, Field(ge=0, lt=1)] | None = None
    """share of all updates, or of the time, until the rate is highest, instead of `warmup`"""
    warmup: NonNegativeInt = Field(default_factory=lambda given: 4000 if given.get("warmup_share") is None else 0)
    """steps until the rate is highest; 4000 if neither is given"""

    @field_validator("warmup")
    @classmethod
    def _check_warmup(cls, warmup: int, info: ValidationInfo) -> int:
        if warmup and info.data.get("warmup_share") is not None:
            raise ValueError("sets the same as training.schedule.warmup_share: leave one of them out")
        return warmup


class ConstantConfig(Config):
    """Learning rate that stays constant after `warmup` steps."""

    kind: Literal["constant"] = "constant"
    rate: PositiveFloat = 5e-4
    """the rate, reached after `warmup` steps"""
    warmup: NonNegativeInt = 0
    """steps until the rate is highest"""


class StepConfig(Config):
    """Learning rate that is multiplied by a factor at regular intervals from a step on (Luong et al. 2015, 4.1)."""

    kind: Literal["step"] = "step"
    rate: PositiveFloat = 5e-4
    """the rate before the first reduction"""
    start: PositiveInt
    """steps before the first reduction"""
    every: PositiveInt
    """steps from one reduction to the next"""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """what a reduction multiplies the rate by"""
    warmup: NonNegativeInt = 0
    """steps in which the rate rises linearly at first"""


class PlateauConfig(Config):
    """Learning rate that is multiplied by a factor when `training.monitor` stops improving."""

    kind: Literal["plateau"] = "plateau"
    rate: PositiveFloat = 5e-4
    """the rate before the first reduction"""
    patience: PositiveInt = 1
    """evaluations in a row without improvement after which the rate is reduced"""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """what a reduction multiplies the rate by"""
    floor: NonNegativeFloat = 0.0
    """the lowest rate"""
    warmup: NonNegativeInt = 0
    """steps in which the rate rises linearly at first"""


AnySchedule = NoamConfig | InverseSqrtConfig | CosineConfig | LinearConfig | ConstantConfig | StepConfig | PlateauConfig
ScheduleConfig = Annotated[AnySchedule, Field(discriminator="kind"), add_default_kind("noam")]
FineTuningScheduleConfig = Annotated[AnySchedule, Field(discriminator="kind"), add_default_kind("linear")]


LOWER_IS_BETTER: Final = frozenset({"loss", "ter", "word_errors"})
"""Metrics that can be monitored of which lower values are better."""


class TrainingConfig(Config):
    """Config of the training loop; it ends when the first of `steps`, `epochs` and `minutes` is reached; at least one
    must be given.

    Abstract: each task adds its losses and the metrics that can be monitored.
    """

    if TYPE_CHECKING:
        monitor: str

    steps: PositiveInt | None = None
    """number of updates"""
    epochs: PositiveInt | None = None
    """passes over the training text"""
    minutes: Annotated[PositiveFloat, Field(le=5_000_000)] | None = None
    """training time in minutes"""
    batch_tokens: Annotated[PositiveInt, FieldRole.FIXED] = 4096
    """tokens in a batch, padding included; for translation, target tokens"""
    accumulate: Annotated[PositiveInt, FieldRole.FIXED] = 1
    """number of batches whose gradients make one update"""
    optimizer: Annotated[OptimizerConfig, FieldRole.FIXED] = AdamConfig()
    """the optimizer"""
    schedule: ScheduleConfig = NoamConfig()
    """the learning-rate schedule"""
    clip: PositiveFloat | None = None
    """maximum norm of the gradients; larger gradients are scaled down to it"""
    precision: Annotated[Literal["auto", "fp32", "bf16"], FieldRole.FIXED] = "auto"
    """number format of weights and activations; auto chooses bf16 if a model of this width is faster with it"""
    gradient_checkpointing: bool = False
    """whether the backward pass computes each Transformer layer again instead of storing its activations (Chen et al.
    2016): less memory, the same gradients, about a third more time"""
    compile: bool = False
    """whether PyTorch compiles the Transformer layers in the first updates, which takes a minute or so; meant for GPUs,
    where it needs Triton; on a CPU it needs a C++ compiler, and updates are slower"""
    shard: bool = False
    """whether several processes split parameters, gradients and the optimizer's state (ZeRO stage 3, Rajbhandari et al.
    2020; FSDP, Zhao et al. 2023) instead of holding all of them each, for models that do not fit one device; with one
    process nothing changes"""
    offload: bool = False
    """whether the parts that a GPU holds are in CPU memory, where the optimizer then computes; only with `shard`"""
    ema: Annotated[Annotated[float, Field(gt=0, lt=1)] | None, FieldRole.FIXED] = None
    """decay of an exponential moving average of the weights, which is then evaluated and saved"""
    average: PositiveInt = 1
    """number of checkpoints that are averaged into the final model"""
    evaluate_every: PositiveInt = 500
    """steps between evaluations on the validation text; each of them saves a checkpoint"""
    keep: PositiveInt = Field(default_factory=lambda given: max(3, given["average"]))
    """checkpoints kept in addition to the best one; max(3, average) if not given"""
    patience: PositiveInt | None = None
    """evaluations without improvement after which training stops"""
    threads: Annotated[PositiveInt, Field(le=4096)] | None = None
    """CPU threads of each process; PyTorch's own choice if not given"""
    trackers: Annotated[tuple[TrackerName, ...], Field(strict=False), AfterValidator(_require_unique)] = ()
    """experiment trackers that also get the recipe and all numbers: "tensorboard", "wandb" (Weights & Biases), "mlflow"
    and "aim"; each needs the extra of its name, such as heedful[wandb]"""
    tensorboard: bool = False
    """short for trackers = ["tensorboard"]"""

    @property
    def all_trackers(self) -> tuple[TrackerName, ...]:
        """The experiment trackers of both keys, each once."""
        short: tuple[TrackerName, ...] = ("tensorboard",) if self.tensorboard else ()
        return tuple(dict.fromkeys((*short, *self.trackers)))

    @property
    def has_schedule(self) -> bool:
        """Whether a learning-rate schedule was given."""
        return "schedule" in self.model_fields_set

    @field_validator("minutes")
    @classmethod
    def _require_limit(cls, minutes: float | None, info: ValidationInfo) -> float | None:
        """Raise an error if neither steps, epochs nor minutes are given, so that training would never end; otherwise
        return the minutes.
        """
        # A limit that is wrong itself is absent from info.data; it has its own message.
        limits = [minutes, *(info.data.get(name, 0) for name in ("steps", "epochs"))]
        if all(limit is None for limit in limits):
            raise config_error(
                "training.steps", "is missing: give training.steps, epochs or minutes, or training never ends"
            )
        return minutes

    @field_validator("offload")
    @classmethod
    def _check_offload(cls, offload: bool, info: ValidationInfo) -> bool:
        """Raise `ValueError` if parts are to be in CPU memory but nothing is split; otherwise return it."""
        if offload and info.data.get("shard") is False:
            raise ValueError("needs training.shard = true")
        return offload

    @field_validator("patience")
    @classmethod
    def _check_patience(cls, patience: int | None, info: ValidationInfo) -> int | None:
        """Raise `ValueError` if training would stop before the schedule reduces the rate; otherwise return the
        patience.
        """
        schedule = info.data.get("schedule")
        if patience is not None and isinstance(schedule, PlateauConfig) and patience <= schedule.patience:
            raise ValueError(
                f"must exceed training.schedule.patience = {schedule.patience}, or training stops before the rate is "
                "reduced"
            )
        return patience

    @field_validator("keep")
    @classmethod
    def _check_keep(cls, keep: int, info: ValidationInfo) -> int:
        """Raise `ValueError` if the number of checkpoints to keep is below that of checkpoints to average; otherwise
        return it.
        """
        average = info.data.get("average")
        if average is not None and keep < average:
            raise ValueError(f"must be at least training.average = {average}; averaged checkpoints must be kept")
        return keep


class FineTunableTrainingConfig(TrainingConfig):
    """Config of the training loop of a model that may start from the weights of another one.

    Abstract: each task adds its losses and the metrics that can be monitored.

    Attributes:
        stacks: attributes of a model that hold stacked layers, each with embeddings below.
    """

    stacks: ClassVar[tuple[str, ...]] = ("encoder",)

    adapter: Annotated[AdapterConfig | None, FieldRole.FIXED] = None
    """adapter to train instead of the weights of `init`, which then stay fixed and are not stored again: a table such
    as { kind = "lora", rank = 8 }; none if not given"""
    freeze: Annotated[Annotated[int, Field(ge=0)] | Literal["embeddings", "encoder"], FieldRole.FIXED] = 0
    """what is not trained: the "embeddings", the embeddings and this number of layers from the lowest on, or the whole
    "encoder"; 0 freezes nothing"""
    layer_decay: Annotated[float, Field(gt=0, le=1), FieldRole.FIXED] = 1.0
    """factor of the learning rate from each layer to the one below it; the head has the full rate"""

    @field_validator("freeze")
    @classmethod
    def _check_freeze(cls, freeze: int | str, info: ValidationInfo) -> int | str:
        """Raise `ValueError` if `freeze` is given together with an adapter, which keeps all weights of `init` fixed;
        otherwise return it.
        """
        if freeze != 0 and info.data.get("adapter") is not None:
            raise ValueError(
                "has no effect with training.adapter, which keeps all weights of init: leave one of them out"
            )
        return freeze


class FineTuningTrainingConfig(FineTunableTrainingConfig):
    """Config of the training loop of an encoder with a head.

    Abstract: each task adds its losses and the metrics that can be monitored.
    """

    min_steps: PositiveInt | None = None
    """minimum number of updates: training continues after the last of `epochs` until it is reached, so that small data
    sets are read often enough (Mosbach et al. 2021); `steps`, `minutes` and `patience` still end training"""

    @field_validator("min_steps")
    @classmethod
    def _check_min_steps(cls, min_steps: int | None, info: ValidationInfo) -> int | None:
        if min_steps is not None and "epochs" in info.data and info.data["epochs"] is None:
            raise ValueError("extends training beyond training.epochs: give that too, or leave min_steps out")
        return min_steps


class ReinforceConfig(Config):
    """Config of REINFORCE for sampled attention (Xu et al. 2015, 4.1); only with weights = "sampled"."""

    reward: NonNegativeFloat = 1.0
    """weight of the reward of a sentence's samples: the log-likelihood of its target minus a baseline"""
    entropy: NonNegativeFloat = 0.002
    """weight of the entropy of the distribution that is sampled, which keeps attention from becoming sharp too early"""
    baseline_decay: FloatBelowOne = 0.9
    """decay of the baseline, a moving mean of the log-likelihood"""


class PredictionTrainingConfig(TrainingConfig):
    """Config of the training loop of a model that predicts tokens, tags or classes; abstract."""

    r_drop: Annotated[NonNegativeFloat, FieldRole.FIXED] = 0.0
    """weight of the divergence between the predictions of two passes with different dropout, alpha of R-Drop (Liang et
    al. 2021), 1 to 5 there; an update then takes twice the time and memory; 0 makes one pass"""


class DecoderTrainingConfig(PredictionTrainingConfig):
    """Config of the training loop of a model that writes text; abstract."""

    label_smoothing: Annotated[FloatBelowOne, FieldRole.FIXED] = 0.1
    """probability that is taken from the correct token and spread over all tokens"""
    reinforce: Annotated[ReinforceConfig | None, FieldRole.FIXED] = None
    """how sampled attention is trained; only for attention whose weights are "sampled", and only there"""

    def fit_to_attention(self, *, is_sampled: bool, key: str) -> Self:
        """Return the config with REINFORCE settings if attention is sampled, and without them otherwise; `key` is the
        recipe key that decides this, for the error.

        Args:
            is_sampled: whether attention is sampled.
            key: key of the recipe that decides this.

        Raises:
            PydanticCustomError: REINFORCE settings are given but attention is not sampled.
        """
        if is_sampled and self.reinforce is None:
            return self.model_copy(update={"reinforce": ReinforceConfig()})
        if self.reinforce is not None and not is_sampled:
            raise config_error(
                "training.reinforce",
                f'trains sampled attention: set {key} = "sampled" in a model of kind "recurrent", or leave '
                "training.reinforce out",
            )
        return self
