"""What the frame knows of a task: how its text is read, what is learned from it, and how the model is used."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar, final

import torch
from pydantic import BaseModel
from torch import nn

from heedful.data.corpus import Corpus, ExampleEncoder, write_corpus
from heedful.data.factors import Factor
from heedful.data.random_numbers import Subsample
from heedful.data.tokenizer_loading import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RunError
from heedful.memory_limits import get_memory_limit
from heedful.models.interface import Encoder
from heedful.models.model_size import ModelTooLargeError, limit_model_size
from heedful.recipes.recipe import Recipe
from heedful.recipes.size_limits import check_num_layers, find_largest_key
from heedful.recipes.text import TokenizerConfig
from heedful.registry import load_object
from heedful.tasks.auto_settings import ComputeBudget, Settings
from heedful.tasks.evaluation import Evaluator, EvaluatorOptions
from heedful.tasks.label_evaluation import LabelComparison, LabelEvaluator, LabelReport
from heedful.tasks.objective import TrainingObjective
from heedful.tasks.portable_model import OutputHead, PretrainedSource
from heedful.tasks.report import EvaluationReport, RunComparison
from heedful.tasks.unit_names import UnitNames
from heedful.tasks.word_vectors import freeze_vectors, init_from_vectors
from heedful.tensors import Tokens

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)
AnyModel = TypeVar("AnyModel", bound=nn.Module)
T = TypeVar("T")
VocabSizes: TypeAlias = Mapping[str, int]
"""Entries of each vocabulary, by its file."""


class Vocabulary(Protocol):
    """What says what ids mean."""

    @property
    def size(self) -> int:
        """How many ids there are."""
        ...

    def save(self, path: Path) -> None:
        """One file."""
        ...


Vocabularies: TypeAlias = Mapping[str, Vocabulary]
"""By their files in the run folder."""


class Task(ABC, Generic[AnyRecipe, AnyModel]):
    """A task as the frame sees it.

    Abstract: each task has one final child without state, `KIND` in its `run`.

    Attributes:
        tokenizer_files: files of the vocabularies of text.
        output_noun: what of the text, besides its words, decides how many outputs a model has; None where nothing does.
        unit_names: what its examples and labels are called.
        default_example_command: how a trained model is tried first, behind `heedful`; the folder takes the place of RUN.
        supported_options: fields of `EvaluatorOptions` that say something to the task.
        report_class: how what a model reaches in the task's exam is told; None where it has none, and a trained model is
            measured as training measures it.
        comparison_class: how several of them are.
    """

    tokenizer_files: ClassVar[tuple[str, ...]]
    output_noun: ClassVar[str | None] = None
    unit_names: ClassVar[UnitNames] = UnitNames()
    default_example_command: ClassVar[str] = "evaluate RUN"
    supported_options: ClassVar[frozenset[str]] = frozenset()
    report_class: ClassVar[type[EvaluationReport] | None] = None
    comparison_class: ClassVar[type[RunComparison] | None] = None

    def example_command(self, recipe: AnyRecipe) -> str:
        """`default_example_command`, where it depends on the recipe."""
        return self.default_example_command

    def choose_settings(self, recipe: AnyRecipe, budget: ComputeBudget) -> Settings:
        """Values for keys of `Recipe.auto_keys`, by what there is to learn from.

        Args:
            recipe: of a run that is to be made, with the vocabulary and the architecture of its `init`; it `is_open`.
            budget: what training may take.

        Raises:
            DataError: a text cannot be read, or has nothing to learn from.
        """
        return {}

    @abstractmethod
    def learn_vocabularies(self, recipe: AnyRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """The vocabularies of what is learned from.

        Args:
            recipe: of the run.
            existing: the vocabulary of text that is used instead of learning one.

        Raises:
            DataError: a text cannot be read, or has nothing to learn from.
        """

    def use_tokenizers(self, recipe: AnyRecipe, tokenizers: Sequence[Tokenizer]) -> Vocabularies:
        """The vocabularies where those of text are given, one for each of `tokenizer_files`."""
        (tokenizer,) = tokenizers
        return self.learn_vocabularies(recipe, existing=tokenizer)

    def inherit_tokenizer_settings(self, recipe: AnyRecipe, pretrained: PretrainedSource) -> Settings:
        """Keys of [tokenizer] that are as those of `init` where nobody gives them; a task that learns anew has some."""
        return {}

    def load_vocabularies(self, recipe: AnyRecipe, folder: Path) -> Vocabularies:
        """The vocabularies in a run folder; those of text, where there are no others."""
        return {file: load_tokenizer(folder / file) for file in self.tokenizer_files}

    @abstractmethod
    def build_encoding(self, run: Run[AnyRecipe, AnyModel]) -> ExampleEncoder[Any]:
        """How examples become ids."""

    @abstractmethod
    def build_model(self, recipe: AnyRecipe, sizes: VocabSizes) -> AnyModel:
        """The model with fresh random weights."""

    @abstractmethod
    def build_objective(
        self, run: Run[AnyRecipe, AnyModel], train: Corpus, validation: Corpus, *, device: torch.device
    ) -> TrainingObjective[Any]:
        """What training minimises, and measures on the validation part."""

    @abstractmethod
    def build_predictor(self, run: Run[AnyRecipe, AnyModel], model: AnyModel, *, step: int | None = None) -> Any:
        """A trained model as its users see it.

        Args:
            run: what it is of.
            model: in evaluation mode.
            step: the kept checkpoint that it is of; None where it is the finished or the best one.
        """

    def output_head(self, run: Run[AnyRecipe, AnyModel]) -> OutputHead | None:
        """What the outputs of its models say, for other formats; None where these have no such head."""
        return None

    def source_factors(self, run: Run[AnyRecipe, AnyModel]) -> Mapping[str, Factor]:
        """What its models read of each source piece besides the piece, by name, in the order of their tables."""
        return {}

    def build_evaluator(self, recipe: AnyRecipe | None, options: EvaluatorOptions) -> Evaluator:
        """What models of a recipe are asked, whatever is learned from.

        Args:
            recipe: of the run; None where there is no run, but answers in a file and a text beside it.
            options: how the user wants it.

        Raises:
            DataError: a file is missing, cannot be read, or holds nothing to ask.
            RecipeError: what a user wants does not fit the recipe.
        """
        raise NotImplementedError(f"{type(self).__name__} has no exam")

    def check_files(self, recipe: AnyRecipe) -> None:
        """Looks for the files that a recipe names besides its text; `DataError` where one is missing."""
        for key, path in recipe.model.word_vectors.items():
            if not path.is_file():
                raise DataError(f"{path}: there is no such file; check model.{key}")

    def embedding_modules(self, run: Run[AnyRecipe, AnyModel], model: Any) -> Mapping[str, tuple[Tokenizer, nn.Module]]:
        """What may start from word vectors, by the key of their file: a vocabulary, and what has its embeddings."""
        return {"vectors": (run.tokenizer, model)}

    def prepare_examples(self, run: Run[AnyRecipe, AnyModel], examples: Iterable[Any]) -> Iterable[Any]:
        """What is encoded of the examples that were read; most tasks encode each as it is."""
        return examples

    def data_warnings(self, run: Run[AnyRecipe, AnyModel], corpus: Corpus) -> Sequence[str]:
        """What a user should know of an encoded part of the data besides how much was left out."""
        return ()

    def init_weights(self, run: Run[AnyRecipe, AnyModel], model: AnyModel, *, log: Callable[[str], None]) -> None:
        """Gives a fresh model what it starts from besides chance and `init`: word vectors."""
        for key, path in run.recipe.model.word_vectors.items():
            tokenizer, module = self.embedding_modules(run, model)[key]
            init_from_vectors(module, tokenizer, path, log=log)

    def freeze_weights(self, run: Run[AnyRecipe, AnyModel], model: nn.Module) -> None:
        """Keeps what the recipe wants kept out of every update; asked before each sitting, on the model's device."""
        if run.recipe.model.freezes_vectors:
            for key, path in run.recipe.model.word_vectors.items():
                tokenizer, module = self.embedding_modules(run, model)[key]
                freeze_vectors(module, tokenizer, path)

    def result_files(self, run: Run[AnyRecipe, AnyModel], objective: TrainingObjective[Any]) -> Mapping[str, BaseModel]:
        """What the task has found out about the final model, which it has just measured, by files of the run folder."""
        return {}

    def training_warnings(self, run: Run[AnyRecipe, AnyModel], metrics: Mapping[str, float]) -> Sequence[str]:
        """What is to be said of a trained model, a sentence each.

        Args:
            run: that has come to its end.
            metrics: what its final model has reached on the validation part.
        """
        return ()

    def build_ensemble(self, runs: Sequence[Run[AnyRecipe, AnyModel]], models: Sequence[AnyModel]) -> Any:
        """Several trained models that work as one; `RunError` where they cannot."""
        raise RunError(f"{runs[0].folder}: its task is {runs[0].recipe.task}, and its models work alone; name one run")

    def member_runs(self, run: Run[AnyRecipe, AnyModel]) -> Mapping[str, Run[Any, Any]]:
        """Who encodes text and measures: a run for each of the recipe's `datasets`."""
        return {"": run}

    def build_joint_objective(
        self, run: Run[AnyRecipe, AnyModel], corpora: Mapping[str, tuple[Corpus, Corpus]], *, device: torch.device
    ) -> TrainingObjective[Any]:
        """`build_objective`, given both parts of the data of each member."""
        return self.build_objective(run, *corpora[""], device=device)


