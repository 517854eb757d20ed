"""Evaluators: test examples with references, and metrics of the answers of trained models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Final

from heedful.data.readers import ExampleReader
from heedful.errors import DataError
from heedful.metrics.judge import TranslationJudge
from heedful.metrics.metric import Metric
from heedful.recipes.generation import GenerationConfig
from heedful.recipes.recipe import Recipe


@dataclass(frozen=True)
class EvaluatorOptions:
    """User options of an evaluation; each task supports some of them, and chooses its own value for those not given.

    Attributes:
        text: test text instead of the run's own.
        lowercase: whether to ignore case.
        tokenize: tokenisation of BLEU; by the language of the references if None.
        search: changes the generation settings of a run; raises `RecipeError` if they do not fit.
        context: tokens in the model's context window.
        stride: tokens of each window that are scored.
        task: the only one of several tasks to evaluate.
        terms: glossary file, whose terms the answers must contain.
        contrasts: texts with right and wrong answers, of which the right ones must be more probable.
        judge: a model that rates each answer.
        paged: whether to create a page of the answers (`EvaluationReport.to_html`), which needs more of them to be
            kept.
    """

    text: ExampleReader[Any] | None = None
    lowercase: bool = False
    tokenize: str | None = None
    search: Callable[[GenerationConfig], GenerationConfig] | None = None
    context: int | None = None
    stride: int | None = None
    task: str | None = None
    terms: Path | None = None
    contrasts: ExampleReader[Any] | None = None
    judge: TranslationJudge | None = None
    paged: bool = False

    @property
    def changed_options(self) -> frozenset[str]:
        """Names of the options that differ from their defaults."""
        return frozenset(option.name for option in fields(self) if getattr(self, option.name) != option.default)


DEFAULT_OPTIONS: Final = EvaluatorOptions()


class Evaluator(ABC):
    """Test examples with references, and the metrics of a model's answers to them.

    Attributes:
        has_answer_files: whether answers can be written to files and read from them.
        progress_text: what the model is doing, for progress messages.
        part: part of the data; empty if a text was given.
        data_description: the files that are read, for messages.
        recipe_keys: recipe keys that name these files, for messages.
        size: number of labels, sentences or answers that are compared.
        data_warnings: messages for the user about the examples.
        inputs: the texts of each example.
        reference_answers: the right answer to each example.
    """

    has_answer_files: ClassVar[bool] = False
    progress_text: str = "answering"
    part: str = ""
    data_description: str = ""
    recipe_keys: tuple[str, ...] = ()
    size: int
    data_warnings: Sequence[str] = ()
    inputs: Sequence[Hashable]
    reference_answers: Sequence[Hashable]

    @abstractmethod
    def predict(self, predictor: Any, recipe: Recipe) -> Any:
        """Return a predictor's answers to the examples, in the form that `compute_metrics` takes.

        Args:
            predictor: the trained model.
            recipe: the model's recipe.

        Raises:
            DataError: the model cannot read an example.
        """

    @abstractmethod
    def compute_metrics(self, answers: Any) -> Mapping[str, Metric]:
        """Compute the metrics of the answers that `predict` returned, by name; they can be resampled by weights of the
        examples.
        """

    def read_answers(self, path: Path) -> Any:
        """Read answers from a file, in the form in which `predict` returns them; raise `DataError` if the task does not
        support it.
        """
        raise DataError(f"{path}: is not a run folder, and this task does not read answers from files; name a run")

    def format_answers(self, answers: Any) -> Iterator[str]:
        """Format answers of `predict` as the lines that `read_answers` reads, if `has_answer_files`."""
        raise NotImplementedError("this task does not write answers")

    def check_recipe(self, recipe: Recipe) -> None:
        """Raise `RecipeError` if a recipe asks for more examples than there are."""
        return

    def describe_difference(self, other: Evaluator) -> str | None:
        """Describe how the examples differ from those of another evaluator; None if they are the same."""
        if list(self.inputs) != list(other.inputs):
            return "is tested on other examples than"
        if list(self.reference_answers) != list(other.reference_answers):
            return "is tested on the same texts as, but by other labels than,"
        return None
