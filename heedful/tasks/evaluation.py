"""What trained models are asked, and what their answers are worth: the same questions for all of them."""

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
    """How a user wants an exam to be; a task understands some of it, and what is not given is its own choice.

    Attributes:
        text: instead of the run's own.
        lowercase: whether case is left aside.
        tokenize: how BLEU cuts words; as the language of the references wants it if None.
        search: changes how a run looks for its outputs; raises `RecipeError` where that does not fit.
        context: tokens that are read at a time.
        stride: of them, how many are predicted at a time.
        task: of several the one that is asked alone.
        terms: file of a glossary, whose terms answers must have.
        contrasts: texts with right and wrong answers, of which the right ones must be more probable.
        judge: a model that says what each answer is worth.
        paged: whether there is to be a page of the answers (`Report.page`), for which more of them is kept.
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
        """What of it is not as it is without a word."""
        return frozenset(option.name for option in fields(self) if getattr(self, option.name) != option.default)


DEFAULT_OPTIONS: Final = EvaluatorOptions()


class Evaluator(ABC):
    """Examples with right answers.

    Attributes:
        has_answer_files: whether answers can be written to files, and read from them.
        progress_text: what a system does now, in words.
        part: of the data; empty where a text was named.
        data_description: the files that are read, in words.
        recipe_keys: the keys of a recipe that name them, where they are to be told.
        size: how many labels, sentences or answers are compared.
        data_warnings: what a user should know of the examples.
        inputs: the texts of each example.
        reference_answers: what is right of each.
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
        """What a trained model says of the examples.

        Args:
            predictor: the model as its users see it.
            recipe: how it was made.

        Raises:
            DataError: it cannot read one of them.
        """

    @abstractmethod
    def compute_metrics(self, answers: Any) -> Mapping[str, Metric]:
        """What some answers are worth, for any weights of the examples, or of groups of them that belong together."""

    def read_answers(self, path: Path) -> Any:
        """Answers that somebody wrote into a file; `DataError` where that cannot be, as in most tasks."""
        raise DataError(f"{path}: is no run folder, and answers of this task are not read from files; name a run")

    def format_answers(self, answers: Any) -> Iterator[str]:
        """What `read_answers` reads, where answers are `has_answer_files`."""
        raise NotImplementedError("this task writes no answers")

    def check_recipe(self, recipe: Recipe) -> None:
        """`RecipeError` where a recipe asks for more than there is."""
        return

    def describe_difference(self, other: Evaluator) -> str | None:
        """What tells it from another exam, in words that a comparison may follow; None where both ask the same."""
        if list(self.inputs) != list(other.inputs):
            return "is tested on other examples than"
        if list(self.reference_answers) != list(other.reference_answers):
            return "is tested on the same texts as, but by other labels than,"
        return None
