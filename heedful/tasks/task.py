"""The contract of a task: how its vocabularies, data, model, objective, evaluator and predictor are built."""

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
from heedful.data.labels import LabelVocabulary
from heedful.data.random_numbers import Subsample
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RunError
from heedful.memory_limits import get_memory_limit
from heedful.models.interface import Encoder
from heedful.models.model_size import ModelTooLargeError, limit_model_size
from heedful.recipes.recipe import Recipe, check_num_layers, find_largest_key
from heedful.recipes.text import TokenizerConfig
from heedful.registry import load_object
from heedful.tasks.auto_settings import ComputeBudget, Settings
from heedful.tasks.comparison import RunComparison
from heedful.tasks.evaluation import Evaluator, EvaluatorOptions
from heedful.tasks.label_evaluation import LabelComparison, LabelEvaluator, LabelReport
from heedful.tasks.objective import TrainingObjective, UnitNames
from heedful.tasks.portable_model import OutputHead, PretrainedSource
from heedful.tasks.report import EvaluationReport
from heedful.tasks.word_baselines import WordBaseline
from heedful.tasks.word_vectors import freeze_vectors, init_from_vectors
from heedful.tensors import Tokens

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)
AnyModel = TypeVar("AnyModel", bound=nn.Module)
T = TypeVar("T")
VocabSizes: TypeAlias = Mapping[str, int]
"""Vocabulary sizes, by file in the run folder."""


class Vocabulary(Protocol):
    """Mapping between ids and their meaning: a tokenizer or a set of labels."""

    @property
    def size(self) -> int:
        """How many ids there are."""
        ...

    def save(self, path: Path) -> None:
        """Write the vocabulary to one file."""
        ...


Vocabularies: TypeAlias = Mapping[str, Vocabulary]
"""Vocabularies, by file in the run folder."""


