"""How a model learns, as data: how long, by which steps, and what is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator

from heedful.recipes.adapters import AdapterConfig
from heedful.recipes.config import Config, FieldRole, PositiveInt, add_default_kind, config_error

NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
FloatBelowOne = Annotated[float, Field(ge=0, lt=1)]


class AdamConfig(Config):
    """Adam (Kingma and Ba 2015), with weight decay apart from the gradient (Loshchilov and Hutter 2019)."""

    kind: Literal["adam"] = "adam"
    beta1: FloatBelowOne = 0.9
    """how long the mean of the gradients lasts"""
    beta2: FloatBelowOne = 0.98
    """how long the mean of the squared gradients lasts"""
    epsilon: PositiveFloat = 1e-9
    """added to the root of the mean square"""
    weight_decay: NonNegativeFloat = 0.0
    """share of each matrix, times the learning rate, that a step takes away; vectors are spared"""


class SgdConfig(Config):
    """Steps against the gradient itself (Robbins and Monro 1951)."""

    kind: Literal["sgd"] = "sgd"
    weight_decay: NonNegativeFloat = 0.0
    """share of each matrix, times the learning rate, that a step takes away; vectors are spared"""


OptimizerConfig = Annotated[AdamConfig | SgdConfig, Field(discriminator="kind"), add_default_kind("adam")]


class NoamConfig(Config):
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5), the rate of Vaswani et al. 2017, 5.3."""

    kind: Literal["noam"] = "noam"
    factor: PositiveFloat = 1.0
    """what the rate is multiplied by"""
    warmup: PositiveInt = 4000
    """steps until the rate is highest"""


class InverseSqrtConfig(Config):
    """A rate that rises linearly, then falls with the root of the step."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    rate: PositiveFloat = 5e-4
    """the highest rate, reached after `warmup` steps"""
    warmup: PositiveInt = 4000
    """steps until the rate is highest"""


class CosineConfig(Config):
    """A rate that rises linearly, then falls along half a cosine until training ends, by updates or by the clock."""

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
        rate = info.data.get("rate")
        if rate is not None and floor > rate:
            raise ValueError(f"must not exceed training.schedule.rate = {rate:g}")
        return floor


class LinearConfig(Config):
    """A rate that rises linearly, then falls linearly to 0 when training ends, by its updates or by the clock."""

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
            raise ValueError("says the same as training.schedule.warmup_share: leave one of them away")
        return warmup


class ConstantConfig(Config):
    """A rate that stays as it is after `warmup` steps."""

    kind: Literal["constant"] = "constant"
    rate: PositiveFloat = 5e-4
    """the rate, reached after `warmup` steps"""
    warmup: NonNegativeInt = 0
    """steps until the rate is highest"""


AnySchedule = NoamConfig | InverseSqrtConfig | CosineConfig | LinearConfig | ConstantConfig
ScheduleConfig = Annotated[AnySchedule, Field(discriminator="kind"), add_default_kind("noam")]
FineTuningScheduleConfig = Annotated[AnySchedule, Field(discriminator="kind"), add_default_kind("linear")]


class TrainingConfig(Config):
    """The training loop; whichever of `steps`, `epochs` and `minutes` is over first ends it; give at least one.

    Abstract: each task adds what it may minimise and monitor.
    """

    if TYPE_CHECKING:
        monitor: str

    steps: PositiveInt | None = None
    """updates of the weights"""
    epochs: PositiveInt | None = None
    """passes over the training text"""
    minutes: Annotated[PositiveFloat, Field(le=5_000_000)] | None = None
    """time on the clock"""
    batch_tokens: Annotated[PositiveInt, FieldRole.FIXED] = 4096
    """tokens in a batch, padding included; of translations, those of the target"""
    accumulate: Annotated[PositiveInt, FieldRole.FIXED] = 1
    """batches whose gradients make one update"""
    optimizer: Annotated[OptimizerConfig, FieldRole.FIXED] = AdamConfig()
    """how gradients become steps"""
    schedule: ScheduleConfig = NoamConfig()
    """the learning rate of each step"""
    clip: PositiveFloat | None = None
    """largest norm of all gradients together; longer ones are shortened to it"""
    precision: Annotated[Literal["auto", "fp32", "bf16"], FieldRole.FIXED] = "auto"
    """number format of weights and activations; auto takes bf16 where a model of that width is faster in it"""
    ema: Annotated[Annotated[float, Field(gt=0, lt=1)] | None, FieldRole.FIXED] = None
    """decay of an exponential moving average of the weights, which is then what is evaluated and saved"""
    average: PositiveInt = 1
    """checkpoints whose mean is the final model"""
    evaluate_every: PositiveInt = 500
    """steps between evaluations on the validation text, each of which saves a checkpoint"""
    keep: PositiveInt = Field(default_factory=lambda given: max(3, given["average"]))
    """checkpoints kept beside the best one; max(3, average) if not given"""
    patience: PositiveInt | None = None
    """evaluations without improvement after which training stops"""
    threads: Annotated[PositiveInt, Field(le=4096)] | None = None
    """CPU threads of each process; PyTorch's own choice if not given"""
    tensorboard: bool = False
    """also write TensorBoard's event files (needs the extra heedful[tensorboard])"""

    @property
    def has_schedule(self) -> bool:
        """Whether somebody has said how fast it learns."""
        return "schedule" in self.model_fields_set

    @field_validator("minutes")
    @classmethod
    def _require_limit(cls, minutes: float | None, info: ValidationInfo) -> float | None:
        # A limit that is wrong itself is absent from info.data; it has its own message.
        limits = [minutes, *(info.data.get(name, 0) for name in ("steps", "epochs"))]
        if all(limit is None for limit in limits):
            raise config_error(
                "training.steps", "is missing: give training.steps, epochs or minutes, or training never ends"
            )
        return minutes

    @field_validator("keep")
    @classmethod
    def _check_keep(cls, keep: int, info: ValidationInfo) -> int:
        average = info.data.get("average")
        if average is not None and keep < average:
            raise ValueError(f"must be at least training.average = {average}, what is averaged must be kept")
        return keep


