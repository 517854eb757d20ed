"""A trained run measured on a part of its own data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from heedful.runs.device import find_device
from heedful.runs.load import open_run, trained
from heedful.runs.prepare import open_corpus


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
    part = "validation" if any(data.test is None for data in run.recipe.datasets.values()) else "test"
    corpora = {name: open_corpus(run, part, say=say, name=name) for name in run.members}
    task = run.kind.whole(run, {name: (corpus, corpus) for name, corpus in corpora.items()}, device=place)
    model = trained(run, device=place)
    with torch.inference_mode():
        return part, task.evaluate(model)
