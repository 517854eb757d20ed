"""The loop, and all that is handed to it: optimizers, schedules, precision, listeners, keepers.

>>> from heedful.training import Habits, Trainer
>>> Trainer(model, task, steps=1000, habits=Habits(clip=1.0)).run()  # doctest: +SKIP
"""

from heedful.training.distributed import World, world
from heedful.training.history import History, Point
from heedful.training.keepers import KeepBest, KeepNothing
from heedful.training.listeners import (
    Broadcast,
    Evaluation,
    Keeper,
    Listener,
    Plan,
    Progress,
    Snapshot,
    Sum,
    Update,
)
from heedful.training.optimizers import Adam, MovingAverage, Optimizer, Sgd
from heedful.training.precision import Exact, Half, Precision
from heedful.training.schedules import Constant, Cosine, InverseSquareRoot, Linear, Noam, Schedule
from heedful.training.trainer import Habits, Limits, Trainer

__all__ = [
    "Adam",
    "Broadcast",
    "Constant",
    "Cosine",
    "Evaluation",
    "Exact",
    "Habits",
    "Half",
    "History",
    "InverseSquareRoot",
    "KeepBest",
    "KeepNothing",
    "Keeper",
    "Limits",
    "Linear",
    "Listener",
    "MovingAverage",
    "Noam",
    "Optimizer",
    "Plan",
    "Point",
    "Precision",
    "Progress",
    "Schedule",
    "Sgd",
    "Snapshot",
    "Sum",
    "Trainer",
    "Update",
    "World",
    "world",
]
