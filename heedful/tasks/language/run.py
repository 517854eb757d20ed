"""A run whose task is language modelling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from heedful.architectures.build import build_language_model
from heedful.architectures.stack import DecoderConfig
from heedful.data.corpus import Corpus, write_corpus
from heedful.data.documents import document_encoding
from heedful.data.tokenizers import Tokenizer, load_tokenizer
from heedful.models.language_model import LanguageModel
from heedful.recipes.build_data import build_documents, learn_text
from heedful.recipes.build_run import build_continuation
from heedful.recipes.data import TokenizerConfig
from heedful.recipes.run import LanguageRecipe
from heedful.runs.initial import given_tokenizer, warm
from heedful.runs.run import Run
from heedful.tasks.language.face import Writer
from heedful.tasks.language.pieces import Apart, Packed
from heedful.tasks.language.problem import LanguageModelling

TEXT = "tokenizer/text"


@dataclass(frozen=True)
class LanguageRun(Run[LanguageModel]):
    """A run that learns to continue text."""

    folder: Path
    recipe: LanguageRecipe
    tokenizer: Tokenizer

    @classmethod
    def begin(cls, folder: Path, recipe: LanguageRecipe) -> LanguageRun:
        """A new one, its vocabulary learned from the training text."""
        tokenizer = given_tokenizer(recipe)
        if tokenizer is None:
            assert isinstance(recipe.tokenizer, TokenizerConfig)
            documents = build_documents(recipe.data.train)
            tokenizer = learn_text(recipe.tokenizer, (document.text for document in documents))
        return cls(folder, recipe, tokenizer)

    @classmethod
    def open(cls, folder: Path, recipe: LanguageRecipe) -> LanguageRun:
        """The one in a folder."""
        return cls(folder, recipe, load_tokenizer(folder / TEXT))

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        """The one."""
        return {TEXT: self.tokenizer}

    def encode(self, part: str, folder: Path, *, fingerprint: str) -> Corpus:
        """Writes a part of the text as ids."""
        documents = build_documents(getattr(self.recipe.data, part))
        return write_corpus(folder, documents, encoding=document_encoding(self.tokenizer), fingerprint=fingerprint)

    def build(self) -> LanguageModel:
        """A decoder that looks at its own past."""
        return build_language_model(self.recipe.model, vocabulary=self.tokenizer.size, longest=self.recipe.data.length)

    def warm(self, model: LanguageModel, *, say: Callable[[str], None]) -> None:
        """All weights of `init`."""
        warm(model, self.recipe, body="", say=say)

    def task(self, train: Corpus, validation: Corpus, *, device: torch.device) -> LanguageModelling:
        """Likelihood of each token given those before it."""
        config = self.recipe.training
        return LanguageModelling(
            train["text"].stream,
            validation["text"].stream,
            before=self.tokenizer.special.eos,
            length=self.recipe.data.length,
            cut=Apart if self.recipe.data.documents == "apart" else Packed,
            truncation=config.truncation,
            smoothing=config.label_smoothing,
            batch_tokens=config.batch_tokens,
            seed=self.recipe.seed,
            device=device,
        )

    def user(self, *, device: torch.device, step: int | None = None) -> Writer:
        """The trained model as its users see it."""
        search, tokens = build_continuation(self.recipe.generation, self.tokenizer.special)
        return Writer(
            self.trained(device=device, step=step),
            tokenizer=self.tokenizer,
            search=search,
            limit=tokens,
            stop=self.recipe.generation.stop,
            max_context=self._context,
        )

    @property
    def _context(self) -> int | None:
        """Tokens that the model was taught to read at a time; None where it can go on for ever."""
        if not isinstance(self.recipe.model, DecoderConfig):
            return None
        # what it begins with may have learned from longer pieces
        longest = self.recipe.model.longest if self.recipe.init is not None else None
        return self.recipe.data.length if longest is None else longest.tokens
