"""Predictor of a model with several tasks, with one predictor for each task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from heedful.deprecation import keep_old_names
from heedful.errors import RunError

PredictorType = TypeVar("PredictorType")


@keep_old_names(only="find_head")
class MultiHeadPredictor:
    """Predictors of several tasks that share an encoder, by task name.

    Args:
        predictors: predictor of each task.
        location: folder of the model, for messages.
    """

    def __init__(self, predictors: Mapping[str, Any], *, location: str) -> None:
        self._predictors = dict(predictors)
        self._location = location

    def __repr__(self) -> str:
        return f"MultiHeadPredictor({', '.join(f'{name}: {face!r}' for name, face in self._predictors.items())})"

    @property
    def names(self) -> tuple[str, ...]:
        """Task names, in the recipe's order."""
        return tuple(self._predictors)

    def head(self, name: str) -> Any:
        """Return the predictor of one task; raise `RunError` if there is no such task."""
        if name not in self._predictors:
            raise RunError(f"{self._location}: has no task {name!r}; choose one of {', '.join(self.names)}")
        return self._predictors[name]

    def find_head(
        self, predictor_class: type[PredictorType], *, purpose: str, name: str | None = None
    ) -> PredictorType:
        """Return the only predictor of a class, or the named one.

        Args:
            predictor_class: a class or protocol.
            purpose: what it does, for messages.
            name: name of its task; not needed if only one predictor is of that class.

        Raises:
            RunError: there is no such predictor, or there are several and no task is named.
        """
        matches = {
            task_name: predictor
            for task_name, predictor in self._predictors.items()
            if isinstance(predictor, predictor_class)
        }
        named = ", ".join(matches)
        if name is not None:
            self.head(name)
        if not matches:
            raise RunError(f"{self._location}: none of its tasks {purpose} ({', '.join(self.names)}); name another run")
        if name is None and len(matches) > 1:
            raise RunError(f"{self._location}: more than one of its tasks {purpose}; choose one of {named} with --task")
        if name is not None and name not in matches:
            raise RunError(f"{self._location}: {name} is not a task that {purpose}; choose one of {named}")
        return matches[name] if name is not None else next(iter(matches.values()))
