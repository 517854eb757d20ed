"""From a recipe to a trained model: everything between, in order."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import nn

from heedful.artifacts.checkpoints import Checkpoints, finish, resume
from heedful.artifacts.files import write_json
from heedful.artifacts.memory import keep_pages
from heedful.artifacts.metrics import MetricsLog
from heedful.artifacts.prepare import open_corpus, open_or_create
from heedful.artifacts.run import Run
from heedful.configs.build import default_device
from heedful.configs.build_run import (
    build_habits,
    build_limits,
    build_reader,
    build_schedule,
    build_search,
    paths,
    wants_half,
)
from heedful.configs.generation import GreedyConfig
from heedful.configs.run import Recipe
from heedful.data.corpus import Corpus, Report, fingerprint
from heedful.evaluation.translation import bleu
from heedful.tasks.translation import Criterion, Translation
from heedful.tasks.translator import Length, Translator
from heedful.training.distributed import World, world
from heedful.training.listeners import Broadcast, Listener
from heedful.training.optimizers import Adam, MovingAverage
from heedful.training.precision import Exact, Half
from heedful.training.trainer import Trainer


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
    device: torch.device | None = None,
) -> Outcome:
    """Trains the recipe's model into its run folder, or goes on where it was left.

    Several processes started by torchrun train one model together, batch for batch as one process would.

    Args:
        recipe: what to do; see `heedful.configs.run.load_recipe`.
        listeners: told of updates and evaluations; metrics.jsonl is always written.
        say: told in one line what is being done.
        device: where to compute; a GPU where there is one.
    """
    keep_pages()
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)
    with world(device or default_device()) as here:
        if here.leads:
            run = open_or_create(recipe, say=say)
            corpora = _corpora(run, say)
            _describe(run, corpora)
        here.wait()
        if not here.leads:
            run = open_or_create(recipe, say=lambda _: None)
            corpora = _corpora(run, lambda _: None)
        signal = _train(run, corpora, here=here, listeners=listeners)
        if here.leads and not signal:
            finish(run.folder, average=recipe.training.average)
        here.wait()
    return Outcome(run.folder, signal, here.leads)


def _corpora(run: Run, say: Callable[[str], None]) -> tuple[Corpus, Corpus]:
    train_text = open_corpus(run, "train", run.recipe.data.train)
    report = train_text.report
    say(
        f"{report.kept:,} training pairs"
        + (
            f" ({report.empty:,} empty and {report.too_long:,} too long ones left out)"
            if report.kept < _all(report)
            else ""
        )
    )
    return train_text, open_corpus(run, "validation", run.recipe.data.validation)


def _all(report: Report) -> int:
    return report.kept + report.empty + report.too_long


def _train(run: Run, corpora: tuple[Corpus, Corpus], *, here: World, listeners: Sequence[Listener]) -> int:
    config = run.recipe.training
    model = run.model().to(here.device)
    precision = Half(model) if wants_half(config, here.device) else Exact(model)
    task = Translation(
        *corpora,
        criterion=Criterion(config.label_smoothing, config.decorrelation),
        batch_tokens=config.batch_tokens,
        seed=run.recipe.seed,
        device=here.device,
        translation_score=_validation_bleu(run) if config.monitor == "bleu" else None,
    )
    adam = config.optimizer
    snapshot = resume(run.folder)
    log = MetricsLog(run.folder / "metrics.jsonl", resumed_at=snapshot.progress.step if snapshot else 0)
    trainer = Trainer(
        model,
        task,
        optimizer=Adam(
            precision.masters,
            betas=(adam.beta1, adam.beta2),
            epsilon=adam.epsilon,
            weight_decay=adam.weight_decay,
        ),
        precision=precision,
        schedule=build_schedule(config, d_model=run.recipe.model.d_model, steps=_steps(run.recipe, task)),
        world=here,
        limits=build_limits(config),
        habits=build_habits(config, seed=run.recipe.seed),
        listener=Broadcast((log, *listeners)) if here.leads else Broadcast(),
        keeper=Checkpoints(run.folder, keep=config.keep),
        average=MovingAverage(precision.masters, config.ema) if config.ema is not None else None,
    )
    if snapshot is not None:
        trainer.restore(snapshot)
    return trainer.run()


def _steps(recipe: Recipe, task: Translation) -> int | None:
    """How many updates there will be, as far as the limits tell."""
    limits = recipe.training
    if limits.epochs is None:
        return limits.steps
    per_epoch = (math.ceil(len(task.plan(epoch)) / limits.accumulate) for epoch in range(limits.epochs))
    by_epochs = sum(per_epoch)
    return by_epochs if limits.steps is None else min(by_epochs, limits.steps)


def _validation_bleu(run: Run) -> Callable[[nn.Module], float]:
    pairs = [pair for pair in build_reader(run.recipe.data.validation) if pair.source and pair.target]

    def measure(model: nn.Module) -> float:
        translator = Translator(
            [model],
            source=run.source,
            target=run.target,
            search=build_search(GreedyConfig()),
            length=Length(1.5, 10),
            max_source=run.recipe.data.max_length,
        )
        known = [p for p in pairs if len(run.source.encode(p.source)) < run.recipe.data.max_length]
        found = translator.translate([p.source for p in known])
        return bleu(
            [t.text for t in found], [p.target for p in known], lowercase=run.recipe.tokenizer.lowercase
        ).value

    return measure


def _describe(run: Run, corpora: tuple[Corpus, Corpus]) -> None:
    """run.json: with what a run was made, for whoever wants to make it again."""
    data = run.recipe.data
    texts: Mapping[str, object] = {
        name: {"files": [path.name for path in paths(config)], "sha256": fingerprint(paths(config))}
        for name, config in (("train", data.train), ("validation", data.validation))
    }
    content = {
        "heedful": version("heedful"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name()
        if torch.cuda.is_available()
        else platform.processor() or "cpu",
        "threads": torch.get_num_threads(),
        "command": sys.argv,
        "seed": run.recipe.seed,
        "data": texts,
        "pairs": {"train": asdict(corpora[0].report), "validation": asdict(corpora[1].report)},
        "recipe": json.loads(run.recipe.model_dump_json(exclude_none=True)),
    }
    write_json(run.folder / "run.json", content)

