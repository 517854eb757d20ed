"""What tagging makes of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, final

import torch

from heedful.architectures.build import build_tagger
from heedful.architectures.recurrent import RecurrentEncoderConfig
from heedful.data.corpus import Corpus, Encoding
from heedful.data.labels import Labels
from heedful.data.tagged import TaggedSentence
from heedful.metrics.entities import are_entities
from heedful.models.interface import Encoder
from heedful.models.token_classifier import TokenClassifier
from heedful.tasks.counted import Counted
from heedful.tasks.fine_tuning_fit import Pace, is_left
from heedful.tasks.fitting import Means, Settings
from heedful.tasks.kind import Entries, FineTuningKind, Run, Vocabularies, examples
from heedful.tasks.labelled import LabelledExam
from heedful.tasks.origin import Head, Reading
from heedful.tasks.tagging.data import tagged_encoding
from heedful.tasks.tagging.exam import tag_exam
from heedful.tasks.tagging.face import Tagger
from heedful.tasks.tagging.fitting import PACE, PASSES, Amount
from heedful.tasks.tagging.problem import Tagging
from heedful.tasks.tagging.recipe import TaggingRecipe
from heedful.values import Tokens

WORDS: Final = "tokenizer/words"
TAGS: Final = "tokenizer/tags"
TaggingRun: TypeAlias = Run[TaggingRecipe, TokenClassifier]


@final
class TaggingKind(FineTuningKind[TaggingRecipe, TokenClassifier]):
    """The tags of words are learned; those of the whole training text, whatever is learned from."""

    words: ClassVar = (WORDS,)
    outputs: ClassVar = "tags"
    counted: ClassVar = Counted(examples="sentences", labels="words")
    trial: ClassVar = 'tag RUN --text "..."'

    def fit(self, recipe: TaggingRecipe, means: Means) -> Settings:
        """Recurrent layers and what suits them, or what suits the encoder that training begins with."""
        amount, seen = (Amount.of(examples(recipe, part)) for part in ("train", "validation"))
        monitor = "f1" if are_entities(sorted(amount.tags)) else "accuracy"
        monitored: dict[str, Any] = {"recipe": recipe, "monitor": monitor, "validation": seen.lessons}
        if recipe.init is not None:
            chosen = amount.lessons.tuning(means, model=recipe.model, rate=3e-4, **monitored)
            return {**chosen, "training.layer_decay": 0.9}
        pace, chosen = Pace.of(recipe.model), {}
        if is_left(recipe.model, RecurrentEncoderConfig):
            pace, chosen = PACE, amount.from_scratch()
        return {**chosen, **amount.lessons.settings(means, passes=PASSES, pace=pace, **monitored)}

    def labels(self, recipe: TaggingRecipe, folder: Path | None) -> Vocabularies:
        """Tags."""
        if folder is not None:
            return {TAGS: Labels.load(folder / TAGS)}
        return {TAGS: Labels.learn(tag for sentence in recipe.data.reader("train") for tag in sentence.tags)}

    def texts(self, recipe: TaggingRecipe) -> Iterator[str]:
        """Each sentence, its words with spaces between them."""
        return (" ".join(sentence.words) for sentence in examples(recipe, "train"))

    def encoding(self, run: TaggingRun) -> Encoding[TaggedSentence]:
        """Words and their tags."""
        length, framed = run.recipe.data.max_length, run.recipe.model.framed
        return tagged_encoding(run.tokenizer, _tags(run), max_length=length, framed=framed)

    def remarks(self, run: TaggingRun, corpus: Corpus) -> Sequence[str]:
        """How many tags can only be got wrong, and that there is nothing to tell apart."""
        if _tags(run).size == 1:
            return (f"warning: all words have the tag {_tags(run).names[0]!r}, so there is nothing to tell apart",)
        unknown = int((corpus["tags"].stream > _tags(run).size).sum())
        return (f"{unknown:,} words have a tag that the training text lacks, and count as wrong",) if unknown else ()

    def headed(
        self, recipe: TaggingRecipe, sizes: Entries, *, encoder: Encoder[Tokens] | None = None
    ) -> TokenClassifier:
        """An encoder and a classifier."""
        longest = recipe.data.max_length
        return build_tagger(recipe.model, vocabulary=sizes[WORDS], tags=sizes[TAGS], longest=longest, encoder=encoder)

    def problem(self, run: TaggingRun, train: Corpus, validation: Corpus, *, device: torch.device) -> Tagging:
        """Likelihood of the tags."""
        config = run.recipe.training
        return Tagging(
            train,
            validation,
            smoothing=config.label_smoothing,
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
            tags=_tags(run),
        )

    def examine(self, recipe: TaggingRecipe, part: str) -> LabelledExam:
        """The tags of sentences."""
        return tag_exam(list(recipe.data.reader(part)), train=recipe.data.reader("train"))

    def primary(self, run: TaggingRun) -> str:
        """F1 where tags tell of entities, else accuracy."""
        return "f1" if are_entities(_tags(run).names) else "accuracy"

    def head(self, run: TaggingRun) -> Head:
        """A tag of each token."""
        return Head("token", _tags(run).names, reading=Reading(max_length=run.recipe.data.max_length))

    def face(self, run: TaggingRun, model: TokenClassifier, *, step: int | None = None) -> Tagger:
        """Sentences in, tags out."""
        framed = run.recipe.model.framed
        return Tagger(
            model,
            tokenizer=run.tokenizer,
            tags=_tags(run),
            framed=framed,
            # places that training never reached mean nothing to most positions; recurrent networks read on
            max_length=run.recipe.data.max_length if framed else None,
        )


KIND: Final = TaggingKind()


def _tags(run: TaggingRun) -> Labels:
    return run.vocabulary(TAGS, Labels)
