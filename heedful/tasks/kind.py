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

from heedful.catalogue import find
from heedful.data.chance import Drawn
from heedful.data.corpus import Corpus, Encoding, write_corpus
from heedful.data.factors import Factor
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RunError
from heedful.machine import memory_limit
from heedful.models.interface import Encoder
from heedful.models.size import ModelTooLargeError, limited
from heedful.recipes.largest import largest_key, require_few_layers
from heedful.recipes.recipe import Recipe
from heedful.recipes.text import TokenizerConfig
from heedful.tasks.counted import Counted
from heedful.tasks.exam import Asking, Exam
from heedful.tasks.fitting import Means, Settings
from heedful.tasks.labelled import LabelledComparison, LabelledExam, LabelledReport
from heedful.tasks.origin import Head, Predecessor
from heedful.tasks.report import Comparison, Report
from heedful.tasks.task import Task
from heedful.tasks.word_vectors import freeze_vectors, start_from_vectors
from heedful.values import Tokens

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)
AnyModel = TypeVar("AnyModel", bound=nn.Module)
T = TypeVar("T")
Entries: TypeAlias = Mapping[str, int]
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


class Kind(ABC, Generic[AnyRecipe, AnyModel]):
    """A task as the frame sees it.

    Abstract: each task has one final child without state, `KIND` in its `run`.

    Attributes:
        words: files of the vocabularies of text.
        outputs: what of the text, besides its words, decides how many outputs a model has; None where nothing does.
        counted: what its examples and labels are called.
        trial: how a trained model is tried first, behind `heedful`; the folder takes the place of RUN.
        understood: fields of `Asking` that say something to the task.
        reported: how what a model reaches in the task's exam is told; None where it has none, and a trained model is
            measured as training measures it.
        compared: how several of them are.
    """

    words: ClassVar[tuple[str, ...]]
    outputs: ClassVar[str | None] = None
    counted: ClassVar[Counted] = Counted()
    trial: ClassVar[str] = "evaluate RUN"
    understood: ClassVar[frozenset[str]] = frozenset()
    reported: ClassVar[type[Report] | None] = None
    compared: ClassVar[type[Comparison] | None] = None

    def tried(self, recipe: AnyRecipe) -> str:
        """`trial`, where it depends on the recipe."""
        return self.trial

    def fit(self, recipe: AnyRecipe, means: Means) -> Settings:
        """Values for keys of `Recipe.fitted`, by what there is to learn from.

        Args:
            recipe: of a run that is to be made, with the vocabulary and the architecture of its `init`; it `is_open`.
            means: what training may take.

        Raises:
            DataError: a text cannot be read, or has nothing to learn from.
        """
        return {}

    @abstractmethod
    def learn(self, recipe: AnyRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """The vocabularies of what is learned from.

        Args:
            recipe: of the run.
            given: the vocabulary of text that is used instead of learning one.

        Raises:
            DataError: a text cannot be read, or has nothing to learn from.
        """

    def take(self, recipe: AnyRecipe, given: Sequence[Tokenizer]) -> Vocabularies:
        """The vocabularies where those of text are given, one for each of `words`."""
        (only,) = given
        return self.learn(recipe, given=only)

    def likened(self, recipe: AnyRecipe, origin: Predecessor) -> Settings:
        """Keys of [tokenizer] that are as those of `init` where nobody gives them; a task that learns anew has some."""
        return {}

    def load(self, recipe: AnyRecipe, folder: Path) -> Vocabularies:
        """The vocabularies in a run folder; those of text, where there are no others."""
        return {file: load_tokenizer(folder / file) for file in self.words}

    @abstractmethod
    def encoding(self, run: Run[AnyRecipe, AnyModel]) -> Encoding[Any]:
        """How examples become ids."""

    @abstractmethod
    def build(self, recipe: AnyRecipe, sizes: Entries) -> AnyModel:
        """The model with fresh random weights."""

    @abstractmethod
    def problem(
        self, run: Run[AnyRecipe, AnyModel], train: Corpus, validation: Corpus, *, device: torch.device
    ) -> Task[Any]:
        """What training minimises, and measures on the validation part."""

    @abstractmethod
    def face(self, run: Run[AnyRecipe, AnyModel], model: AnyModel, *, step: int | None = None) -> Any:
        """A trained model as its users see it.

        Args:
            run: what it is of.
            model: in evaluation mode.
            step: the kept checkpoint that it is of; None where it is the finished or the best one.
        """

    def head(self, run: Run[AnyRecipe, AnyModel]) -> Head | None:
        """What the outputs of its models say, for other formats; None where these have no such head."""
        return None

    def factors(self, run: Run[AnyRecipe, AnyModel]) -> Mapping[str, Factor]:
        """What its models read of each source piece besides the piece, by name, in the order of their tables."""
        return {}

    def exam(self, recipe: AnyRecipe | None, asking: Asking) -> Exam:
        """What models of a recipe are asked, whatever is learned from.

        Args:
            recipe: of the run; None where there is no run, but answers in a file and a text beside it.
            asking: how the user wants it.

        Raises:
            DataError: a file is missing, cannot be read, or holds nothing to ask.
            RecipeError: what a user wants does not fit the recipe.
        """
        raise NotImplementedError(f"{type(self).__name__} has no exam")

    def require(self, recipe: AnyRecipe) -> None:
        """Looks for the files that a recipe names besides its text; `DataError` where one is missing."""
        for key, path in recipe.model.word_vectors.items():
            if not path.is_file():
                raise DataError(f"{path}: there is no such file; check model.{key}")

    def embedded(self, run: Run[AnyRecipe, AnyModel], model: Any) -> Mapping[str, tuple[Tokenizer, nn.Module]]:
        """What may start from word vectors, by the key of their file: a vocabulary, and what has its embeddings."""
        return {"vectors": (run.tokenizer, model)}

    def prepared(self, run: Run[AnyRecipe, AnyModel], examples: Iterable[Any]) -> Iterable[Any]:
        """What is encoded of the examples that were read; most tasks encode each as it is."""
        return examples

    def remarks(self, run: Run[AnyRecipe, AnyModel], corpus: Corpus) -> Sequence[str]:
        """What a user should know of an encoded part of the data besides how much was left out."""
        return ()

    def warm(self, run: Run[AnyRecipe, AnyModel], model: AnyModel, *, say: Callable[[str], None]) -> None:
        """Gives a fresh model what it starts from besides chance and `init`: word vectors."""
        for key, path in run.recipe.model.word_vectors.items():
            tokenizer, side = self.embedded(run, model)[key]
            start_from_vectors(side, tokenizer, path, say=say)

    def hold(self, run: Run[AnyRecipe, AnyModel], model: nn.Module) -> None:
        """Keeps what the recipe wants kept out of every update; asked before each sitting, on the model's device."""
        if run.recipe.model.frozen_vectors:
            for key, path in run.recipe.model.word_vectors.items():
                tokenizer, side = self.embedded(run, model)[key]
                freeze_vectors(side, tokenizer, path)

    def findings(self, run: Run[AnyRecipe, AnyModel], task: Task[Any]) -> Mapping[str, BaseModel]:
        """What the task has found out about the final model, which it has just measured, by files of the run folder."""
        return {}

    def warnings(self, run: Run[AnyRecipe, AnyModel], metrics: Mapping[str, float]) -> Sequence[str]:
        """What is to be said of a trained model, a sentence each.

        Args:
            run: that has come to its end.
            metrics: what its final model has reached on the validation part.
        """
        return ()

    def together(self, runs: Sequence[Run[AnyRecipe, AnyModel]], models: Sequence[AnyModel]) -> Any:
        """Several trained models that work as one; `RunError` where they cannot."""
        raise RunError(f"{runs[0].folder}: its task is {runs[0].recipe.task}, and its models work alone; name one run")

    def members(self, run: Run[AnyRecipe, AnyModel]) -> Mapping[str, Run[Any, Any]]:
        """Who encodes text and measures: a run for each of the recipe's `datasets`."""
        return {"": run}

    def whole(
        self, run: Run[AnyRecipe, AnyModel], corpora: Mapping[str, tuple[Corpus, Corpus]], *, device: torch.device
    ) -> Task[Any]:
        """`problem`, given both parts of the data of each member."""
        return self.problem(run, *corpora[""], device=device)


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
    def kind(self) -> Kind[AnyRecipe, AnyModel]:
        """The task."""
        return kind_of(self.recipe)

    @property
    def members(self) -> Mapping[str, Run[Any, Any]]:
        """A run for each of the recipe's `datasets`, itself where there is one."""
        return self.kind.members(self)

    @property
    def sizes(self) -> Entries:
        """Entries of each vocabulary."""
        return {file: vocabulary.size for file, vocabulary in self.vocabularies.items()}

    @property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary of text; of several the last, which is the one that is written in."""
        return self.text(self.kind.words[-1])

    def text(self, file: str) -> Tokenizer:
        """One of the vocabularies of text."""
        found = self.vocabularies[file]
        assert isinstance(found, Tokenizer), f"{file} is {type(found).__name__}"
        return found

    def vocabulary(self, file: str, wanted: type[T]) -> T:
        """One of the vocabularies, which is known to be of a class."""
        found = self.vocabularies[file]
        assert isinstance(found, wanted), f"{file} is {type(found).__name__}"
        return found

    def examples(self, part: str) -> Iterable[Any]:
        """A part of the data; of the training text what is learned from."""
        return examples(self.recipe, part)

    def encode(self, part: str, folder: Path, *, fingerprint: str) -> Corpus:
        """Writes a part of the data as ids, one text after the other."""
        texts = (_drawn(self.recipe, part, reader) for reader in self.recipe.data.readers(part).values())
        first, *more = (self.kind.prepared(self, each) for each in texts)
        return write_corpus(folder, first, encoding=self.kind.encoding(self), fingerprint=fingerprint, more=more)

    def build(self) -> AnyModel:
        """The recipe's model with fresh random weights.

        Raises:
            ModelTooLargeError: it has no room in this machine's memory.
        """
        model: AnyModel = build_model(self.recipe, self.sizes)
        return model

    def model(self) -> AnyModel:
        """The recipe's model, freshly initialised from its seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.seed)
            return self.build()


def kind_of(recipe: Recipe) -> Kind[Any, Any]:
    """What the task makes of its recipes."""
    kind: Kind[Any, Any] = find(recipe.made_by, about=f"task = {recipe.task!r}")
    return kind


def build_model(recipe: Recipe, sizes: Entries) -> Any:
    """The model of a recipe with fresh random weights.

    Args:
        recipe: of any task.
        sizes: entries of each vocabulary, by its file.

    Raises:
        ModelTooLargeError: it has no room in this machine's memory, or too many layers; the message names the key.
    """
    limit = memory_limit()
    try:
        require_few_layers(recipe.model)
        with limited(most_bytes=math.inf if limit is None else float(limit)):
            return kind_of(recipe).build(recipe, sizes)
    except ModelTooLargeError as error:
        raise error.because(largest_key(recipe, sizes)) from None


def examples(recipe: Recipe, part: str) -> Iterable[Any]:
    """A part of the data; of the training text what is learned from."""
    return _drawn(recipe, part, recipe.data.reader(part))


def _drawn(recipe: Recipe, part: str, reader: Iterable[Any]) -> Iterable[Any]:
    count = recipe.drawn(part)
    return reader if count is None else Drawn(reader, count=count, seed=recipe.seed)


def learned(
    recipe: Recipe, texts: Iterable[str], *, given: Tokenizer | None, masked: bool = False, writes: bool = False
) -> Tokenizer:
    """The vocabulary that was given, else one that is learned from texts.

    Args:
        recipe: says how texts are cut.
        texts: those to learn from.
        given: instead of one that is learned.
        masked: whether tokens will be hidden.
        writes: whether the model writes such texts, whose marks are then left what they are.
    """
    if given is not None:
        return given
    assert isinstance(recipe.tokenizer, TokenizerConfig)
    return recipe.tokenizer.learn(texts, masked=masked, composes=writes and recipe.tokenizer.may_compose)


@contextmanager
def placed(key: str) -> Iterator[None]:
    """Tells of which part of a recipe an error about data speaks."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{key}: {error}") from None


class FineTuningKind(Kind[AnyRecipe, AnyModel]):
    """A task whose model is an encoder with a head, so that several can be learned by one encoder.

    Abstract: as every kind.
    """

    reported: ClassVar = LabelledReport
    compared: ClassVar = LabelledComparison

    @abstractmethod
    def texts(self, recipe: AnyRecipe) -> Iterable[str]:
        """What a vocabulary is learned from."""

    @abstractmethod
    def headed(self, recipe: AnyRecipe, sizes: Entries, *, encoder: Encoder[Tokens] | None = None) -> AnyModel:
        """The model with fresh random weights; its head alone where an encoder is given."""

    @final
    def build(self, recipe: AnyRecipe, sizes: Entries) -> AnyModel:
        """An encoder and a head."""
        return self.headed(recipe, sizes)

    def labels(self, recipe: AnyRecipe, folder: Path | None) -> Vocabularies:
        """The vocabularies that are not of text: those in a folder, else those of what is learned from."""
        return {}

    @final
    def learn(self, recipe: AnyRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """Text, and what it is labelled with."""
        tokenizer = learned(recipe, self.texts(recipe), given=given)
        return {**dict.fromkeys(self.words, tokenizer), **self.labels(recipe, None)}

    @final
    def load(self, recipe: AnyRecipe, folder: Path) -> Vocabularies:
        """Text, and what it is labelled with."""
        return {file: load_tokenizer(folder / file) for file in self.words} | dict(self.labels(recipe, folder))

    @abstractmethod
    def examine(self, recipe: AnyRecipe, part: str) -> LabelledExam:
        """The examples of a part of the data, whatever is learned from.

        Raises:
            DataError: a file is missing, holds no examples, or none with labels.
            RecipeError: parts of the data are of different tasks.
        """

    def warnings(self, run: Run[AnyRecipe, AnyModel], metrics: Mapping[str, float]) -> Sequence[str]:
        """That the model is not better than the same answer to everything."""
        error = metrics["loss"] if self.is_regression(run.recipe) else None
        with placed("data.validation"):
            found = self.examine(run.recipe, "validation").verdict(metrics, error=error)
        return (found,) if found else ()

    def is_regression(self, recipe: AnyRecipe) -> bool:
        """Whether answers are numbers, and the loss their mean squared error."""
        return False

    @final
    def exam(self, recipe: AnyRecipe | None, asking: Asking) -> LabelledExam:
        """The test part, or the validation part where there is no other."""
        assert recipe is not None, "nothing but a run answers with labels"
        return self.member_exam(recipe, table="data")

    @final
    def member_exam(self, recipe: AnyRecipe, *, table: str) -> LabelledExam:
        """The same of one of several tasks, whose data stand in a table of their own."""
        part = recipe.data.measured
        with placed(f"{table}.{part}"):
            text = " and ".join(map(str, recipe.data.reader(part).paths))
            return self.examine(recipe, part).placed(part, text, table=table)

    @abstractmethod
    def primary(self, run: Run[AnyRecipe, AnyModel]) -> str:
        """The metric that tells most, of which more is better."""
