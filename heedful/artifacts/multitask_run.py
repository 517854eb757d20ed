"""A run that learns several tasks at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from heedful.artifacts.classification_run import ClassificationRun
from heedful.artifacts.fine_tuning_run import FineTuningRun, learned_vocabulary
from heedful.artifacts.initial import warm
from heedful.artifacts.run import Run, RunFolder, Vocabulary, placed
from heedful.artifacts.spans_run import SpansRun
from heedful.artifacts.tagging_run import TaggingRun
from heedful.configs.build_fine_tuning import BODY
from heedful.configs.recipe import data_table
from heedful.configs.run import MultitaskRecipe
from heedful.data.corpus import Corpus
from heedful.data.tokenizers import Tokenizer, load_tokenizer
from heedful.errors import RecipeError
from heedful.models.multitask import Headed, MultitaskModel
from heedful.tasks.heads import Heads
from heedful.tasks.interface import Task
from heedful.tasks.multitask import Member, Multitask

TEXT: Final = "tokenizer/text"

_RUNS: Final[Mapping[str, type[FineTuningRun[Any]]]] = {
    "classification": ClassificationRun,
    "tagging": TaggingRun,
    "spans": SpansRun,
}


@dataclass(frozen=True)
class MultitaskRun(RunFolder[MultitaskModel]):
    """A run whose tasks share an encoder and a vocabulary.

    Each task is a run of its own kind in a folder below, without weights: it encodes its text, makes its head and says
    what is lost and measured.

    Attributes:
        runs: those of the tasks, by their names.
    """

    folder: Path
    recipe: MultitaskRecipe
    tokenizer: Tokenizer
    runs: Mapping[str, FineTuningRun[Any]]

    @classmethod
    def begin(cls, folder: Path, recipe: MultitaskRecipe) -> MultitaskRun:
        """A new one; its vocabulary is that of the text of all tasks, or of `init`."""
        tokenizer = learned_vocabulary(recipe, _texts(recipe))
        runs = {}
        for name, task in recipe.tasks.items():
            with placed(f"{data_table(name)}.train"):
                runs[name] = _RUNS[task.kind].begin(_below(folder, name), recipe.single(name), tokenizer=tokenizer)
        return cls(folder, recipe, tokenizer, runs)

    @classmethod
    def open(cls, folder: Path, recipe: MultitaskRecipe) -> MultitaskRun:
        """The one in a folder."""
        tokenizer = load_tokenizer(folder / TEXT)
        runs = {
            name: _RUNS[task.kind].open(_below(folder, name), recipe.single(name), tokenizer=tokenizer)
            for name, task in recipe.tasks.items()
        }
        return cls(folder, recipe, tokenizer, runs)

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """The one of text, and classes and tags of each task."""
        found: dict[str, Vocabulary] = {TEXT: self.tokenizer}
        for name, run in self.runs.items():
            own = {file: each for file, each in run.vocabularies.items() if each is not self.tokenizer}
            found |= {f"{_below(Path(), name).as_posix()}/{file}": each for file, each in own.items()}
        return found

    @property
    def members(self) -> Mapping[str, Run[Any]]:
        """A run for each task."""
        return self.runs

    def build(self) -> MultitaskModel:
        """The encoder of the first task that classifies texts, whose summary of a text the others need not have."""
        classifying = [name for name, run in self.runs.items() if isinstance(run, ClassificationRun)]
        first = (classifying or list(self.runs))[0]
        shared: Headed = self.runs[first].build()
        heads = {first: shared}
        for name, run in self.runs.items():
            with torch.device("meta"):
                alone = _shapes(run.build())
            if alone != _shapes(shared):
                raise RecipeError(
                    f"tasks.{name}: needs another encoder than the other tasks; learn it in a run of its own"
                )
            if name != first:
                heads[name] = run.build(encoder=shared.encoder)
        return MultitaskModel({name: heads[name] for name in self.runs})

    def warm(self, model: MultitaskModel, *, say: Callable[[str], None]) -> None:
        """The encoder of `init`."""
        warm(model, self.recipe, body=BODY, say=say)

    def problem(self, corpora: Mapping[str, tuple[Corpus, Corpus]], *, device: torch.device) -> Multitask:
        """The weighted sum of what the tasks minimise."""
        members = {}
        for name, run in self.runs.items():
            try:
                task = run.task(*corpora[name], device=device)
            except RecipeError as error:
                raise RecipeError(f"tasks.{name}: {error}") from None
            config = self.recipe.tasks[name]
            if config.monitor is not None and config.monitor not in task.metrics:
                raise RecipeError(
                    f'tasks.{name}.monitor = "{config.monitor}": cannot be measured on these data; choose one of '
                    f"{', '.join(sorted(task.metrics - {'loss'}))}"
                )
            members[name] = Member(task, len(corpora[name][0]), config.weight, config.monitor or run.primary)
        return Multitask(members, temperature=self.recipe.training.temperature, seed=self.recipe.seed)

    def user(self, *, device: torch.device, step: int | None = None) -> Heads:
        """The trained model as its users see it."""
        model = self.trained(device=device, step=step)
        faces = {name: run.face(model.head(name), step=step) for name, run in self.runs.items()}
        return Heads(faces, place=str(self.folder))

    def conclude(self, task: Task[Any]) -> None:
        """What each task has found out about the final model."""
        assert isinstance(task, Multitask)
        for name, run in self.runs.items():
            run.conclude(task.members[name].task)


def _below(folder: Path, name: str) -> Path:
    return folder / "tasks" / name


def _texts(recipe: MultitaskRecipe) -> Iterator[str]:
    for name, task in recipe.tasks.items():
        with placed(f"{data_table(name)}.train"):
            yield from _RUNS[task.kind].texts(recipe.single(name))


def _shapes(head: Headed) -> dict[str, torch.Size]:
    """What an encoder is made of, except for the summary of a text."""
    named = head.encoder.named_parameters()
    return {name: parameter.shape for name, parameter in named if not name.startswith("summary.")}
