"""Whether training can give, or has given, a useful model, and what would help."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from torch import nn

from heedful.data.corpus import Corpus
from heedful.recipes.recipe import FineTunableRecipe
from heedful.tasks.objective import TrainingObjective
from heedful.tasks.task import Run
from heedful.training.callbacks import TrainState
from heedful.training.eta import TrainingForecast, format_duration

_LONGER: Final = 4
"""Factor of the training time to advise where nothing better is known."""
_SHORT_SHARE: Final = 0.5
"""Share of the labels of a useful model below which training is called too short."""


def find_weaknesses(
    run: Run[Any, Any], objective: TrainingObjective[Any], metrics: Mapping[str, float], *, model: nn.Module
) -> Sequence[str]:
    """Return why a trained model is not useful yet, one sentence each; empty if it is.

    Args:
        run: the finished run.
        objective: with its training and validation data.
        metrics: of the final model on the validation data.
        model: the final model.
    """
    weaknesses = list(run.task.training_warnings(run, metrics, model=model))
    unigram_loss = objective.compute_unigram_loss()
    if unigram_loss is not None and metrics["loss"] >= unigram_loss:
        weaknesses.append(
            f"a perplexity of {math.exp(metrics['loss']):,.0f} is not below {math.exp(unigram_loss):,.0f}, that of a "
            "model that only knows how frequent each token is"
        )
    return weaknesses


def count_useful_labels(run: Run[Any, Any], corpora: Iterable[Corpus]) -> float | None:
    """Return how many labels training reads before models of the task are usually useful; None if that is not known,
    or if training starts from a trained model. `corpora` are the training data.
    """
    if run.task.useful_amount is None or getattr(run.recipe, "init", None) is not None:
        return None
    labels, passes = run.task.useful_amount
    return min(labels, passes * sum(len(corpus) + int(corpus.lengths[:, 1].sum()) for corpus in corpora))


def list_remedies(run: Run[Any, Any], progress: TrainState, *, needed: float | None) -> Iterator[str]:
    """Yield what would make the model of a run useful: more time with an estimate, more data, and another start.

    Args:
        run: a finished run whose model is not useful.
        progress: its state at the end.
        needed: see `count_useful_labels`.
    """
    units = run.task.unit_names.labels
    seconds = max(progress.seconds, 1.0)
    factor = _LONGER if needed is None else max(_LONGER, needed / max(1, progress.labels))
    reason = "" if needed is None else f", of about {needed:,.0f} that such models need"
    yield (
        f"more time: it has read {progress.labels:,} {units} in {format_duration(seconds)}{reason}; at this speed try "
        f"about {format_duration(factor * seconds)}, or {math.ceil(factor * progress.step):,} updates "
        f"(training.minutes = {math.ceil(factor * seconds / 60)}, training.steps = {math.ceil(factor * progress.step)})"
    )
    yield "more training data, as long as it is of the same kind"
    if isinstance(run.recipe, FineTunableRecipe) and run.recipe.init is None:
        yield "starting from a trained model instead of random weights (init)"


def describe_short_training(forecast: TrainingForecast, needed: float | None, *, seconds: float) -> str:
    """Return a warning if training will end long before a useful number of labels is read; otherwise an empty string.

    Args:
        forecast: with the measured speed.
        needed: labels that training reads before models of the task are usually useful; None if unknown.
        seconds: time until training ends.
    """
    labels = forecast.labels_per_second * (forecast.elapsed + seconds)
    if needed is None or labels >= _SHORT_SHARE * needed:
        return ""
    minutes = needed / max(1.0, forecast.labels_per_second) / 60
    return (
        f"until training ends, the model reads about {labels:,.0f} tokens, and models of this task are usually useful "
        f"from about {needed:,.0f} on: at this speed that takes {format_duration(60 * minutes)} (training.minutes = "
        f"{math.ceil(minutes):,})"
    )
