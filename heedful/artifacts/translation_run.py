"""A run whose task is translation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from heedful.artifacts.run import Run
from heedful.artifacts.word_vectors import freeze_vectors, start_from_vectors
from heedful.configs.build import Sizes, build_sequence_to_sequence
from heedful.configs.build_data import build_pairs, learn_pair
from heedful.configs.build_run import build_length, build_search
from heedful.configs.generation import GreedyConfig
from heedful.configs.run import TranslationRecipe
from heedful.data.corpus import Corpus, pair_encoding, write_corpus
from heedful.data.tokenizers import Tokenizer, load_tokenizer
from heedful.errors import DataError
from heedful.evaluation.translation import bleu
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.tasks.criterion import Criterion, Decorrelated, Likelihood
from heedful.tasks.reinforcement import Reinforced
from heedful.tasks.translation import Translation
from heedful.tasks.translations import Length
from heedful.tasks.translator import Translator
from heedful.values import Tokens

SOURCE, TARGET = "tokenizer/source", "tokenizer/target"


@dataclass(frozen=True)
class TranslationRun(Run[SequenceToSequence[Tokens]]):
    """A run that learns from parallel text."""

    folder: Path
    recipe: TranslationRecipe
    source: Tokenizer
    target: Tokenizer

    @classmethod
    def begin(cls, folder: Path, recipe: TranslationRecipe) -> TranslationRun:
        """A new one, its vocabularies learned from the training text."""
        return cls(folder, recipe, *learn_pair(recipe.tokenizer, build_pairs(recipe.data.train)))

    @classmethod
    def open(cls, folder: Path, recipe: TranslationRecipe) -> TranslationRun:
        """The one in a folder."""
        source = load_tokenizer(folder / SOURCE)
        return cls(folder, recipe, source, source if recipe.tokenizer.joint else load_tokenizer(folder / TARGET))

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        """Both languages', the same one twice where they share it."""
        return {SOURCE: self.source, TARGET: self.target}

    @property
    def sizes(self) -> Sizes:
        """What the model must know of its data."""
        return Sizes(self.source.size, self.target.size, self.recipe.data.max_length)

    @property
    def max_target(self) -> int | None:
        """Tokens of the longest translation, its end included; None where positions have no end."""
        longest = self.recipe.model.longest
        return None if longest is None else longest.tokens

    def user(self, *, device: torch.device, step: int | None = None) -> Translator:
        """The trained model as its users see it."""
        return translator([self], device=device, step=step)

    def encode(self, part: str, folder: Path, *, fingerprint: str) -> Corpus:
        """Writes a part of the parallel text as ids."""
        encoding = pair_encoding(self.source, self.target, max_length=self.recipe.data.max_length)
        return write_corpus(
            folder, build_pairs(getattr(self.recipe.data, part)), encoding=encoding, fingerprint=fingerprint
        )

    def build(self) -> SequenceToSequence[Tokens]:
        """An encoder and a decoder."""
        return build_sequence_to_sequence(self.recipe.model, self.sizes)

    def warm(self, model: SequenceToSequence[Tokens], *, say: Callable[[str], None]) -> None:
        """Puts the word vectors that the recipe names in the place of random embeddings."""
        for path, tokenizer, side in self._vectors(model):
            start_from_vectors(side, tokenizer, path, say=say)

    def hold(self, model: SequenceToSequence[Tokens]) -> None:
        """The word vectors, where they are frozen."""
        if self.recipe.model.freeze_vectors:
            for path, tokenizer, side in self._vectors(model):
                freeze_vectors(side, tokenizer, path)

    def _vectors(self, model: SequenceToSequence[Tokens]) -> Iterator[tuple[Path, Tokenizer, nn.Module]]:
        """The files of word vectors, each with the vocabulary and the side of the model that it is for."""
        config = self.recipe.model
        for path, tokenizer, side in (
            (config.source_vectors, self.source, model.encoder),
            (config.target_vectors, self.target, model.decoder),
        ):
            if path is not None:
                yield path, tokenizer, side

    def task(self, train: Corpus, validation: Corpus, *, device: torch.device) -> Translation:
        """Likelihood of the targets, BLEU where it is monitored, and REINFORCE where attention draws."""
        config = self.recipe.training
        return Translation(
            train,
            validation,
            bos=self.target.special.bos,
            criterion=self._criterion(),
            batch_tokens=config.batch_tokens,
            seed=self.recipe.seed,
            device=device,
            translation_score=self._validation_bleu() if config.monitor == "bleu" else None,
        )

    def _criterion(self) -> Criterion:
        config = self.recipe.training
        likelihood = Likelihood(config.label_smoothing)
        if (draws := config.reinforce) is not None:
            return Reinforced(likelihood, reward=draws.reward, entropy=draws.entropy, decay=draws.baseline_decay)
        return Decorrelated(likelihood, weight=config.decorrelation) if config.decorrelation else likelihood

    def _validation_bleu(self) -> Callable[[nn.Module], float]:
        longest = self.recipe.data.max_length
        read = build_pairs(self.recipe.data.validation)
        pairs = [pair for pair in read if pair.source and pair.target]

        def measure(model: nn.Module) -> float:
            translator = Translator(
                [model],
                source=self.source,
                target=self.target,
                search=build_search(GreedyConfig(), self.target.special),
                length=Length(1.5, 10),
                max_source=longest,
                max_target=self.max_target,
            )
            known = [p for p in pairs if len(self.source.encode(p.source)) < longest]
            found = translator.translate([p.source for p in known])
            references = [p.target for p in known]
            return bleu([t.text for t in found], references, lowercase=self.recipe.tokenizer.lowercase).value

        return measure


def check_translation(recipe: TranslationRecipe) -> None:
    """Looks for the files of word vectors, before any work is done."""
    for name in ("source_vectors", "target_vectors"):
        path = getattr(recipe.model, name)
        if path is not None and not path.is_file():
            raise DataError(f"{path}: there is no such file; check model.{name}")


def translator(runs: Sequence[TranslationRun], *, device: torch.device, step: int | None = None) -> Translator:
    """The trained models of runs with one vocabulary, which translate together."""
    first = runs[0]
    return Translator(
        [run.trained(device=device, step=step) for run in runs],
        source=first.source,
        target=first.target,
        search=build_search(first.recipe.generation, first.target.special),
        length=build_length(first.recipe.generation),
        max_source=min(run.recipe.data.max_length for run in runs),
        max_target=min((run.max_target for run in runs if run.max_target is not None), default=None),
    )
