"""A trained language model measured on a part of its own data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from heedful.errors import RecipeError
from heedful.models.language_model import LanguageModel
from heedful.runs.device import find_device
from heedful.runs.load import open_task, trained
from heedful.runs.prepare import open_corpus
from heedful.tasks.language.problem import LanguageModelling
from heedful.tasks.language.text_size import Likelihood, text_size


def measure_language(
    folder: Path,
    *,
    context: int | None = None,
    stride: int | None = None,
    device: str | torch.device | None = None,
    say: Callable[[str], None],
) -> tuple[str, Likelihood]:
    """The likelihood of the test part, or of the validation part where there is no other.

    Args:
        folder: of the run.
        context: tokens that are read at a time; data.length unless given.
        stride: of them, how many are predicted at a time; all unless given.
        device: where to compute; a GPU where there is one.
        say: told in one line what is being done.

    Returns:
        The name of the part, and what was measured.

    Raises:
        DataError: a file is missing or cannot be read.
        RecipeError: context or stride do not fit the model.
        RunError: the run is damaged or not trained yet.
    """
    run, place = open_task("language_modelling", folder), find_device(device)
    data, longest = run.recipe.data, run.recipe.model.longest
    context = data.length if context is None else context
    if context < 1 or (longest is not None and context > longest.tokens):
        most = "" if longest is None else f" and at most {longest.key} = {longest.tokens}"
        raise RecipeError(f"--context: {context}; must be at least 1{most}")
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise RecipeError(f"--stride: {stride}; must be from 1 to {context}, the tokens that are read at a time")
    part = "validation" if data.test is None else "test"
    corpus = open_corpus(run, part, say=say)
    task, stream = run.kind.problem(run, corpus, corpus, device=place), corpus["text"].stream
    assert isinstance(task, LanguageModelling)
    model = trained(run, device=place)
    assert isinstance(model, LanguageModel)
    with torch.inference_mode():
        nats = task.nats(model, context=context, stride=stride)
    unknown = run.tokenizer.special.unk
    return part, Likelihood(
        nats=nats,
        tokens=len(stream),
        unknown=0 if unknown is None else int(np.count_nonzero(stream == unknown)),
        size=text_size(data.reader(part), run.tokenizer),
        context=context,
        stride=stride,
    )