class Task(ABC, Generic[AnyRecipe, AnyModel]):
    """A task: builds vocabularies, data encoding, model, training objective, evaluator and predictor from a recipe.

    Abstract: each task has one final stateless subclass, whose instance is the constant `TASK` of the task's `task`
    module.

    Attributes:
        tokenizer_files: files of the text vocabularies in the run folder.
        label_files: files of vocabularies of labels, such as classes, in the run folder.
        output_noun: noun for the labels that, besides the text vocabulary, determine the model's output size, such as
            "classes"; None if nothing does.
        unit_names: nouns for the task's examples and labels.
        default_example_command: the first command to try on a trained model, without `heedful`; RUN stands for the
            folder.
        useful_amount: labels, and passes over the data, that training reads before models of the task are usually
            useful; the fewer labels of both count. None if it was not measured.
        supported_options: names of the fields of `EvaluatorOptions` that the task uses.
        report_class: how an evaluation result is reported; None if the task has no evaluator, and a trained model is
            measured as during training.
        comparison_class: how the results of several runs are compared.
    """

    tokenizer_files: ClassVar[tuple[str, ...]]
    label_files: ClassVar[tuple[str, ...]] = ()
    output_noun: ClassVar[str | None] = None
    unit_names: ClassVar[UnitNames] = UnitNames()
    default_example_command: ClassVar[str] = "evaluate RUN"
    useful_amount: ClassVar[tuple[float, float] | None] = None
    supported_options: ClassVar[frozenset[str]] = frozenset()
    report_class: ClassVar[type[EvaluationReport] | None] = None
    comparison_class: ClassVar[type[RunComparison] | None] = None

    def example_command(self, recipe: AnyRecipe) -> str:
        """Return the first command to try on a trained model; by default `default_example_command`."""
        return self.default_example_command

    def choose_settings(self, recipe: AnyRecipe, budget: ComputeBudget) -> Settings:
        """Choose values for the keys of `Recipe.auto_keys` that suit the training data and the compute budget.

        Args:
            recipe: recipe of the new run, with the vocabulary and architecture of its `init`; `needs_fitting` is true.
            budget: compute that training may use.

        Raises:
            DataError: a text cannot be read, or contains nothing to learn from.
        """
        return {}

    @abstractmethod
    def learn_vocabularies(self, recipe: AnyRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the vocabularies from the training data.

        Args:
            recipe: recipe of the run.
            existing: tokenizer to use instead of learning one.

        Raises:
            DataError: a text cannot be read, or contains nothing to learn from.
        """

    def use_tokenizers(self, recipe: AnyRecipe, tokenizers: Sequence[Tokenizer]) -> Vocabularies:
        """Return the vocabularies by file, with the given tokenizers for `tokenizer_files` and the others learned."""
        (tokenizer,) = tokenizers
        return self.learn_vocabularies(recipe, existing=tokenizer)

    def inherit_tokenizer_settings(self, recipe: AnyRecipe, pretrained: PretrainedSource) -> Settings:
        """Return the settings of the recipe table [tokenizer] to copy from the `init` model if the recipe does not set
        them; most tasks have none.
        """
        return {}

    def get_input_settings(self, recipe: AnyRecipe) -> Settings:
        """Return the settings of inputs that a model which starts from one of this recipe must share; most tasks have
        none, because their inputs are ids.
        """
        return {}

    def load_vocabularies(self, recipe: AnyRecipe, folder: Path) -> Vocabularies:
        """Load the vocabularies of a run folder, by file."""
        tokenizers: Vocabularies = {file: load_tokenizer(folder / file) for file in self.tokenizer_files}
        return {**tokenizers, **{file: LabelVocabulary.load(folder / file) for file in self.label_files}}

    @abstractmethod
    def build_encoding(self, run: Run[AnyRecipe, AnyModel]) -> ExampleEncoder[Any]:
        """Build the encoding that turns examples into ids."""

    @abstractmethod
    def build_model(self, recipe: AnyRecipe, sizes: VocabSizes) -> AnyModel:
        """Build the model with random initial weights; `sizes` has the vocabulary sizes, by file."""

    @abstractmethod
    def build_objective(
        self, run: Run[AnyRecipe, AnyModel], train: Corpus, validation: Corpus, *, device: torch.device
    ) -> TrainingObjective[Any]:
        """Build the training objective, with its training and validation data."""

    @abstractmethod
    def build_predictor(self, run: Run[AnyRecipe, AnyModel], model: AnyModel, *, step: int | None = None) -> Any:
        """Wrap a trained model in the predictor that users call.

        Args:
            run: run of the model.
            model: the model in evaluation mode.
            step: step of the kept checkpoint it was loaded from; None for the final or the best weights.
        """

    def output_head(self, run: Run[AnyRecipe, AnyModel]) -> OutputHead | None:
        """Describe the model's output head for export formats; None if it has no such head."""
        return None

    def source_factors(self, run: Run[AnyRecipe, AnyModel]) -> Mapping[str, Factor]:
        """Return the factors that the model reads for each source piece, by name, in the order of their embedding
        tables.
        """
        return {}

    def build_evaluator(self, recipe: AnyRecipe | None, options: EvaluatorOptions) -> Evaluator:
        """Build the evaluator of the task's test data, which is the same for all models of the recipe.

        Args:
            recipe: recipe of the run; None to evaluate answers from a file against a given text, without a run.
            options: the user's evaluation options.

        Raises:
            DataError: a file is missing, cannot be read, or contains no examples.
            RecipeError: the options do not fit the recipe.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define build_evaluator")

    def check_files(self, recipe: AnyRecipe) -> None:
        """Raise `DataError` if a file that the recipe names besides its text is missing."""
        for key, path in recipe.model.word_vectors.items():
            if not path.is_file():
                raise DataError(f"{path}: there is no such file; check model.{key}")

    def embedding_modules(self, run: Run[AnyRecipe, AnyModel], model: Any) -> Mapping[str, tuple[Tokenizer, nn.Module]]:
        """Return the tokenizer and the module with the embeddings for each recipe key that names a word vector file."""
        return {"vectors": (run.tokenizer, model)}

    def prepare_examples(self, run: Run[AnyRecipe, AnyModel], examples: Iterable[Any]) -> Iterable[Any]:
        """Transform the examples before they are encoded; by default return them unchanged."""
        return examples

    def data_warnings(self, run: Run[AnyRecipe, AnyModel], corpus: Corpus) -> Sequence[str]:
        """Return messages for the user about an encoded part of the data, the corpus; none by default."""
        return ()

    def init_weights(self, run: Run[AnyRecipe, AnyModel], model: AnyModel, *, log: Callable[[str], None]) -> None:
        """Initialise weights of a new model from data, after random initialisation and `init`: word vectors by default.
        `log` receives messages for the user.
        """
        for key, path in run.recipe.model.word_vectors.items():
            tokenizer, module = self.embedding_modules(run, model)[key]
            init_from_vectors(module, tokenizer, path, log=log)

    def freeze_weights(self, run: Run[AnyRecipe, AnyModel], model: nn.Module) -> None:
        """Freeze the weights that the recipe excludes from training; called before each training session, on the
        model's device.
        """
        if run.recipe.model.freezes_vectors:
            for key, path in run.recipe.model.word_vectors.items():
                tokenizer, module = self.embedding_modules(run, model)[key]
                freeze_vectors(module, tokenizer, path)

    def result_files(self, run: Run[AnyRecipe, AnyModel], objective: TrainingObjective[Any]) -> Mapping[str, BaseModel]:
        """Return what the objective has measured about the final model as pydantic models, by file in the run folder;
        none by default.
        """
        return {}

    def training_warnings(
        self, run: Run[AnyRecipe, AnyModel], metrics: Mapping[str, float], *, model: nn.Module
    ) -> Sequence[str]:
        """Return the reasons why a trained model is not useful, one sentence each; none if it is better than what needs
        no training.

        Args:
            run: a finished run.
            metrics: metrics of its final model on the validation data.
            model: the final model, in evaluation mode.
        """
        return ()

    def measure_word_baseline(self, run: Run[AnyRecipe, AnyModel], part: str) -> WordBaseline | None:
        """Measure what a model of word counts reaches on the data `part`; None if the task has no such model, as by
        default.

        Raises:
            DataError: there is nothing to count.
            MissingExtraError: a package that it needs is not installed.
        """
        return None

    def build_ensemble(self, runs: Sequence[Run[AnyRecipe, AnyModel]], models: Sequence[AnyModel]) -> Any:
        """Combine several trained models into one predictor; raise `RunError` if the task does not support it."""
        raise RunError(
            f"{runs[0].folder}: its task is {runs[0].recipe.task}, whose models cannot form an ensemble; name one run"
        )

    def member_runs(self, run: Run[AnyRecipe, AnyModel]) -> Mapping[str, Run[Any, Any]]:
        """Return one run for each of the recipe's `datasets`, by name; these encode the data and compute the metrics. A
        run of one task is its own member, with an empty name.
        """
        return {"": run}

    def build_joint_objective(
        self, run: Run[AnyRecipe, AnyModel], corpora: Mapping[str, tuple[Corpus, Corpus]], *, device: torch.device
    ) -> TrainingObjective[Any]:
        """Build the training objective from the training and validation data of each member run, which `corpora` has by
        its name.
        """
        return self.build_objective(run, *corpora[""], device=device)


@final
@dataclass(frozen=True)
class Run(Generic[AnyRecipe, AnyModel]):
    """A recipe with its run folder and its vocabularies.

    Attributes:
        folder: the run folder.
        recipe: recipe of the run.
        vocabularies: vocabularies by file.
    """

    folder: Path
    recipe: AnyRecipe
    vocabularies: Vocabularies

    def __repr__(self) -> str:
        vocabularies = ", ".join(f"{file}: {vocabulary!r}" for file, vocabulary in self.vocabularies.items())
        return f"Run({str(self.folder)!r}, task {self.recipe.task}, {vocabularies})"

    @property
    def task(self) -> Task[AnyRecipe, AnyModel]:
        """The task of the recipe."""
        return get_task(self.recipe)

    @property
    def member_runs(self) -> Mapping[str, Run[Any, Any]]:
        """One run for each of the recipe's `datasets`, by name; for one task it is this run, with an empty name."""
        return self.task.member_runs(self)

    @property
    def vocab_sizes(self) -> VocabSizes:
        """Size of each vocabulary."""
        return {file: vocabulary.size for file, vocabulary in self.vocabularies.items()}

    @property
    def tokenizer(self) -> Tokenizer:
        """The text tokenizer; the last one, that of the target, if there are several."""
        return self.get_tokenizer(self.task.tokenizer_files[-1])

    def get_tokenizer(self, file: str) -> Tokenizer:
        """Return the text tokenizer that is stored in `file`."""
        tokenizer = self.vocabularies[file]
        assert isinstance(tokenizer, Tokenizer), f"{file} is {type(tokenizer).__name__}"
        return tokenizer

    def get_vocabulary(self, file: str, expected_class: type[T]) -> T:
        """Return the vocabulary that is stored in `file`, and assert its class."""
        vocabulary = self.vocabularies[file]
        assert isinstance(vocabulary, expected_class), f"{file} is {type(vocabulary).__name__}"
        return vocabulary

    def read_examples(self, part: str) -> Iterable[Any]:
        """Read the examples of the data `part`; of the training part, only those that are used for training."""
        return read_examples(self.recipe, part)

    def encode_part(
        self,
        part: str,
        folder: Path,
        *,
        fingerprint: str,
        processes: int = 1,
        on_progress: Callable[[int, int], None] = lambda _, __: None,
    ) -> Corpus:
        """Encode the data `part` and write it as a corpus into the folder, one text after the other. `fingerprint`
        identifies what the corpus depends on; `processes` and `on_progress` are those of `write_corpus`.
        """
        texts = (_subsample(self.recipe, part, reader) for reader in self.recipe.data.readers(part).values())
        first, *others = (self.task.prepare_examples(self, text) for text in texts)
        return write_corpus(
            folder,
            first,
            encoder=self.task.build_encoding(self),
            fingerprint=fingerprint,
            more_texts=others,
            processes=processes,
            on_progress=on_progress,
        )

    def build_model(self) -> AnyModel:
        """Build the recipe's model with random initial weights.

        Raises:
            ModelTooLargeError: it does not fit into this machine's memory.
        """
        model: AnyModel = build_model(self.recipe, self.vocab_sizes)
        return model

    def init_model(self) -> AnyModel:
        """Build the recipe's model, initialised from the recipe's seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.seed)
            return self.build_model()


def get_task(recipe: Recipe) -> Task[Any, Any]:
    """Return the task of a recipe."""
    task: Task[Any, Any] = load_object(recipe.made_by, context=f"task = {recipe.task!r}")
    return task


def build_model(recipe: Recipe, sizes: VocabSizes) -> Any:
    """Build the model of a recipe with random initial weights.

    Args:
        recipe: recipe of any task.
        sizes: vocabulary sizes, by file.

    Raises:
        ModelTooLargeError: it does not fit into this machine's memory, or has too many layers; the message names the
            key.
    """
    limit = get_memory_limit()
    try:
        check_num_layers(recipe.model)
        with limit_model_size(max_bytes=math.inf if limit is None else float(limit)):
            return get_task(recipe).build_model(recipe, sizes)
    except ModelTooLargeError as error:
        raise error.with_reason(find_largest_key(recipe, sizes)) from None


def read_examples(recipe: Recipe, part: str) -> Iterable[Any]:
    """Read the examples of the data `part`; of the training part, only those that are used for training."""
    return _subsample(recipe, part, recipe.data.reader(part))


def _subsample(recipe: Recipe, part: str, reader: Iterable[Any]) -> Iterable[Any]:
    """Draw as many examples of a part from its reader as the recipe asks for; all if it does not limit them."""
    count = recipe.get_sample_size(part)
    return reader if count is None else Subsample(reader, count=count, seed=recipe.seed)


def learn_or_reuse_tokenizer(
    recipe: Recipe, texts: Iterable[str], *, existing: Tokenizer | None, masked: bool = False, generated: bool = False
) -> Tokenizer:
    """Return the tokenizer `existing`, or learn one from texts if it is None; `masked` adds a mask token, and
    `generated` says that the model generates such texts.

    Args:
        recipe: recipe that configures the tokenizer.
        texts: texts to learn from.
        existing: tokenizer to use instead of learning one.
        masked: whether the vocabulary needs a mask token.
        generated: whether the model generates such texts; their combining marks are then kept unchanged.
    """
    if existing is not None:
        return existing
    assert isinstance(recipe.tokenizer, TokenizerConfig)
    return recipe.tokenizer.learn_tokenizer(texts, add_mask=masked, nfc=generated and recipe.tokenizer.allows_nfc)


@contextmanager
def prefix_data_errors(key: str) -> Iterator[None]:
    """Prefix the message of any `DataError` raised in the block with a recipe key."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{key}: {error}") from None


