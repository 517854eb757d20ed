"""The training loop and its parts: optimizers, schedules, precision, callbacks and checkpoint savers.

>>> from heedful.training import Trainer, TrainerConfig
>>> Trainer(model, objective, steps=1000, config=TrainerConfig(clip=1.0)).run()  # doctest: +SKIP
"""

from heedful.deprecation import module_getattr
from heedful.training.callbacks import (
    BestWeightsSaver,
    Callback,
    CallbackList,
    CheckpointSaver,
    EpochPlan,
    LossSum,
    NullCheckpointSaver,
    StepMetrics,
    TrainingSnapshot,
    TrainState,
    ValidationResult,
)
from heedful.training.distributed import DistributedContext, init_distributed
from heedful.training.history import HistoryPoint, TrainingHistory
from heedful.training.optimizers import (
    SGD,
    AdaDelta,
    Adafactor,
    Adam,
    ConstantSchedule,
    CosineSchedule,
    InverseSquareRootSchedule,
    LearningRateSchedule,
    LinearSchedule,
    MovingAverage,
    NoamSchedule,
    Optimizer,
    PlateauSchedule,
    StepDecaySchedule,
)
from heedful.training.precision import BF16WithMasters, FullPrecision, Precision
from heedful.training.trainer import StoppingLimits, Trainer, TrainerConfig

__all__ = [
    "SGD",
    "AdaDelta",
    "Adafactor",
    "Adam",
    "BF16WithMasters",
    "BestWeightsSaver",
    "Callback",
    "CallbackList",
    "CheckpointSaver",
    "ConstantSchedule",
    "CosineSchedule",
    "DistributedContext",
    "EpochPlan",
    "FullPrecision",
    "HistoryPoint",
    "InverseSquareRootSchedule",
    "LearningRateSchedule",
    "LinearSchedule",
    "LossSum",
    "MovingAverage",
    "NoamSchedule",
    "NullCheckpointSaver",
    "Optimizer",
    "PlateauSchedule",
    "Precision",
    "StepDecaySchedule",
    "StepMetrics",
    "StoppingLimits",
    "TrainState",
    "Trainer",
    "TrainerConfig",
    "TrainingHistory",
    "TrainingSnapshot",
    "ValidationResult",
    "init_distributed",
]

__getattr__ = module_getattr(
    __name__,
    {
        "Broadcast": "CallbackList",
        "Constant": "ConstantSchedule",
        "Cosine": "CosineSchedule",
        "Evaluation": "ValidationResult",
        "Exact": "FullPrecision",
        "Habits": "TrainerConfig",
        "Half": "BF16WithMasters",
        "History": "TrainingHistory",
        "InverseSquareRoot": "InverseSquareRootSchedule",
        "KeepBest": "BestWeightsSaver",
        "KeepNothing": "NullCheckpointSaver",
        "Keeper": "CheckpointSaver",
        "Limits": "StoppingLimits",
        "Linear": "LinearSchedule",
        "Listener": "Callback",
        "Noam": "NoamSchedule",
        "Plan": "EpochPlan",
        "Point": "HistoryPoint",
        "Progress": "TrainState",
        "Schedule": "LearningRateSchedule",
        "Sgd": "SGD",
        "Snapshot": "TrainingSnapshot",
        "Sum": "LossSum",
        "Update": "StepMetrics",
        "World": "DistributedContext",
        "world": "init_distributed",
    },
)
"""Names of version 0.1, each with its new name; they are kept for one version."""