@final
@dataclass(frozen=True)
class Run(Generic[AnyRecipe, AnyModel]):
    """A recipe bound to its folder and to the vocabularies that came of its text.

    Attributes:
        folder: where it is.
        recipe: what it was or will be made of.
        vocabularies: what says what ids mean.
    """

    folder: Path
    recipe: AnyRecipe
    vocabularies: Vocabularies

    def __repr__(self) -> str:
        vocabularies = ", ".join(f"{file}: {vocabulary!r}" for file, vocabulary in self.vocabularies.items())
        return f"Run({str(self.folder)!r}, task {self.recipe.task}, {vocabularies})"

    @property
    def task(self) -> Task[AnyRecipe, AnyModel]:
        """The task."""
        return get_task(self.recipe)

    @property
    def member_runs(self) -> Mapping[str, Run[Any, Any]]:
        """A run for each of the recipe's `datasets`, itself where there is one."""
        return self.task.member_runs(self)

    @property
    def vocab_sizes(self) -> VocabSizes:
        """Entries of each vocabulary."""
        return {file: vocabulary.size for file, vocabulary in self.vocabularies.items()}

    @property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary of text; of several the last, which is the one that is written in."""
        return self.get_tokenizer(self.task.tokenizer_files[-1])

    def get_tokenizer(self, file: str) -> Tokenizer:
        """One of the vocabularies of text."""
        tokenizer = self.vocabularies[file]
        assert isinstance(tokenizer, Tokenizer), f"{file} is {type(tokenizer).__name__}"
        return tokenizer

    def get_vocabulary(self, file: str, expected_class: type[T]) -> T:
        """One of the vocabularies, which is known to be of a class."""
        vocabulary = self.vocabularies[file]
        assert isinstance(vocabulary, expected_class), f"{file} is {type(vocabulary).__name__}"
        return vocabulary

    def read_examples(self, part: str) -> Iterable[Any]:
        """A part of the data; of the training text what is learned from."""
        return read_examples(self.recipe, part)

    def encode_part(self, part: str, folder: Path, *, fingerprint: str) -> Corpus:
        """Writes a part of the data as ids, one text after the other."""
        texts = (_subsample(self.recipe, part, reader) for reader in self.recipe.data.readers(part).values())
        first, *others = (self.task.prepare_examples(self, text) for text in texts)
        return write_corpus(
            folder, first, encoder=self.task.build_encoding(self), fingerprint=fingerprint, more_texts=others
        )

    def build_model(self) -> AnyModel:
        """The recipe's model with fresh random weights.

        Raises:
            ModelTooLargeError: it has no room in this machine's memory.
        """
        model: AnyModel = build_model(self.recipe, self.vocab_sizes)
        return model

    def init_model(self) -> AnyModel:
        """The recipe's model, freshly initialised from its seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.seed)
            return self.build_model()


