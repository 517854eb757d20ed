"""From a recipe to a trained model: everything between, in order."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from heedful.data.corpus import Corpus, Report, fingerprint
from heedful.errors import RecipeError
from heedful.recipes.problems import risks
from heedful.recipes.recipe import Recipe
from heedful.recipes.training import CosineConfig, LinearConfig
from heedful.runs.checkpoints import Checkpoints, finish, resume
from heedful.runs.device import find_device
from heedful.runs.initial import fresh, resolved
from heedful.runs.load import trained
from heedful.runs.loop import build_habits, build_limits, build_schedule, freeze, rate_factors, wants_half
from heedful.runs.memory import keep_pages
from heedful.runs.metrics_log import MetricsLog
from heedful.runs.prepare import claimed, open_corpus, open_or_create, require_inputs
from heedful.runs.tensorboard import EventFiles
from heedful.store import write_json
from heedful.tasks.kind import Run
from heedful.tasks.task import Task
from heedful.training.distributed import World, world
from heedful.training.listeners import Broadcast, Listener, Progress
from heedful.training.optimizers import Adam, MovingAverage
from heedful.training.precision import Exact, Half
from heedful.training.trainer import Trainer
from heedful.version import __version__

Corpora: TypeAlias = Mapping[str, tuple[Corpus, Corpus]]
"""What is learned from and what is measured on, of each member of a run."""


@dataclass(frozen=True)
class Outcome:
    """How training ended.

    Attributes:
        folder: the run folder.
        signal: the signal that stopped it, 0 when it came to its end.
        leads: whether this process should report (the first of several).
    """

    folder: Path
    signal: int
    leads: bool


def train(
    recipe: Recipe,
    *,
    listeners: Sequence[Listener] = (),
    say: Callable[[str], None] = lambda _: None,
    device: str | torch.device | None = None,
) -> Outcome:
    """Trains the recipe's model into its run folder, or goes on where it was left.

    Several processes started by torchrun train one model together, batch for batch as one process would.

    Args:
        recipe: what to do; see `heedful.recipes.load.load_recipe`.
        listeners: told of updates and evaluations; metrics.jsonl is always written.
        say: told in one line what is being done.
        device: where to compute; a GPU where there is one.

    Raises:
        DataError: a text cannot be used.
        MissingExtraError: TensorBoard is wanted and not installed.
        RecipeError: there is no such device.
        RunError: the run folder holds something else, is damaged, or another process trains in it.
        TrainingError: the loss is not finite, or there is no room to save.
    """
    recipe = resolved(recipe)
    require_inputs(recipe)
    keep_pages()
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)
    with world(find_device(device)) as here, ExitStack() as held:

        def begin() -> tuple[Run[Any, Any], Corpora]:
            held.enter_context(claimed(recipe.output))
            for risk in risks(recipe):
                say(f"warning: {risk}")
            opened = _open(recipe, say)
            _describe(*opened, device=here.device)
            return opened

        run, corpora = here.lead(begin) or _open(recipe, _silent)
        signal = _train(run, corpora, here=here, listeners=listeners, say=say if here.leads else _silent)
    return Outcome(run.folder, signal, here.leads)


def _silent(_: str) -> None:
    """What processes say that do not lead."""


def _open(recipe: Recipe, say: Callable[[str], None]) -> tuple[Run[Any, Any], Corpora]:
    run = open_or_create(recipe, say=say)
    return run, {name: _corpora(run, name, say) for name in run.members}


def _corpora(run: Run[Any, Any], name: str, say: Callable[[str], None]) -> tuple[Corpus, Corpus]:
    """Both parts of what one task is learned from."""
    train_text, validation = (_told(run, name, part, say) for part in ("train", "validation"))
    report, *_, last = train_text.report, *train_text.sides.values()
    say(
        f"{_called(name)}{report.kept:,} training examples, {len(last.stream):,} tokens"
        + (
            f" ({report.empty:,} empty and {report.too_long:,} too long ones left out)"
            if report.kept < _all(report)
            else ""
        )
    )
    return train_text, validation


def _told(run: Run[Any, Any], name: str, part: str, say: Callable[[str], None]) -> Corpus:
    corpus = open_corpus(run, part, say=say, name=name)
    for remark in _remarks(run.members[name], corpus):
        say(f"{_called(name)}{part}: {remark}")
    return corpus


def _remarks(run: Run[Any, Any], corpus: Corpus) -> Sequence[str]:
    return run.kind.remarks(run, corpus)


def _called(name: str) -> str:
    """What a line about one of several tasks begins with."""
    return f"{name}: " if name else ""


def _all(report: Report) -> int:
    return report.kept + report.empty + report.too_long


def _train(
    run: Run[Any, Any],
    corpora: Corpora,
    *,
    here: World,
    listeners: Sequence[Listener],
    say: Callable[[str], None],
) -> int:
    snapshot = resume(run.folder)
    progress = snapshot.progress if snapshot else Progress()
    model: nn.Module = fresh(run, say=say) if snapshot is None else run.model()
    model = model.to(here.device)
    freeze(model, run.recipe.training)
    run.kind.hold(run, model)
    task = run.kind.whole(run, corpora, device=here.device)
    require_metric(task, run.recipe.training.monitor)
    log = MetricsLog(run.folder / "metrics.jsonl")
    with ExitStack() as files:
        told: list[Listener] = []
        if here.leads:
            log.rewind(progress, snapshot.gathered if snapshot else {})
            told = [log, *listeners]
            if run.recipe.training.tensorboard:
                events = EventFiles(run.folder / "tensorboard", resumed_at=progress.step)
                told.append(files.enter_context(closing(events)))
        trainer = _trainer(run, model, task, here=here, listener=Broadcast(told))
        if snapshot is not None:
            trainer.restore(snapshot)
        signal = trainer.run()
        if not signal:
            here.lead(lambda: _conclude(run, task, device=here.device, progress=trainer.progress, log=log, say=say))
    return signal


def _trainer(run: Run[Any, Any], model: nn.Module, task: Task[Any], *, here: World, listener: Listener) -> Trainer[Any]:
    config = run.recipe.training
    precision = Half(model) if wants_half(config, here.device) else Exact(model)
    adam = config.optimizer
    return Trainer(
        model,
        task,
        optimizer=Adam(
            precision.trainable,
            betas=(adam.beta1, adam.beta2),
            epsilon=adam.epsilon,
            weight_decay=adam.weight_decay,
            factors=rate_factors(model, config),
        ),
        precision=precision,
        schedule=build_schedule(config, d_model=run.recipe.model.d_model, steps=_steps(run.recipe, task)),
        world=here,
        limits=build_limits(config),
        habits=build_habits(config, seed=run.recipe.seed, monitor=config.monitor),
        listener=listener,
        keeper=Checkpoints(run.folder, keep=config.keep),
        average=MovingAverage(precision.masters, config.ema) if config.ema is not None else None,
    )


def _conclude(
    run: Run[Any, Any],
    task: Task[Any],
    *,
    device: torch.device,
    progress: Progress,
    log: MetricsLog,
    say: Callable[[str], None],
) -> None:
    """Makes the final model and measures it, as it will be used, beside the best single checkpoint."""
    steps = finish(run.folder, average=run.recipe.training.average)
    with torch.no_grad():
        metrics = task.evaluate(trained(run, device=device))
    run.kind.conclude(run, task)
    log.concluded(progress, metrics, steps=steps)
    measured = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items())
    made_of = f"mean of {len(steps)} checkpoints" if len(steps) > 1 else f"checkpoint of step {steps[0]}"
    best = f"{run.recipe.training.monitor} {progress.best:.3f} at step {progress.best_step}"
    say(f"final model ({made_of})  validation {measured}  (best single checkpoint: {best})")


def require_metric(task: Task[Any], name: str) -> None:
    """Refuses to monitor what the data do not allow to measure."""
    if name not in task.metrics:
        raise RecipeError(
            f'training.monitor = "{name}": cannot be measured on these data; choose one of '
            f"{', '.join(sorted(task.metrics))}"
        )


def _steps(recipe: Recipe, task: Task[Any]) -> int | None:
    """How many updates there will be, as far as the limits tell."""
    limits = recipe.training
    if limits.epochs is None or not isinstance(limits.schedule, CosineConfig | LinearConfig):
        return limits.steps
    per_epoch = (len(task.updates(epoch, accumulate=limits.accumulate)) for epoch in range(limits.epochs))
    by_epochs = max(sum(per_epoch), build_limits(limits).min_steps)
    return by_epochs if limits.steps is None else min(by_epochs, limits.steps)


def _describe(run: Run[Any, Any], corpora: Corpora, *, device: torch.device) -> None:
    """run.json: with what a run was made, for whoever wants to make it again."""
    texts: dict[str, Mapping[str, object]] = {
        name: {
            part: {"files": [path.name for path in text.paths], "sha256": fingerprint(text.paths)}
            for part, text in (("train", data.reader("train")), ("validation", data.reader("validation")))
        }
        for name, data in run.recipe.datasets.items()
    }
    examples: dict[str, Mapping[str, object]] = {
        name: {"train": asdict(train.report), "validation": asdict(validation.report)}
        for name, (train, validation) in corpora.items()
    }
    content = {
        "heedful": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu",
        "threads": torch.get_num_threads(),
        "command": sys.argv,
        "seed": run.recipe.seed,
        "data": texts.get("", texts),
        "examples": examples.get("", examples),
        "recipe": json.loads(run.recipe.model_dump_json(exclude_none=True)),
    }
    write_json(run.folder / "run.json", content)
