"""A run folder: what a recipe became, and the trained model in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch

from heedful.artifacts.checkpoints import load_weights
from heedful.artifacts.files import MANIFEST, Manifest, digest, read_manifest, write_json, write_manifest
from heedful.configs.run import Recipe
from heedful.data.corpus import Corpus
from heedful.errors import DataError
from heedful.models.language_model import LanguageModel
from heedful.models.layout import arrange_for_inference
from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.models.multitask import MultitaskModel
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.models.text_classifier import TextClassifier
from heedful.models.token_classifier import TokenClassifier
from heedful.tasks.interface import Task
from heedful.values import Tokens

Model = TypeVar(
    "Model",
    bound=SequenceToSequence[Tokens]
    | LanguageModel
    | MaskedLanguageModel
    | ReplacedTokenDetector
    | TokenClassifier
    | TextClassifier
    | MultitaskModel,
)

FORMAT = 1
CONFIG = "config.json"


class Vocabulary(Protocol):
    """What text becomes ids by."""

    def save(self, path: Path) -> None:
        """One file."""
        ...


@contextmanager
def placed(key: str) -> Iterator[None]:
    """Tells of which part of a recipe an error about data speaks."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{key}: {error}") from None


class RunFolder(ABC, Generic[Model]):
    """A run on disk, its recipe and its vocabularies; weights are loaded when asked for.

    Attributes:
        folder: where it is.
        recipe: what it was or will be made of.
    """

    folder: Path
    recipe: Recipe

    @property
    @abstractmethod
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """Each file in the folder that says what ids mean."""

    @property
    @abstractmethod
    def members(self) -> Mapping[str, Run[Any]]:
        """Who encodes text and measures: a run for each of the recipe's `datasets`, itself where there is one."""

    @abstractmethod
    def problem(self, corpora: Mapping[str, tuple[Corpus, Corpus]], *, device: torch.device) -> Task[Any]:
        """What training minimises, and measures on the validation parts; of each member both parts are given."""

    @abstractmethod
    def build(self) -> Model:
        """The recipe's model with fresh random weights."""

    @abstractmethod
    def warm(self, model: Model, *, say: Callable[[str], None]) -> None:
        """Gives a fresh model what it starts from besides chance."""

    def hold(self, model: Model) -> None:
        """Keeps what the recipe wants kept out of every update; asked before each sitting, on the model's device."""
        return

    @abstractmethod
    def user(self, *, device: torch.device, step: int | None = None) -> Any:
        """The trained model as its users see it; see `trained`."""

    def conclude(self, task: Task[Any]) -> None:
        """Keeps what the task has found out about the final model, which it has just measured."""
        return

    def model(self) -> Model:
        """The recipe's model, freshly initialised from its seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.seed)
            return self.build()

    def fresh(self, *, say: Callable[[str], None]) -> Model:
        """The model that training begins with."""
        model = self.model()
        self.warm(model, say=say)
        return model

    def trained(self, *, device: torch.device, step: int | None = None) -> Model:
        """The model with its trained weights, arranged for use.

        Raises:
            RunError: there are no weights yet, or a file is damaged.
        """
        model = self.model()
        load_weights(self.folder, model, step=step)
        arrange_for_inference(model.to(device).eval())
        return model

    def save(self) -> None:
        """Writes what does not change while a run is trained; its manifest comes last and makes it a run."""
        files = {}
        for name, vocabulary in self.vocabularies.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            vocabulary.save(self.folder / name)
            files[name] = digest(self.folder / name)
        content = {"format": FORMAT, "recipe": self.recipe.model_dump(mode="json", exclude_none=True)}
        write_json(self.folder / CONFIG, content)
        files[CONFIG] = digest(self.folder / CONFIG)
        write_manifest(self.folder, Manifest(files=files))

    @property
    def begun(self) -> bool:
        """Whether anything was trained in it."""
        return (self.folder / MANIFEST).exists() and read_manifest(self.folder).last is not None


class Run(RunFolder[Model]):
    """A run of one task.

    What it does with text, model and metrics is a matter of its task; each task has a class.
    """

    @abstractmethod
    def encode(self, part: str, folder: Path, *, fingerprint: str) -> Corpus:
        """Writes a part of the data as ids."""

    @abstractmethod
    def task(self, train: Corpus, validation: Corpus, *, device: torch.device) -> Task[Any]:
        """What training minimises, and measures on the validation part."""

    def remarks(self, corpus: Corpus) -> Sequence[str]:
        """What a user should know of an encoded part of the data besides how much was left out."""
        return ()

    @property
    def members(self) -> Mapping[str, Run[Any]]:
        """Itself."""
        return {"": self}

    def problem(self, corpora: Mapping[str, tuple[Corpus, Corpus]], *, device: torch.device) -> Task[Any]:
        """Its task."""
        return self.task(*corpora[""], device=device)
