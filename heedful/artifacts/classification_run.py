"""A run whose task is classification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from heedful.artifacts.fine_tuning_run import FineTuningRun, learned_vocabulary
from heedful.artifacts.initial import warm
from heedful.artifacts.run import Vocabulary
from heedful.configs.build_fine_tuning import BODY, build_text_classifier
from heedful.configs.build_labelled import answered_by, build_labelled, definition_of, labels_of, positive_of, used
from heedful.configs.run import ClassificationRecipe
from heedful.data.corpus import Corpus, write_corpus
from heedful.data.examples import Answered, example_encoding
from heedful.data.labelled import Choice, Labelled
from heedful.data.labels import Labels
from heedful.data.tokenizers import Tokenizer, load_tokenizer
from heedful.errors import RecipeError
from heedful.models.interface import Encoder
from heedful.models.text_classifier import TextClassifier
from heedful.tasks.classification import METRICS, Classification
from heedful.tasks.classifier import Classifier
from heedful.values import Tokens

TEXT, LABELS = "tokenizer/text", "tokenizer/labels"


@dataclass(frozen=True)
class ClassificationRun(FineTuningRun[TextClassifier]):
    """A run that learns the classes or numbers of texts.

    Attributes:
        labels: the classes; None where there are none.
    """

    folder: Path
    recipe: ClassificationRecipe
    tokenizer: Tokenizer
    labels: Labels | None

    @classmethod
    def begin(
        cls, folder: Path, recipe: ClassificationRecipe, *, tokenizer: Tokenizer | None = None
    ) -> ClassificationRun:
        """A new one; its vocabulary is that of the examples that it learns from, or of `init`.

        Its classes are those of the whole training text, whatever is learned from, or of the benchmark.
        """
        if tokenizer is None:
            tokenizer = learned_vocabulary(recipe, cls.texts(recipe))
        examples = build_labelled(recipe.data.train, numbers=recipe.data.numbers)
        return cls(folder, recipe, tokenizer, labels_of(recipe.data, examples))

    @classmethod
    def open(
        cls, folder: Path, recipe: ClassificationRecipe, *, tokenizer: Tokenizer | None = None
    ) -> ClassificationRun:
        """The one in a folder."""
        labels = Labels.load(folder / LABELS) if answered_by(recipe.data) == "class" else None
        return cls(folder, recipe, tokenizer or load_tokenizer(folder / TEXT), labels)

    @classmethod
    def texts(cls, recipe: ClassificationRecipe) -> Iterator[str]:
        """Each text once, those that all candidates of a choice share too."""
        examples: Iterable[Labelled | Choice] = build_labelled(recipe.data.train, numbers=recipe.data.numbers)
        for example in used(examples, recipe, part="train"):
            if isinstance(example, Labelled):
                yield from example.texts
            else:
                yield from dict.fromkeys(text for candidate in example.candidates for text in candidate)

    @property
    def answered(self) -> Answered:
        """What is said of a text."""
        return answered_by(self.recipe.data)

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """Text, and classes where there are some."""
        found: dict[str, Vocabulary] = {TEXT: self.tokenizer}
        return found if self.labels is None else found | {LABELS: self.labels}

    def examples(self, part: str) -> Iterable[Labelled | Choice]:
        """A part of the data; of the training text what is learned from."""
        data = self.recipe.data
        return used(build_labelled(getattr(data, part), numbers=data.numbers), self.recipe, part=part)

    def encode(self, part: str, folder: Path, *, fingerprint: str) -> Corpus:
        """Writes a part of the labelled texts as ids."""
        encoding = example_encoding(
            self.tokenizer,
            self.labels,
            answered=self.answered,
            max_length=self.recipe.data.max_length,
            paired=self.recipe.model.paired,
        )
        return write_corpus(folder, self.examples(part), encoding=encoding, fingerprint=fingerprint)

    def remarks(self, corpus: Corpus) -> Sequence[str]:
        """How many texts lost their ends."""
        cut = corpus["cut"].stream
        texts = int(np.count_nonzero(cut))
        if not texts:
            return ()
        return (
            f"{texts:,} of {len(cut):,} texts have more than data.max_length = {self.recipe.data.max_length} tokens; "
            f"their ends were cut off, {int(cut.sum(dtype=np.int64)):,} tokens",
        )

    def build(self, *, encoder: Encoder[Tokens] | None = None) -> TextClassifier:
        """An encoder and a head."""
        return build_text_classifier(
            self.recipe.model,
            vocabulary=self.tokenizer.size,
            outputs=1 if self.labels is None else self.labels.size,
            longest=self.recipe.data.max_length,
            encoder=encoder,
        )

    def warm(self, model: TextClassifier, *, say: Callable[[str], None]) -> None:
        """The encoder of `init`."""
        warm(model, self.recipe, body=BODY, say=say)

    def task(self, train: Corpus, validation: Corpus, *, device: torch.device) -> Classification:
        """Likelihood of the classes, or squared errors."""
        config, positive = self.recipe.training, positive_of(self.recipe.data)
        if positive is not None and (self.labels is None or self.labels.id(positive) is None):
            raise RecipeError(
                f'data.positive = "{positive}": the training text has no such class; name one that it has'
            )
        return Classification(
            train,
            validation,
            answered=self.answered,
            labels=self.labels,
            positive=positive,
            smoothing=config.label_smoothing,
            decorrelation=config.decorrelation or 0.0,
            batch_tokens=config.batch_tokens,
            seed=self.recipe.seed,
            device=device,
        )

    @property
    def primary(self) -> str:
        """The benchmark's first metric that is measured while training; else accuracy, or Pearson's r of numbers."""
        definition = definition_of(self.recipe.data)
        own = definition.metrics if definition is not None else ()
        return next((name for name in own if name in METRICS[self.answered] or name == "f1"), METRICS[self.answered][1])

    def face(self, model: TextClassifier, *, step: int | None = None) -> Classifier:
        """A trained model as its users see it."""
        return Classifier(
            model,
            tokenizer=self.tokenizer,
            answered=self.answered,
            labels=self.labels,
            max_length=self.recipe.data.max_length,
            paired=self.recipe.model.paired,
        )
