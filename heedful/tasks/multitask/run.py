"""What learning several tasks at once makes of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, final

import torch
from pydantic import BaseModel

from heedful.data.corpus import Corpus, Encoding
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.models.interface import Encoder
from heedful.models.multitask import Headed, MultitaskModel
from heedful.recipes.recipe import data_table
from heedful.tasks.counted import Counted
from heedful.tasks.exam import Asking
from heedful.tasks.fine_tuning import FineTuningRecipe
from heedful.tasks.heads import Heads
from heedful.tasks.kind import Entries, FineTuningKind, Kind, Run, T, Vocabularies, Vocabulary, kind_of, learned, placed
from heedful.tasks.labelled import LabelledComparison
from heedful.tasks.multitask.exam import TasksExam, TasksReport
from heedful.tasks.multitask.problem import Member, Multitask
from heedful.tasks.multitask.recipe import MultitaskRecipe
from heedful.tasks.task import Task
from heedful.values import Tokens

TEXT: Final = "tokenizer/text"
MultitaskRun: TypeAlias = Run[MultitaskRecipe, MultitaskModel]


@final
class MultitaskKind(Kind[MultitaskRecipe, MultitaskModel]):
    """Tasks that share an encoder and a vocabulary.

    Each is a run of its own kind in a folder below, without weights: it encodes its text, makes its head and says what
    is lost and measured.
    """

    words: ClassVar = (TEXT,)
    outputs: ClassVar = "classes"
    counted: ClassVar = Counted(labels="labels")
    understood: ClassVar = frozenset({"task"})
    reported: ClassVar = TasksReport
    compared: ClassVar = LabelledComparison

    def learn(self, recipe: MultitaskRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """The one of the text of all tasks, and classes and tags of each."""
        return {TEXT: learned(recipe, _texts(recipe), given=given), **_labels(recipe, None)}

    def load(self, recipe: MultitaskRecipe, folder: Path) -> Vocabularies:
        """The one of the text of all tasks, and classes and tags of each."""
        return {TEXT: load_tokenizer(folder / TEXT), **_labels(recipe, folder)}

    def encoding(self, run: MultitaskRun) -> Encoding[Any]:
        """None: each task has its own."""
        raise AssertionError("members encode")

    def exam(self, recipe: MultitaskRecipe | None, asking: Asking) -> TasksExam:
        """An exam for each task, or for one of them alone."""
        assert recipe is not None, "nothing but a run answers with labels"
        exams = {}
        for name in recipe.tasks if asking.task is None else (asking.task,):
            member, kind = _member(recipe, name)
            exams[name] = kind.member_exam(member, table=data_table(name))
        return TasksExam(exams)

    def build(self, recipe: MultitaskRecipe, sizes: Entries) -> MultitaskModel:
        """The encoder of the first task that classifies texts, whose summary of a text the others need not have."""
        classifying = [name for name, task in recipe.tasks.items() if task.kind == "classification"]
        first = (classifying or list(recipe.tasks))[0]
        shared = _headed(recipe, first, sizes)
        heads = {first: shared}
        for name in recipe.tasks:
            with torch.device("meta"):
                alone = _shapes(_headed(recipe, name, sizes))
            if alone != _shapes(shared):
                raise RecipeError(
                    f"tasks.{name}: needs another encoder than the other tasks; learn it in a run of its own"
                )
            if name != first:
                heads[name] = _headed(recipe, name, sizes, encoder=shared.encoder)
        return MultitaskModel({name: heads[name] for name in recipe.tasks})

    def members(self, run: MultitaskRun) -> Mapping[str, Run[Any, Any]]:
        """A run for each task."""
        found: dict[str, Run[Any, Any]] = {}
        for name in run.recipe.tasks:
            recipe, kind = _member(run.recipe, name)
            own = _own(name, run.vocabularies, kind.words, run.tokenizer)
            found[name] = Run(run.folder / "tasks" / name, recipe, own)
        return found

    def problem(self, run: MultitaskRun, train: Corpus, validation: Corpus, *, device: torch.device) -> Multitask:
        """None: see `whole`."""
        raise AssertionError("members have problems")

    def whole(
        self, run: MultitaskRun, corpora: Mapping[str, tuple[Corpus, Corpus]], *, device: torch.device
    ) -> Multitask:
        """The weighted sum of what the tasks minimise."""
        found: dict[str, Member] = {}
        for name, member in run.members.items():
            try:
                task = member.kind.problem(member, *corpora[name], device=device)
            except RecipeError as error:
                raise RecipeError(f"tasks.{name}: {error}") from None
            config = run.recipe.tasks[name]
            if config.monitor is not None and config.monitor not in task.metrics:
                raise RecipeError(
                    f'tasks.{name}.monitor = "{config.monitor}": cannot be measured on these data; choose one of '
                    f"{', '.join(sorted(task.metrics - {'loss'}))}"
                )
            monitor = config.monitor or _member(run.recipe, name)[1].primary(member)
            found[name] = Member(task, len(corpora[name][0]), config.weight, monitor)
        return Multitask(found, temperature=run.recipe.training.temperature, seed=run.recipe.seed)

    def face(self, run: MultitaskRun, model: MultitaskModel, *, step: int | None = None) -> Heads:
        """A face for each task."""
        faces = {name: member.kind.face(member, model.head(name), step=step) for name, member in run.members.items()}
        return Heads(faces, place=str(run.folder))

    def findings(self, run: MultitaskRun, task: Task[Any]) -> Mapping[str, BaseModel]:
        """What each task has found out about the final model."""
        assert isinstance(task, Multitask)
        return {
            (member.folder / file).relative_to(run.folder).as_posix(): content
            for name, member in run.members.items()
            for file, content in member.kind.findings(member, task.members[name].task).items()
        }

    def warnings(self, run: MultitaskRun, metrics: Mapping[str, float]) -> Sequence[str]:
        """What each task has to say of its part of the model."""
        found = []
        for name, member in run.members.items():
            own = {
                each.removeprefix(f"{name}/"): value for each, value in metrics.items() if each.startswith(f"{name}/")
            }
            found += [f"{name}: {each}" for each in member.kind.warnings(member, own)]
        return found


KIND: Final = MultitaskKind()


def _member(recipe: MultitaskRecipe, name: str) -> tuple[FineTuningRecipe, FineTuningKind[Any, Any]]:
    """The recipe of one of the tasks, and what is made of it."""
    member = recipe.single(name)
    kind = kind_of(member)
    assert isinstance(kind, FineTuningKind), f"{member.task} is learned alone"
    return member, kind


def _labels(recipe: MultitaskRecipe, folder: Path | None) -> Vocabularies:
    """Classes and tags of each task: those in a folder, else those of what is learned from."""
    found: dict[str, Vocabulary] = {}
    for name in recipe.tasks:
        member, kind = _member(recipe, name)
        with placed(f"{data_table(name)}.train"):
            own = kind.labels(member, None if folder is None else folder / "tasks" / name)
        found |= {f"tasks/{name}/{file}": each for file, each in own.items()}
    return found


def _own(name: str, files: Mapping[str, T], words: Sequence[str], text: T) -> dict[str, T]:
    """What of `files` belongs to one of the tasks, by the names that it has there, and `text` for its words."""
    above = f"tasks/{name}/"
    labels = {file.removeprefix(above): each for file, each in files.items() if file.startswith(above)}
    return dict.fromkeys(words, text) | labels


def _headed(recipe: MultitaskRecipe, name: str, sizes: Entries, *, encoder: Encoder[Tokens] | None = None) -> Headed:
    """The model of one task, on an encoder of its own or on that which is given."""
    member, kind = _member(recipe, name)
    made: Headed = kind.headed(member, _own(name, sizes, kind.words, sizes[TEXT]), encoder=encoder)
    return made


def _texts(recipe: MultitaskRecipe) -> Iterator[str]:
    for name in recipe.tasks:
        member, kind = _member(recipe, name)
        with placed(f"{data_table(name)}.train"):
            yield from kind.texts(member)


def _shapes(head: Headed) -> dict[str, torch.Size]:
    """What an encoder is made of, except for the summary of a text."""
    named = head.encoder.named_parameters()
    return {name: parameter.shape for name, parameter in named if not name.startswith("summary.")}
