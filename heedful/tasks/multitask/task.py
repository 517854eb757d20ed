"""The multitask fine-tuning task, with the evaluator of a model with several tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, final

import torch
from pydantic import BaseModel
from torch import nn

from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.metrics.metric import Metric
from heedful.models.heads import MultitaskModel, SingleHeadModel
from heedful.models.interface import Encoder
from heedful.recipes.recipe import Recipe, format_data_key
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.fine_tuning import FineTuningRecipe
from heedful.tasks.label_evaluation import LabelComparison, LabelEvaluator, LabelReport
from heedful.tasks.multitask.objective import MultitaskMember, MultitaskObjective
from heedful.tasks.multitask.recipe import MultitaskRecipe
from heedful.tasks.objective import TrainingObjective, UnitNames
from heedful.tasks.predictor import MultiHeadPredictor
from heedful.tasks.report import EvaluatedSystem
from heedful.tasks.task import (
    FineTuningTask,
    Run,
    T,
    Task,
    VocabSizes,
    Vocabularies,
    Vocabulary,
    get_task,
    learn_or_reuse_tokenizer,
    prefix_data_errors,
)
from heedful.tensors import Tokens


@final
class MultitaskEvaluator(LabelEvaluator):
    """One evaluator for each task; metric names have the task's name as prefix."""

    def __init__(self, evaluators: Mapping[str, LabelEvaluator]) -> None:
        self.evaluators = dict(evaluators)
        members = list(evaluators.values())
        self.inputs = [(name, text) for name, evaluator in evaluators.items() for text in evaluator.inputs]
        self.reference_answers = [
            (name, label) for name, evaluator in evaluators.items() for label in evaluator.reference_answers
        ]
        self.data_description = " and ".join(dict.fromkeys(evaluator.data_description for evaluator in members))
        self.recipe_keys = tuple(key for evaluator in members for key in evaluator.recipe_keys)
        self.data_warnings = [
            f"{name}: {warning}" for name, evaluator in evaluators.items() for warning in evaluator.data_warnings
        ]
        self.size = sum(evaluator.size for evaluator in members)
        self.num_train_examples = sum(evaluator.num_train_examples for evaluator in members)
        self.constant_answer = {name: evaluator.constant_answer for name, evaluator in evaluators.items()}
        self.baseline_answers = {name: evaluator.baseline_answers for name, evaluator in evaluators.items()}
        self.main_metric = next(f"{name}/{evaluator.main_metric}" for name, evaluator in evaluators.items())

    @property
    def baseline_text(self) -> str:
        """Each baseline's answer, for people."""
        return ", ".join(evaluator.baseline_text for evaluator in self.evaluators.values())

    def count_train_examples(self, recipe: Recipe) -> int:
        """Return the number of training examples of all tasks."""
        assert isinstance(recipe, MultitaskRecipe)
        return sum(
            evaluator.count_train_examples(recipe.build_single_recipe(name))
            for name, evaluator in self.evaluators.items()
        )

    def check_recipe(self, recipe: Recipe) -> None:
        """Raise `RecipeError` if a task has fewer training examples than the recipe asks for."""
        assert isinstance(recipe, MultitaskRecipe)
        for name, evaluator in self.evaluators.items():
            evaluator.check_recipe(recipe.build_single_recipe(name))

    def predict(self, predictor: MultiHeadPredictor, recipe: Recipe) -> Mapping[str, Any]:
        """Return the answers of each task's head, by task name."""
        assert isinstance(recipe, MultitaskRecipe)
        return {
            name: evaluator.predict(predictor.head(name), recipe.build_single_recipe(name))
            for name, evaluator in self.evaluators.items()
        }

    def compute_metrics(self, answers: Mapping[str, Any]) -> Mapping[str, Metric]:
        """Compute the metrics of each task from its answers; the names are TASK/METRIC."""
        return {
            f"{name}/{metric_name}": metric
            for name, evaluator in self.evaluators.items()
            for metric_name, metric in evaluator.compute_metrics(answers[name]).items()
        }


@final
@dataclass(frozen=True, repr=False)
class MultitaskReport(LabelReport):
    """Metrics of a model in each of its tasks."""

    evaluator: MultitaskEvaluator

    def format_text(self) -> str:
        """Format the heading, the metrics and the warnings of each task."""
        tables = (
            "\n".join((report.heading, report.format_table(), *report.warnings))
            for report in self._task_reports.values()
        )
        return f"{self.system.name}\n\n" + "\n\n".join(tables)

    def to_json(self) -> dict[str, Any]:
        """Return the report of each task as JSON data."""
        return {"tasks": {name: report.to_json() for name, report in self._task_reports.items()}}

    @cached_property
    def _task_reports(self) -> Mapping[str, LabelReport]:
        """Build the report of each task, by name."""
        return {
            name: LabelReport(evaluator, EvaluatedSystem(name), self.answers[name], self.sampling)
            for name, evaluator in self.evaluator.evaluators.items()
        }


