"""A run whose task is pre-training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from heedful.data.corpus import Corpus, write_corpus
from heedful.data.sentences import sentences as split
from heedful.data.tokenizers import Tokenizer, load_tokenizer
from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.recipes.build_data import build_documents, learn_text
from heedful.recipes.run import PretrainingRecipe
from heedful.runs.run import Run
from heedful.tasks.pretraining.build import build_masking, build_objective, build_pairing, build_pretrained
from heedful.tasks.pretraining.detector import Detector
from heedful.tasks.pretraining.masking import Masking, SingleTokens
from heedful.tasks.pretraining.passages import sentence_encoding, sentences_of
from heedful.tasks.pretraining.problem import MaskedPassages, Pretraining
from heedful.tasks.pretraining.reader import Reader

TEXT = "tokenizer/text"
_MEASURED: Final = 0.15
"""Share of tokens that are hidden where models are measured, so that their losses can be compared."""


@dataclass(frozen=True)
class PretrainingRun(Run[MaskedLanguageModel | ReplacedTokenDetector]):
    """A run that learns to read."""

    folder: Path
    recipe: PretrainingRecipe
    tokenizer: Tokenizer

    @classmethod
    def begin(cls, folder: Path, recipe: PretrainingRecipe) -> PretrainingRun:
        """A new one, its vocabulary learned from the training documents."""
        documents = build_documents(recipe.data.train)
        return cls(folder, recipe, learn_text(recipe.tokenizer, (each.text for each in documents), masked=True))

    @classmethod
    def open(cls, folder: Path, recipe: PretrainingRecipe) -> PretrainingRun:
        """The one in a folder."""
        return cls(folder, recipe, load_tokenizer(folder / TEXT))

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        """The one."""
        return {TEXT: self.tokenizer}

    def encode(self, part: str, folder: Path, *, fingerprint: str) -> Corpus:
        """Writes the sentences of a part of the documents as ids."""
        documents = build_documents(getattr(self.recipe.data, part))
        cut = sentences_of(documents, self.tokenizer, split)
        return write_corpus(folder, cut, encoding=sentence_encoding(self.tokenizer), fingerprint=fingerprint)

    def build(self) -> MaskedLanguageModel | ReplacedTokenDetector:
        """An encoder with the heads that the objective asks."""
        return build_pretrained(
            self.recipe.model,
            self.recipe.training,
            vocabulary=self.tokenizer.size,
            longest=self.recipe.data.max_length,
        )

    def warm(self, model: MaskedLanguageModel | ReplacedTokenDetector, *, say: Callable[[str], None]) -> None:
        """Nothing: chance alone."""

    def task(self, train: Corpus, validation: Corpus, *, device: torch.device) -> Pretraining:
        """What the objective asks about passages."""
        config = self.recipe.training
        return Pretraining(
            self._passages(train, masking=build_masking(config.masking)),
            self._passages(validation, masking=SingleTokens(_MEASURED)),
            objective=build_objective(config, max_length=self.recipe.data.max_length),
            batch_tokens=config.batch_tokens,
            seed=self.recipe.seed,
            device=device,
        )

    def _passages(self, corpus: Corpus, *, masking: Masking) -> MaskedPassages:
        config = self.recipe.training
        return MaskedPassages(
            corpus,
            tokenizer=self.tokenizer,
            pairing=build_pairing(config),
            masking=masking,
            max_length=self.recipe.data.max_length,
            short=config.short,
            seed=self.recipe.seed,
        )

    def user(self, *, device: torch.device, step: int | None = None) -> Reader | Detector:
        """The trained model as its users see it."""
        model = self.trained(device=device, step=step)
        max_length = self.recipe.data.max_length  # positions beyond it were never learned
        if isinstance(model, MaskedLanguageModel):
            return Reader(model, tokenizer=self.tokenizer, max_length=max_length)
        return Detector(model, tokenizer=self.tokenizer, max_length=max_length)