def get_task(recipe: Recipe) -> Task[Any, Any]:
    """What the task makes of its recipes."""
    task: Task[Any, Any] = load_object(recipe.made_by, context=f"task = {recipe.task!r}")
    return task


def build_model(recipe: Recipe, sizes: VocabSizes) -> Any:
    """The model of a recipe with fresh random weights.

    Args:
        recipe: of any task.
        sizes: entries of each vocabulary, by its file.

    Raises:
        ModelTooLargeError: it has no room in this machine's memory, or too many layers; the message names the key.
    """
    limit = get_memory_limit()
    try:
        check_num_layers(recipe.model)
        with limit_model_size(max_bytes=math.inf if limit is None else float(limit)):
            return get_task(recipe).build_model(recipe, sizes)
    except ModelTooLargeError as error:
        raise error.with_reason(find_largest_key(recipe, sizes)) from None


def read_examples(recipe: Recipe, part: str) -> Iterable[Any]:
    """A part of the data; of the training text what is learned from."""
    return _subsample(recipe, part, recipe.data.reader(part))


def _subsample(recipe: Recipe, part: str, reader: Iterable[Any]) -> Iterable[Any]:
    count = recipe.get_sample_size(part)
    return reader if count is None else Subsample(reader, count=count, seed=recipe.seed)


