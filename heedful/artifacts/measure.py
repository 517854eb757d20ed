"""A trained run measured on a part of its own data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from heedful.artifacts.device import find_device
from heedful.artifacts.load import open_run
from heedful.artifacts.prepare import open_corpus


def measure(
    folder: Path, *, device: str | torch.device | None = None, say: Callable[[str], None]
) -> tuple[str, Mapping[str, float]]:
    """What the task's own metrics are on the test part, or on the validation part where there is no other.

    Returns:
        The name of the part, and the metrics.

    Raises:
        DataError: a file is missing or cannot be read.
        RunError: the run is damaged or not trained yet.
    """
    run, place = open_run(folder), find_device(device)
    part = "validation" if run.recipe.data.test is None else "test"
    corpus = open_corpus(run, part, say=say)
    task = run.task(corpus, corpus, device=place)
    model = run.trained(device=place)
    with torch.inference_mode():
        return part, task.evaluate(model)