class LabelTask(Task[AnyRecipe, AnyModel]):
    """A task whose answers are compared with labels, and with always giving the same one.

    Abstract, like every task.
    """

    report_class: ClassVar = LabelReport
    comparison_class: ClassVar = LabelComparison

    @abstractmethod
    def build_part_evaluator(self, recipe: AnyRecipe, part: str) -> LabelEvaluator:
        """Build the evaluator of all examples of the data `part`.

        Raises:
            DataError: a file is missing, or contains no examples, or none with labels.
            RecipeError: the parts of the data belong to different tasks.
        """

    @final
    def build_evaluator(self, recipe: AnyRecipe | None, options: EvaluatorOptions) -> LabelEvaluator:
        """Build the evaluator of the test part, or of the validation part if there is no test part; the options are not
        used.
        """
        assert recipe is not None, "only a run answers with labels"
        return self.build_member_evaluator(recipe, table="data")

    @final
    def build_member_evaluator(self, recipe: AnyRecipe, *, table: str) -> LabelEvaluator:
        """Build the evaluator of one of several tasks, whose data are in the recipe table `table`."""
        part = recipe.data.evaluation_part
        with prefix_data_errors(f"{table}.{part}"):
            text = self.describe_part(recipe, part)
            return self.build_part_evaluator(recipe, part).with_location(part, text, table=table)

    def describe_part(self, recipe: AnyRecipe, part: str) -> str:
        """Name the files of a part of the data, for messages."""
        return " and ".join(map(str, recipe.data.reader(part).paths))


