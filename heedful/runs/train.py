"""From a recipe to a trained model: everything between, in order."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from heedful.data.corpus import Corpus
from heedful.data.mixing import tokens_by_text
from heedful.engines.arrange import require_engine
from heedful.errors import RecipeError
from heedful.recipes.load import load_recipe
from heedful.recipes.problems import risks
from heedful.recipes.recipe import DataConfig, Recipe, data_table
from heedful.runs.checkpoints import finish, resume
from heedful.runs.costs import Costs, require_room
from heedful.runs.device import find_device, keep_pages
from heedful.runs.fitted import fitted
from heedful.runs.initial import fresh, resolved, unfinished
from heedful.runs.learning_curve import read_curve
from heedful.runs.load import engine_of, is_begun, trained
from heedful.runs.loop import build_trainer, freeze
from heedful.runs.metrics_log import EventFiles, MetricsLog
from heedful.runs.prepare import claimed, open_corpus, open_or_create, require_inputs
from heedful.runs.remarks import Remarks
from heedful.runs.texts import FILE, as_noted, changes, noted, texts_of
from heedful.store import write_findings, write_json
from heedful.tasks.kind import Run
from heedful.tasks.task import Task
from heedful.training.distributed import World, world
from heedful.training.listeners import Broadcast, Listener, Progress
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

    def __repr__(self) -> str:
        ended = f"stopped by signal {self.signal}" if self.signal else "trained"
        return f"Outcome({str(self.folder)!r}, {ended})"

    def _repr_html_(self) -> str:
        from heedful.runs.curve_pictures import CurvePictures

        curve = CurvePictures({str(self.folder): read_curve(self.folder / "metrics.jsonl")})
        return f"<p>{escape(repr(self))}</p>{curve._repr_html_()}"


def train(
    recipe: Recipe | str | Path,
    *,
    listeners: Sequence[Listener] = (),
    say: Callable[[str], None] = lambda _: None,
    device: str | torch.device | None = None,
) -> Outcome:
    """Trains the recipe's model into its run folder, or goes on where it was left.

    Several processes started by torchrun train one model together, batch for batch as one process would.

    Args:
        recipe: what to do; see `heedful.recipes.load.load_recipe`, which reads it where a path is given.
        listeners: told of updates and evaluations; metrics.jsonl is always written.
        say: told in one line what is being done.
        device: where to compute; a GPU where there is one.

    Raises:
        DataError: a text cannot be used.
        MissingExtraError: TensorBoard is wanted and not installed.
        RecipeError: there is no such device, or the engine that the model is to be measured with.
        RunError: the run folder holds something else, is damaged, or another process trains in it.
        TrainingError: the loss is not finite, or there is no room to save.
    """
    return _train_recipe(
        resolved(recipe if isinstance(recipe, Recipe) else load_recipe(recipe)),
        listeners=listeners,
        say=say,
        device=device,
    )


def _train_recipe(
    recipe: Recipe,
    *,
    listeners: Sequence[Listener],
    say: Callable[[str], None],
    device: str | torch.device | None,
) -> Outcome:
    """`train`, of a recipe whose folder of origin was found."""
    require_inputs(recipe)
    keep_pages()
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)
    with world(find_device(device)) as here, ExitStack() as held:
        if (engine := engine_of(recipe, here.device)) is not None:
            require_engine(engine, device=here.device)

        def begin() -> tuple[Run[Any, Any], Corpora]:
            held.enter_context(claimed(recipe.output))
            whole = recipe
            if not is_begun(recipe.output):
                whole = fitted(recipe, device=here.device, processes=here.size, say=say)
            for risk in risks(whole):
                say(f"warning: {risk}")
            opened = _open(whole, say)
            _describe(*opened, device=here.device, say=say)
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
    """Both parts of what one task is learned from; a line about one of several tasks begins with its name."""
    member, called = run.members[name], f"{name}: " if name else ""
    found = []
    for part in ("train", "validation"):
        found.append(open_corpus(run, part, say=say, name=name))
        for remark in member.kind.remarks(member, found[-1]):
            say(f"{called}{part}: {remark}")
    train_text, validation = found
    report = train_text.report
    left_out = ""
    if report.empty or report.too_long:
        left_out = f" ({report.empty:,} empty and {report.too_long:,} too long ones left out)"
    say(f"{called}{member.kind.counted.size(train_text, 'training')}{left_out}")
    side = member.kind.counted.side or list(train_text.sides)[-1]
    for line in _parts(member.recipe.data, train_text, side=side, table=data_table(name)):
        say(f"{called}{line}")
    if warning := _leaked(member.kind.counted.stored, train_text, validation, table=data_table(name)):
        say(f"warning: {called}{warning}")
    return train_text, validation


def _parts(data: DataConfig, train_text: Corpus, *, side: str, table: str) -> Iterator[str]:
    """How much of the training text is of which table, where there are several."""
    counts = [text.kept for text in train_text.texts]
    if len(counts) < 2:
        return
    amounts = data.amounts("train", tokens_by_text(train_text[side].lengths, counts))
    for key, count, amount in zip(data.readers("train"), counts, amounts, strict=True):
        if key != "train":
            yield f"{count:,} of these are of {table}.{key}, {amount / math.fsum(amounts):.0%} of each epoch"


def _leaked(stored: str, train_text: Corpus, validation: Corpus, *, table: str) -> str:
    """What is wrong with a validation part of which training knows the answers; nothing where it knows none."""
    count, total = validation.repeated(train_text), len(validation)
    if not count:
        return ""
    return (
        f"{count:,} of {total:,} validation {stored} ({count / total:.1%}) are in the training text too, so validation "
        f"looks better than it is; take them out of {table}.train or of {table}.validation"
    )


def _train(
    run: Run[Any, Any],
    corpora: Corpora,
    *,
    here: World,
    listeners: Sequence[Listener],
    say: Callable[[str], None],
) -> int:
    require_room(run, device=here.device)
    snapshot = resume(run.folder)
    progress = snapshot.progress if snapshot else Progress()
    model = fresh(run, say=say) if snapshot is None else unfinished(run)
    model = model.to(here.device)
    freeze(model, run.recipe.training)
    run.kind.hold(run, model)
    task = run.kind.whole(run, corpora, device=here.device)
    monitor = run.recipe.training.monitor
    if monitor not in task.metrics:
        raise RecipeError(
            f'training.monitor = "{monitor}": cannot be measured on these data; choose one of '
            f"{', '.join(sorted(task.metrics))}"
        )
    log = MetricsLog(run.folder / "metrics.jsonl")
    with ExitStack() as files:
        told: list[Listener] = []
        if here.leads:
            log.rewind(progress, snapshot.gathered if snapshot else {})
            config = run.recipe.training
            costs = Costs(config, model, say=say, device=here.device)
            told = [log, costs, *listeners, Remarks(config, past=read_curve(log.path), say=say)]
            if run.recipe.training.tensorboard:
                events = EventFiles(run.folder / "tensorboard", resumed_at=progress.step)
                told.append(files.enter_context(closing(events)))
        trainer = build_trainer(run, model, task, world=here, listener=Broadcast(told))
        if snapshot is not None:
            trainer.restore(snapshot)
        signal = trainer.run()
        if not signal:
            here.lead(lambda: _conclude(run, task, device=here.device, progress=trainer.progress, log=log, say=say))
    return signal


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
    found = run.kind.findings(run, task)
    write_findings(run.folder, {name: content.model_dump() for name, content in found.items()})
    log.concluded(progress, metrics, steps=steps)
    measured = "  ".join(f"{name} {value:.3f}" for name, value in sorted(metrics.items()))
    made_of = f"mean of {len(steps)} checkpoints" if len(steps) > 1 else f"checkpoint of step {steps[0]}"
    best = f"{run.recipe.training.monitor} {progress.best:.3f} at step {progress.best_step}"
    say(f"final model ({made_of})  validation {measured}  (best single checkpoint: {best})")
    for warning in run.kind.warnings(run, metrics):
        say(f"warning: {warning}")


def _describe(run: Run[Any, Any], corpora: Corpora, *, device: torch.device, say: Callable[[str], None]) -> None:
    """run.json: with what a run was made, for whoever wants to make it again; says which text has changed since."""
    texts = texts_of(run.recipe)
    if is_begun(run.folder):
        for change in changes(noted(run.folder), texts):
            say(f"warning: {change}")
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
        "data": as_noted(texts),
        "examples": examples.get("", examples),
        "recipe": json.loads(run.recipe.model_dump_json(exclude_none=True)),
    }
    write_json(run.folder / FILE, content)