class FineTunableTrainingConfig(TrainingConfig):
    """The training loop of a model that may begin with the weights of another one.

    Abstract: each task adds what it may minimise and monitor.

    Attributes:
        stacks: attributes of a model that hold layers on top of each other, each with embeddings below.
    """

    stacks: ClassVar[tuple[str, ...]] = ("encoder",)

    adapter: Annotated[AdapterConfig | None, FieldRole.FIXED] = None
    """what learns in the place of the weights of `init`, which then stay as they are and are not stored again: a table
    such as { kind = "lora", rank = 8 }; none if not given"""
    freeze: Annotated[Annotated[int, Field(ge=0)] | Literal["embeddings", "encoder"], FieldRole.FIXED] = 0
    """what keeps the weights it begins with: the "embeddings", these and as many layers, from the lowest on, or the
    whole "encoder"; 0 is nothing"""
    layer_decay: Annotated[float, Field(gt=0, le=1), FieldRole.FIXED] = 1.0
    """what the learning rate is multiplied by from each layer to the one below it; the head has the full rate"""

    @field_validator("freeze")
    @classmethod
    def _check_freeze(cls, freeze: int | str, info: ValidationInfo) -> int | str:
        if freeze != 0 and info.data.get("adapter") is not None:
            raise ValueError("says less than training.adapter, which keeps all weights of init: leave one of them away")
        return freeze


class FineTuningTrainingConfig(FineTunableTrainingConfig):
    """The training loop of an encoder with a head; see above.

    Abstract: each task adds what it may minimise and monitor.
    """

    min_steps: PositiveInt | None = None
    """updates until which training goes on behind the last of `epochs`, so that few examples are seen often enough
    (Mosbach et al. 2021); `steps`, `minutes` and `patience` end it all the same"""

    @field_validator("min_steps")
    @classmethod
    def _check_min_steps(cls, min_steps: int | None, info: ValidationInfo) -> int | None:
        if min_steps is not None and "epochs" in info.data and info.data["epochs"] is None:
            raise ValueError("says how far to go behind training.epochs: give that too, or leave min_steps away")
        return min_steps


class ReinforceConfig(Config):
    """What attention learns from its draws (Xu et al. 2015, 4.1); only where weights = "sampled"."""

    reward: NonNegativeFloat = 1.0
    """weight of what a sentence's draws earned: the log-likelihood of its target beyond a baseline"""
    entropy: NonNegativeFloat = 0.002
    """weight of the entropy that draws come from, which keeps attention from choosing too early"""
    baseline_decay: FloatBelowOne = 0.9
    """how long earlier updates last in the baseline, a moving mean of the log-likelihood"""


class DecoderTrainingConfig(TrainingConfig):
    """Abstract: the training loop of a model that writes."""

    label_smoothing: Annotated[FloatBelowOne, FieldRole.FIXED] = 0.1
    """probability taken from the right token and spread over all"""
    reinforce: Annotated[ReinforceConfig | None, FieldRole.FIXED] = None
    """what attention learns from its draws, where its weights = "sampled"; only there"""

    def fit_to_attention(self, *, is_sampled: bool, key: str) -> Self:
        """With what attention learns from its draws, where it draws.

        Args:
            is_sampled: whether attention is left to chance.
            key: of the recipe that says so.

        Raises:
            PydanticCustomError: it is told to learn from draws that are not made.
        """
        if is_sampled and self.reinforce is None:
            return self.model_copy(update={"reinforce": ReinforceConfig()})
        if self.reinforce is not None and not is_sampled:
            raise config_error(
                "training.reinforce",
                f'teaches attention that is drawn: set {key} = "sampled" in a model of kind "recurrent", or leave '
                "training.reinforce away",
            )
        return self