TEXT_FILE: Final = "tokenizer/text"
MultitaskRun: TypeAlias = Run[MultitaskRecipe, MultitaskModel]


@final
class MultitaskTask(Task[MultitaskRecipe, MultitaskModel]):
    """Task that trains several tasks with a shared encoder and vocabulary.

    Each is a run of its own task in a subfolder, without weights: it encodes its text, builds its head, and defines its
    loss and metrics.
    """

    tokenizer_files: ClassVar = (TEXT_FILE,)
    output_noun: ClassVar = "classes"
    unit_names: ClassVar = UnitNames(labels="labels")
    supported_options: ClassVar = frozenset({"task"})
    report_class: ClassVar = MultitaskReport
    comparison_class: ClassVar = LabelComparison

    def learn_vocabularies(self, recipe: MultitaskRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the tokenizer of all texts, unless `existing` is a tokenizer to use instead, and learn the labels of
        each task.
        """
        return {
            TEXT_FILE: learn_or_reuse_tokenizer(recipe, _iter_texts(recipe), existing=existing),
            **_load_labels(recipe, None),
        }

    def load_vocabularies(self, recipe: MultitaskRecipe, folder: Path) -> Vocabularies:
        """Load the tokenizer and the labels of each task from a run folder."""
        return {TEXT_FILE: load_tokenizer(folder / TEXT_FILE), **_load_labels(recipe, folder)}

    def build_encoding(self, run: MultitaskRun) -> ExampleEncoder[Any]:
        """Raise `AssertionError`, because each task has its own encoding."""
        raise AssertionError("each task has its own encoding")

    def build_evaluator(self, recipe: MultitaskRecipe | None, options: EvaluatorOptions) -> MultitaskEvaluator:
        """Build the evaluators of all tasks, or of the task that `options` names."""
        assert recipe is not None, "only a run answers with labels"
        evaluators = {}
        for name in recipe.tasks if options.task is None else (options.task,):
            single_recipe, task = _get_member(recipe, name)
            evaluators[name] = task.build_member_evaluator(single_recipe, table=format_data_key(name))
        return MultitaskEvaluator(evaluators)

    def build_model(self, recipe: MultitaskRecipe, sizes: VocabSizes) -> MultitaskModel:
        """Build a model with one head per task, on the encoder of the first classification task, which has a text
        summary that others do not need. `sizes` has the vocabulary sizes; raise `RecipeError` if a task needs another
        encoder.
        """
        classification_names = [name for name, task in recipe.tasks.items() if task.kind == "classification"]
        first = (classification_names or list(recipe.tasks))[0]
        shared_model = _build_member_model(recipe, first, sizes)
        heads = {first: shared_model}
        for name in recipe.tasks:
            with torch.device("meta"):
                own_shapes = _encoder_shapes(_build_member_model(recipe, name, sizes))
            if own_shapes != _encoder_shapes(shared_model):
                raise RecipeError(
                    f"tasks.{name}: needs another encoder than the other tasks; train it in a run of its own"
                )
            if name != first:
                heads[name] = _build_member_model(recipe, name, sizes, encoder=shared_model.encoder)
        return MultitaskModel({name: heads[name] for name in recipe.tasks})

    def member_runs(self, run: MultitaskRun) -> Mapping[str, Run[Any, Any]]:
        """Return a run for each task, by name, with the recipe and the vocabularies of that task."""
        runs: dict[str, Run[Any, Any]] = {}
        for name in run.recipe.tasks:
            recipe, task = _get_member(run.recipe, name)
            own_vocabularies = _select_member_files(name, run.vocabularies, task.tokenizer_files, run.tokenizer)
            runs[name] = Run(run.folder / "tasks" / name, recipe, own_vocabularies)
        return runs

    def build_objective(
        self, run: MultitaskRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> MultitaskObjective:
        """Raise `AssertionError`, because each task has its own objective; see `build_joint_objective`."""
        raise AssertionError("each task has its own objective")

    def build_joint_objective(
        self, run: MultitaskRun, corpora: Mapping[str, tuple[Corpus, Corpus]], *, device: torch.device
    ) -> MultitaskObjective:
        """Build the weighted sum of the tasks' objectives; `corpora` has the training and the validation corpus of each
        task.
        """
        members: dict[str, MultitaskMember] = {}
        for name, member in run.member_runs.items():
            try:
                objective = member.task.build_objective(member, *corpora[name], device=device)
            except RecipeError as error:
                raise RecipeError(f"tasks.{name}: {error}") from None
            config = run.recipe.tasks[name]
            if config.monitor is not None and config.monitor not in objective.metric_names:
                raise RecipeError(
                    f'tasks.{name}.monitor = "{config.monitor}": cannot be measured on these data; choose one of '
                    f"{', '.join(sorted(objective.metric_names - {'loss'}))}"
                )
            monitor = config.monitor or _get_member(run.recipe, name)[1].primary_metric(member)
            members[name] = MultitaskMember(objective, len(corpora[name][0]), config.weight, monitor)
        return MultitaskObjective(members, temperature=run.recipe.training.temperature, seed=run.recipe.seed)

    def build_predictor(
        self, run: MultitaskRun, model: MultitaskModel, *, step: int | None = None
    ) -> MultiHeadPredictor:
        """Build a predictor for each task; `step` is passed on to them."""
        predictors = {
            name: member.task.build_predictor(member, model.get_head(name), step=step)
            for name, member in run.member_runs.items()
        }
        return MultiHeadPredictor(predictors, location=str(run.folder))

    def result_files(self, run: MultitaskRun, objective: TrainingObjective[Any]) -> Mapping[str, BaseModel]:
        """Return the results about the final model that each task takes from its objective, by their paths in the run
        folder.
        """
        assert isinstance(objective, MultitaskObjective)
        return {
            (member.folder / file).relative_to(run.folder).as_posix(): content
            for name, member in run.member_runs.items()
            for file, content in member.task.result_files(member, objective.members[name].objective).items()
        }

    def training_warnings(self, run: MultitaskRun, metrics: Mapping[str, float], *, model: nn.Module) -> Sequence[str]:
        """Return the warnings that each task gives about its metrics, whose names are TASK/METRIC."""
        messages = []
        for name, member in run.member_runs.items():
            task_metrics = {
                key.removeprefix(f"{name}/"): value for key, value in metrics.items() if key.startswith(f"{name}/")
            }
            warnings = member.task.training_warnings(member, task_metrics, model=model)
            messages += [f"{name}: {warning}" for warning in warnings]
        return messages


TASK: Final = MultitaskTask()


def _get_member(recipe: MultitaskRecipe, name: str) -> tuple[FineTuningRecipe, FineTuningTask[Any, Any]]:
    """Return the recipe for training the task `name` alone, and the task itself."""
    member = recipe.build_single_recipe(name)
    task = get_task(member)
    assert isinstance(task, FineTuningTask), f"{member.task} is learned alone"
    return member, task


def _load_labels(recipe: MultitaskRecipe, folder: Path | None) -> Vocabularies:
    """Load the labels of each task from a folder, or learn them if it is None."""
    vocabularies: dict[str, Vocabulary] = {}
    for name in recipe.tasks:
        member, task = _get_member(recipe, name)
        with prefix_data_errors(f"{format_data_key(name)}.train"):
            labels = task.load_labels(member, None if folder is None else folder / "tasks" / name)
        vocabularies |= {f"tasks/{name}/{file}": vocabulary for file, vocabulary in labels.items()}
    return vocabularies


def _select_member_files(name: str, files: Mapping[str, T], tokenizer_files: Sequence[str], text: T) -> dict[str, T]:
    """Return the files of the task `name`, without the prefix of its folder, with `text` as the content of its
    tokenizer files.
    """
    prefix = f"tasks/{name}/"
    labels = {file.removeprefix(prefix): value for file, value in files.items() if file.startswith(prefix)}
    return dict.fromkeys(tokenizer_files, text) | labels


def _build_member_model(
    recipe: MultitaskRecipe, name: str, sizes: VocabSizes, *, encoder: Encoder[Tokens] | None = None
) -> SingleHeadModel:
    """Build the model of the task `name` on a new or the given encoder; `sizes` has the sizes of the vocabularies of
    all tasks.
    """
    member, task = _get_member(recipe, name)
    model: SingleHeadModel = task.build_encoder_with_head(
        member, _select_member_files(name, sizes, task.tokenizer_files, sizes[TEXT_FILE]), encoder=encoder
    )
    return model


def _iter_texts(recipe: MultitaskRecipe) -> Iterator[str]:
    """Iterate over the training texts of all tasks."""
    for name in recipe.tasks:
        member, task = _get_member(recipe, name)
        with prefix_data_errors(f"{format_data_key(name)}.train"):
            yield from task.iter_texts(member)


def _encoder_shapes(head: SingleHeadModel) -> dict[str, torch.Size]:
    """Return the shapes of the encoder's parameters by name, without those of a text summary."""
    parameters = head.encoder.named_parameters()
    return {name: parameter.shape for name, parameter in parameters if not name.startswith("summary.")}
