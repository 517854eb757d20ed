"""Training of a recipe from start to final model."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from heedful.atomic_io import MODEL_FILE, open_tensors, read_manifest, write_json, write_run_files
from heedful.data.batches import sum_tokens_by_text
from heedful.data.corpus import Corpus
from heedful.engines.select_engine import require_engine
from heedful.errors import RecipeError
from heedful.models.model_size import init_empty_weights
from heedful.recipes.error_messages import find_risks
from heedful.recipes.load import load_recipe
from heedful.recipes.recipe import DataConfig, Recipe, format_data_key
from heedful.runs.checkpoints import METRICS_FILE, load_snapshot, write_final_model
from heedful.runs.device import find_device, reduce_fragmentation, trim_malloc, tune_malloc
from heedful.runs.initialization import build_model_to_resume, ignore_message, init_model
from heedful.runs.layer_compilation import check_compilation, enable_layer_compilation, explain_compile_errors
from heedful.runs.load import get_engine, has_checkpoint, load_trained_model
from heedful.runs.metrics_log import MetricsLog, read_curve
from heedful.runs.prepare import (
    RUN_FILE,
    describe_changes,
    fingerprint_texts,
    generate_run_id,
    lock_run_folder,
    open_corpus,
    open_or_create_run,
    read_recorded_fingerprints,
    read_run_id,
    require_inputs,
    to_stored_form,
)
from heedful.runs.resolve import ResolvedRecipe, fit_recipe, resolve_recipe
from heedful.runs.trackers import ExperimentTrackers
from heedful.runs.trainer_factory import (
    CostReporter,
    TrainingWarnings,
    build_trainer,
    freeze_parameters,
    is_sharded,
    require_memory,
    set_gradient_checkpointing,
)
from heedful.runs.usefulness import count_useful_labels, find_weaknesses, list_remedies
from heedful.tasks.objective import TrainingObjective
from heedful.tasks.portable_model import PretrainedSource
from heedful.tasks.task import Run
from heedful.training.callbacks import Callback, CallbackList, TrainState
from heedful.training.distributed import DistributedContext, init_distributed
from heedful.training.trainer import Trainer
from heedful.version import __version__

Corpora: TypeAlias = Mapping[str, tuple[Corpus, Corpus]]
"""Training and validation corpus of each task of a run."""


@dataclass(frozen=True)
class TrainResult:
    """Result of training.

    Attributes:
        folder: the run folder.
        signal: the signal that stopped training; 0 if training is finished.
        leads: whether this is the first of several processes, which reports.
        weaknesses: why the model is not useful yet, one sentence each; empty if it is, or for other processes.
        remedies: what would help.
    """

    folder: Path
    signal: int
    leads: bool
    weaknesses: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()

    def __repr__(self) -> str:
        ended = f"stopped by signal {self.signal}" if self.signal else "trained"
        return f"TrainResult({str(self.folder)!r}, {ended})"

    def _repr_html_(self) -> str:
        """Return the result and the plot of the learning curve as HTML, for notebooks."""
        from heedful.runs.metrics_log import CurvePlots

        curve = CurvePlots({str(self.folder): read_curve(self.folder / METRICS_FILE)})
        return f"<p>{escape(repr(self))}</p>{curve._repr_html_()}"


def train(
    recipe: Recipe | str | Path,
    *,
    listeners: Sequence[Callback] = (),
    say: Callable[[str], None] = lambda _: None,
    device: str | torch.device | None = None,
    run_id: str | None = None,
) -> TrainResult:
    """Train the model of a recipe in its run folder, or resume training there, on `device`, by default the GPU if there
    is one. `say` receives messages, and `listeners` are called for updates and evaluations.

    Several processes started by torchrun train one model together, with the same batches as one process would.

    Args:
        recipe: a recipe, or the path of one, which `heedful.recipes.load.load_recipe` reads.
        listeners: callbacks for updates and evaluations; metrics.jsonl is always written.
        say: receives a line about each stage.
        device: device to compute on; the GPU if there is one.
        run_id: id of a new run, for logs; a random one if none is given. A resumed run keeps its id.

    Raises:
        DataError: a text cannot be used.
        MissingExtraError: an experiment tracker is requested and not installed.
        RecipeError: there is no such device, or no such engine for the evaluation of the model.
        RunError: the run folder holds something else, is damaged, or another process trains in it.
        TrainingError: the loss is not finite, the disk is full, or an experiment tracker cannot start.
    """
    return _train_recipe(
        resolve_recipe(recipe if isinstance(recipe, Recipe) else load_recipe(recipe)),
        callbacks=listeners,
        log=say,
        device=device,
        run_id=run_id or generate_run_id(),
    )


def _train_recipe(
    resolved: ResolvedRecipe[Recipe],
    *,
    callbacks: Sequence[Callback],
    log: Callable[[str], None],
    device: str | torch.device | None,
    run_id: str,
) -> TrainResult:
    """Train the model of a resolved recipe, or resume training; see `train`. Of several processes only the first writes
    to the folder and logs its progress. `run_id` is the id of a run that has none yet.
    """
    recipe = resolved.recipe
    require_inputs(recipe)
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)
    with init_distributed(find_device(device)) as process_group, ExitStack() as stack:
        if is_sharded(recipe.training, process_group):
            reduce_fragmentation()
        else:
            tune_malloc()
        if (engine := get_engine(recipe, process_group.device)) is not None:
            require_engine(engine, device=process_group.device)
        check_compilation(recipe.training, process_group.device)

        def prepare_run() -> tuple[Run[Any, Any], Corpora]:
            """Lock the folder, choose open settings, open the run and its corpora, and write run.json; only the
            first process does this.
            """
            stack.enter_context(lock_run_folder(recipe.output))
            fitted_recipe = recipe
            if not has_checkpoint(recipe.output):
                fitted_recipe = fit_recipe(recipe, device=process_group.device, processes=process_group.size, log=log)
            for risk in find_risks(fitted_recipe):
                log(f"warning: {risk}")
            opened = _open_run_and_corpora(fitted_recipe, resolved.origin, log)
            _write_run_info(*opened, device=process_group.device, log=log, new_run_id=run_id)
            return opened

        run, corpora = process_group.run_on_leader(prepare_run) or _open_run_and_corpora(
            recipe, resolved.origin, ignore_message
        )
        signal, weaknesses, remedies = _run_training(
            run,
            corpora,
            resolved,
            process_group=process_group,
            callbacks=callbacks,
            log=log if process_group.is_leader else ignore_message,
        )
    return TrainResult(run.folder, signal, process_group.is_leader, weaknesses, remedies)


def _open_run_and_corpora(
    recipe: Recipe, origin: PretrainedSource | None, log: Callable[[str], None]
) -> tuple[Run[Any, Any], Corpora]:
    """Open or create the run of a recipe, and open the training and validation corpus of each of its tasks, by name.
    `origin` is the model that `init` names.
    """
    run = open_or_create_run(recipe, origin, log=log)
    return run, {name: _open_corpora(run, name, log) for name in run.member_runs}


def _open_corpora(run: Run[Any, Any], name: str, log: Callable[[str], None]) -> tuple[Corpus, Corpus]:
    """Open the training and validation corpus of one task and log their sizes and warnings; lines about one of
    several tasks start with its name.
    """
    member, prefix = run.member_runs[name], f"{name}: " if name else ""
    corpora = []
    for part in ("train", "validation"):
        corpora.append(open_corpus(run, part, log=log, name=name))
        for message in member.task.data_warnings(member, corpora[-1]):
            log(f"{prefix}{part}: {message}")
    train_text, validation = corpora
    report = train_text.report
    left_out = ""
    if report.empty or report.too_long:
        left_out = f" ({report.empty:,} empty and {report.too_long:,} too long ones left out)"
    log(f"{prefix}{member.task.unit_names.describe_size(train_text, 'training')}{left_out}")
    side = member.task.unit_names.contents_side or list(train_text.sides)[-1]
    for line in _describe_text_shares(member.recipe.data, train_text, side=side, table=format_data_key(name)):
        log(f"{prefix}{line}")
    if warning := _describe_leak(
        member.task.unit_names.corpus_examples, train_text, validation, table=format_data_key(name)
    ):
        log(f"warning: {prefix}{warning}")
    return train_text, validation


def _describe_text_shares(data: DataConfig, train_text: Corpus, *, side: str, table: str) -> Iterator[str]:
    """Yield a line for each text of the training data, with its number of examples and its share of an epoch, if there
    are several. `side` is the side of a pair whose tokens count; `table` is the key of the data.
    """
    counts = [text.kept for text in train_text.text_reports]
    if len(counts) < 2:
        return
    amounts = data.compute_epoch_tokens("train", sum_tokens_by_text(train_text[side].lengths, counts))
    for key, count, amount in zip(data.readers("train"), counts, amounts, strict=True):
        if key != "train":
            yield f"{count:,} of these are from {table}.{key}, {amount / math.fsum(amounts):.0%} of each epoch"


def _describe_leak(noun: str, train_text: Corpus, validation: Corpus, *, table: str) -> str:
    """Return a warning if validation examples are also in the training text; otherwise an empty string. `noun` is the
    word for examples, `table` the key of the data in the recipe.
    """
    count, total = validation.count_shared_examples(train_text), len(validation)
    if not count:
        return ""
    return (
        f"{count:,} of {total:,} validation {noun} ({count / total:.1%}) are also in the training text, so validation "
        f"results look better than they are; remove them from {table}.train or {table}.validation"
    )


def _run_training(
    run: Run[Any, Any],
    corpora: Corpora,
    resolved: ResolvedRecipe[Recipe],
    *,
    process_group: DistributedContext,
    callbacks: Sequence[Callback],
    log: Callable[[str], None],
) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """Train the model of a run on the corpora of its tasks and write the final model. Return the signal that stopped
    training, 0 if it is finished, the weaknesses of the model and what would help. `callbacks` are notified of updates
    and evaluations.
    """
    require_memory(run, world=process_group)
    objective = run.task.build_joint_objective(run, corpora, device=process_group.device)
    monitor = run.recipe.training.monitor
    if monitor not in objective.metric_names:
        raise RecipeError(
            f'training.monitor = "{monitor}": cannot be measured on these data; choose one of '
            f"{', '.join(sorted(objective.metric_names))}"
        )
    metrics_log = MetricsLog(run.folder / METRICS_FILE)
    needed = count_useful_labels(run, [train_text for train_text, _ in corpora.values()])
    with ExperimentTrackers(run, log=log) as trackers:
        signal, progress, trainer = _update_model(
            run,
            objective,
            resolved,
            metrics_log=metrics_log,
            trackers=trackers,
            useful_labels=needed,
            process_group=process_group,
            callbacks=callbacks,
            log=log,
        )
        if signal:
            return signal, (), ()
        trim_malloc()  # a model that was not split is freed by now; the final one is built from checkpoints
        steps = process_group.run_on_leader(lambda: write_final_model(run.folder, average=run.recipe.training.average))
        evaluation = _evaluate_final_model(run, objective, trainer, process_group)

        def report() -> None:
            """Report the evaluation, which the leading process has."""
            assert evaluation is not None
            _report_final_model(
                run, objective, evaluation, steps=steps or (), progress=progress, logs=(metrics_log, trackers), log=log
            )

        process_group.run_on_leader(report)  # the others end when all files are written
    weaknesses = evaluation.weaknesses if evaluation is not None and process_group.is_leader else ()
    remedies = list_remedies(run, progress, needed=needed) if weaknesses else ()
    return signal, tuple(weaknesses), tuple(remedies)


def _update_model(
    run: Run[Any, Any],
    objective: TrainingObjective[Any],
    resolved: ResolvedRecipe[Recipe],
    *,
    metrics_log: MetricsLog,
    trackers: ExperimentTrackers,
    useful_labels: float | None,
    process_group: DistributedContext,
    callbacks: Sequence[Callback],
    log: Callable[[str], None],
) -> tuple[int, TrainState, Trainer[Any] | None]:
    """Build the model of a run, from that of `init` if the recipe names one, and update it until training ends or is
    stopped; resume at the last snapshot. Return the signal that stopped training, 0 if it is finished, the state of
    training, and the trainer if it holds a model that is split over processes.
    """
    origin = resolved.take_origin()
    snapshot = load_snapshot(run.folder, lazily=is_sharded(run.recipe.training, process_group))
    past = snapshot.progress if snapshot else TrainState()
    with nullcontext() if _holds_initial_weights(run, process_group) else init_empty_weights():
        model = init_model(run, origin, log=log) if snapshot is None else build_model_to_resume(run, origin)
    del origin  # its weights have been copied
    freeze_parameters(model, run.recipe.training)
    set_gradient_checkpointing(model, run.recipe.training)
    enable_layer_compilation(model, run.recipe.training, device=process_group.device)
    run.task.freeze_weights(run, model)
    callbacks_of_process: list[Callback] = []
    if process_group.is_leader:
        callback_state = snapshot.callback_state if snapshot else {}
        metrics_log.rewind(past, callback_state, run_id=read_run_id(run.folder))
        trackers.open(past, callback_state)
        config = run.recipe.training
        costs = CostReporter(config, model, log=log, world=process_group, useful_labels=useful_labels)
        training_warnings = TrainingWarnings(config, past=read_curve(metrics_log.path), log=log)
        callbacks_of_process = [metrics_log, costs, *callbacks, training_warnings, trackers]
    trainer = build_trainer(run, model, objective, world=process_group, callback=CallbackList(callbacks_of_process))
    if snapshot is not None:
        trainer.restore(snapshot)
    del snapshot  # its tensors have been copied, and its files would stay open
    trim_malloc()
    if run.recipe.training.compile:
        log("compiling the layers; the first updates take longer")
    with explain_compile_errors():
        signal = trainer.run()
    return signal, trainer.progress, trainer if trainer.precision.is_sharded else None


def _holds_initial_weights(run: Run[Any, Any], process_group: DistributedContext) -> bool:
    """Whether this process builds its model with weights; of a model that is split, only the leading process does."""
    return process_group.is_leader or not is_sharded(run.recipe.training, process_group)


@dataclass(frozen=True)
class _FinalEvaluation:
    """Metrics of the final model on the validation data, and why it is not useful yet, if it is not."""

    metrics: Mapping[str, float]
    weaknesses: Sequence[str]


def _evaluate_final_model(
    run: Run[Any, Any],
    objective: TrainingObjective[Any],
    trainer: Trainer[Any] | None,
    process_group: DistributedContext,
) -> _FinalEvaluation | None:
    """Evaluate the final model as it will be used, in the leading process, where the result is. A model that is split
    over processes is evaluated by all of them with `trainer`.
    """

    def evaluate(model: nn.Module) -> _FinalEvaluation:
        metrics = objective.evaluate(model)
        return _FinalEvaluation(metrics, find_weaknesses(run, objective, metrics, model=model))

    if trainer is not None:
        weights = open_tensors(run.folder, MODEL_FILE, manifest=read_manifest(run.folder))
        return trainer.call_with_weights(weights, evaluate)
    with torch.no_grad():
        return process_group.run_on_leader(lambda: evaluate(load_trained_model(run, device=process_group.device)))


def _report_final_model(
    run: Run[Any, Any],
    objective: TrainingObjective[Any],
    evaluation: _FinalEvaluation,
    *,
    steps: Sequence[int],
    progress: TrainState,
    logs: tuple[MetricsLog, ExperimentTrackers],
    log: Callable[[str], None],
) -> None:
    """Add the evaluation of the final model, with the best single checkpoint (from `progress`), to the run folder, the
    metrics file, the experiment trackers and the log. `steps` are those of the checkpoints in it.
    """
    metrics_log, trackers = logs
    findings = run.task.result_files(run, objective)
    write_run_files(run.folder, {name: content.model_dump() for name, content in findings.items()})
    metrics_log.write_final(progress, evaluation.metrics, steps=steps)
    trackers.write_final(progress, evaluation.metrics)
    metrics_text = "  ".join(f"{name} {value:.3f}" for name, value in sorted(evaluation.metrics.items()))
    description = f"mean of {len(steps)} checkpoints" if len(steps) > 1 else f"checkpoint of step {steps[0]}"
    best = f"{run.recipe.training.monitor} {progress.best:.3f} at step {progress.best_step}"
    log(f"final model ({description})  validation {metrics_text}  (best single checkpoint: {best})")
    for weakness in evaluation.weaknesses:
        log(f"not useful yet: {weakness}")


def _write_run_info(
    run: Run[Any, Any], corpora: Corpora, *, device: torch.device, log: Callable[[str], None], new_run_id: str
) -> None:
    """Write run.json, which records how a run was made so that it can be reproduced: versions, device, texts, sizes of
    the corpora and recipe. Log a warning about each text that has changed. The run keeps the id that is there; a new
    run gets `new_run_id`.
    """
    fingerprints = fingerprint_texts(run.recipe)
    if has_checkpoint(run.folder):
        for change in describe_changes(read_recorded_fingerprints(run.folder), fingerprints):
            log(f"warning: {change}")
    examples: dict[str, Mapping[str, object]] = {
        name: {"train": asdict(train.report), "validation": asdict(validation.report)}
        for name, (train, validation) in corpora.items()
    }
    content = {
        "run_id": read_run_id(run.folder) or new_run_id,
        "heedful": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu",
        "threads": torch.get_num_threads(),
        "command": sys.argv,
        "seed": run.recipe.seed,
        "data": to_stored_form(fingerprints),
        "examples": examples.get("", examples),
        "recipe": json.loads(run.recipe.model_dump_json(exclude_none=True)),
    }
    write_json(run.folder / RUN_FILE, content)
