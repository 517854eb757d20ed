"""A run whose task is tagging."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from heedful.artifacts.fine_tuning_run import FineTuningRun, learned_vocabulary
from heedful.artifacts.initial import warm
from heedful.artifacts.run import Vocabulary
from heedful.configs.build import build_tagger
from heedful.configs.build_data import build_tagged
from heedful.configs.build_fine_tuning import BODY
from heedful.configs.build_labelled import used
from heedful.configs.run import TaggingRecipe
from heedful.data.corpus import Corpus, write_corpus
from heedful.data.labels import Labels
from heedful.data.tagged import tagged_encoding
from heedful.data.tokenizers import Tokenizer, load_tokenizer
from heedful.evaluation.entities import are_entities
from heedful.models.interface import Encoder
from heedful.models.token_classifier import TokenClassifier
from heedful.tasks.tagger import Tagger
from heedful.tasks.tagging import Tagging
from heedful.values import Tokens

WORDS, TAGS = "tokenizer/words", "tokenizer/tags"


@dataclass(frozen=True)
class TaggingRun(FineTuningRun[TokenClassifier]):
    """A run that learns the tags of words."""

    folder: Path
    recipe: TaggingRecipe
    tokenizer: Tokenizer
    tags: Labels

    @classmethod
    def begin(cls, folder: Path, recipe: TaggingRecipe, *, tokenizer: Tokenizer | None = None) -> TaggingRun:
        """A new one; its vocabulary is that of the sentences that it learns from, or of `init`.

        Its tags are those of the whole training text, whatever is learned from.
        """
        if tokenizer is None:
            tokenizer = learned_vocabulary(recipe, cls.texts(recipe))
        sentences = build_tagged(recipe.data.train)
        return cls(folder, recipe, tokenizer, Labels.learn(tag for sentence in sentences for tag in sentence.tags))

    @classmethod
    def open(cls, folder: Path, recipe: TaggingRecipe, *, tokenizer: Tokenizer | None = None) -> TaggingRun:
        """The one in a folder."""
        return cls(folder, recipe, tokenizer or load_tokenizer(folder / WORDS), Labels.load(folder / TAGS))

    @classmethod
    def texts(cls, recipe: TaggingRecipe) -> Iterator[str]:
        """Each sentence, its words with spaces between them."""
        sentences = used(build_tagged(recipe.data.train), recipe, part="train")
        return (" ".join(sentence.words) for sentence in sentences)

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """Words and tags."""
        return {WORDS: self.tokenizer, TAGS: self.tags}

    def encode(self, part: str, folder: Path, *, fingerprint: str) -> Corpus:
        """Writes a part of the tagged text as ids."""
        sentences = used(build_tagged(getattr(self.recipe.data, part)), self.recipe, part=part)
        encoding = tagged_encoding(
            self.tokenizer, self.tags, max_length=self.recipe.data.max_length, framed=self.recipe.model.framed
        )
        return write_corpus(folder, sentences, encoding=encoding, fingerprint=fingerprint)

    def build(self, *, encoder: Encoder[Tokens] | None = None) -> TokenClassifier:
        """An encoder and a classifier."""
        return build_tagger(
            self.recipe.model,
            vocabulary=self.tokenizer.size,
            tags=self.tags.size,
            longest=self.recipe.data.max_length,
            encoder=encoder,
        )

    def warm(self, model: TokenClassifier, *, say: Callable[[str], None]) -> None:
        """The encoder of `init`."""
        warm(model, self.recipe, body=BODY, say=say)

    def task(self, train: Corpus, validation: Corpus, *, device: torch.device) -> Tagging:
        """Likelihood of the tags."""
        config = self.recipe.training
        return Tagging(
            train,
            validation,
            smoothing=config.label_smoothing,
            batch_tokens=config.batch_tokens,
            seed=self.recipe.seed,
            device=device,
            tags=self.tags,
        )

    @property
    def primary(self) -> str:
        """F1 where tags tell of entities, else accuracy."""
        return "f1" if are_entities(self.tags.names) else "accuracy"

    def face(self, model: TokenClassifier, *, step: int | None = None) -> Tagger:
        """A trained model as its users see it."""
        framed = self.recipe.model.framed
        return Tagger(
            model,
            tokenizer=self.tokenizer,
            tags=self.tags,
            framed=framed,
            # places that training never reached mean nothing to most positions; recurrent networks read on
            max_length=self.recipe.data.max_length if framed else None,
        )
