"""What pre-training makes of a recipe."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, final

import torch

from heedful.data.corpus import Corpus, Encoding
from heedful.data.documents import Document
from heedful.data.sentences import sentences as split
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.tasks.kind import Entries, Kind, Run, Vocabularies, examples, learned
from heedful.tasks.pretraining.build import build_masking, build_objective, build_pairing, build_pretrained
from heedful.tasks.pretraining.detector import Detector
from heedful.tasks.pretraining.masking import Masking, SingleTokens
from heedful.tasks.pretraining.passages import sentence_encoding, sentences_of
from heedful.tasks.pretraining.problem import MaskedPassages, Pretraining
from heedful.tasks.pretraining.reader import Reader
from heedful.tasks.pretraining.recipe import PretrainingRecipe, ReplacedTokensConfig

TEXT: Final = "tokenizer/text"
Pretrained: TypeAlias = MaskedLanguageModel | ReplacedTokenDetector
_MEASURED: Final = 0.15
"""Share of tokens that are hidden where models are measured, so that their losses can be compared."""


@final
class PretrainingKind(Kind[PretrainingRecipe, Pretrained]):
    """Reading is learned from hidden tokens."""

    words: ClassVar = (TEXT,)
    trial: ClassVar = 'fill RUN --text "..."'

    def tried(self, recipe: PretrainingRecipe) -> str:
        """What is hidden is filled, what was replaced is found."""
        detects = isinstance(recipe.training.objective, ReplacedTokensConfig)
        return 'detect RUN --text "..."' if detects else self.trial

    def learn(self, recipe: PretrainingRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """Text, and a mask."""
        texts = (each.text for each in examples(recipe, "train"))
        return {TEXT: learned(recipe, texts, given=given, masked=True)}

    def load(self, recipe: PretrainingRecipe, folder: Path) -> Vocabularies:
        """Text."""
        return {TEXT: load_tokenizer(folder / TEXT)}

    def prepared(self, run: Run[PretrainingRecipe, Pretrained], examples: Iterable[Document]) -> Iterable[Any]:
        """The sentences of all documents."""
        return sentences_of(examples, run.tokenizer, split)

    def encoding(self, run: Run[PretrainingRecipe, Pretrained]) -> Encoding[Any]:
        """Sentences, and where documents begin."""
        return sentence_encoding(run.tokenizer)

    def build(self, recipe: PretrainingRecipe, sizes: Entries) -> Pretrained:
        """An encoder with the heads that the objective asks."""
        longest = recipe.data.max_length
        return build_pretrained(recipe.model, recipe.training, vocabulary=sizes[TEXT], longest=longest)

    def problem(
        self, run: Run[PretrainingRecipe, Pretrained], train: Corpus, validation: Corpus, *, device: torch.device
    ) -> Pretraining:
        """What the objective asks about passages."""
        config = run.recipe.training
        return Pretraining(
            _passages(run, train, masking=build_masking(config.masking)),
            _passages(run, validation, masking=SingleTokens(_MEASURED)),
            objective=build_objective(config, max_length=run.recipe.data.max_length),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def face(
        self, run: Run[PretrainingRecipe, Pretrained], model: Pretrained, *, step: int | None = None
    ) -> Reader | Detector:
        """Texts with gaps in, guesses out; or which tokens were replaced."""
        length = run.recipe.data.max_length  # positions beyond it were never learned
        if isinstance(model, MaskedLanguageModel):
            return Reader(model, tokenizer=run.tokenizer, max_length=length)
        return Detector(model, tokenizer=run.tokenizer, max_length=length)


KIND: Final = PretrainingKind()


def _passages(run: Run[PretrainingRecipe, Pretrained], corpus: Corpus, *, masking: Masking) -> MaskedPassages:
    config = run.recipe.training
    return MaskedPassages(
        corpus,
        tokenizer=run.tokenizer,
        pairing=build_pairing(config),
        masking=masking,
        max_length=run.recipe.data.max_length,
        short=config.short,
        seed=run.recipe.seed,
    )