def learn_or_reuse_tokenizer(
    recipe: Recipe, texts: Iterable[str], *, existing: Tokenizer | None, masked: bool = False, generated: bool = False
) -> Tokenizer:
    """The vocabulary that was given, else one that is learned from texts.

    Args:
        recipe: says how texts are cut.
        texts: those to learn from.
        existing: instead of one that is learned.
        masked: whether tokens will be hidden.
        generated: whether the model writes such texts, whose marks are then left what they are.
    """
    if existing is not None:
        return existing
    assert isinstance(recipe.tokenizer, TokenizerConfig)
    return recipe.tokenizer.learn_tokenizer(texts, add_mask=masked, nfc=generated and recipe.tokenizer.allows_nfc)


@contextmanager
def prefix_data_errors(key: str) -> Iterator[None]:
    """Tells of which part of a recipe an error about data speaks."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{key}: {error}") from None


class FineTuningTask(Task[AnyRecipe, AnyModel]):
    """A task whose model is an encoder with a head, so that several can be learned by one encoder.

    Abstract: as every kind.
    """

    report_class: ClassVar = LabelReport
    comparison_class: ClassVar = LabelComparison

    @abstractmethod
    def iter_texts(self, recipe: AnyRecipe) -> Iterable[str]:
        """What a vocabulary is learned from."""

    @abstractmethod
    def build_encoder_with_head(
        self, recipe: AnyRecipe, sizes: VocabSizes, *, encoder: Encoder[Tokens] | None = None
    ) -> AnyModel:
        """The model with fresh random weights; its head alone where an encoder is given."""

    @final
    def build_model(self, recipe: AnyRecipe, sizes: VocabSizes) -> AnyModel:
        """An encoder and a head."""
        return self.build_encoder_with_head(recipe, sizes)

    def load_labels(self, recipe: AnyRecipe, folder: Path | None) -> Vocabularies:
        """The vocabularies that are not of text: those in a folder, else those of what is learned from."""
        return {}

    @final
    def learn_vocabularies(self, recipe: AnyRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Text, and what it is labelled with."""
        tokenizer = learn_or_reuse_tokenizer(recipe, self.iter_texts(recipe), existing=existing)
        return {**dict.fromkeys(self.tokenizer_files, tokenizer), **self.load_labels(recipe, None)}

    @final
    def load_vocabularies(self, recipe: AnyRecipe, folder: Path) -> Vocabularies:
        """Text, and what it is labelled with."""
        return {file: load_tokenizer(folder / file) for file in self.tokenizer_files} | dict(
            self.load_labels(recipe, folder)
        )

    @abstractmethod
    def build_part_evaluator(self, recipe: AnyRecipe, part: str) -> LabelEvaluator:
        """The examples of a part of the data, whatever is learned from.

        Raises:
            DataError: a file is missing, holds no examples, or none with labels.
            RecipeError: parts of the data are of different tasks.
        """

    def training_warnings(self, run: Run[AnyRecipe, AnyModel], metrics: Mapping[str, float]) -> Sequence[str]:
        """That the model is not better than the same answer to everything."""
        error = metrics["loss"] if self.is_regression(run.recipe) else None
        with prefix_data_errors("data.validation"):
            verdict = self.build_part_evaluator(run.recipe, "validation").describe_failure(metrics, error=error)
        return (verdict,) if verdict else ()

    def is_regression(self, recipe: AnyRecipe) -> bool:
        """Whether answers are numbers, and the loss their mean squared error."""
        return False

    @final
    def build_evaluator(self, recipe: AnyRecipe | None, options: EvaluatorOptions) -> LabelEvaluator:
        """The test part, or the validation part where there is no other."""
        assert recipe is not None, "nothing but a run answers with labels"
        return self.build_member_evaluator(recipe, table="data")

    @final
    def build_member_evaluator(self, recipe: AnyRecipe, *, table: str) -> LabelEvaluator:
        """The same of one of several tasks, whose data stand in a table of their own."""
        part = recipe.data.evaluation_part
        with prefix_data_errors(f"{table}.{part}"):
            text = " and ".join(map(str, recipe.data.reader(part).paths))
            return self.build_part_evaluator(recipe, part).with_location(part, text, table=table)

    @abstractmethod
    def primary_metric(self, run: Run[AnyRecipe, AnyModel]) -> str:
        """The metric that tells most, of which more is better."""