class FineTuningTask(LabelTask[AnyRecipe, AnyModel]):
    """A task whose model is an encoder with a head, so that several tasks can share one encoder.

    Abstract, like every task.
    """

    @abstractmethod
    def iter_texts(self, recipe: AnyRecipe) -> Iterable[str]:
        """Iterate over the texts that a vocabulary is learned from."""

    @abstractmethod
    def build_encoder_with_head(
        self, recipe: AnyRecipe, sizes: VocabSizes, *, encoder: Encoder[Tokens] | None = None
    ) -> AnyModel:
        """Build the model with random initial weights; if an encoder is given, build only the head on top of it.
        `sizes` has the vocabulary sizes, by file.
        """

    @final
    def build_model(self, recipe: AnyRecipe, sizes: VocabSizes) -> AnyModel:
        """Build an encoder with a head."""
        return self.build_encoder_with_head(recipe, sizes)

    def load_labels(self, recipe: AnyRecipe, folder: Path | None) -> Vocabularies:
        """Load the label vocabularies from a folder, or learn them from the training data if it is None."""
        return {}

    @final
    def learn_vocabularies(self, recipe: AnyRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the tokenizer, unless `existing` is a tokenizer to use instead, and learn the labels."""
        tokenizer = learn_or_reuse_tokenizer(recipe, self.iter_texts(recipe), existing=existing)
        return {**dict.fromkeys(self.tokenizer_files, tokenizer), **self.load_labels(recipe, None)}

    @final
    def load_vocabularies(self, recipe: AnyRecipe, folder: Path) -> Vocabularies:
        """Load the tokenizer and the labels of a run folder."""
        return {file: load_tokenizer(folder / file) for file in self.tokenizer_files} | dict(
            self.load_labels(recipe, folder)
        )

    def training_warnings(
        self, run: Run[AnyRecipe, AnyModel], metrics: Mapping[str, float], *, model: nn.Module
    ) -> Sequence[str]:
        """Return a warning if the metrics on the validation data are not better than those of always giving the same
        answer.
        """
        error = metrics["loss"] if self.is_regression(run.recipe) else None
        with prefix_data_errors("data.validation"):
            verdict = self.build_part_evaluator(run.recipe, "validation").describe_failure(metrics, error=error)
        return (verdict,) if verdict else ()

    def is_regression(self, recipe: AnyRecipe) -> bool:
        """Return whether answers are numbers and the loss is their mean squared error."""
        return False

    @abstractmethod
    def primary_metric(self, run: Run[AnyRecipe, AnyModel]) -> str:
        """Return the name of the most informative metric, of which higher is better."""
